"""A branch over its commits: a small chart a figure, where its level changed, and between which commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.report.blocks import Block, Chart, Charts, Detail, Facts, Heading, Paragraph, Span, Style, Table, Text
from advisor.report.plain import MISSING, milliseconds, number, percent
from advisor.results.history import History, Shift, Track, Trend

STYLE: dict[str, Style] = {"worse": "bad", "better": "good"}
_MOST = 12
"""Change points that one screen holds, the newest first."""


def blocks(history: History, detail: Detail) -> Iterator[Block]:
    """Yield a part for each series; its headline where the least is asked for."""
    yield Heading(history.headline, 1)
    if detail.quiet:
        return
    others = [f"{name} ({count:,})" for name, count in history.branches.items() if name != history.branch]
    facts: list[tuple[str, Text]] = [("branch", Span(history.branch, "code"))]
    if others:
        more = f" and {len(others) - 8} more" if len(others) > 8 else ""
        facts.append(("others", f"{', '.join(others[:8])}{more}; --branch shows one"))
    yield Facts(facts)
    for track in sorted(history.tracks, key=lambda track: not track.current):
        yield from _track(track, detail)


def _track(track: Track, detail: Detail) -> Iterator[Block]:
    count = len(track.runs)
    name = " on ".join(filter(None, (track.workload, track.device)))
    state = "" if track.current else ", ended"
    yield Heading(f"{name}: {count:,} run{'s' * (count != 1)}{state}")
    ends = (track.runs[0], track.runs[-1])
    rows: list[tuple[str, Text]] = [
        ("from", (Span(ends[0].commit, "name"), f", {ends[0].time}")),
        ("to", (Span(ends[1].commit, "name"), f", {ends[1].time}")),
    ]
    if track.because:
        rows.append(("apart", f"a series of its own, for {'; '.join(track.because)}"))
    yield Facts(rows)
    yield Charts([_chart(trend, (ends[0].commit, ends[1].commit)) for trend in track.trends])
    shifts = sorted((shift for trend in track.trends for shift in trend.shifts), key=lambda shift: -shift.at)
    if not shifts:
        yield Paragraph("No level changed." if count >= 8 else "Change points need 8 runs.")
        return
    shown = shifts if detail.everything else shifts[:_MOST]
    yield Heading("Where a level changed", 3)
    yield table(shown)
    if len(shown) < len(shifts):
        yield Paragraph(f"… and {len(shifts) - len(shown)} before{detail.hint}")


def table(shifts: Sequence[Shift]) -> Table:
    """Return change points as rows: the figure, before and behind, and the commits between which it came."""
    rows: list[tuple[Text, ...]] = [
        (
            Span(shift.metric, "code"),
            figure(shift.before, shift.unit),
            figure(shift.after, shift.unit),
            Span(change(shift), STYLE[shift.outcome]),
            Span(shift.last_before, "name"),
            Span(shift.first_after, "name"),
            remark(shift),
        )
        for shift in shifts
    ]
    return Table(("figure", "before", "after", "change", "last before", "first after", "remark"), rows, "|>>><<~")


def change(shift: Shift) -> str:
    """Return ``+3.1 %``; the difference in its unit where there was none before."""
    if shift.share is None:
        sign = "+" if shift.after > shift.before else "-"
        return sign + figure(abs(shift.after - shift.before), shift.unit)
    return f"{100 * shift.share:+.1f} %"


def remark(shift: Shift) -> str:
    """Say what kind of change it is, where that is no plain step."""
    parts = []
    if shift.gradual:
        parts.append(f"gradual, over {shift.end - shift.begin} runs")
    if shift.silent and shift.outcome == "worse":
        parts.append("no two neighbouring runs differ by what the gate fails on")
    if shift.back:
        parts.append("back to the level before")
    return "; ".join([*parts, *([shift.note] if shift.note else [])])


def figure(value: float | None, unit: str) -> str:
    """Return a figure with its unit."""
    if value is None:
        return MISSING
    if unit == "ms":
        return milliseconds(value)
    return percent(value) if unit == "share" else f"{number(value)} {unit}".rstrip()


def _chart(trend: Trend, ends: tuple[str, str]) -> Chart:
    known = [value for value in trend.figures if value is not None]
    bounds = [0, *(shift.at for shift in trend.shifts), len(trend.figures)]
    levels: list[float] = []
    if trend.shifts:
        levels = [trend.shifts[0].before, *(shift.after for shift in trend.shifts)]
    return Chart(
        label=(Span(trend.name, "code"),),
        values=trend.figures,
        last=figure(known[-1], trend.unit),
        marks=[(shift.at, STYLE[shift.outcome]) for shift in trend.shifts],
        levels=[(bounds[index], bounds[index + 1], level) for index, level in enumerate(levels)],
        low=figure(min(known), trend.unit),
        high=figure(max(known), trend.unit),
        ends=ends,
    )
