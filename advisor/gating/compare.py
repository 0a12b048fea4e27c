"""Two traces side by side: what became of the step, its causes, the findings, the kernels and operators, and each fix's claim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from advisor.counting import change
from advisor.gating import baseline as baselines
from advisor.gating.alike import batches, unlike
from advisor.gating.baseline import Baseline
from advisor.gating.by_sample import of_sample, rescaled
from advisor.gating.checks import OUTCOMES
from advisor.gating.checks import Comparison as Checks
from advisor.gating.claims import claims
from advisor.gating.division import divide
from advisor.gating.significance import WITHIN
from advisor.results.analysis import Analysis
from advisor.results.comparison import (
    SCHEMA_VERSION,
    Comparison,
    Fate,
    Item,
    Kind,
    Shift,
    Side,
    Turn,
    Turned,
)
from advisor.results.division import Division, Unit
from advisor.results.judgement import Check
from advisor.results.views import Grid
from advisor.views.metrics import MEAN_STEP, STEP

_DECISIONS = {outcome: decision for decision, outcome in OUTCOMES.items()}
_MOST = 15
_SHARE = 0.10
_STEP_SHARE = 0.002
_NEAR = 1e-6
_SMALL, _HALF = 0.1, 0.5
"""Parts of a finding's cost: so little is none; of what is more than half there it is not said that it is new, or gone."""
_PROBABLY = "beyond the spread of the steps at 95 %, and not at the 99 % that the gate asks for"


def compare(before: Analysis, after: Analysis) -> Comparison:
    """Put two analyses side by side; both hold samples and views. It never fails: what cannot be told is said so.

    Where the batch differs, all but the step itself is a sample's.
    """
    batch = _batch(before, after)
    like = rescaled(after, batch[0] / batch[1]) if batch else after
    base, now = baselines.make([before]), baselines.make([like])
    checks = Checks(base, now, [like], {}).checks()
    sides = (before, after)
    if batch:
        checks = [of_sample(check, batch[0]) for check in checks]
        sides = (rescaled(before, 1 / batch[0]), rescaled(after, 1 / batch[1]))
    metrics = {check.name: _shift(check) for check in checks if check.kind == "metric"}
    rules = {check.name: check for check in checks if check.kind == "rule"}
    division = _division(before, after, batch)
    step = _step(metrics, before, after, batch)
    items, hidden = _items(before, after, batch or (1.0, 1.0))
    per: Unit = "sample" if batch else "step" if before.summary.steps and after.summary.steps else "window"
    return Comparison(
        schema_version=SCHEMA_VERSION,
        before=_side(before),
        after=_side(after),
        headline=_headline(step, division),
        unlike=[*baselines.differences(base.fingerprint, now.fingerprint), *unlike(base.work, now.work)],
        per=per,
        division=division,
        step=step,
        causes=list(_causes(*(baselines.make([side]) for side in sides))),
        metrics=list(metrics.values()),
        findings=_turns(*sides, rules),
        claims=claims(*sides, rules, per),
        items=items,
        hidden=hidden,
    )


def _batch(before: Analysis, after: Analysis) -> tuple[float, float] | None:
    """Return the samples a step on both sides where they differ, and that is sure; None else."""
    sides = (before.samples, after.samples)
    return batches(sides[0].work, sides[1].work) if sides[0] is not None and sides[1] is not None else None


def _side(analysis: Analysis) -> Side:
    summary, sites = analysis.summary, analysis.samples and analysis.samples.sites
    device = next((d.name for d in analysis.trace.devices if d.id == summary.device), None)
    times = summary.step_ms
    return Side(
        path=analysis.trace.path,
        device=device,
        steps=summary.steps,
        step_ms=(sites.step_ms if sites else times.median) if times else None,
        p10_ms=times.p10 if times else None,
        p90_ms=times.p90 if times else None,
        window_ms=summary.window_ms,
    )


def _shift(check: Check) -> Shift:
    return Shift(
        name=check.name,
        meaning=check.title,
        unit=check.unit,
        before=check.base,
        after=check.now,
        outcome=_DECISIONS[check.outcome],
        note=check.note,
    )


def _division(before: Analysis, after: Analysis, batch: tuple[float, float] | None) -> Division | None:
    """Divide the difference; None where a side holds no steady work."""
    sides = (before.samples, after.samples)
    if sides[0] is None or sides[1] is None or sides[0].sites is None or sides[1].sites is None:
        return None
    return divide(sides[0].sites, sides[1].sites, batch)


def _step(metrics: dict[str, Shift], before: Analysis, after: Analysis, batch: tuple[float, float] | None) -> Shift:
    """Return the step as `analyze` has it on either side, with what the gate would say of it, or of a sample."""
    step, mean = metrics.pop(STEP.name), metrics.get(MEAN_STEP.name)
    sides = (before.samples, after.samples)
    if sides[0] is None or sides[1] is None or sides[0].sites is None or sides[1].sites is None:
        return step
    figures = [side.sites.step_ms for side in sides if side is not None and side.sites is not None]
    median = step.before is not None and step.after is not None
    near = median and all(
        abs(figure - value * size) <= _NEAR * figure
        for figure, value, size in zip(figures, (step.before or 0, step.after or 0), batch or (1, 1), strict=True)
    )
    # Where steps are uneven the typical step is their mean: that is what is decided then.
    check = step if near or mean is None else mean
    return msgspec.structs.replace(check, name=step.name, meaning=step.meaning, before=figures[0], after=figures[1])


def _per_sample(division: Division) -> str:
    """Say what became of a sample, where the batch changed: a step that holds more of them says nothing by itself."""
    was, now = division.before_ms, division.after_ms
    assert division.batch is not None
    if not was or not now:
        return "the step cannot be compared"
    word = f"{was / now:.2f}× as fast a sample" if now <= was else f"{now / was:.2f}× the time a sample"
    return f"{word}: {change(was, now, 4)} a sample ({_signed(100 * (now / was - 1))} %)"


def _headline(step: Shift, division: Division | None) -> str:
    if division is not None and division.batch is not None:
        batch = " → ".join(f"{size:g}" for size in division.batch)
        return f"{_per_sample(division)}; the batch is {batch}, the step {step.before:.4g} → {step.after:.4g} ms"
    if step.before is None or step.after is None or not step.before:
        return "the step cannot be compared"
    ratio = step.before / step.after if step.after else 0.0
    moved = f"{change(step.before, step.after, 4)} a step ({_signed(100 * (step.after / step.before - 1))} %)"
    words = {
        "better": f"{ratio:.2f}× as fast",
        "worse": "slower",
        "same": "probably faster" if step.note else "no slower",
        "inconclusive": "not certain",
    }
    word, note = words[step.outcome], step.note
    width = division.noise_ms if division is not None else None
    if note and division is not None and width is not None and abs(division.change_ms) > width:
        # The gate allows itself one error in a hundred, and the division below one in twenty.
        word = "probably slower" if division.change_ms > 0 else "probably faster"
        note = _PROBABLY if note.endswith(WITHIN) else note
    return f"{word}: {moved}" + (f"; {note}" if note else "")


def _signed(percent: float) -> str:
    """Return a change with its sign; what rounds to nothing has none."""
    return f"{percent:+.1f}" if abs(percent) >= 0.05 else "±0.0"


def _causes(base: Baseline, now: Baseline) -> Iterator[Shift]:
    """Yield the ms of each cause in a step, on average: they add up to the mean step."""
    first, second = (side.parts.get("step_ms", {}) for side in (base, now))
    for cause in dict.fromkeys([*first, *second]):
        before, after = first.get(cause, 0.0), second.get(cause, 0.0)
        yield Shift(
            name=cause,
            meaning="ms a step on average",
            unit="ms",
            before=before,
            after=after,
            outcome="worse" if after > before else "better" if after < before else "same",
        )


# ---- findings and claims


def _turns(before: Analysis, after: Analysis, checks: dict[str, Check]) -> list[Turned]:
    first, second = ({finding.rule: finding for finding in side.findings} for side in (before, after))
    verdicts = [baselines.verdicts(side) for side in (before, after)]
    turns = []
    for rule in dict.fromkeys([*first, *second]):
        was, now, check = first.get(rule), second.get(rule), checks.get(rule)
        finding = now or was
        assert finding is not None  # one of the two holds it
        pair = (verdicts[0].get(rule, "unknown"), verdicts[1].get(rule, "unknown"))
        costs = (
            check.base if check and check.base is not None else (was.cost_ms if was else None),
            check.now if check and check.now is not None else (now.cost_ms if now else None),
        )
        untold = {"not_run", "error", "unknown"} & set(pair)
        turn: Turn = "untold" if untold else _turn(was is not None, now is not None, costs, check)
        turns.append(
            Turned(
                rule=rule,
                title=finding.title,
                turn=turn,
                before_ms=costs[0],
                after_ms=costs[1],
                verdicts=pair,
                where=finding.where[:1],
            )
        )
    order = ("new", "worse", "fixed", "better", "same", "untold")
    return sorted(turns, key=lambda row: order.index(row.turn))


def _turn(fired: bool, fires: bool, costs: tuple[float | None, float | None], check: Check | None) -> Turn:
    """Say what became of a finding: by its cost, for a rule that fires now may have passed just under its limit."""
    was, now = (cost or 0.0 for cost in costs)
    if not fired and was <= _SMALL * now:
        return "new"
    if not fires and now <= _SMALL * was:
        return "fixed"
    if check is not None and check.outcome in ("regression", "improvement"):
        return "worse" if check.outcome == "regression" else "better"
    if fired != fires and min(was, now) < _HALF * max(was, now):
        return "worse" if now > was else "better"
    return "same"


# ---- kernels, operators, modules


class _Row(NamedTuple):
    """One row of a table, a step: calls, and ms on the GPU and on the host; None where the table does not tell."""

    calls: float = 0.0
    gpu: float | None = None
    host: float | None = None

    @property
    def ms(self) -> float:
        """Both together: what a row counts by."""
        return (self.gpu or 0.0) + (self.host or 0.0)

    def plus(self, other: _Row) -> _Row:
        """Add another row."""
        return _Row(self.calls + other.calls, _sum(self.gpu, other.gpu), _sum(self.host, other.host))


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None and other is None else (one or 0.0) + (other or 0.0)


class _Table:
    """Rows of a grid by name and shape, one of *count* steps or samples; ``least`` is the lightest that the grid still holds."""

    def __init__(self, grid: Grid | None, count: float, gpu: str, host: str) -> None:
        self.rows: dict[tuple[str, str], _Row] = {}
        self.least = 0.0
        if grid is None or not grid.rows:
            return
        heads = [heading.name for heading in grid.columns]
        places = [heads.index(name) if name else -1 for name in (gpu, host)]
        for index, row in enumerate(grid.rows):
            if str(row[0]).startswith("ProfilerStep#"):
                continue  # the steps themselves, each with a name of its own
            parent = grid.parents[index] if grid.parents else -1
            is_shape = parent >= 0 and heads[0] == "operator"
            key = (str(grid.rows[parent][0]), str(row[0])) if is_shape else (_path(grid, index), "")
            values = [_as_float(row[place]) if place >= 0 else None for place in places]
            times = [None if value is None else value / count for value in values]
            calls = (_as_float(row[heads.index("calls")]) or 0.0) / count
            self.rows[key] = self.rows.get(key, _Row()).plus(_Row(calls, *times))
        if grid.total > len(grid.rows):
            self.least = min((row.ms for row in self.rows.values()), default=0.0)


def _as_float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _path(grid: Grid, index: int) -> str:
    """Return the name of a row, below its parents' where the grid is a tree of modules."""
    names = [str(grid.rows[index][0])]
    while grid.parents and grid.parents[index] >= 0:
        index = grid.parents[index]
        names.append(str(grid.rows[index][0]))
    return names[0] if len(names) == 1 else " / ".join(reversed(names))


def _items(before: Analysis, after: Analysis, batch: tuple[float, float]) -> tuple[list[Item], dict[str, int]]:
    """List the items that appeared, vanished or changed, the most first, of each kind; and count those left out.

    Of a step, or where its *batch* differs of a sample.
    """
    step = before.summary.step_ms.median if before.summary.step_ms else before.summary.window_ms
    step /= batch[0]
    kinds: tuple[tuple[Kind, str, str, str], ...] = (
        ("kernel", "kernels", "total", ""),
        ("operator", "operators", "GPU self", "host self"),
        ("module", "modules", "GPU self", ""),
    )
    items: list[Item] = []
    hidden: dict[str, int] = {}
    for kind, name, gpu, host in kinds:
        tables = [
            _Table(getattr(side.views, name) if side.views else None, max(1, side.summary.steps) * size, gpu, host)
            for side, size in ((before, batch[0]), (after, batch[1]))
        ]
        if not all(table.rows for table in tables):
            continue  # not recorded on a side: nothing of it appeared or vanished
        changed = _changed(kind, tables[0], tables[1], step * _STEP_SHARE)
        changes = [item for _, item in sorted(changed, key=lambda pair: -pair[0])]
        items += changes[:_MOST]
        if len(changes) > _MOST:
            hidden[kind] = len(changes) - _MOST
    return items, hidden


def _changed(kind: Kind, was: _Table, now: _Table, floor: float) -> Iterator[tuple[float, Item]]:
    """Yield what changed, with how much that is in ms."""
    names = {name for name, shape in was.rows.keys() ^ now.rows.keys() if not shape}
    for key in dict.fromkeys([*was.rows, *now.rows]):
        name, shape = key
        first, second = was.rows.get(key, _Row()), now.rows.get(key, _Row())
        fate: Fate = "more" if second.ms > first.ms else "less"
        change = abs(second.ms - first.ms)
        if key not in was.rows or key not in now.rows:
            other = was if key not in was.rows else now
            if (shape and name in names) or max(first.ms, second.ms) <= max(other.least, floor / 10):
                continue  # told with its operator; or the other side's table may only be too short for it
            fate = "appeared" if key not in was.rows else "vanished"
        elif change < max(_SHARE * first.ms, floor):
            continue
        gpu, host = ((getattr(first, place), getattr(second, place)) for place in ("gpu", "host"))
        yield (
            change,
            Item(
                kind=kind,
                name=name,
                shape=shape,
                fate=fate,
                calls_before=first.calls,
                calls_after=second.calls,
                gpu_ms_before=gpu[0] if gpu[0] is not None else _zero(gpu[1]),
                gpu_ms_after=gpu[1] if gpu[1] is not None else _zero(gpu[0]),
                host_ms_before=host[0] if host[0] is not None else _zero(host[1]),
                host_ms_after=host[1] if host[1] is not None else _zero(host[0]),
            ),
        )


def _zero(other: float | None) -> float | None:
    """Return what a side has of something that only the other one has: nothing, where that is known."""
    return None if other is None else 0.0
