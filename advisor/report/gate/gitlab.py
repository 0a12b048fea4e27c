"""``-f gitlab``: what grew, as the Code Quality report of GitLab, which a merge request shows at its lines."""

from __future__ import annotations

from typing import Any

from advisor.report import Options
from advisor.report.documents.judgement import line_of
from advisor.report.gitlab import Level, issue, write
from advisor.results.judgement import Check, Judgement


def render(judgement: Judgement, _options: Options) -> bytes:
    """Write an issue a check that grew or has no answer and counts; what is waived is no issue."""
    return write([_issue(check, judgement) for check in judgement.checks if not check.waiver and _told(check)])


def _told(check: Check) -> bool:
    return check.outcome == "regression" or (check.outcome == "inconclusive" and check.counts)


def _issue(check: Check, judgement: Judgement) -> dict[str, Any]:
    level: Level = "info" if check.outcome != "regression" else "critical" if check.counts else "minor"
    place = next((place for place in check.where if place.file), None)
    return issue(check.name, level, line_of(check), place, judgement.baseline or judgement.settings)
