"""Aligned plain tables, and the cells of evidence in the units that their column names say."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.report.plain import NAME_WIDTH, clean, columns, kernel, number, pad, percent, shorten, size
from advisor.results.field import Cell

NARROWEST = 12
GAP = 2
ABSENT = "–"


def align(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[bool],
    width: int | None = None,
    widest: int = NAME_WIDTH,
) -> list[str]:
    """Lines of a table. Text is shortened in the middle to *widest*, and until a line fits *width*; figures never are."""
    widths = [max(columns(text) for text in column) for column in zip(header, *rows, strict=True)]
    widths = [wide if right[index] else min(wide, widest) for index, wide in enumerate(widths)]
    if width is not None:
        _fit(widths, right, width - GAP * (len(widths) - 1))

    def line(cells: Sequence[str]) -> str:
        parts = [
            pad(cell if right[index] else shorten(cell, widths[index]), widths[index], right[index])
            for index, cell in enumerate(cells)
        ]
        return (" " * GAP).join(parts).rstrip()

    return [line(header), *(line(row) for row in rows)]


def _fit(widths: list[int], right: Sequence[bool], room: int) -> None:
    """Take columns from the widest text until the sum fits *room*, or nothing wide is left."""
    while (excess := sum(widths) - room) > 0:
        texts = [index for index in range(len(widths)) if not right[index] and widths[index] > NARROWEST]
        if not texts:
            return
        widest = max(texts, key=lambda index: widths[index])
        below = max((widths[index] for index in texts if widths[index] < widths[widest]), default=NARROWEST)
        widths[widest] -= min(excess, max(1, widths[widest] - max(below, NARROWEST)))


def evidence(columns_: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> list[str]:
    """The table under a finding. Cells carry their unit, so headings drop it: ``dur_ns`` is ``dur``, in ms.

    A column of which nothing is known is left out.
    """
    known = [index for index in range(len(columns_)) if any(row[index] is not None for row in rows)] if rows else []
    if known:
        columns_, rows = [columns_[index] for index in known], [[row[index] for index in known] for row in rows]
    figures = [
        all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in column)
        for column in (zip(*rows, strict=True) if rows else [()] * len(columns_))
    ]
    cells = [[evidence_cell(name, value) for name, value in zip(columns_, row, strict=True)] for row in rows]
    return align([evidence_heading(name) for name in columns_], cells, figures, width)


_UNITS = ("_ns", "_us", "_ms", "_share", "_bytes", "_gbps")


def evidence_heading(column: str) -> str:
    """A column's name without the unit that its cells show."""
    for unit in _UNITS:
        if column.endswith(unit) and column != unit:
            return clean(column.removesuffix(unit)).replace("_", " ")
    return clean(column).replace("_", " ")


def evidence_cell(column: str, value: Cell) -> str:
    """One value, with the unit that its column's name says."""
    if value is None or value != value:  # NaN is what an unknown figure of a frame looks like
        return ABSENT
    if isinstance(value, str):
        return clean(kernel(value) if column == "name" else value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column.endswith("_ns"):
        return f"{number(value / 1e6)} ms"
    if column.endswith("_us"):
        return f"{number(value / 1e3)} ms"
    if column.endswith("_ms"):
        return f"{number(value)} ms"
    if column.endswith("share"):
        return percent(value)
    if column.endswith("bytes"):
        return size(value)
    if column.endswith("_gbps"):
        return f"{number(value)} GB/s"
    if isinstance(value, int):
        return ABSENT if value < 0 and column in ("line", "step", "device", "stream") else f"{value:,}"
    return number(value)
