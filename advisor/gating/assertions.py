"""Assertions of a project on a trace itself, without a baseline: a figure against a bound."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from statistics import fmean

from advisor.config import Assertion
from advisor.counting import counted
from advisor.results.analysis import Analysis
from advisor.results.judgement import Check, Outcome
from advisor.views.metrics import METRICS

_COMPARE = {">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt}


def check_assertion(assertion: Assertion, candidates: Sequence[Analysis]) -> Check:
    """Check that an assertion holds on every candidate; the figure shown is the first that breaks it."""
    figures = [_figure(assertion.name, analysis) for analysis in candidates]
    unjudged = [_unjudged(assertion.name, analysis) for analysis in candidates]
    answers = [_answers(assertion, value, len(rules)) for value, rules in zip(figures, unjudged, strict=True)]
    broken = [value for value, answer in zip(figures, answers, strict=True) if answer == {False}]
    unknown = [rules for rules, answer in zip(unjudged, answers, strict=True) if len(answer) != 1]
    worst = broken[0] if broken else figures[0] if figures and not unknown else None
    outcome: Outcome = "regression" if broken else "inconclusive" if worst is None else "same"
    if worst is not None:
        message = f"{assertion.text} {'does not hold' if broken else 'holds'}: it is {worst:.6g}"
    else:
        message = f"{assertion.text}: the trace does not say{_why(unknown)}"
    return Check(
        kind="assertion",
        name=assertion.text,
        title=assertion.text,
        outcome=outcome,
        level="error",
        message=message,
        now=worst,
        threshold=assertion.bound,
    )


def _answers(assertion: Assertion, value: float | None, more: int) -> set[bool]:
    """Return the answers that are possible: a count that may be higher holds where all it can be do; none where it is unknown."""
    holds = _COMPARE[assertion.sign]
    return set() if value is None else {holds(value + extra, assertion.bound) for extra in range(more + 1)}


def _why(unknown: Sequence[Sequence[str]]) -> str:
    rules = next((rules for rules in unknown if rules), [])
    return f": {counted(len(rules), 'rule')} could not run, such as {rules[0]}" if rules else ""


_OPTIONAL = frozenset({"shapes", "stacks", "memory", "gc", "ranks", "copy_memory", "bytes_copied"})
"""Features that a recording may go without: no trace holds all of it, and rules that ask for more are never promised."""


def _unjudged(name: str, analysis: Analysis) -> list[str]:
    """List the rules that could have added to a count of findings, and did not run for want of what any trace should hold."""
    if not name.startswith("findings."):
        return []
    lacking = [verdict.rule for verdict in analysis.verdicts.not_run if not _OPTIONAL.issuperset(verdict.needs)]
    return [*(failure.rule for failure in analysis.verdicts.error), *lacking]


def _figure(name: str, analysis: Analysis) -> float | None:
    """Return the figure of a trace that an assertion names; None where the trace does not tell it."""
    kind, _, rest = name.partition(".")
    if kind == "findings":
        return float(sum(finding.severity == rest for finding in analysis.findings))
    if kind == "metrics":
        metric = METRICS[rest]
        samples = analysis.samples.metrics.get(metric.source) if analysis.samples else None
        return metric.summed_up(samples) if samples else None
    if kind == "rules":
        # A rule that has nothing to say of such a program costs nothing; one that could not run is not known.
        costs = {finding.rule: finding.cost_ms or _excess(finding.rule, analysis) for finding in analysis.findings}
        quiet = {*analysis.verdicts.passes, *(verdict.rule for verdict in analysis.verdicts.not_applicable)}
        return costs.get(rest, 0.0 if rest in quiet else None)
    if rest == "step_ms":
        return analysis.summary.step_ms.median if analysis.summary.step_ms else None
    if rest.startswith("causes."):
        causes = analysis.summary.causes
        return causes.get(rest.removeprefix("causes."), 0.0) if causes else None
    value = getattr(analysis.summary, rest)
    return None if value is None else float(value)


def _excess(rule: str, analysis: Analysis) -> float:
    """Return what the rows of a rule that own no time take too long, in ms a step."""
    costs = analysis.samples.rules.get(rule, []) if analysis.samples else []
    return fmean(costs) if costs else 0.0
