"""``-f markdown``: any document for a pull request or the summary of a job, of at most 60 kB.

Text of traces stands in code spans, where nothing of it is a link, a mention or markup; all other text is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from advisor.regex import regex
from advisor.report import Options
from advisor.report import blocks as doc
from advisor.report.documents import build
from advisor.report.plain import clean, clean_lines, link, shorten
from advisor.report.spark import sparkline

MOST_BYTES = 60_000
"""A comment on GitHub holds 65,536 characters."""
LONGEST = 160
_ZERO = "\u200b"  # parts what would else be a mention or a link
_SIGNS = regex(r"[\\`*\[\]~|$]|(?<![^\W_])_|_(?![^\W_])")
_BLOCK = regex(r"^([-+#=]|\d+(?=[.)](?:\s|$)))")
_LINKS = regex(r"(?<=:)(?=//)|(?<=\bwww)(?=\.)|(?<=@)|(?<=#)(?=\d)|(?<=\bGH-)(?=\d)", re.IGNORECASE)
_QUOTED = regex(r"`([^`\n]+)`")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def render(document: object, options: Options) -> str:
    """Render the report of a document; what no longer fits is left out from the end, and that is said."""
    return draw(build(document, doc.Detail(options.verbosity, folds=True)))


def draw(blocks: Sequence[doc.Block]) -> str:
    """Draw any blocks as Markdown."""
    return _fitted([_block(block) for block in blocks])


def _fitted(blocks: Sequence[str]) -> str:
    """Return blocks, parted by blank lines, as far as they fit: details give way to what is not folded."""
    left_out = "_The rest is left out: a comment holds no more. Render HTML or text for the whole._"
    room = MOST_BYTES - len(left_out.encode()) - 3
    sizes = [len(block.encode("utf-8")) + 2 for block in blocks]
    chosen = set()
    for folded in (False, True):
        for index, block in enumerate(blocks):
            if block.startswith("<details>") is not folded:
                continue
            room -= sizes[index]
            if room < 0:
                break
            chosen.add(index)
    texts = [block for index, block in enumerate(blocks) if index in chosen]
    return "\n\n".join(texts if len(texts) == len(blocks) else [*texts, left_out]) + "\n"


def plain(text: str) -> str:
    """Return *text* as it is: no markup, no HTML, no link and no mention comes of it."""
    return _BLOCK.sub(_escaped, _SIGNS.sub(lambda match: "\\" + match[0], html(text)))


def _escaped(match: re.Match[str]) -> str:
    return match[0] + _ZERO if match[0].isdigit() else "\\" + match[0]


def html(text: str) -> str:
    """Return *text* where Markdown does not reach, such as a summary: no HTML, no link and no mention comes of it."""
    return _LINKS.sub(_ZERO, " ".join(clean(text).split()).translate(_ENTITIES))


def code(text: str, *, cell: bool = False) -> str:
    """Return *text* of a trace as a code span; in a cell of a table what parts cells is escaped."""
    flat = shorten(" ".join(clean(text[: 20 * LONGEST]).split()), LONGEST)
    if cell:
        flat = re.sub(r"(?<!\\)\\+(?=\|)", "", flat).replace("|", "\\|")
    if not flat:
        return "–"
    ticks = "`" * (max((len(run) for run in re.findall("`+", flat)), default=0) + 1)
    pad = " " if flat[0] == "`" or flat[-1] == "`" else ""
    return f"{ticks}{pad}{flat}{pad}{ticks}"


def inline(text: doc.Text, *, cell: bool = False) -> str:
    """Return a text with its spans; bars are for other formats."""
    return "".join(_piece(piece, cell) for piece in doc.pieces(text))


def _piece(piece: doc.Piece, cell: bool) -> str:
    if isinstance(piece, doc.Bar):
        return ""
    if isinstance(piece, str):
        parts = _QUOTED.split(piece)  # prose, what stands between backticks in it code
        return "".join(code(part, cell=cell) if at % 2 else _prose(part) for at, part in enumerate(parts))
    if piece.style in ("code", "name", "path"):
        return code(piece.text, cell=cell)
    text = plain(piece.text)
    if link(piece.url):
        return f"[{text}](<{piece.url}>)"
    return f"**{text}**" if piece.style == "strong" and text else text


def _prose(text: str) -> str:
    """Return a part of a sentence; escaping takes the blanks around it."""
    return " " * text[:1].isspace() + plain(text) + " " * text[-1:].isspace() if text.strip() else text[:1]


def _summary(title: doc.Text) -> str:
    """Return the title of what is folded: HTML, in which no span is Markdown."""
    return html(
        "".join(
            piece if isinstance(piece, str) else piece.text
            for piece in doc.pieces(title)
            if not isinstance(piece, doc.Bar)
        )
    )


def _block(block: doc.Block) -> str:
    match block:
        case doc.Heading():
            heading = f"{'#' * (block.level + 1)} {inline(block.text)}"
            return f"{heading}\n\n{inline(block.aside)}" if block.aside else heading
        case doc.Paragraph():
            return inline(block.text)
        case doc.Facts():
            rows = [(f"\n- {plain(label)}: " if label else "  \n  ") + inline(text) for label, text in block.rows]
            return "".join(rows).lstrip("\n")
        case doc.Items():
            lines = [f"- {inline(item)}" + (f"  \n  {inline(more)}" if more else "") for item, more in block.pairs()]
            return "\n".join(lines)
        case doc.Table():
            return _table(block)
        case doc.Code():
            return (f"{plain(block.label)}:\n\n" if block.label else "") + _fence(
                clean_lines(block.text), block.language
            )
        case doc.Charts():
            return "\n".join(
                f"- {inline(chart.label)} {sparkline(chart)} {plain(chart.last)}" for chart in block.charts
            )
        case doc.Fold():
            inside = [_block(inner) for inner in block.blocks]
            return "\n\n".join([f"<details><summary>{_summary(block.title)}</summary>", *inside, "</details>"])


def _fence(lines: Sequence[str], language: str) -> str:
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    ticks = "`" * max(3, longest + 1)
    return "\n".join([ticks + language, *lines, ticks])


def _table(table: doc.Table) -> str:
    """Return a table of pipes; notes stand in a column of their own."""
    more = [table.notes] if any(table.notes) else []
    rows = [
        [inline(cell, cell=True) for cell in (*row, *(notes[index] for notes in more))]
        for index, row in enumerate(table.rows)
    ]
    signs = ["---:" if sign == ">" else "---" for sign in table.align] + ["---"] * len(more)
    lines = [[*map(plain, table.head), *[""] * len(more)], signs, *rows]
    text = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    return f"{text}\n\n{inline(table.caption)}" if table.caption else text
