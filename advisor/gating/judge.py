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
from statistics import median

import msgspec

from advisor.config import Assertion, Gate
from advisor.gating import baseline as baselines
from advisor.gating.baseline import Baseline
from advisor.gating.checks import Comparison
from advisor.results.analysis import Analysis
from advisor.results.decision import obstacle
from advisor.results.judgement import SCHEMA_VERSION, Check, Judgement, Outcome, Verdict


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
    incomparable = [*obstacles]
    if base is not None:
        base = baselines.renamed(base, heirs or {})
        now = baselines.make(candidates, workload=settings.workload or base.fingerprint.workload)
        incomparable += baselines.differences(base.fingerprint, now.fingerprint)
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
        headline=_headline(verdict, checks, incomparable),
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
    values = [value for value in figures if value is not None]
    broken = [value for value in values if not _COMPARE[assertion.sign](value, assertion.bound)]
    unknown = not values or len(values) < len(figures)
    worst = None if unknown else (broken or values)[0]
    outcome: Outcome = "inconclusive" if unknown else "regression" if broken else "same"
    words = "does not hold: it is" if broken else "holds: it is"
    return Check(
        kind="assertion",
        name=assertion.text,
        title=assertion.text,
        outcome=outcome,
        level="error",
        message=f"{assertion.text}: the trace does not say"
        if worst is None
        else f"{assertion.text} {words} {worst:.6g}",
        now=worst,
        threshold=assertion.bound,
    )


def _figure(name: str, analysis: Analysis) -> float | None:
    """Return the figure of a trace that an assertion names; None where the trace does not tell it."""
    kind, _, rest = name.partition(".")
    if kind == "findings":
        return float(sum(finding.severity == rest for finding in analysis.findings))
    if kind == "metrics":
        samples = analysis.samples.metrics.get(rest) if analysis.samples else None
        return median(samples) if samples else None
    if kind == "rules":
        # A rule that has nothing to say of such a program costs nothing; one that could not run is not known.
        costs = {finding.rule: finding.cost_ms for finding in analysis.findings}
        quiet = {*analysis.verdicts.passes, *(verdict.rule for verdict in analysis.verdicts.not_applicable)}
        return costs.get(rest, 0.0 if rest in quiet else None)
    if rest == "step_ms":
        return analysis.summary.step_ms.median if analysis.summary.step_ms else None
    if rest.startswith("causes."):
        causes = analysis.summary.causes
        return causes.get(rest.removeprefix("causes."), 0.0) if causes else None
    value = getattr(analysis.summary, rest)
    return None if value is None else float(value)


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


def _headline(verdict: Verdict, checks: Sequence[Check], incomparable: Sequence[str]) -> str:
    if verdict == "failed":
        failed = [check for check in checks if _fails(check)]
        return failed[0].message + (f" (and {len(failed) - 1} more)" if len(failed) > 1 else "")
    if incomparable:
        return f"the recordings cannot be compared: {'; '.join(incomparable)}"
    if verdict == "inconclusive":
        open_ = [check for check in checks if check.counts and check.outcome == "inconclusive"]
        open_.sort(key=lambda check: check.name != "step_ms")
        return open_[0].message if open_ else "nothing was asked"
    better = [check for check in checks if check.outcome == "improvement"]
    warned = [check for check in checks if check.outcome == "regression"]
    parts = [f"no regression in {sum(check.outcome != 'inconclusive' for check in checks)} checks"]
    parts += [f"{len(better)} improved"] if better else []
    parts += [f"{len(warned)} grew and {'does' if len(warned) == 1 else 'do'} not count"] if warned else []
    return "; ".join(parts)


def _update(checks: Sequence[Check], candidates: Sequence[Analysis], name: str) -> str:
    figures = [check for check in checks if check.kind != "assertion"]  # no baseline changes what an assertion asks
    if not any(check.outcome == "improvement" or _fails(check) for check in figures):
        return ""
    traces = " ".join(shlex.quote(analysis.trace.path) for analysis in candidates)
    return f"advisor baseline {traces} --update -o {shlex.quote(name or 'advisor-baseline.json')} --reason '…'"
