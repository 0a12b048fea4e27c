"""Two traces side by side: what became of the step, its causes, the findings, the kernels and operators, and each fix's claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from advisor.gating import baseline as baselines
from advisor.gating.alike import unlike
from advisor.gating.baseline import Baseline
from advisor.gating.checks import OUTCOMES
from advisor.gating.checks import Comparison as Checks
from advisor.results.analysis import Analysis
from advisor.results.comparison import (
    SCHEMA_VERSION,
    Answer,
    Claim,
    Comparison,
    Fate,
    Item,
    Kind,
    Shift,
    Side,
    Turn,
    Turned,
)
from advisor.results.judgement import Check
from advisor.results.views import Grid

_DECISIONS = {outcome: decision for decision, outcome in OUTCOMES.items()}
_MOST = 15
_SHARE = 0.10
_STEP_SHARE = 0.002


def compare(before: Analysis, after: Analysis) -> Comparison:
    """Put two analyses side by side; both hold samples and views. It never fails: what cannot be told is said so."""
    base, now = baselines.make([before]), baselines.make([after])
    checks = Checks(base, now, [after], {}).checks()
    metrics = {check.name: _shift(check) for check in checks if check.kind == "metric"}
    rules = {check.name: check for check in checks if check.kind == "rule"}
    step = metrics.pop("step_ms")
    items, hidden = _items(before, after)
    return Comparison(
        schema_version=SCHEMA_VERSION,
        before=_side(before),
        after=_side(after),
        headline=_headline(step),
        unlike=[*baselines.differences(base.fingerprint, now.fingerprint), *unlike(base.work, now.work)],
        step=step,
        causes=list(_causes(base, now)),
        metrics=list(metrics.values()),
        findings=_turns(before, after, rules),
        claims=_claims(before, after, rules),
        items=items,
        hidden=hidden,
    )


def _side(analysis: Analysis) -> Side:
    summary = analysis.summary
    device = next((d.name for d in analysis.trace.devices if d.id == summary.device), None)
    times = summary.step_ms
    return Side(
        path=analysis.trace.path,
        device=device,
        steps=summary.steps,
        step_ms=times.median if times else None,
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


def _headline(step: Shift) -> str:
    if step.before is None or step.after is None or not step.before:
        return "the step cannot be compared"
    ratio = step.before / step.after if step.after else 0.0
    moved = f"{step.before:.4g} → {step.after:.4g} ms a step ({_signed(100 * (step.after / step.before - 1))} %)"
    words = {
        "better": f"{ratio:.2f}× as fast",
        "worse": "slower",
        "same": "probably faster" if step.note else "no slower",
        "inconclusive": "not certain",
    }
    return f"{words[step.outcome]}: {moved}" + (f"; {step.note}" if step.note else "")


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
        turn: Turn = "same"
        if {"not_run", "error", "unknown"} & set(pair):
            turn = "untold"
        elif was is None:
            turn = "new"
        elif now is None:
            turn = "fixed"
        elif check is not None and check.outcome in ("regression", "improvement"):
            turn = "worse" if check.outcome == "regression" else "better"
        turns.append(
            Turned(
                rule=rule,
                title=finding.title,
                turn=turn,
                before_ms=check.base if check and check.base is not None else (was.cost_ms if was else None),
                after_ms=check.now if check and check.now is not None else (now.cost_ms if now else None),
                verdicts=pair,
                where=finding.where[:1],
            )
        )
    order = ("new", "worse", "fixed", "better", "same", "untold")
    return sorted(turns, key=lambda row: order.index(row.turn))


def _claims(before: Analysis, after: Analysis, checks: Mapping[str, Check]) -> list[Claim]:
    """Hold the fix's promise of each finding of *before* against *after*, as far as its rule can tell."""
    verdicts = baselines.verdicts(after)
    left = {finding.rule: finding for finding in after.findings}
    because = {verdict.rule: verdict.because for verdict in after.verdicts.not_applicable}
    claims = []
    for finding in before.findings:
        verdict = verdicts.get(finding.rule, "unknown")
        now, check = left.get(finding.rule), checks.get(finding.rule)
        cost = check.base if check and check.base is not None else finding.cost_ms
        answer: Answer = "holds"
        if now is not None:
            # Nobody can tell a fix that did nothing from one that nobody tried: what costs as before accuses none.
            changed = check is not None and check.outcome in ("regression", "improvement")
            answer = "does not hold" if changed else "not applied"
            costs = check.now if check and check.now is not None else now.cost_ms
            reason = "the rule still fires" + (f": it cost {cost:.3g} ms a step and costs {costs:.3g}" if cost else "")
        elif verdict == "passes":
            reason = "the rule passes" + (f": what cost {cost:.3g} ms a step is under its limits" if cost else "")
        elif verdict == "not_applicable":
            reason = f"the rule has nothing to say any more: {because.get(finding.rule, '')}".rstrip(": ")
        else:
            answer, reason = "cannot be told", "the rule could not run on the second trace"
        claims.append(
            Claim(rule=finding.rule, fix=finding.fix.title, verify=finding.fix.verify, answer=answer, because=reason)
        )
    order = ("holds", "does not hold", "cannot be told", "not applied")
    return sorted(claims, key=lambda claim: order.index(claim.answer))


# ---- kernels, operators, modules


class _Table:
    """Rows of a grid by name and shape, a step; ``least`` is the lightest that the grid still holds."""

    def __init__(self, grid: Grid | None, steps: int, calls: str, times: Sequence[str]) -> None:
        self.rows: dict[tuple[str, str], tuple[float, float]] = {}
        self.least = 0.0
        if grid is None or not grid.rows:
            return
        heads = [heading.name for heading in grid.columns]
        columns = [heads.index(name) for name in times]
        for index, row in enumerate(grid.rows):
            if str(row[0]).startswith("ProfilerStep#"):
                continue  # the steps themselves, each with a name of its own
            parent = grid.parents[index] if grid.parents else -1
            is_shape = parent >= 0 and heads[0] == "operator"
            key = (str(grid.rows[parent][0]), str(row[0])) if is_shape else (_path(grid, index), "")
            weight = sum(_as_float(row[column]) for column in columns) / steps
            count, ms = self.rows.get(key, (0.0, 0.0))
            self.rows[key] = (count + _as_float(row[heads.index(calls)]) / steps, ms + weight)
        if grid.total > len(grid.rows):
            self.least = min((ms for _, ms in self.rows.values()), default=0.0)


def _as_float(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _path(grid: Grid, index: int) -> str:
    """Return the name of a row, below its parents' where the grid is a tree of modules."""
    names = [str(grid.rows[index][0])]
    while grid.parents and grid.parents[index] >= 0:
        index = grid.parents[index]
        names.append(str(grid.rows[index][0]))
    return names[0] if len(names) == 1 else " / ".join(reversed(names))


def _items(before: Analysis, after: Analysis) -> tuple[list[Item], dict[str, int]]:
    """List the items that appeared, vanished or changed, the most first, of each kind; and count those left out."""
    step = before.summary.step_ms.median if before.summary.step_ms else before.summary.window_ms
    kinds: tuple[tuple[Kind, str, str, tuple[str, ...]], ...] = (
        ("kernel", "kernels", "calls", ("total",)),
        ("operator", "operators", "calls", ("host self", "GPU self")),
        ("module", "modules", "calls", ("GPU self",)),
    )
    items: list[Item] = []
    hidden: dict[str, int] = {}
    for kind, name, calls, times in kinds:
        tables = [
            _Table(getattr(side.views, name) if side.views else None, max(1, side.summary.steps), calls, times)
            for side in (before, after)
        ]
        if not all(table.rows for table in tables):
            continue  # not recorded on a side: nothing of it appeared or vanished
        changes = sorted(
            _changed(kind, tables[0], tables[1], step * _STEP_SHARE), key=lambda i: -abs(i.ms_after - i.ms_before)
        )
        items += changes[:_MOST]
        if len(changes) > _MOST:
            hidden[kind] = len(changes) - _MOST
    return items, hidden


def _changed(kind: Kind, was: _Table, now: _Table, floor: float) -> Iterator[Item]:
    names = {name for name, shape in was.rows.keys() ^ now.rows.keys() if not shape}
    for key in dict.fromkeys([*was.rows, *now.rows]):
        name, shape = key
        (calls, ms), (calls_now, ms_now) = was.rows.get(key, (0.0, 0.0)), now.rows.get(key, (0.0, 0.0))
        fate: Fate = "more" if ms_now > ms else "less"
        if key not in was.rows or key not in now.rows:
            other = was if key not in was.rows else now
            if (shape and name in names) or max(ms, ms_now) <= max(other.least, floor / 10):
                continue  # told with its operator; or the other side's table may only be too short for it
            fate = "appeared" if key not in was.rows else "vanished"
        elif abs(ms_now - ms) < max(_SHARE * ms, floor):
            continue
        yield Item(
            kind=kind,
            name=name,
            shape=shape,
            fate=fate,
            calls_before=calls,
            calls_after=calls_now,
            ms_before=ms,
            ms_after=ms_now,
        )
