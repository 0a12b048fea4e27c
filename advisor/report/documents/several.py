"""The report of several traces: an overview, each of them, and what only many ranks together show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.counting import counted
from advisor.privacy import file_names, folder_name
from advisor.ranks.at_length import at_length
from advisor.report import figures, ranks
from advisor.report.blocks import Block, Detail, Heading, Items, Paragraph, Span, Table
from advisor.report.documents import analysis as single
from advisor.report.documents import screen_of_ranks
from advisor.report.plain import percent
from advisor.results.analysis import Analysis
from advisor.results.ranks import Across
from advisor.results.several import Several


def blocks(document: Several, detail: Detail) -> Iterator[Block]:
    """Yield the whole report; where details fold away, what lies across comes before the traces."""
    if detail.screen:
        yield from screen_of_ranks.several(document, detail.width)
        return
    many = document.traces
    paths = [analysis.trace.path for analysis in many]
    names = file_names(paths) if detail.folds else paths
    lengthy = at_length(many, document.across)
    listed = list(range(len(many))) if detail.verbosity > 0 and not detail.folds else lengthy
    if len(many) > 1 and not detail.quiet:
        yield from _overview(document, [(names[index], many[index]) for index in listed], detail)
    if document.across and detail.folds:
        yield from _across(document.across, detail)
    for index in listed:
        yield from single.blocks(many[index], detail, names[index])
    if len(listed) < len(many):
        yield Heading("And the others", 2)
        yield Paragraph(ranks.untold(many, lengthy) + ("" if detail.folds else " -v shows each."))
    if document.across and not detail.folds:
        yield from _across(document.across, detail)


def _overview(document: Several, shown: Sequence[tuple[str, Analysis]], detail: Detail) -> Iterator[Block]:
    total = len(document.traces)
    folder = folder_name([analysis.trace.path for analysis in document.traces]) if detail.folds else ""
    title = (f"{folder}: " if folder else "") + counted(total, "trace")
    yield Heading(title + (f", of which {len(shown)} are shown" if total > len(shown) else ""), 1)
    rows = [
        (
            Span(name, "name"),
            figures.span(analysis.summary),
            percent(analysis.summary.gpu_busy_share),
            next((first.title if detail.folds else first.rule for first in analysis.findings), "no findings"),
        )
        for name, analysis in shown
    ]
    yield Table(("trace", "time", "GPU busy", "first finding"), rows, "<>><")


def _across(across: Across, detail: Detail) -> Iterator[Block]:
    yield Heading(ranks.heading(across), 1)
    if detail.quiet:
        yield from single.lines(across.findings)
        return
    yield ranks.table(across, detail)
    yield Paragraph(f"{ranks.legend(across)}.")
    yield Paragraph(ranks.clocks(across))
    for title, table in ranks.sections(across):
        yield Heading(title)
        yield table
    if across.findings:
        yield Heading(f"{figures.tally(across.findings)}, most valuable first")
        yield from single.short(across.findings) if detail.folds else ()
        yield from single.findings(across.findings, None, detail)
    elif across.verdicts.passes:
        yield Paragraph("No findings across the ranks.")
    yield from single.notes(across.quality, "What is missing across the ranks")
    if failed := single.failed(across.verdicts.error):
        yield Items(failed)
