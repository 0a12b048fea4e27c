"""Notebook output of an analysis and of a finding: a few blocks without scripts, every text escaped."""

from __future__ import annotations

import msgspec
from markupsafe import Markup

from advisor.report import figures
from advisor.report.blocks import Bar, Block, Detail, Fold, Heading, Paragraph, Span, Table
from advisor.report.documents import analysis as report
from advisor.report.figures import circumstances
from advisor.report.html import roofline
from advisor.report.html.document import fragment
from advisor.results.analysis import Analysis, Finding

_FIXES = 5
_BAR = 24
"""Characters of the longest bar."""


def analysis(result: Analysis) -> Markup:
    """Render the verdict, where the time goes as bars, the findings and the plan, and each finding with its fix, folded."""
    detail = Detail(folds=True, bars=True)
    blocks: list[Block] = [Paragraph((Span(result.trace.path), " · " + " · ".join(circumstances(result))))]
    blocks += report.opening(result)
    blocks += [_drawn(block) for block in report.causes(result.summary, detail)]
    blocks += report.short(result.findings) if result.findings else [Paragraph("No findings.")]
    blocks += report.plan(result.plan)
    real = [one for one in result.findings if one.severity != "note" and one.after is None]
    blocks += report.findings(real[:_FIXES], result.summary, Detail(folds=True), result.findings)
    blocks.append(Fold("Figures", list(report.headline(result))))
    picture = result.views.roofline if result.views is not None and figures.modelled(result.summary) else None
    if picture is None:
        return _body(blocks)
    text = roofline.caption(picture, figures.per(result.summary))
    return _body(blocks) + Markup("<div>{}<p>{}</p></div>").format(roofline.chart(picture), text)


def _drawn(block: Block) -> Block:
    """Return a table with its bars as text: what a notebook shows needs no style and no picture, and may be kept anywhere."""
    if not isinstance(block, Table):
        return block
    rows = [tuple(_bar(cell.share) if isinstance(cell, Bar) else cell for cell in row) for row in block.rows]
    return msgspec.structs.replace(block, rows=rows)


def _bar(share: float) -> str:
    eighths = round(8 * _BAR * min(max(share, 0.0), 1.0))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


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
