"""Notebook output of an analysis, of a finding and of a trace: a few blocks without scripts, every text escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from markupsafe import Markup

from advisor.counting import counted
from advisor.frames import SCHEMAS
from advisor.report import figures
from advisor.report.blocks import Bar, Block, Detail, Facts, Fold, Heading, Items, Paragraph, Span, Table
from advisor.report.documents import analysis as report
from advisor.report.figures import circumstances
from advisor.report.html import roofline
from advisor.report.html.document import fragment
from advisor.report.plain import milliseconds
from advisor.report.redact import base_name
from advisor.results.analysis import Analysis, Finding

if TYPE_CHECKING:
    from advisor.trace import Trace

_FIXES = 5
_BAR = 24
"""Characters of the longest bar."""


def analysis(result: Analysis) -> Markup:
    """Render the verdict, where the time goes as bars, the findings and the plan, and each finding with its fix, folded."""
    detail = Detail(folds=True, bars=True)
    blocks: list[Block] = [Paragraph((Span(base_name(result.trace.path)), " · " + " · ".join(circumstances(result))))]
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


def trace(read: Trace) -> Markup:
    """Render what a file holds and what is wrong with it; folded, the frames to ask, of which only that of the devices is built."""
    names = [name or "a GPU of no name" for name in read.columns("devices")["name"]]
    steps = counted(read.steps_recorded, "step") if read.steps_recorded else "no steps"
    length = f"step {milliseconds(read.step_ms)}" if read.step_ms else f"window {milliseconds(read.window_ns / 1e6)}"
    told = [*dict.fromkeys(names or ["no work of a GPU"]), steps, length, counted(read.events, "event")]
    blocks: list[Block] = [
        Paragraph((Span(base_name(read.path), "strong"), " · " + " · ".join(told))),
        Facts([("recorded", ", ".join(sorted(read.features)) or "nothing to judge a program by")]),
    ]
    if read.quality:
        blocks.append(Items([note.message for note in read.quality], [note.advice for note in read.quality]))
    rows = [(Span(name, "code"), schema.row) for name, schema in SCHEMAS.items()]
    frames = Table(("frame", "one row is"), rows, "|~")
    ask = Paragraph(
        ("Ask them by ", Span("trace.query(sql)", "code"), ", or take one as ", Span("trace.kernels", "code"))
    )
    blocks.append(Fold(f"{len(rows)} frames", [ask, frames]))
    return _body(blocks)


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
