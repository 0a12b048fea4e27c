"""The gate: a candidate's analyses against a baseline, check by check. It decides on analyses and reads no trace.

A figure fails where it changed past its tolerance *and* past its floor *and* significantly; a rule where it fires and did
not, or its cost grew so. What cannot be said is inconclusive, and never a pass: recordings of other work or another device,
too few steps, too much noise, a figure or a rule that one side lacks. The whole is inconclusive where such a check counts.
"""

from __future__ import annotations

import fnmatch
import shlex
from collections.abc import Mapping, Sequence

import msgspec

from advisor.config import Gate
from advisor.counting import change, counted
from advisor.gating import baseline as baselines
from advisor.gating.alike import in_other_units, part_of, unlike
from advisor.gating.assertions import check_assertion
from advisor.gating.baseline import Baseline
from advisor.gating.checks import Comparison
from advisor.gating.explanation import explained
from advisor.results.analysis import Analysis
from advisor.results.decision import obstacle
from advisor.results.judgement import SCHEMA_VERSION, Check, Judgement, Verdict
from advisor.views.metrics import MEAN_STEP, OPERATORS, STEP


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
        if base.digest:
            incomparable.append("the baseline is not as the advisor wrote it, but edited or merged: make it anew")
        incomparable += baselines.differences(base.fingerprint, now.fingerprint)
        others = _of_other_work(base, now)
        incomparable += others
        if not incomparable:
            checks += Comparison(base, now, candidates, settings.tolerance).checks()
    if not obstacles:
        checks += [check_assertion(assertion, candidates) for assertion in settings.asserted]
    checks, off = _levelled(checks, settings, today)
    verdict = _verdict(checks, incomparable)
    headline = _headline(verdict, checks, incomparable, of_work=incomparable == others)
    judgement = Judgement(
        schema_version=SCHEMA_VERSION,
        verdict=verdict,
        headline=headline + (f"; {off} {'is' if off == 1 else 'are'} off by the settings" if off else ""),
        workload=base.fingerprint.workload if base else settings.workload,
        baseline=baseline_name,
        traces=[analysis.trace.path for analysis in candidates],
        incomparable=incomparable,
        checks=checks,
        update=_update(checks, candidates, baseline_name) if base is not None and not incomparable else "",
    )
    return explained(judgement, base, candidates) if base is not None and not incomparable else judgement


def _of_other_work(base: Baseline, now: Baseline) -> list[str]:
    """List why what was recorded is other work than that of the baseline; empty where it is alike."""
    operators = [side.parts.get(OPERATORS, {}) for side in (base, now)]
    return unlike(base.work, now.work) or part_of(*operators) or in_other_units(base.times(), now.times())


# ---- levels and waivers


def _levelled(checks: Sequence[Check], settings: Gate, today: str) -> tuple[list[Check], int]:
    """Return the checks at the levels that the project gives them, in order, and how many it switched off."""
    levelled = [_settle(check, settings, today) for check in checks]
    kept = sorted((check for check in levelled if check.level != "off"), key=_order)
    return kept, len(levelled) - len(kept)


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
    if verdict == "failed":
        failed = [check for check in checks if _fails(check)]
        return failed[0].message + _more(failed)
    if incomparable:
        return f"{'not comparable' if of_work else 'the recordings cannot be compared'}: {'; '.join(incomparable)}"
    better = [check for check in checks if check.outcome == "improvement"]
    step = next((check for check in better if check.name == STEP.name), None)
    return _passed(checks, better, step) if verdict == "passed" else _no_answer(checks, step)


def _no_answer(checks: Sequence[Check], step: Check | None) -> str:
    """Name what kept the gate from an answer, the step first."""
    open_ = [check for check in checks if check.counts and check.outcome == "inconclusive"]
    if not open_:
        return "nothing was asked"
    open_.sort(key=lambda check: _FIRST.get(check.name, len(_FIRST)))
    return open_[0].message + _more(open_) + (f"; step_ms improved ({_moved(step)})" if step else "")


def _passed(checks: Sequence[Check], better: Sequence[Check], step: Check | None) -> str:
    warned = [check for check in checks if check.outcome == "regression"]
    parts = [f"no regression in {counted(sum(check.outcome != 'inconclusive' for check in checks), 'check')}"]
    parts += [f"{len(better)} improved{f', the step too ({_moved(step)})' if step else ''}"] if better else []
    parts += [f"{len(warned)} grew and {'does' if len(warned) == 1 else 'do'} not count"] if warned else []
    new = [check for check in checks if check.kind == "rule" and check.outcome == "inconclusive" and _appeared(check)]
    return "; ".join([*parts, *(check.message for check in new[:1] if step)])


def _appeared(check: Check) -> bool:
    return check.base == 0.0 and (check.now or 0.0) > 0


_FIRST = {STEP.name: 0, MEAN_STEP.name: 1}
"""Checks that an answer hangs on first."""


def _more(checks: Sequence[Check]) -> str:
    return f" (and {len(checks) - 1} more)" if len(checks) > 1 else ""


def _moved(check: Check) -> str:
    return change(check.base or 0.0, check.now or 0.0, 4)


def _update(checks: Sequence[Check], candidates: Sequence[Analysis], name: str) -> str:
    figures = [check for check in checks if check.kind != "assertion"]  # no baseline changes what an assertion asks
    if not any(check.outcome == "improvement" or _fails(check) for check in figures):
        return ""
    traces = " ".join(_quoted(analysis.trace.path) for analysis in candidates)
    return f"advisor baseline {traces} --update -o {_quoted(name or 'advisor-baseline.json')} --reason '…'"


def _quoted(path: str) -> str:
    """Quote a path for a shell, but for the ``~`` of a home directory, which the shell has to read."""
    home, slash, rest = path.partition("/")
    return f"~/{shlex.quote(rest)}" if home == "~" and slash and rest else shlex.quote(path)
