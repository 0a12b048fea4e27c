"""``-f gitlab``: the Code Quality report of GitLab, a list of issues that a merge request shows at their lines."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Literal

from advisor.report import Options, savings
from advisor.report.plain import clean
from advisor.results.analysis import Analysis, Finding, Place
from advisor.results.encoding import to_json
from advisor.results.several import Several

Level = Literal["info", "minor", "major", "critical", "blocker"]
_LEVELS: dict[str, Level] = {"high": "major", "medium": "minor", "low": "info"}


def render(document: Analysis | Several, _options: Options) -> bytes:
    """Write an issue a finding, those across ranks first; what several ranks share is one issue."""
    issues: list[dict[str, Any]] = []
    if isinstance(document, Several):
        if document.across is not None:
            issues += _issues(document.across.findings, document.traces[0].trace.path)
        for analysis in document.traces:
            issues += _issues(analysis.findings, analysis.trace.path)
    else:
        issues += _issues(document.findings, document.trace.path)
    return write(issues)


def write(issues: list[dict[str, Any]]) -> bytes:
    """Encode issues, each fingerprint once: GitLab tells issues by it."""
    return to_json(list({issue["fingerprint"]: issue for issue in reversed(issues)}.values())[::-1]) + b"\n"


def issue(rule: str, level: Level, text: str, place: Place | None, otherwise: str) -> dict[str, Any]:
    """Make one issue; *otherwise* is the file to show where no place is known."""
    known = place is not None and place.file
    line = place.line if known and place is not None and place.line and place.line > 0 else 1
    return {
        "description": clean(text),
        "check_name": clean(rule),
        "fingerprint": fingerprint(rule, place if known else None),
        "severity": level,
        "location": {
            "path": clean(relative((place.file if known and place is not None else None) or otherwise)),
            "lines": {"begin": line},
        },
    }


def fingerprint(rule: str, place: Place | None) -> str:
    """Hash rule, file and function, not the line or the figures: stable while the code around moves."""
    parts = [rule, (place.file or "") if place else "", (place.function or "") if place else ""]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


def relative(path: str) -> str:
    """Return a path without drive, root or way up, with slashes."""
    parts = re.split(r"[\\/]+", re.sub(r"^[A-Za-z]:", "", path))
    return "/".join(part for part in parts if part not in ("", ".", "..")) or "unknown"


def _issues(findings: list[Finding], path: str) -> list[dict[str, Any]]:
    issues = []
    for finding in findings:
        if finding.severity == "note" or finding.after is not None:
            continue
        place = next((place for place in finding.where if place.file), None)
        text = f"{finding.title} ({savings.saving(finding, findings)}) → {savings.words(finding)}"
        issues.append(issue(finding.rule, _LEVELS[finding.severity], text, place, path))
    return issues
