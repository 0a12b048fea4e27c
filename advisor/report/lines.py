"""Lines of a screen: composed as wide as the terminal, with nothing cut in its middle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from advisor.report import blocks as doc
from advisor.report.plain import clean, columns, wrap

MARGIN = 10
NARROW = 80
"""Columns from which on the page keeps its number of lines; below, a fifth as many more are allowed."""
DOT = " · "
Line = tuple[doc.Piece, ...]


def paragraphs(texts: Iterable[str], width: int) -> list[Line]:
    """Return the lines of texts, each from a line of its own."""
    return [line for text in texts if text for line in wrapped(text, width)]


def filled(first: str, parts: Sequence[str], width: int) -> list[Line]:
    """Join parts with commas, in lines that are full; each but the first is set in."""
    comma = "," if len(parts) > 1 else ""
    if columns(first + parts[0] + comma) <= width:
        lines = [first + parts[0]]
    else:
        lines = [first.rstrip(), f"    {parts[0]}"]
    for part in parts[1:]:
        if columns(lines[-1]) + columns(part) + len(", ,") <= width:
            lines[-1] += f", {part}"
        else:
            lines = [*lines[:-1], f"{lines[-1]},", f"    {part}"]
    return [(line,) for line in lines]


def wrapped(text: str, width: int, style: doc.Style | None = None) -> list[Line]:
    """Wrap a text; the lines behind its first are set in. No text is no line."""
    text = clean(text)
    if not text:
        return []
    first, *rest = wrap(text, width) or [""]
    lines = [first, *(f"    {line}" for line in wrap(" ".join(rest), width - 4))]
    return [(doc.Span(line, style) if style else line,) for line in lines]
