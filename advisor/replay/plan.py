"""The plan: findings priced by the replay, in the order to fix them, with the step that each fix leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from advisor.counting import duration, durations
from advisor.engine import ranking
from advisor.engine.claims import more_for, other_alone, priced, ranked_bundles
from advisor.results.analysis import Finding, PlanStep, Saving
from advisor.roofline.limits import limits
from advisor.timeline.unprofiled import unprofiled

if TYPE_CHECKING:
    import pandas as pd

    from advisor.engine.claims import Claim
    from advisor.engine.run import Outcome
    from advisor.replay.cpu import Thread
    from advisor.replay.limits import StepLimits
    from advisor.replay.pricing import Replay
    from advisor.replay.rungs import Priced, Rung
    from advisor.rulebook import Rulebook
    from advisor.timeline.context import Context
    from advisor.trace import Trace

_TOLD, _BEYOND = 0.01, 1.05
TRAINING = frozenset({"batch"})
"""Actions whose fixes change what the program learns, and so do coarser numbers."""
_LARGER_BATCH = "larger-batch"
"""The act of a fix that does the same by other means."""


def changes_training(claim: Claim) -> bool:
    """Tell whether the fix changes training: the batch, or the numbers that it computes with."""
    replay = claim.rule.replay
    return claim.rule.is_inexact or _LARGER_BATCH in claim.acts or (replay is not None and replay.action in TRAINING)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Findings with their replayed prices, best first; the plan; and why there is none, empty where there is."""

    findings: list[Finding]
    steps: list[PlanStep]
    reason: str
    what_if: PlanStep | None = None
    limits: StepLimits | None = None
    """The step with each kernel at its limit."""

    @property
    def limits_ms(self) -> dict[str, float]:
        """The figures of ``limits``, by name; none where there are none."""
        return {} if self.limits is None else self.limits._asdict()


def make(trace: Trace, outcome: Outcome, *, safe: bool = False, what_if: Sequence[str] = ()) -> Plan:
    """Price the findings by running the trace again with their fixes.

    *safe* leaves fixes that change training out of the plan; *what_if* asks what some fixes come to together. Where the
    recording cannot be trusted to be run again, prices stay bounds, and say why.
    """
    claims = [claim for claim in outcome.matches.values() if claim.has_price]
    if not claims and not trace.context.once(limits).known.any():
        return Plan(findings=outcome.findings, steps=[], reason="")
    from advisor.replay import pace

    replay, floor = prepare(trace)
    if not claims:
        return Plan(findings=outcome.findings, steps=[], reason="", limits=floor)
    if replay.reason:
        return Plan(findings=_bounded(trace, outcome, claims, replay.reason), steps=[], reason=replay.reason)
    whole_ms = trace.priced_ms
    prices = replay.price(claims, whole_ms)
    how, matches, more = replay.how, outcome.matches, more_for(replay.error)
    findings = [
        _with_price(f, matches[f.rule], prices, whole_ms, how, more + pace.clause(trace.context, matches[f.rule]))
        for f in outcome.findings
    ]
    rungs = prices.plan
    if safe:
        rungs = replay.price([claim for claim in claims if not changes_training(claim)], whole_ms).plan
    findings = ranking.arrange(findings, matches, list(prices.savings))
    titles = {finding.rule: finding.fix.title for finding in findings}
    rungs = _without(rungs, {finding.rule for finding in findings if finding.severity == "note"}, whole_ms)
    steps = [_step(rung, titles[rung.rule], outcome.matches[rung.rule], whole_ms) for rung in rungs]
    return Plan(
        findings=findings,
        steps=steps,
        reason="",
        what_if=_what_if(replay, claims, what_if, whole_ms) if what_if else None,
        limits=floor,
    )


class Prediction(NamedTuple):
    """Result of some fixes together: the step, and the work as it would run.

    ``timeline`` has a row a kernel, copy or memset: ``name``, ``device``, ``stream``, ``start_ns`` and ``dur_ns`` as replayed with
    the hopeful assumptions, ``recorded_start_ns`` and ``recorded_dur_ns`` as in the trace; ns since its first event. Of a
    program on the CPU a row is a stretch of the main thread, its name the cause, device and stream -1.
    """

    step: PlanStep
    timeline: pd.DataFrame


def what_if(trace: Trace, rules: Sequence[str], rulebook: Rulebook | None = None) -> Prediction:
    """The step with the fixes of some rules together, and the timeline that it would have.

    Raises ``UsageError`` where none of the rules fires with a price, or where the trace cannot be run again, and says why.
    """
    from advisor.engine.run import run
    from advisor.errors import UsageError
    from advisor.rulebook import builtin_rules_dir, load

    outcome = run(trace, rulebook or load([builtin_rules_dir()]))
    claims = [claim for claim in outcome.matches.values() if claim.has_price]
    replay = trace.context.once(_replay)
    if replay.reason:
        raise UsageError(f"{trace.path}: cannot be run again: {replay.reason}")
    step = _what_if(replay, claims, rules, trace.priced_ms)
    if step is None:
        raise UsageError(f"{trace.path}: none of {', '.join(rules)} fires there with a price")
    chosen = [claim for claim in claims if claim.rule.id in step.rules]
    return Prediction(step, replay.timeline_with(chosen, beside=claims))


def prepare(trace: Trace) -> tuple[Replay | Thread, StepLimits | None]:
    """Return what runs the trace again, and the step with each kernel at its limit: what needs no findings, made once."""
    return trace.context.once(_replay), trace.context.once(_floor)


def let_go(trace: Trace) -> None:
    """Let go of what :func:`prepare` made: a graph of a large trace takes room, and holds the trace that it is of."""
    trace.context.forget(_replay, _floor)


def _replay(context: Context) -> Replay | Thread:
    """Choose what runs the trace again: its graph, or the one thread of a program on the CPU."""
    from advisor.replay.cpu import Thread
    from advisor.replay.pricing import Replay

    return Thread(context) if context.cpu_program else Replay(context)


def _floor(context: Context) -> StepLimits | None:
    """Run the step with each kernel at its limit; None where that cannot be told."""
    from advisor.replay.limits import step_limits
    from advisor.replay.pricing import Replay

    replay, bare = context.once(_replay), context.once(unprofiled)
    whole_ms = bare.step_ms if bare is not None else context.step_ns / 1e6
    return step_limits(replay, whole_ms) if isinstance(replay, Replay) else None


def _without(rungs: Sequence[Rung], notes: AbstractSet[str], whole_ms: float) -> list[Rung]:
    """Leave out of a plan what is worth a note and no more: steps behind it are as much longer.

    Where the cautious run had more left for the fixes behind a note, it is no longer the slower one.
    """
    ends = whole_ms, whole_ms
    left: list[Rung] = []
    low = high = whole_ms
    for rung in rungs:
        if rung.rule in notes:
            continue
        before = ends
        low, high = low - (rung.low_before - rung.low), high - (rung.before - rung.high)
        ends = max(low, high), min(low, high)
        left.append(replace(rung, before=before[1], low=ends[0], high=ends[1], low_before=before[0]))
    return left


def _step(rung: Rung, title: str, claim: Claim, whole_ms: float) -> PlanStep:
    return PlanStep(
        rules=[rung.rule, *rung.also],
        title=title,
        step_ms_before=rung.before,
        step_ms_after={"low": rung.high, "high": rung.low},
        speedup=_times(whole_ms, rung.high),
        speedup_low=_times(whole_ms, rung.low),
        bound_by=rung.bound_by,
        changes_training=changes_training(claim),
    )


def _times(whole_ms: float, left_ms: float) -> float:
    """Return how many times as fast a step is of which so much is left."""
    return whole_ms / left_ms if left_ms > 0 else 1.0


def relay(
    plan: Sequence[PlanStep], findings: Sequence[Finding], whole_ms: float, *, former: Sequence[Finding]
) -> list[PlanStep]:
    """The plan in the order of *findings*, for those whose savings are another part of what they were in the *former* ones.

    A step of the plan gets shorter by the same part of what it was: together fixes may return less than each by itself.
    """
    known = {rule: step for step in plan for rule in step.rules}
    had = {finding.rule: finding.saving for finding in former}
    lows = [whole_ms, *(step.step_ms_after.get("high", whole_ms) for step in plan)]
    parts = {
        step.rules[0]: (before - after, step.step_ms_before - step.step_ms_after.get("low", step.step_ms_before))
        for step, before, after in zip(plan, lows, lows[1:], strict=False)
    }
    steps: list[PlanStep] = []
    low_ms = high_ms = whole_ms
    for finding in findings:
        if finding.saving is None or finding.rule not in known:
            continue
        low, high = parts.get(finding.rule, (finding.saving.low_ms, finding.saving.high_ms))
        was = had.get(finding.rule)
        if was is not None:
            low, high = (
                ms * _part(now, then)
                for ms, now, then in (
                    (low, finding.saving.low_ms, was.low_ms),
                    (high, finding.saving.high_ms, was.high_ms),
                )
            )
        before = min(low_ms, high_ms)
        low_ms, high_ms = low_ms - low, high_ms - high
        least, most = min(low_ms, high_ms), max(low_ms, high_ms)
        step = msgspec.structs.replace(
            known[finding.rule],
            step_ms_before=before,
            step_ms_after={"low": least, "high": most},
            speedup=_times(whole_ms, least),
            speedup_low=_times(whole_ms, most),
        )
        steps.append(step)
    return steps


def _part(now: float, then: float) -> float:
    return min(now / then, 1.0) if then > 0 else 1.0


def _what_if(
    replay: Replay | Thread, claims: Sequence[Claim], rules: Sequence[str], whole_ms: float
) -> PlanStep | None:
    chosen = [claim for claim in claims if claim.rule.id in rules]
    if not chosen:
        return None
    plan = replay.price(chosen, whole_ms, beside=claims).plan
    low, high = (whole_ms - plan[-1].low, whole_ms - plan[-1].high) if plan else (0.0, 0.0)
    return PlanStep(
        rules=[claim.rule.id for claim in chosen],
        title="what if",
        step_ms_before=whole_ms,
        step_ms_after={"low": whole_ms - high, "high": whole_ms - low},
        speedup=_times(whole_ms, whole_ms - high),
        speedup_low=_times(whole_ms, whole_ms - low),
        bound_by="",
        changes_training=any(changes_training(claim) for claim in chosen),
    )


def _bounded(trace: Trace, outcome: Outcome, claims: Sequence[Claim], reason: str) -> list[Finding]:
    """The findings with the prices that what they own allows, beside each other."""
    from advisor.replay import pace
    from advisor.replay.apart import apart
    from advisor.replay.effect import held_by_the_link

    context, whole_ms = trace.context, trace.priced_ms
    ledger = context.ledger
    left, gone = apart(context, claims)
    dur_ns, counted_ns, bare = pace.returning(context), ledger.counted_ns, context.once(unprofiled)
    beside_ns = ledger.dur_ns - dur_ns
    if bare is not None:
        dur_ns, counted_ns = np.minimum(dur_ns, bare.dur_ns), bare.counted_ns
    prices = {
        claim.rule.id: claim
        for claim in priced(left, dur_ns, counted_ns, whole_ms, lambda c: held_by_the_link(context, c))
    }
    findings: list[Finding] = []
    for finding in outcome.findings:
        claim = prices.get(finding.rule)
        if finding.rule in gone:
            finding = msgspec.structs.replace(finding, saving=None, after=list(gone[finding.rule]))
        elif claim is not None and claim.after is not None:
            finding = msgspec.structs.replace(finding, saving=None, after=list(claim.after))
        elif claim is not None and claim.saving is not None:
            saving = pace.limited(context, claim, claim.saving, whole_ms)
            beside = int(beside_ns[claim.segments].sum()) / max(claim.cost_ns, 1)
            hidden = f"; {100 * beside:.0f} % of it runs beside a collective that outlasts it, and returns nothing"
            basis = f"{saving.basis}{hidden if beside >= _TOLD else ''} (not replayed: {reason})"
            saving = msgspec.structs.replace(saving, basis=basis)
            finding = msgspec.structs.replace(finding, saving=saving, after=None)
        findings.append(finding)
    return _together(findings, [claim for claim in prices.values() if claim.saving is not None], outcome, whole_ms)


def _together(findings: Sequence[Finding], claims: Sequence[Claim], outcome: Outcome, whole_ms: float) -> list[Finding]:
    """Put the savings of findings whose fixes are one change together: what each owns is its own, so they add up."""
    by_rule = {finding.rule: finding for finding in findings}
    order = ranked_bundles(claims)
    for lead, *same in order:
        parts = {}
        for rule in same:
            saving = by_rule[rule].saving
            if saving is not None:
                parts[rule] = saving.low_ms, saving.high_ms
                by_rule[rule] = _done(by_rule[rule], lead)
        first = by_rule[lead].saving
        if first is not None and parts:
            low = first.low_ms + sum(low for low, _ in parts.values())
            high = first.high_ms + sum(high for _, high in parts.values())
            joint = Saving(
                low_ms=low,
                high_ms=high,
                low_share=low / whole_ms,
                high_share=high / whole_ms,
                basis=first.basis + _with_same(parts),
            )
            by_rule[lead] = msgspec.structs.replace(by_rule[lead], saving=joint)
    return ranking.arrange(list(by_rule.values()), outcome.matches, [rules[0] for rules in order])


def _done(finding: Finding, lead: str) -> Finding:
    """The finding that another's fix does: the price is that one's."""
    return msgspec.structs.replace(finding, saving=None, after=[lead], done_by=lead)


def _with_same(parts: Mapping[str, tuple[float, float]], beside: str = "") -> str:
    """Say what of a price other findings add whose fix is the same change; with several, how they stand *beside* each other."""
    texts = [f"{durations(low, high)} of {rule}" for rule, (low, high) in parts.items()]
    if len(texts) < 2:
        return f"; in it are {texts[0]}, whose fix is the same change" if texts else ""
    listed = f"{', '.join(texts[:-1])} and {texts[-1]}"
    return f"; in it are {listed}, whose fix is the same change{beside}"


def _with_price(finding: Finding, claim: Claim, prices: Priced, whole_ms: float, how: str, paced: str) -> Finding:
    """The finding with its price, or with what leaves nothing of it, or does it."""
    if finding.rule in prices.done_by:
        finding = msgspec.structs.replace(finding, host_ms=prices.host.get(finding.rule, 0.0))
        return _done(finding, prices.done_by[finding.rule])
    if finding.rule in prices.after:
        return msgspec.structs.replace(finding, saving=None, after=list(prices.after[finding.rule]))
    saving = prices.savings.get(finding.rule)
    if saving is None or claim.rule.replay is None or whole_ms <= 0:
        return finding
    replay, (low, high) = claim.rule.replay, saving
    assumed = f"{100 * replay.low * claim.returns[0]:.3g} to {100 * replay.high * claim.returns[1]:.3g} %"
    hosts = " and of the CPU time for them that the GPU's work hides" if prices.host.get(finding.rule) else ""
    # A larger batch spreads more than the gaps that show the room for it.
    rows = "what a step costs once" if replay.action == "batch" else "its rows' time"
    basis = f"replay: {how} {assumed} of {rows}{hosts}; {replay.basis}{paced}"
    recorded = prices.recorded.get(finding.rule)
    if recorded is not None:
        with_it = f"with the one recorded it is {duration(recorded)}"
        figures = "both figures suppose" if recorded < low else "the hopeful figure supposes"
        basis += f"; {figures} a CPU that recording did not slow: {with_it}"
    same = {rule: prices.parts[rule] for rule, lead in prices.done_by.items() if lead == finding.rule}
    listed = {rule: part for rule, part in same.items() if part[1] >= ranking.LEAST * whole_ms}
    basis += _with_same(listed, ": each counts after those before it")
    alone = other_alone(saving, prices.alone.get(finding.rule), whole_ms)
    reached = replay.high * claim.returns[1] * (finding.cost_ms + prices.host.get(finding.rule, 0.0))
    if alone is not None and alone["high"] > _BEYOND * reached and replay.action not in ("batch", "capture"):
        basis += (
            "; alone it returns idle time before its launches, or behind a wait that goes, which is another finding's"
        )
    if alone is not None and finding.rule in prices.alone_recorded:
        with_it = duration(prices.alone_recorded[finding.rule])
        basis += f"; alone, the upper figure supposes a CPU that recording did not slow: with the one recorded it is {with_it}"
    return msgspec.structs.replace(
        finding,
        after=None,
        host_ms=prices.host.get(finding.rule, 0.0),
        late_ms=prices.late.get(finding.rule, 0.0),
        saving=Saving(
            low_ms=low,
            high_ms=high,
            low_share=low / whole_ms,
            high_share=high / whole_ms,
            basis=basis,
            recorded_ms=recorded,
            alone_ms=alone,
        ),
    )
