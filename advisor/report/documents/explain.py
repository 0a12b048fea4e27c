"""All about one finding, or about each: its price and what that rests on, places, evidence, why, fix and caveat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from advisor.errors import UsageError, nearest
from advisor.report import blocks as doc
from advisor.report import figures
from advisor.report.documents import analysis as single
from advisor.results.analysis import Analysis, Finding, Summary
from advisor.results.several import Several

ALL = "all"


class Chosen(NamedTuple):
    """Findings of one trace, with their numbers, or of all ranks together, which have no summary."""

    heading: str
    summary: Summary | None
    findings: list[Finding]
    others: list[Finding]


def choose(document: Analysis | Several, what: str) -> list[Chosen]:
    """Choose findings by their number, as the screen has it, or their rule; of several traces a number is that of all ranks'.

    Raises ``UsageError`` where there is no such finding.
    """
    groups = _groups(document)
    number = int(what) if what.isascii() and what.isdigit() and len(what) < 5 else None
    if number is not None and isinstance(document, Several):
        groups = groups[:1]
    found = [
        group._replace(findings=chosen)
        for group in groups
        if (
            chosen := [
                finding
                for index, finding in enumerate(group.others, 1)
                if what == ALL or index == number or what in (finding.rule, finding.rule.partition("/")[2])
            ]
        )
    ]
    if found or what == ALL:
        return found
    rules = {finding.rule for group in groups for finding in group.others}
    if number is not None:
        most = len(groups[0].others) if groups else 0
        raise UsageError(f"--explain {what}: there {'is' if most == 1 else 'are'} {most} here; give a number or a rule")
    raise UsageError(f"--explain {what}: no finding of this rule here{nearest(what, rules)}")


def _groups(document: Analysis | Several) -> list[Chosen]:
    if isinstance(document, Analysis):
        return [Chosen("", document.summary, [], document.findings)]
    across = [] if document.across is None else [Chosen("across the ranks", None, [], document.across.findings)]
    return across + [Chosen(one.trace.path, one.summary, [], one.findings) for one in document.traces]


def blocks(document: Analysis | Several, detail: doc.Detail, what: str) -> Iterator[doc.Block]:
    """Yield the chosen findings, each whole."""
    chosen = choose(document, what)
    if not chosen:
        yield doc.Paragraph(f"{figures.tally([])}, so there is none to explain.")
    for group in chosen:
        if group.heading:
            yield doc.Heading(doc.Span(group.heading, "code"), 1)
        for finding in group.findings:
            number = group.others.index(finding) + 1
            yield from single.whole(finding, number, group.summary, detail, group.others)
