"""Notebook output of an analysis and of a finding: a few blocks without scripts, every text escaped."""

from __future__ import annotations

from markupsafe import Markup

from advisor.report.blocks import Block, Detail, Fold, Heading, Paragraph, Span
from advisor.report.documents import analysis as report
from advisor.report.figures import circumstances
from advisor.report.html.document import fragment
from advisor.results.analysis import Analysis, Finding


def analysis(result: Analysis) -> Markup:
    """Render the headline, the causes and a line a finding."""
    blocks: list[Block] = [Paragraph((Span(result.trace.path), " · " + " · ".join(circumstances(result))))]
    blocks += [*report.opening(result), *report.headline(result)]
    blocks += report.causes(result.summary, Detail(folds=True))
    blocks += report.short(result.findings) if result.findings else [Paragraph("No findings.")]
    return _body(blocks)


def finding(result: Finding) -> Markup:
    """Render one finding with its evidence and its fix."""
    blocks: list[Block] = []
    for block in report.findings([result], None, Detail(folds=True)):
        blocks += [Paragraph(block.title), *block.blocks] if isinstance(block, Fold) else [block]
    return _body(blocks)


def _body(blocks: list[Block]) -> Markup:
    """Return blocks without headings, which would be among the notebook's own."""
    plain = [Paragraph(block.text) if isinstance(block, Heading) else block for block in blocks]
    return Markup("<div>{}</div>").format(fragment(plain))
