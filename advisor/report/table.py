"""Aligned plain tables, and the cells of evidence in the units that their column names say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from advisor.report.blocks import Span, Table, Text
from advisor.report.plain import (
    NAME_WIDTH,
    clean,
    columns,
    kernel,
    milliseconds,
    number,
    pad,
    percent,
    shorten,
    size,
    wrap,
)
from advisor.results.analysis import Evidence
from advisor.results.field import Cell

GAP = 2
ABSENT = "–"
# What columns of a kind are cut to where a table does not fit: prose first, which wraps.
_LEAST = (("~", 32), ("<", 20), ("~", 12), ("<", 12))


def align(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[bool],
    width: int | None = None,
    widest: int = NAME_WIDTH,
) -> list[str]:
    """Return lines of a table. Text is shortened in the middle to *widest*, and until a line fits *width*; figures never are."""
    signs = "".join("<>"[figures] for figures in right)
    grid = layout([header, *rows], signs, width, widest)
    return [(" " * GAP).join(line).rstrip() for lines in grid for line in lines]


def layout(
    rows: Sequence[Sequence[str]], align: str, width: int | None = None, widest: int = NAME_WIDTH
) -> Iterator[list[tuple[str, ...]]]:
    """Yield each row as lines of padded cells; *align* is that of :class:`~advisor.report.blocks.Table`."""
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    widths = [min(wide, widest) if sign == "<" else wide for wide, sign in zip(widths, align, strict=True)]
    if width is not None:
        _fit(widths, align, width - GAP * (len(widths) - 1))
    for row in rows:
        cells = [
            wrap(cell, wide) if sign == "~" else [shorten(cell, wide) if sign == "<" else cell]
            for cell, wide, sign in zip(row, widths, align, strict=True)
        ]
        yield [
            tuple(pad(text, wide, right=sign == ">") for text, wide, sign in zip(line, widths, align, strict=True))
            for line in zip_longest(*cells, fillvalue="")
        ]


def _fit(widths: list[int], align: str, room: int) -> None:
    """Take columns from the widest text until the sum fits *room*, or nothing wide is left."""
    for sign, least in _LEAST:
        while (excess := sum(widths) - room) > 0:
            texts = [index for index in range(len(widths)) if align[index] == sign and widths[index] > least]
            if not texts:
                break
            widest = max(texts, key=lambda index: widths[index])
            below = max((widths[index] for index in texts if widths[index] < widths[widest]), default=least)
            widths[widest] -= min(excess, max(1, widths[widest] - max(below, least)))


def evidence(content: Evidence, caption: str = "") -> Table:
    """Return the table under a finding. Cells carry their unit, so heads drop it: ``dur_ns`` is ``dur``, in ms.

    A column of which nothing is known is left out.
    """
    known = [
        (name, values)
        for name, *values in zip(content.columns, *content.rows, strict=True)
        if any(value is not None for value in values)
    ]
    cells = [[_cell(name, value) for value in values] for name, values in known]
    signs = ["<" if any(isinstance(value, str | bool) for value in values) else ">" for _, values in known]
    heads = [evidence_heading(name) for name, _ in known]
    return Table(heads, list(zip(*cells, strict=True)), "".join(signs), caption=caption)


def _cell(name: str, value: Cell) -> Text:
    text = evidence_cell(name, value)
    return Span(text, "name") if isinstance(value, str) else text


_UNITS = ("_ns", "_us", "_ms", "_share", "_bytes", "_gbps")


def evidence_heading(column: str) -> str:
    """Return a column's name without the unit that its cells show."""
    for unit in _UNITS:
        if column.endswith(unit) and column != unit:
            return clean(column.removesuffix(unit)).replace("_", " ")
    return clean(column).replace("_", " ")


def evidence_cell(column: str, value: Cell) -> str:
    """Return one value, with the unit that its column's name says."""
    if value is None or value != value:  # NaN is what an unknown figure of a frame looks like
        return ABSENT
    if isinstance(value, str):
        return clean(kernel(value) if column == "name" else value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column.endswith("_ns"):
        return milliseconds(value / 1e6)
    if column.endswith("_us"):
        return milliseconds(value / 1e3)
    if column.endswith("_ms"):
        return milliseconds(value)
    if column.endswith("share"):
        return percent(value)
    if column.endswith("bytes"):
        return size(value)
    if column.endswith("_gbps"):
        return f"{number(value)} GB/s"
    if isinstance(value, int):
        return ABSENT if value < 0 and column in ("line", "step", "device", "stream") else f"{value:,}"
    return number(value)
