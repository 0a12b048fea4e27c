"""What a report of the gate is divided into; text and Markdown show the same."""

from __future__ import annotations

from typing import NamedTuple

from advisor.results.judgement import Check, Judgement

VERDICT = {"passed": "PASSED", "failed": "FAILED", "inconclusive": "INCONCLUSIVE"}


class Section(NamedTuple):
    """Checks under one heading. ``folded`` ones are counted, and listed only where everything is asked for."""

    heading: str
    checks: list[Check]
    folded: bool = False


def sections(judgement: Judgement) -> list[Section]:
    """The checks by what they mean for the verdict; every check is in exactly one section."""

    def chosen(outcome: str, counts: bool | None = None) -> list[Check]:
        return [c for c in judgement.checks if c.outcome == outcome and counts in (None, c.counts)]

    open_ = chosen("inconclusive", counts=False)
    made = [
        Section("Regressions", chosen("regression", counts=True)),
        Section("Inconclusive", chosen("inconclusive", counts=True)),
        Section("Grew, and does not count", chosen("regression", counts=False)),
        Section("Improvements", chosen("improvement")),
        Section("No answer, and does not count", [check for check in open_ if check.now is not None]),
        Section(
            "Could not be judged, and does not count", [check for check in open_ if check.now is None], folded=True
        ),
        Section("The same", chosen("same"), folded=True),
    ]
    return [section for section in made if section.checks]


def told(check: Check) -> str:
    """The line of a check, with its waiver."""
    return f"{check.message}; waived: {check.waiver}" if check.waiver else check.message


def counts(judgement: Judgement) -> str:
    """How many checks came to what: ``74 checks: 1 regression, 60 the same …``."""
    found = [
        f"{len(section.checks)} {section.heading[0].lower()}{section.heading[1:]}" for section in sections(judgement)
    ]
    many = len(judgement.checks)
    return f"{many} check{'s' * (many != 1)}" + (f": {'; '.join(found)}" if found else "")


def meant(judgement: Judgement) -> str:
    """What the command that updates the baseline is for."""
    return "If this is meant, make it the baseline" if judgement.verdict == "failed" else "To make this the baseline"
