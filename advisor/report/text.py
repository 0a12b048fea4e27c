"""``-f text``: any document for a terminal or a log, with ANSI colours only where they are asked for.

Every text goes through ``plain.clean``: text of a trace is data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from advisor.report import Options
from advisor.report import blocks as doc
from advisor.report.documents import build, explain
from advisor.report.plain import clean, clean_lines, pad, shorten, wrap
from advisor.report.spark import sparkline
from advisor.report.table import GAP, layout
from advisor.results.analysis import Analysis
from advisor.results.several import Several

BAR = 30
"""Columns of a bar of the whole, where a quarter of a line is as wide."""
_LONGEST_PATH = 300
"""Columns of a path, which stands on a line of its own where it does not fit: one that is longer is nobody's."""
_SGR: dict[str, str] = {
    "strong": "1", "dim": "2", "note": "2", "low": "36", "code": "36", "name": "36", "path": "36",
    "good": "32", "fair": "33", "medium": "33", "bad": "1;31", "high": "1;31",
}  # fmt: skip


def render(document: object, options: Options) -> str:
    """Render the report of a document, or what is to be explained of it; on a terminal its places are links."""
    if options.explain and isinstance(document, Analysis | Several):
        drawn = draw(list(explain.blocks(document, doc.Detail(1, bars=True), options.explain)), options)
    else:
        drawn = draw(build(document, doc.Detail(options.verbosity, bars=True, width=options.width)), options)
    if options.color and isinstance(document, Analysis | Several):
        drawn = _linked(drawn, document, Path(options.source_root or ".").resolve())
    return drawn


def _linked(drawn: str, document: Analysis | Several, root: Path) -> str:
    """Return a text whose places in files below *root* a terminal opens (OSC 8); no other file is looked for."""
    traces = document.traces if isinstance(document, Several) else [document]
    findings = [found for one in traces for found in one.findings]
    if isinstance(document, Several) and document.across is not None:
        findings += document.across.findings
    named = {place.file for found in findings for place in found.where if place.file}
    urls = {clean(name): path.as_uri() for name in named if (path := _below(root, name)) is not None}
    if not urls:
        return drawn
    names = "|".join(map(re.escape, sorted(urls, key=len, reverse=True)))
    return re.sub(
        rf"(?<![\w./\\-])({names}):\d+",
        lambda match: f"\x1b]8;;{urls[match[1]]}\x1b\\{match[0]}\x1b]8;;\x1b\\",
        drawn,
    )


def _below(root: Path, name: str) -> Path | None:
    """Return the file of that name below *root*; a name from a trace that leads anywhere else is not followed."""
    path = Path(os.path.normpath(root / name))
    try:
        if path.is_relative_to(root) and path.resolve().is_relative_to(root) and path.is_file():
            return path
    except (OSError, ValueError):
        pass
    return None


def draw(blocks: Sequence[doc.Block], options: Options) -> str:
    """Draw any blocks as lines of text."""
    page = _Page(options)
    page.draw(blocks)
    return "\n".join(page.lines).lstrip("\n") + "\n"


class _Page:
    """Lines in the making, of one width and with or without colour."""

    def __init__(self, options: Options) -> None:
        self.lines: list[str] = []
        self.width, self.color = options.width, options.color
        self.rule = self.paint("═" * options.width, "dim") if options.verbosity >= 0 else ""

    def draw(self, blocks: Sequence[doc.Block], indent: int = 0) -> None:
        """Draw blocks one below the other; a table with heads stands apart."""
        before: doc.Block | None = None
        for block in blocks:
            match block:
                case doc.Heading(level=1):
                    self.lines += ["", self.rule] if self.lines and self.rule else [""]
                    indent = 0
                case doc.Heading():
                    self.lines.append("")
                    indent = 2
                case doc.Fold():
                    self.lines.append("")
                case _ if _apart(before, block):
                    self.lines.append("")
            self.block(block, indent)
            before = block

    def block(self, block: doc.Block, indent: int) -> None:
        """Draw one block."""
        margin = " " * indent
        match block:
            case doc.Heading() if block.level > 1:
                self.wrapped(doc.Span(flat(block.text)), "", "    ")
            case doc.Heading():
                title = doc.joined([part for part in (block.text, block.aside) if part], " · ")
                self.lines.append(self.paint(flat(title, self.width), "strong"))
            case doc.Paragraph(wrap=False):
                self.lines.append(
                    margin + "".join(self.paint(flat(piece), style(piece)) for piece in doc.pieces(block.text))
                )
            case doc.Paragraph():
                self.wrapped(block.text, margin, margin)
            case doc.Facts():
                for label, fact in block.rows:
                    first = margin + self.paint(pad(clean(label), block.room), "dim")
                    self.wrapped(fact, first, margin + " " * block.room)
            case doc.Items():
                for item, more in block.pairs():
                    self.wrapped(item, margin + "- ", margin + "  ")
                    self.wrapped(more, margin + "  → ", margin + "    ")
            case doc.Table():
                self.table(block, margin)
            case doc.Code():
                if block.label:
                    self.lines.append(margin + self.paint(clean(block.label), "dim"))
                    margin += "  "
                self.lines += [f"{margin}{self.paint(line, block.style)}".rstrip() for line in clean_lines(block.text)]
            case doc.Charts():
                rows = [(chart.label, sparkline(chart), chart.last) for chart in block.charts]
                self.table(doc.Table(("", "", ""), rows, "||>", silent=True), margin)
            case doc.Fold():
                self.block(doc.Paragraph(block.title, wrap=False), 0)
                self.draw(block.blocks, 4)

    def table(self, block: doc.Table, margin: str) -> None:
        """Draw rows of aligned cells, heads dim."""
        head: list[Sequence[doc.Text]] = [] if block.silent else [[doc.Span(name, "dim") for name in block.head]]
        rows = [*head, *block.rows]
        grid = layout([[flat(cell, self.width) for cell in row] for row in rows], block.align, self.width - len(margin))
        notes = [""] * len(head) + [*block.notes]
        for index, (row, lines) in enumerate(zip(rows, grid, strict=True)):
            for line in lines:
                cells = [self.paint(text, style(cell)) for text, cell in zip(line, row, strict=True)]
                self.lines.append((margin + (" " * GAP).join(cells)).rstrip())
            if index < len(notes) and notes[index]:
                self.lines.append(margin + "   " + self.paint(clean(notes[index]), "dim"))
        if block.caption:
            self.wrapped(doc.Span(flat(block.caption), "dim"), margin, margin)

    def wrapped(self, text: doc.Text, first: str, rest: str) -> None:
        """Draw a text that begins behind *first* and goes on behind *rest*, its spans in their colours."""
        room = max(20, self.width - len(rest))
        lines = wrap(flat(text, room), room)
        if self.color:
            marks = iter(
                [style(piece) for piece in doc.pieces(text) for sign in flat(piece, room) if not sign.isspace()]
            )
            lines = [self._marked(line, marks) for line in lines]
        self.lines += [(rest if index else first) + line for index, line in enumerate(lines)]

    def _marked(self, line: str, marks: Iterator[doc.Style | None]) -> str:
        last: doc.Style | None = None
        signs = [(sign, last := last if sign.isspace() else next(marks, None)) for sign in line]
        runs = groupby(signs, key=lambda pair: pair[1])
        return "".join(self.paint("".join(sign for sign, _ in run), mark) for mark, run in runs)

    def paint(self, text: str, mark: doc.Style | None) -> str:
        """Colour *text*, where colours are wanted; blanks around it have none."""
        core = text.strip()
        if not (self.color and core and mark in _SGR):
            return text
        before, _, after = text.partition(core)
        return f"{before}\x1b[{_SGR[mark]}m{core}\x1b[0m{after}"


def _apart(before: doc.Block | None, block: doc.Block) -> bool:
    """Tell whether a blank line parts two blocks: around a table with heads, and before any table below a title or prose."""
    if before is None or (isinstance(before, doc.Heading) and before.level > 1):
        return False
    if isinstance(before, doc.Heading | doc.Paragraph) and isinstance(block, doc.Table):
        return True
    if isinstance(before, doc.Heading):
        return False
    return any(isinstance(other, doc.Table) and not other.silent for other in (before, block))


def style(piece: doc.Text) -> doc.Style | None:
    """Return the style of a piece, or of all of a cell."""
    return piece.style if isinstance(piece, doc.Span | doc.Bar) else None


def flat(text: doc.Text, room: int | None = None) -> str:
    """Return a text without its styles, safe for a terminal; names that do not fit *room* are cut in their middle."""
    return clean("".join(_flat(piece, room) for piece in doc.pieces(text)))


def _flat(piece: doc.Piece, room: int | None) -> str:
    if isinstance(piece, doc.Bar):
        return _bar(piece.share, min(BAR, (room or 0) // 4))
    if isinstance(piece, str):
        return clean(piece)
    text = clean(piece.text)
    if piece.url:
        return f"{text}: {clean(piece.url)}"
    if piece.style == "path":
        return _cut(text)
    return shorten(text, room) if piece.style == "name" and room else text


def _cut(frame: str) -> str:
    """Return a stack frame whose path is whole, to be opened and searched for; the name of a function may be cut."""
    path, colon, rest = frame.partition(":")
    return shorten(path, _LONGEST_PATH) + shorten(colon + rest)


def _bar(share: float, wide: int) -> str:
    """Return a bar to the eighth of a column; whatever is there at all shows."""
    eighths = max(1, round(8 * wide * share))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
