"""Savings in words: of a finding, of all the listed fixes together, and amounts of time."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.report import figures
from advisor.report.plain import clean, in_one_unit
from advisor.results.analysis import Analysis, Finding, PlanStep, Saving, Summary

MOST = 10
"""Findings that are listed; of more, the rest is counted."""
_APART, _OF_END = 0.02, 0.05
"""Shares of the step, and of what all fixes leave of it, by which savings may miss that and still be said to add up."""
SEVERAL = 2


def leading(findings: Sequence[Finding]) -> list[Finding]:
    """Choose the findings that are listed: those that return something, or have no price."""
    return [finding for finding in findings if finding.severity != "note" and finding.after is None][:MOST]


def together(analysis: Analysis) -> str:
    """Return what the fixes come to that are listed: ``All fixes: step 126 → 60–106 ms``; nothing where none has a price.

    Savings that are notes, or are more than are listed, are in the plan of the whole report.
    """
    shown = {finding.rule for finding in leading(analysis.findings)}
    plan = [step for step in analysis.plan if step.rules[0] in shown]
    if not plan:
        return ""
    fixes = "All fixes" if len(plan) == len(analysis.plan) else "These fixes" if len(plan) > 1 else "This fix"
    return f"{fixes}: {all_fixes(analysis.summary, plan)}"


LESS = "where one is high, later ones are low"


def of_each(analysis: Analysis) -> str:
    """Say what each saving counts, and where they do not add up: a fix that saves most where the others save least."""
    if len(_priced(analysis)) < SEVERAL:
        return ""
    return "each saving counts after those above it" + (f"; {LESS}" if overlap(analysis) else "")


def overlap(analysis: Analysis) -> bool:
    """Tell whether the savings of several fixes add up to something else than they return together."""
    savings = {finding.rule: finding.saving for finding in leading(analysis.findings) if finding.saving is not None}
    plan = _priced(analysis)
    if len(plan) < SEVERAL:
        return False
    whole, after = plan[0].step_ms_before, plan[-1].step_ms_after
    sums = {
        "low": sum(saving.high_ms for saving in savings.values()),
        "high": sum(saving.low_ms for saving in savings.values()),
    }
    ends = [(whole - total, after.get(end, whole - total)) for end, total in sums.items()]
    return any(abs(added - left) > min(_APART * whole, _OF_END * left) for added, left in ends)


def _priced(analysis: Analysis) -> list[PlanStep]:
    """Return the fixes of the plan whose saving the screen shows."""
    shown = {finding.rule for finding in leading(analysis.findings) if finding.saving is not None}
    return [step for step in analysis.plan if step.rules[0] in shown]


def all_fixes(summary: Summary, plan: Sequence[PlanStep]) -> str:
    """Return ``step 126 → 28–106 ms (1.2–4.5× as fast)``; in percent where it is hardly faster at best.

    What is left of a cold step beside its start-up holds shorter first calls, which no later one has.
    """
    after, first, last = plan[-1].step_ms_after, plan[0], plan[-1]
    least, most = after.get("low", last.step_ms_before), after.get("high", last.step_ms_before)
    unit, cold = "step" if summary.step_ms else "window", ""
    if summary.cold:
        unit, cold = f"cold {unit}", "; a warm one may gain less"
    (before, *then), scale = in_one_unit(first.step_ms_before, max(least, 0.0), max(most, 0.0))
    gain = f"{_times(last)} as fast"
    if last.speedup < _FASTER:
        gain = f"at most {share(1 - 1 / max(last.speedup, 1.0))} % shorter"
    return f"{unit} {before} → {'–'.join(dict.fromkeys(then))} {scale} ({gain}){cold}"


_FASTER = 1.05
"""Times as fast from which on a step is said to be so."""


def _times(step: PlanStep) -> str:
    ends = [step.speedup] if step.speedup_low is None else [step.speedup_low, step.speedup]
    return "–".join(dict.fromkeys(f"{times:.1f}" for times in ends)) + "×"


def words(finding: Finding) -> str:
    """Return the fix in a few words: the settings to change where they were recorded, else its title."""
    advised = [setting for setting in finding.settings if setting.advice]
    if advised:
        return clean(", ".join(f"{setting.name} {setting.value} → {setting.advice}" for setting in advised[:2]))
    return clean(finding.fix.title)


def saving(finding: Finding, others: Sequence[Finding], summary: Summary | None = None) -> str:
    """Return ``saves 22–44 ms (27–55 %)``, and what is saved alone where that differs; what is known instead without a price.

    The cost is the mean step's, and says so, where the step of *summary* is another.
    """
    ms, of_mean = figures.mean_cost(finding, summary)
    mean = " (mean step)" if of_mean else ""
    if finding.saving is None:
        if not finding.cost_ms:
            return figures.unpriced(finding, others)
        return f"takes {duration(ms)}{mean} ({share(finding.cost_share)} %), saving not known"
    by_itself = alone(finding.saving)
    most = (finding.saving.alone_ms or {}).get("high", 0.0)
    saved = max(finding.saving.high_ms, most if by_itself else 0.0)
    cost = f"cost {duration(ms)}{mean}, " if finding.cost_ms >= _MORE * saved > 0 else _stops(finding)
    if not by_itself:
        return f"{cost}saves {finding.saving}"
    after = " after those above" if most < _BY_ITSELF * finding.saving.high_ms else ""
    return f"{cost}saves {finding.saving}{after}, {by_itself}"


def _stops(finding: Finding) -> str:
    """Return ``22 stops, 319 ms; `` or, with those between calls, ``stopped for 474 ms; ``: what a thread lost that cost the device
    next to nothing; else nothing."""
    columns, rows = finding.evidence.columns, finding.evidence.rows
    if len(rows) != 1 or not {"stalls", "stopped_ms"} <= set(columns):
        return ""
    row = dict(zip(columns, rows[0], strict=True))
    stopped_ms, between_ms = (float(str(row.get(name) or 0)) for name in ("stopped_ms", "between_ms"))
    if between_ms:
        return f"stopped for {duration(stopped_ms + between_ms)}; "
    return f"{row['stalls']} stops, {duration(stopped_ms)}; "


def aside(finding: Finding, others: Sequence[Finding]) -> str:
    """Return what belongs beside a saving: ``, added-to-zeros included``, ``, 3.0 ms with the CPU as recorded``."""
    if finding.saving is None or alone(finding.saving):
        return ""
    return _same_change(finding, others) + _as_recorded(finding.saving)


def _as_recorded(saving: Saving) -> str:
    """Say what is saved at most with a CPU as slow as recording made it, where that is much less; else nothing."""
    if saving.recorded_ms is None or saving.recorded_ms > _BY_ITSELF * saving.high_ms:
        return ""
    return f", {duration(saving.recorded_ms)} with the CPU as recorded"


def _same_change(finding: Finding, others: Sequence[Finding]) -> str:
    """Say which finding, or how many, the same change does away with where it saves more than this one costs; else nothing."""
    same = [one.rule.rpartition("/")[2] for one in others if one.done_by == finding.rule]
    if not same or finding.saving is None or finding.saving.high_ms <= finding.cost_ms:
        return ""
    return f", {same[0] if len(same) == 1 else f'{len(same)} others'} included"


_MORE = 1.25
"""Times what a fix saves at most that a finding costs, from which on that is another figure."""
_BY_ITSELF = 0.5
"""Of what a fix saves in its place, what it saves alone: less would read as another figure of the same."""


def alone(saving: Saving) -> str:
    """Return ``alone 3.2–11.7 ms``: what a fix saves without those before it, where that is another figure; else nothing."""
    if saving.alone_ms is None:
        return ""
    low, high = saving.alone_ms.get("low", 0.0), saving.alone_ms.get("high", 0.0)
    return f"alone {durations(low, high)}" if high > 0 else "alone nothing"


def shares(saving: Saving) -> str:
    """Return the shares of a saving in percent, without the sign: ``27–55``."""
    return "–".join(dict.fromkeys((share(saving.low_share), share(saving.high_share))))


def share(part: float) -> str:
    """Return a share in percent, without the sign: whole from 10 on, one decimal below."""
    percent = 100 * max(part, 0.0)
    return f"{percent:.0f}" if percent >= 9.95 or percent == 0 else f"{percent:.1f}"


def duration(ms: float) -> str:
    """Return ``12.3 ms``, ``87 µs`` or ``2.4 s``."""
    return durations(ms, ms)


def durations(low_ms: float, high_ms: float) -> str:
    """Return ``22–44 ms``: both ends in the unit of the upper one."""
    figures_, unit = in_one_unit(max(low_ms, 0.0), max(high_ms, 0.0))
    return f"{'–'.join(dict.fromkeys(figures_))} {unit}"
