"""The answer to a query, and the schema of the frames: as an aligned table, as JSON, or as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from advisor.errors import UsageError, nearest
from advisor.frames import SCHEMAS
from advisor.frames.schema import Schema
from advisor.report.plain import clean
from advisor.report.table import align
from advisor.results.encoding import inert


def show(names: Sequence[str], rows: Sequence[tuple[Any, ...]], form: str, width: int) -> str:
    """Show rows as an aligned table, as JSON objects, or as CSV."""
    if form == "json":
        objects = [dict(zip(unique(names), row, strict=True)) for row in rows]
        return inert(msgspec.json.format(msgspec.json.encode(objects, enc_hook=str), indent=2).decode()) + "\n"
    if form == "csv":
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([_text(name) for name in names])
        writer.writerows([value if _is_figure(value) else _text(value) for value in row] for row in rows)
        return file.getvalue()
    figures = [all(_is_figure(row[index]) for row in rows) and bool(rows) for index in range(len(names))]
    cells = [[_cell(value) for value in row] for row in rows]
    lines = align([clean(name) for name in names], cells, figures, width)
    return "\n".join([*lines, "", f"{len(rows)} row{'s' if len(rows) != 1 else ''}"]) + "\n"


def _text(value: object) -> str:
    """Write a cell of CSV that no spreadsheet takes for a formula: what begins like one gets an apostrophe, as people put it."""
    text = clean(str(value))
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def unique(names: Sequence[str]) -> list[str]:
    """Number equal column names, the second ``ms`` as ``ms_2``: in a JSON object the later would swallow the earlier."""
    counts: dict[str, int] = {}
    distinct = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        distinct.append(name if counts[name] == 1 else f"{name}_{counts[name]}")
    return distinct


def _is_figure(value: object) -> bool:
    return value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool))


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"
    return clean(str(value))


def describe(frame: str | None, form: str) -> str:
    """Show the frames, or the columns of one of them: no line is cut, for a definition without its end is none."""
    if form == "csv":
        raise UsageError("--schema comes as text or json")
    if frame is not None and frame not in SCHEMAS:
        raise UsageError(f'no frame "{frame}"{nearest(frame, SCHEMAS)}. Frames: {", ".join(SCHEMAS)}.')
    chosen: Mapping[str, Schema] = SCHEMAS if frame is None else {frame: SCHEMAS[frame]}
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(list(chosen.values())), indent=2).decode() + "\n"
    if frame is None:
        rows = [[name, schema.row] for name, schema in chosen.items()]
        wide = max(len(name) for name in chosen)
        lines = [f"{name:<{wide}}  {row}" for name, row in [("frame", "one row is"), *rows]]
        return "\n".join(lines) + "\n\nThe columns of one: advisor query --schema FRAME\n"
    (schema,) = chosen.values()
    cells = [[column.name, column.type, column.unit, column.meaning] for column in schema.columns]
    lines = align(["column", "type", "unit"], [row[:3] for row in cells], [False] * 3)
    wide = max(len(line) for line in lines)
    body = [
        f"{line:<{wide}}  {meaning}".rstrip()
        for line, meaning in zip(lines, ["meaning", *(row[3] for row in cells)], strict=True)
    ]
    return "\n".join([f"{schema.name}: one row is {schema.row}", "", *body]) + "\n"
