"""The gate: a candidate's analyses against a baseline, check by check. It decides on analyses and reads no trace.

A figure fails where it changed past its tolerance *and* past its floor *and* significantly; a rule where it fires and did
not, or its cost grew so. What cannot be said is inconclusive, and never a pass: recordings that are not alike, too few
steps, a figure or a rule that one side lacks. The whole is inconclusive where such a check counts.
"""

from __future__ import annotations

import fnmatch
import operator
import shlex
from collections.abc import Mapping, Sequence
from statistics import fmean

import msgspec

from advisor.config import Assertion, Gate
from advisor.gating import baseline as baselines
from advisor.gating.alike import unlike
from advisor.gating.baseline import Baseline
from advisor.gating.checks import Comparison
from advisor.results.analysis import Analysis
from advisor.results.decision import obstacle
from advisor.results.judgement import SCHEMA_VERSION, Check, Judgement, Outcome, Verdict
from advisor.views.metrics import MEAN_STEP, METRICS, STEP


def judge(
    candidates: Sequence[Analysis],
    base: Baseline | None,
    settings: Gate | None = None,
    *,
    baseline_name: str = "",
    today: str = "",
    heirs: Mapping[str, Sequence[str]] | None = None,
) -> Judgement:
    """Hold *candidates*, repeated runs of one workload, against *base* and the settings' assertions.

    *today* is a date such as ``2026-11-21``, for the waivers; where it is empty none has ended. *heirs* are the rules of today
    by former ids, which the baseline may hold.

    Raises ``UsageError`` where the candidates are not runs of one workload, or hold no samples.
    """
    settings = settings or Gate()
    baseline_name = baseline_name.encode("utf-8", "replace").decode("utf-8")  # a file's name may hold any bytes
    checks: list[Check] = []
    obstacles = [text for text in map(obstacle, candidates) if text]
    incomparable, others = [*obstacles], list[str]()
    if base is not None:
        base = baselines.renamed(base, heirs or {})
        now = baselines.make(candidates, workload=settings.workload or base.fingerprint.workload)
        incomparable += baselines.differences(base.fingerprint, now.fingerprint)
        others = unlike(base.work, now.work)
        incomparable += others
        if not incomparable:
            checks += Comparison(base, now, candidates, settings.tolerance).checks()
    if not obstacles:
        checks += [_assert(assertion, candidates) for assertion in settings.asserted]
    levelled = (_settle(check, settings, today) for check in checks)
    checks = sorted((check for check in levelled if check.level != "off"), key=_order)
    verdict = _verdict(checks, incomparable)
    return Judgement(
        schema_version=SCHEMA_VERSION,
        verdict=verdict,
        headline=_headline(verdict, checks, incomparable, of_work=incomparable == others),
        workload=base.fingerprint.workload if base else settings.workload,
        baseline=baseline_name,
        traces=[analysis.trace.path for analysis in candidates],
        incomparable=incomparable,
        checks=checks,
        update=_update(checks, candidates, baseline_name) if base is not None and not incomparable else "",
    )


# ---- assertions

_COMPARE = {">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt}


def _assert(assertion: Assertion, candidates: Sequence[Analysis]) -> Check:
    """Check that an assertion holds on every candidate; the figure shown is the first that breaks it."""
    figures = [_figure(assertion.name, analysis) for analysis in candidates]
    unjudged = [_unjudged(assertion.name, analysis) for analysis in candidates]
    holds = _COMPARE[assertion.sign]
    # A count that may be higher holds where the highest does, and does not where neither does; else nobody knows.
    answers = [
        None if value is None else {holds(value + more, assertion.bound) for more in range(len(rules) + 1)}
        for value, rules in zip(figures, unjudged, strict=True)
    ]
    broken = [value for value, answer in zip(figures, answers, strict=True) if answer == {False}]
    unknown = [rules for rules, answer in zip(unjudged, answers, strict=True) if answer is None or len(answer) == 2]
    values = [value for value in figures if value is not None]
    outcome: Outcome = "regression" if broken else "inconclusive" if unknown or not values else "same"
    worst = (broken or values)[0] if outcome != "inconclusive" else None
    because = "the trace does not say"
    if outcome == "inconclusive" and unknown and unknown[0]:
        because += f": {len(unknown[0])} rules could not run, such as {unknown[0][0]}"
    words = "does not hold: it is" if broken else "holds: it is"
    return Check(
        kind="assertion",
        name=assertion.text,
        title=assertion.text,
        outcome=outcome,
        level="error",
        message=f"{assertion.text}: {because}" if worst is None else f"{assertion.text} {words} {worst:.6g}",
        now=worst,
        threshold=assertion.bound,
    )


_OPTIONAL = frozenset({"shapes", "stacks", "memory", "gc", "ranks", "copy_memory", "bytes_copied"})
"""What a recording may go without: no trace holds all of it, and rules that ask for more are never promised."""


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


# ---- levels and waivers


def _settle(check: Check, settings: Gate, today: str) -> Check:
    """Return *check* at the level that the project gives it, never above its own; waived where a waiver holds."""
    level = settings.level(check.name)
    if check.level == "error" or level == "off":
        check = msgspec.structs.replace(check, level=level)
    if check.outcome != "regression":
        return check
    for waiver in settings.waivers:
        if not fnmatch.fnmatchcase(check.name, waiver.rule):
            continue
        if waiver.until.isoformat() >= today:
            return msgspec.structs.replace(check, waiver=f"{' '.join(waiver.reason.split())} (until {waiver.until})")
        check = msgspec.structs.replace(check, message=f"{check.message}; its waiver ended on {waiver.until}")
    return check


# ---- together


def _fails(check: Check) -> bool:
    return check.counts and check.outcome == "regression"


def _verdict(checks: Sequence[Check], incomparable: Sequence[str]) -> Verdict:
    if any(_fails(check) for check in checks):
        return "failed"
    if incomparable or any(check.counts and check.outcome == "inconclusive" for check in checks):
        return "inconclusive"
    return "passed" if checks else "inconclusive"


_RANK = {"regression": 0, "inconclusive": 1, "improvement": 2, "same": 3}


def _order(check: Check) -> tuple[int, bool, bool, float, str]:
    # Of regressions a rule comes before the figures that it moves: it names the cause.
    weight = abs(check.change or 0.0) if check.kind == "rule" else abs(check.change_share or 0.0)
    return _RANK[check.outcome], not check.counts, check.kind != "rule", -weight, check.name


def _headline(verdict: Verdict, checks: Sequence[Check], incomparable: Sequence[str], *, of_work: bool = False) -> str:
    better = [check for check in checks if check.outcome == "improvement"]
    if verdict == "failed":
        failed = [check for check in checks if _fails(check)]
        return failed[0].message + _more(failed)
    if incomparable:
        return f"{'not comparable' if of_work else 'the recordings cannot be compared'}: {'; '.join(incomparable)}"
    if verdict == "inconclusive":
        open_ = [check for check in checks if check.counts and check.outcome == "inconclusive"]
        open_.sort(key=lambda check: _FIRST.get(check.name, len(_FIRST)))
        gain = next((f"; step_ms improved ({_step(check)})" for check in better if check.name == STEP.name), "")
        return open_[0].message + _more(open_) + gain if open_ else "nothing was asked"
    warned = [check for check in checks if check.outcome == "regression"]
    rare = [check for check in checks if check.kind == "rule" and check.outcome == "inconclusive" and check.change]
    parts = [f"no regression in {sum(check.outcome != 'inconclusive' for check in checks)} checks"]
    gained = next((f", the step too ({_step(check)})" for check in better if check.name == STEP.name), "")
    parts += [f"{len(better)} improved{gained}"] if better else []
    parts += [f"{len(warned)} grew and {'does' if len(warned) == 1 else 'do'} not count"] if warned else []
    parts += [check.message for check in rare if gained and (check.change or 0.0) > 0 and check.base == 0.0][:1]
    return "; ".join(parts)


_FIRST = {STEP.name: 0, MEAN_STEP.name: 1}
"""Checks that an answer hangs on first."""


def _more(checks: Sequence[Check]) -> str:
    return f" (and {len(checks) - 1} more)" if len(checks) > 1 else ""


def _step(check: Check) -> str:
    return f"{check.base:.4g} → {check.now:.4g} ms"


def _update(checks: Sequence[Check], candidates: Sequence[Analysis], name: str) -> str:
    figures = [check for check in checks if check.kind != "assertion"]  # no baseline changes what an assertion asks
    if not any(check.outcome == "improvement" or _fails(check) for check in figures):
        return ""
    traces = " ".join(shlex.quote(analysis.trace.path) for analysis in candidates)
    return f"advisor baseline {traces} --update -o {shlex.quote(name or 'advisor-baseline.json')} --reason '…'"
