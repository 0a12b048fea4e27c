"""A history as data: the series of a branch, their trends and change points; and the check of its newest runs."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from advisor.counting import counted
from advisor.errors import UsageError, nearest
from advisor.gating.baseline import Baseline
from advisor.gating.history import changes
from advisor.gating.history.record import not_alike, representatives
from advisor.gating.history.store import Runs, Store
from advisor.results.history import SCHEMA_VERSION, Commit, Drift, History, Shift, Track, Trend, Verdict
from advisor.views.metrics import METRICS, STEP, Metric

LEAST = 0.01
"""Least share by which a level changes to count: less is nobody's regression, however surely it is there."""
NEWEST = 30
"""Newest runs of a series within which a change counts for the check, unless another number is asked for."""
_HIDES = 0.05
"""Noise of single runs, as a share of the step, that hides for six runs what the gate tolerates: the check says so."""


def history(store: Store, branch: str | None = None, metrics: Sequence[str] = ()) -> History:
    """Return a branch over its commits; the one with most runs where none is named."""
    for name in metrics:
        if name not in METRICS:
            raise UsageError(f'no metric "{name}"{nearest(name, METRICS)}. Metrics: {", ".join(METRICS)}.')
    runs = store.runs()
    branches = dict(Counter(runs.branches).most_common())
    if branch is None:
        branch = next(iter(branches))
    if branch not in branches:
        raise UsageError(f'{store}: holds no run of branch "{branch}"{nearest(branch, branches)}')
    tracks = _tracks(runs, branch, representatives(store, runs), metrics)
    return History(
        schema_version=SCHEMA_VERSION,
        headline=_headline(branch, tracks),
        branch=branch,
        branches=branches,
        tracks=tracks,
    )


def _headline(branch: str, tracks: Sequence[Track]) -> str:
    """Say what the step did since the last change, in one line."""
    count = sum(len(track.runs) for track in tracks)
    newest = max(
        (track for track in tracks if track.current), key=lambda track: track.runs[-1].time, default=tracks[-1]
    )
    shifts = [shift for trend in newest.trends if trend.name == STEP.name for shift in trend.shifts]
    text = f"{branch}: {count:,} run{'s' * (count != 1)}"
    if not shifts:
        return f"{text}; no change of the step"
    last = shifts[-1]
    return f"{text}; the step got {last.outcome} by {abs(last.share or 0.0):.1%} with {last.first_after}".replace(
        "%", " %"
    )


# ---- series


class _Group(NamedTuple):
    rows: list[int]
    base: Baseline
    because: list[str]


def _tracks(runs: Runs, branch: str, known: dict[str, Baseline], metrics: Sequence[str]) -> list[Track]:
    groups: list[_Group] = []
    place: dict[str, int] = {}
    for row, (name, series) in enumerate(zip(runs.branches, runs.series, strict=True)):
        if name != branch or series not in known:
            continue
        if series not in place:
            place[series] = _joined(groups, known[series])
        groups[place[series]].rows.append(row)
    newest: dict[tuple[object, ...], int] = {}
    for index, group in enumerate(groups):
        key = _kind(group.base)
        if key not in newest or group.rows[-1] > groups[newest[key]].rows[-1]:
            newest[key] = index
    return [_track(runs, group, index in newest.values(), metrics) for index, group in enumerate(groups)]


def _joined(groups: list[_Group], base: Baseline) -> int:
    """Return the series that is alike; else begin one, with the reasons against the one before it of the same kind."""
    reasons: list[str] = []
    for index in reversed(range(len(groups))):
        other = not_alike(groups[index].base, base)
        if not other:
            return index
        reasons = reasons or other
    groups.append(_Group([], base, reasons))
    return len(groups) - 1


def _kind(base: Baseline) -> tuple[object, ...]:
    return base.fingerprint.workload, base.fingerprint.device, base.fingerprint.rank


def _track(runs: Runs, group: _Group, current: bool, metrics: Sequence[str]) -> Track:
    rows = np.array(group.rows)
    commits = [
        Commit(id=runs.ids[row], commit=runs.commits[row], time=_time(int(runs.at[row])), advisor=runs.advisors[row])
        for row in group.rows
    ]
    figures = {name: runs.figures[rows, index] for index, name in enumerate(runs.names)}
    step = figures.get(STEP.name)
    typical = float(np.nanmedian(step)) if step is not None and not np.isnan(step).all() else 0.0
    chosen = [name for name in METRICS if name in figures and (not metrics or name in metrics)]
    return Track(
        workload=group.base.fingerprint.workload,
        device=group.base.fingerprint.device or group.base.fingerprint.vendor,
        because=group.because,
        current=current,
        runs=commits,
        trends=[
            trend(METRICS[name], figures[name], commits, typical)
            for name in chosen
            if not np.isnan(figures[name]).all()
        ],
    )


def _time(at_ms: int) -> str:
    """Return ``2026-11-25T02:37:12Z``; the ends of what a date can be for what lies beyond them."""
    seconds = min(max(at_ms // 1000, 0), 253402300799)
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# ---- trends


def trend(metric: Metric, figures: changes.Floats, commits: Sequence[Commit], step_ms: float) -> Trend:
    """Return a figure over runs, NaN where one has none, with its change points. *step_ms* is the typical step."""
    figures = np.where(np.isfinite(figures), figures, np.nan)
    rows = np.flatnonzero(~np.isnan(figures))
    series = figures[rows]
    floor = max(metric.margin.floor, metric.margin.floor_share * step_ms) if metric is not STEP else 0.0
    points = changes.find(series, LEAST, floor, metric.worse)
    return Trend(
        name=metric.name,
        meaning=metric.meaning,
        unit=metric.unit,
        figures=[None if value != value else value for value in figures.tolist()],
        shifts=[_shift(metric, series, rows, point, points, commits) for point in points],
        noise_share=_noise_share(series, points),
    )


def _noise_share(series: changes.Floats, points: Sequence[changes.ChangePoint]) -> float | None:
    last = series[points[-1].at if points else 0 :]
    if len(series) < changes.LEAST_RUNS:
        return None
    noise = points[-1].noise if points and len(last) < changes.LEAST_RUNS else changes.noise_of(last)
    level = float(np.mean(last))
    return noise / abs(level) if level else 0.0


def _shift(
    metric: Metric,
    series: changes.Floats,
    rows: np.typing.NDArray[np.int64],
    point: changes.ChangePoint,
    points: Sequence[changes.ChangePoint],
    commits: Sequence[Commit],
) -> Shift:
    change = point.after - point.before
    begin, end = changes.extent(series, point, points)
    share = change / abs(point.before) if point.before else None
    first, last = int(rows[begin]), int(rows[end])
    versions = [commits[first].advisor, commits[last].advisor]
    step = float(np.abs(np.diff(series[begin : end + 1])).max()) if end > begin else abs(change)
    tolerated = max(metric.margin.tolerance * abs(point.before), metric.margin.floor)
    return Shift(
        metric=metric.name,
        unit=metric.unit,
        outcome="worse" if (change > 0) == (metric.worse == "up") else "better",
        at=int(rows[point.at]),
        raised=int(rows[point.raised]),
        before=point.before,
        after=point.after,
        share=share,
        noise=point.noise,
        last_before=commits[first].commit,
        first_after=commits[last].commit,
        gradual=end - begin > 1,
        begin=first,
        end=last,
        silent=step <= tolerated,
        back=point.back,
        note=f"advisor {versions[0]} before, {versions[1]} behind" if versions[0] != versions[1] else "",
    )


# ---- the check


def check(document: History, newest: int = NEWEST, since: str | None = None) -> Drift:
    """Answer if a figure got worse within the newest runs of the series that go on; *since* a commit, where one is named."""
    tracks = [track for track in document.tracks if track.current]
    if since is not None and not any(commit.commit == since for track in tracks for commit in track.runs):
        raise UsageError(f'--since: no run of commit "{since}" in a series that goes on')
    recent = [shift for track in tracks for shift in _recent(track, newest, since)]
    worse = [shift for shift in recent if shift.outcome == "worse" and not shift.back]
    better = [shift for shift in recent if shift.outcome == "better"]
    unknown = list(filter(None, map(_untold, tracks)))
    decided = len(unknown) < len(tracks)
    worse.sort(key=lambda shift: -abs(shift.share or 0.0))
    verdict: Verdict = "failed" if worse else "passed" if decided and not unknown else "inconclusive"
    return Drift(
        schema_version=SCHEMA_VERSION,
        verdict=verdict,
        headline=_answer(verdict, worse, unknown, tracks),
        branch=document.branch,
        runs=newest,
        worse=worse,
        better=better,
        unknown=unknown,
    )


def _recent(track: Track, newest: int, since: str | None) -> list[Shift]:
    """Return the changes within the newest runs, or behind a commit."""
    first = max(0, len(track.runs) - newest)
    if since is not None:
        first = max((row + 1 for row, commit in enumerate(track.runs) if commit.commit == since), default=first)
    return [shift for trend in track.trends for shift in trend.shifts if shift.at >= first]


def _untold(track: Track) -> str:
    """Say why a series cannot be answered for; empty where it can."""
    label = " on ".join(filter(None, (track.workload, track.device)))
    if len(track.runs) < changes.LEAST_RUNS:
        return f"{label}: {counted(len(track.runs), 'run')}; change points need {changes.LEAST_RUNS}"
    step = next((trend for trend in track.trends if trend.name == STEP.name), None)
    if step is None or step.noise_share is None:
        return f"{label}: fewer than {changes.LEAST_RUNS} runs tell the step"
    if step.noise_share > _HIDES:
        return (
            f"{label}: single runs scatter by {100 * step.noise_share:.0f} % of the step, which hides what the gate "
            f"tolerates ({100 * STEP.margin.tolerance:.0f} %)"
        )
    return ""


def _answer(verdict: Verdict, worse: Sequence[Shift], unknown: Sequence[str], tracks: Sequence[Track]) -> str:
    if verdict == "failed":
        first = next((shift for shift in worse if shift.metric == STEP.name), worse[0])
        share = "" if first.share is None else f" by {100 * abs(first.share):.1f} %"
        more = f", and {len(worse) - 1} more" if len(worse) > 1 else ""
        return f"FAILED: {first.metric} got worse{share} between {first.last_before} and {first.first_after}{more}"
    if verdict == "inconclusive":
        return f"INCONCLUSIVE: {unknown[0] if unknown else 'no run tells the step'}"
    return f"PASSED: no figure got worse over {counted(sum(len(track.runs) for track in tracks), 'run')}"
