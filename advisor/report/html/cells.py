"""Cells of the page's tables: what is shown, and what they are sorted by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from advisor.report.page import cut
from advisor.report.plain import number, percent
from advisor.report.table import ABSENT
from advisor.results.field import Cell
from advisor.results.views import Grid, Heading

LONGEST_CELL = 400
DEEPEST = 12
LONG = 40


class Shown(NamedTuple):
    """A cell: its text, and the figure behind it; None for text."""

    text: str
    value: int | float | None


class Row(NamedTuple):
    """A row of a table. ``parent`` and ``depth`` place it in a tree; -1 and 0 where there is none above it."""

    cells: list[Shown]
    parent: int
    depth: int


def title(heading: Heading) -> str:
    """Return a heading with its unit, where cells leave that out."""
    return f"{heading.name} ({heading.unit})" if heading.unit not in ("", "count", "share") else heading.name


def cell(value: Cell, unit: str) -> Shown:
    """Return a cell of a view, in the unit of its column."""
    if value is None or value != value:
        return Shown(ABSENT, None)
    if isinstance(value, bool):
        return Shown("yes" if value else "no", None)
    if isinstance(value, str):
        return Shown(cut(value, LONGEST_CELL), None)
    if unit == "share":
        return Shown(percent(value), value)
    if isinstance(value, int) and unit == "count":
        return Shown(f"{value:,}", value)
    return Shown(number(value), value)


def key(value: float) -> str:
    """Return a figure that rows are sorted by, as exact as an order needs."""
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def halves(text: str) -> tuple[str, str] | None:
    """Return a long path parted before its last name, which tells it apart; None for what is no path."""
    head, slash, tail = text.rpartition("/")
    return (head, slash + tail) if len(text) > LONG and slash and " " not in text and 0 < len(tail) < LONG else None


def rows(grid: Grid) -> list[Row]:
    """Return all rows of a view's table."""
    units = [heading.unit for heading in grid.columns]
    depth: list[int] = []
    lines = []
    for index, row in enumerate(grid.rows):
        parent = grid.parents[index] if index < len(grid.parents) else -1
        parent = parent if -1 <= parent < index else -1
        depth.append(depth[parent] + 1 if parent >= 0 else 0)
        cells = [cell(value, unit) for value, unit in zip(row, units, strict=True)]
        lines.append(Row(cells, parent, min(depth[index], DEEPEST)))
    return lines


class Heavy(NamedTuple):
    """A row of a table that takes much time: its name, how often it ran, its time, and where both stand in the table."""

    name: str
    calls: int
    ms: float
    row: int
    column: int


def heaviest(grid: Grid, times: Sequence[str], most: int = 5) -> tuple[str, list[Heavy]]:
    """Return the heaviest rows of a table by the first of the columns *times* that holds any time, and what that is called."""
    names = [heading.name for heading in grid.columns]
    for name in times:
        if name not in names or "calls" not in names:
            continue
        column, calls = names.index(name), names.index("calls")
        found = []
        for at, row in enumerate(grid.rows):
            ms, count = row[column], row[calls]
            root = at >= len(grid.parents) or grid.parents[at] < 0
            if root and isinstance(ms, float) and ms > 0 and isinstance(count, int):
                found.append(Heavy(str(row[0]), count, ms, at, column))
        if found:
            return name, sorted(found, key=lambda one: (-one.ms, one.row))[:most]
    return "", []


def resolve(root: Any, key: str) -> Any:
    """Look up the value of *key* (``summary.step_ms.median``) in an analysis."""
    parts = key.split(".")
    while parts:
        if isinstance(root, dict):  # the name of a device or of a cause may hold dots
            return root[".".join(parts)]
        part = parts.pop(0)
        root = getattr(root, part) if isinstance(root, msgspec.Struct) else root[int(part)]
    return root
