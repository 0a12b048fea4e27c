"""The answer of the gate: the verdict first, then what grew, then the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from advisor.counting import counted
from advisor.privacy import file_names
from advisor.report.blocks import Block, Code, Detail, Fold, Heading, Items, Paragraph, Span, Style
from advisor.report.documents import division
from advisor.results.judgement import Check, Judgement

VERDICT = {"passed": "PASSED", "failed": "FAILED", "inconclusive": "INCONCLUSIVE"}
_SIGN = {"passed": "✅", "failed": "❌", "inconclusive": "❔"}
_STYLE: dict[str, Style] = {"passed": "good", "failed": "bad", "inconclusive": "fair"}
_SAME = "The same"
_STEP = ("step_ms", "step_mean_ms")
_PARTS = 5
"""Parts that are said of a regression where there is room for a message alone."""


class Section(NamedTuple):
    """Checks under one heading. Those that are ``important`` are never folded away; ``folded`` ones only counted."""

    heading: str
    checks: list[Check]
    important: bool = False
    folded: bool = False


def sections(judgement: Judgement) -> list[Section]:
    """Return the checks by what they mean for the verdict; every check is in exactly one section."""

    def chosen(outcome: str, counts: bool | None = None) -> list[Check]:
        return [c for c in judgement.checks if c.outcome == outcome and counts in (None, c.counts)]

    open_ = chosen("inconclusive", counts=False)
    groups = [
        Section("Regressions", chosen("regression", counts=True), important=True),
        Section("Inconclusive", chosen("inconclusive", counts=True), important=True),
        Section("Grew (ignored)", chosen("regression", counts=False)),
        Section("Improvements", chosen("improvement")),
        Section("Inconclusive (ignored)", [check for check in open_ if check.now is not None]),
        Section("Not judged, for lack of data (ignored)", [check for check in open_ if check.now is None], folded=True),
        Section(_SAME, chosen("same"), folded=True),
    ]
    return [section for section in groups if section.checks]


def line_of(check: Check) -> str:
    """Return the line of a check, with its waiver."""
    return f"{check.message}; waived: {check.waiver}" if check.waiver else check.message


def lines_of(check: Check, judgement: Judgement) -> list[str]:
    """Return the line of a check, and below that of the step the parts of the program that made it longer."""
    found = [line_of(check)]
    if check.name in _STEP and check.outcome == "regression" and judgement.division is not None:
        found += division.lines(judgement.division, _PARTS)
    return found


def counts(judgement: Judgement) -> str:
    """Count the checks by outcome: ``74 checks: 1 regression, 60 the same …``."""
    parts = [_counted(section) for section in sections(judgement)]
    return counted(len(judgement.checks), "check") + (f": {'; '.join(parts)}" if parts else "")


def _counted(section: Section) -> str:
    name = f"{section.heading[0].lower()}{section.heading[1:]}"
    return counted(len(section.checks), name.removesuffix("s"), name)


def blocks(judgement: Judgement, detail: Detail) -> Iterator[Block]:
    """Yield the whole answer; the verdict and the command that updates the baseline where the least is asked for."""
    verdict, label = judgement.verdict, f" (workload {judgement.workload})" if judgement.workload else ""
    if detail.folds:
        yield Heading(f"{_SIGN[verdict]} advisor gate: {VERDICT[verdict].lower()}")
        yield Paragraph(Span(judgement.headline))
    else:
        yield Paragraph((Span(VERDICT[verdict], _STYLE[verdict]), f": {judgement.headline}"), wrap=False)
    if not detail.quiet:
        against = f" against {judgement.baseline}" if judgement.baseline else ""
        names = file_names(judgement.traces) if detail.folds else judgement.traces
        yield Paragraph(f"{', '.join(names)}{against}{label}", wrap=False)
        yield Paragraph(counts(judgement), wrap=False)
        yield from division.blocks(judgement.division, detail, failed=judgement.verdict == "failed")
        if judgement.undivided:
            yield Paragraph(f"Not divided: {judgement.undivided}.")
        for section in sections(judgement):
            if section.heading != _SAME or detail.verbosity > 0:
                yield from _section(section, detail)
        if judgement.incomparable:
            yield Heading("Not alike", 3)
            yield Items([f"not alike: {reason}" for reason in judgement.incomparable])
    if judgement.update:
        purpose = "If this is meant, make it the baseline" if verdict == "failed" else "To make this the baseline"
        if detail.quiet:
            yield Paragraph(f"{purpose}: {judgement.update}", wrap=False)
        else:
            yield from (Heading(purpose, 3), Code(judgement.update))


def _section(section: Section, detail: Detail) -> Iterator[Block]:
    items = Items([line_of(check) for check in section.checks])
    if detail.folds and not section.important:
        yield Fold(f"{section.heading} ({len(section.checks)})", [items])
        return
    yield Heading(section.heading, 3)
    notes = {check.note for check in section.checks}
    alike = section.heading == "Inconclusive (ignored)" and len(notes) == 1
    if detail.verbosity < 1 and alike:
        names = ", ".join(check.name for check in section.checks)
        items = Items([f"{names}: {''.join(notes)}"])
    elif detail.verbosity < 1 and section.folded:
        reasons = Counter(check.note or "no data" for check in section.checks).most_common()
        yield Items([f"{count}: {reason}" for reason, count in reasons])
        yield Paragraph("-v names them.")
        return
    yield items
