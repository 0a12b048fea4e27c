"""Decisions on finished analyses: rules that failed, the severity that was reached, questions without an answer."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import get_args

from advisor.results.analysis import Analysis, Finding, RuleFailure, Severity
from advisor.results.several import Several, analyses

_SEVERITIES: tuple[str, ...] = get_args(Severity)
"""The worst first."""
CUT_OFF = frozenset({"truncated", "gzip-truncated", "gzip-damaged", "sqlite-damaged"})
"""Codes of the notes on a file that ends early, or whose rest cannot be unpacked."""
_UNTELLING = frozenset({"start-up only", "capture only", "cut off", "empty"})


def untelling(document: Analysis | Several) -> list[str]:
    """Say of each recording that cannot be judged why: it is cut off, or holds nothing of the steady program."""
    return [reason for analysis in analyses(document) if (reason := obstacle(analysis))]


def obstacle(analysis: Analysis) -> str:
    """Say why nothing follows from a recording; empty where something does."""
    path, headline = analysis.trace.path, analysis.headline
    for note in analysis.quality:
        if note.code in CUT_OFF:
            return f"{path} is cut off ({note.code}): record it again"
    if headline is not None and headline.kind in _UNTELLING:
        return f"{path} holds nothing of the steady program. {headline.text}"
    return ""


def judged(document: Analysis | Several) -> Several:
    """Return what of a document can be judged: the recordings that tell something, and what shows across all ranks."""
    across = document.across if isinstance(document, Several) else None
    return Several(traces=[analysis for analysis in analyses(document) if not obstacle(analysis)], across=across)


def failed_rules(document: Analysis | Several) -> list[str]:
    """List the rules that failed on a trace, and so judged nothing there."""
    return sorted({failure.rule for failure in _findings_and_failures(document)[1]})


def reaching(document: Analysis | Several, severity: str) -> list[Finding]:
    """List the findings of *severity* or worse."""
    reached = _SEVERITIES[: _SEVERITIES.index(severity) + 1]
    return [finding for finding in _findings_and_failures(document)[0] if finding.severity in reached]


def _findings_and_failures(document: Analysis | Several) -> tuple[list[Finding], list[RuleFailure]]:
    """Return all findings and failures, those of all ranks together included."""
    findings = [finding for analysis in analyses(document) for finding in analysis.findings]
    failures = [failure for analysis in analyses(document) for failure in analysis.verdicts.error]
    if isinstance(document, Several) and document.across is not None:
        findings += document.across.findings
        failures += document.across.verdicts.error
    return findings, failures


def unanswered(document: Analysis | Several, globs: Sequence[str]) -> list[str]:
    """Name, trace by trace, the rules that were asked after by *globs* and are in no prediction, and say why."""
    notes = []
    for analysis in analyses(document):
        priced = analysis.what_if.rules if analysis.what_if is not None else []
        for glob in globs:
            if not any(fnmatchcase(rule, glob) for rule in priced):
                fires = any(fnmatchcase(finding.rule, glob) for finding in analysis.findings)
                reason = "fires without a price that could be replayed" if fires else "does not fire"
                notes.append(f"{glob}: {reason} in {analysis.trace.path}")
    return notes
