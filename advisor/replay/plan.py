"""The plan: findings priced by the replay, in the order to fix them, with the step that each fix leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from advisor.results.analysis import Finding, PlanStep, Saving
from advisor.rulebook.rule import SEVERITIES

if TYPE_CHECKING:
    import pandas as pd

    from advisor.engine.claims import Claim
    from advisor.engine.run import Outcome
    from advisor.replay.cpu import Thread
    from advisor.replay.pricing import Replay
    from advisor.rulebook import Rulebook
    from advisor.trace import Trace

TRAINING = frozenset({"batch"})
"""Actions whose fixes change what the program learns, and so do those of the category ``precision``."""


def changes_training(claim: Claim) -> bool:
    """Tell whether the fix changes training: the batch, or the numbers that it computes with."""
    replay = claim.rule.replay
    return claim.rule.category == "precision" or (replay is not None and replay.action in TRAINING)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Findings with their replayed prices, best first; the plan; and why there is none, empty where there is."""

    findings: list[Finding]
    steps: list[PlanStep]
    reason: str
    what_if: PlanStep | None = None


def make(trace: Trace, outcome: Outcome, *, safe: bool = False, what_if: Sequence[str] = ()) -> Plan:
    """Price the findings by running the trace again with their fixes.

    *safe* leaves fixes that change training out of the plan; *what_if* asks what some fixes come to together. Where the
    recording cannot be trusted to be run again, prices stay bounds, and say why.
    """
    claims = [claim for claim in outcome.matches.values() if claim.rule.replay is not None and len(claim.segments)]
    if not claims:
        return Plan(findings=outcome.findings, steps=[], reason="")
    replay = _replay(trace)
    if replay.reason:
        return Plan(findings=[_bound(f, replay.reason) for f in outcome.findings], steps=[], reason=replay.reason)
    whole_ms = trace.whole_ms
    priced = replay.price(claims, whole_ms)
    how, matches = replay.how, outcome.matches
    findings = [
        _with_price(f, matches.get(f.rule), priced.savings.get(f.rule), whole_ms, how) for f in outcome.findings
    ]
    rungs = priced.plan
    if safe:
        rungs = replay.price([claim for claim in claims if not changes_training(claim)], whole_ms).plan
    titles = {finding.rule: finding.fix.title for finding in findings}
    steps = [
        PlanStep(
            rules=[rung.rule],
            title=titles[rung.rule],
            step_ms_before=rung.before,
            step_ms_after={"low": rung.high, "high": rung.low},
            speedup=whole_ms / rung.high if rung.high > 0 else 1.0,
            bound_by=rung.bound_by,
            changes_training=changes_training(outcome.matches[rung.rule]),
        )
        for rung in rungs
        if rung.before - rung.high >= _LEAST_SHARE * whole_ms
    ]
    return Plan(
        findings=sorted(findings, key=_order(list(priced.savings))),
        steps=steps + ([] if safe else _batch_steps(findings, claims, steps, whole_ms)),
        reason="",
        what_if=_what_if(replay, claims, what_if, whole_ms) if what_if else None,
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
    claims = [outcome.matches[rule] for rule in rules if rule in outcome.matches]
    claims = [claim for claim in claims if claim.rule.replay is not None and len(claim.segments)]
    replay = _replay(trace)
    if replay.reason:
        raise UsageError(f"{trace.path}: cannot be run again: {replay.reason}")
    step = _what_if(replay, claims, rules, trace.whole_ms)
    if step is None:
        raise UsageError(f"{trace.path}: none of {', '.join(rules)} fires there with a price")
    return Prediction(step, replay.timeline_with(claims))


def _replay(trace: Trace) -> Replay | Thread:
    """Choose what runs the trace again: its graph, or the one thread of a program on the CPU."""
    from advisor.replay.cpu import Thread
    from advisor.replay.pricing import Replay

    return Thread(trace.context) if trace.context.cpu_program else Replay(trace.context)


_LEAST_SHARE = 0.001
"""A fix that returns less of the step than this is no step of a plan."""


def _batch_steps(
    findings: Sequence[Finding], claims: Sequence[Claim], steps: Sequence[PlanStep], whole_ms: float
) -> list[PlanStep]:
    """A larger batch that the plan could not price: it comes last, and leaves the step as it is.

    Its gain is in the time per sample, where fuller kernels need less; a trace of the small batch does not show that.
    """
    planned = {rule for step in steps for rule in step.rules}
    left = steps[-1].step_ms_after if steps else {"low": whole_ms, "high": whole_ms}
    larger = {claim.rule.id for claim in claims if claim.rule.replay and claim.rule.replay.action == "batch"}
    return [
        PlanStep(
            rules=[finding.rule],
            title=finding.fix.title,
            step_ms_before=left["low"],
            step_ms_after=dict(left),
            speedup=whole_ms / left["low"] if left["low"] > 0 else 1.0,
            bound_by="unpriced",
            changes_training=True,
        )
        for finding in findings
        if finding.rule in larger - planned and finding.severity != "note"
    ]


def _what_if(
    replay: Replay | Thread, claims: Sequence[Claim], rules: Sequence[str], whole_ms: float
) -> PlanStep | None:
    chosen = [claim for claim in claims if claim.rule.id in rules]
    if not chosen:
        return None
    savings = replay.price(chosen, whole_ms).savings.values()
    low, high = sum(low for low, _ in savings), sum(high for _, high in savings)
    return PlanStep(
        rules=[claim.rule.id for claim in chosen],
        title="what if",
        step_ms_before=whole_ms,
        step_ms_after={"low": whole_ms - high, "high": whole_ms - low},
        speedup=whole_ms / (whole_ms - high) if high < whole_ms else 1.0,
        bound_by="",
        changes_training=any(changes_training(claim) for claim in chosen),
    )


def _bound(finding: Finding, reason: str) -> Finding:
    if finding.saving is None:
        return finding
    saving = msgspec.structs.replace(finding.saving, basis=f"{finding.saving.basis} (not replayed: {reason})")
    return msgspec.structs.replace(finding, saving=saving)


def _with_price(
    finding: Finding, claim: Claim | None, saving: tuple[float, float] | None, whole_ms: float, how: str
) -> Finding:
    if saving is None or claim is None or claim.rule.replay is None or whole_ms <= 0:
        return finding
    replay, (low, high) = claim.rule.replay, saving
    assumed = f"{100 * replay.low:.3g} to {100 * replay.high:.3g} %"
    basis = f"replay: {how} {assumed} of its rows' time; {replay.basis}"
    return msgspec.structs.replace(
        finding,
        saving=Saving(low_ms=low, high_ms=high, low_share=low / whole_ms, high_share=high / whole_ms, basis=basis),
    )


def _order(fixes: Sequence[str]) -> Callable[[Finding], tuple[bool, int, int, float, str]]:
    """First things first: *fixes* in the order of the plan, each of which returns most beside those before it; notes last.

    The rest, which returns nothing that is known, goes by severity and cost.
    """
    turn = {rule: at for at, rule in enumerate(fixes)}

    def key(finding: Finding) -> tuple[bool, int, int, float, str]:
        pays = finding.saving is not None and finding.saving.high_ms > 0
        place = turn.get(finding.rule, len(turn)) if pays else len(turn)
        return finding.severity == "note", place, -SEVERITIES.index(finding.severity), -finding.cost_ms, finding.rule

    return key
