"""``advisor query``: SQL over the frames of a trace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options
from advisor.cli.terminal import progress, put, width
from advisor.errors import UsageError, nearest

if TYPE_CHECKING:
    from advisor.frames.schema import Schema
    from advisor.trace import Trace

FORMATS = ("text", "json", "csv")


@click.command("query", short_help="Run any SELECT over the frames of a trace.")
@click.argument("trace", required=False)
@click.argument("sql", required=False)
@click.option(
    "--schema",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[FRAME]",
    help="List the frames, or the columns of FRAME with their units. Needs no trace.",
)
@options.part
@options.no_cache
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="text", help="Format of the rows [text].")
def command(
    trace: str | None,
    sql: str | None,
    schema: str | None,
    steps: options.Ends | None,
    window: options.Ends | None,
    no_cache: bool,
    form: str,
) -> None:
    """Run SQL over the frames of TRACE: kernels, copies, gaps, steps and more.

    Any one SELECT of DuckDB runs, as it is written and for as long as it takes; files and the network are out of its
    reach. Times are integers in ns, and columns end in their unit. The table shortens long text; json and csv hold it
    whole.

    \b
      advisor query --schema kernels
      advisor query trace.json.gz \\
        "SELECT name, sum(dur_ns)/1e6 AS ms FROM kernels GROUP BY 1 ORDER BY 2 DESC LIMIT 5"
    """
    if schema is not None:
        if sql is not None:
            raise UsageError("--schema needs no trace and no SQL")
        put(describe(schema or trace, form).encode())
        return
    if trace is None or sql is None:
        raise UsageError(
            "a trace and one SELECT are needed: advisor query TRACE SQL. What can be asked: advisor query --schema"
        )
    import advisor
    from advisor.config import load

    settings = load()
    reading = options.reading(settings, no_cache, steps, window)
    with progress() as say:
        say(f"reading {trace}")
        frames = advisor.read(trace, libraries=settings.library, told=say.told, **reading)
        names, rows = run(frames, sql)
    put(show(names, rows, form).encode("utf-8", "backslashreplace"))
    options.keep(frames)


def describe(frame: str | None, form: str) -> str:
    """The frames, or the columns of one of them."""
    from advisor.frames import SCHEMAS

    if form == "csv":
        raise UsageError("--schema comes as text or json")
    if frame is not None and frame not in SCHEMAS:
        raise UsageError(f'no frame "{frame}"{nearest(frame, SCHEMAS)}. Frames: {", ".join(SCHEMAS)}.')
    chosen: Mapping[str, Schema] = SCHEMAS if frame is None else {frame: SCHEMAS[frame]}
    if form == "json":
        import msgspec

        return msgspec.json.format(msgspec.json.encode(list(chosen.values())), indent=2).decode() + "\n"
    from advisor.report.table import align

    if frame is None:
        rows = [[name, schema.row] for name, schema in chosen.items()]
        lines = align(["frame", "one row is"], rows, [False, False], width())
        return "\n".join(lines) + "\n\nThe columns of one: advisor query --schema FRAME\n"
    (schema,) = chosen.values()
    cells = [[column.name, column.type, column.unit, column.meaning] for column in schema.columns]
    # Meanings come last and are not cut: a definition without its end is none.
    lines = align(["column", "type", "unit"], [row[:3] for row in cells], [False] * 3)
    wide = max(len(line) for line in lines)
    body = [
        f"{line:<{wide}}  {meaning}".rstrip()
        for line, meaning in zip(lines, ["meaning", *(row[3] for row in cells)], strict=True)
    ]
    return "\n".join([f"{schema.name}: one row is {schema.row}", "", *body]) + "\n"


def run(trace: Trace, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of one SELECT. Only the frames that it names are built.

    Raises ``UsageError`` with the nearest frame or column for what DuckDB cannot run.
    """
    import duckdb

    from advisor.frames import SCHEMAS
    from advisor.rulebook.conditions import connect

    try:
        sql.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError("SQL: is not valid UTF-8") from None
    words = set(re.findall(r"\w+", sql.lower()))
    named = [name for name in SCHEMAS if name in words]
    with _explained(named):
        statements = duckdb.extract_statements(sql)
    if len(statements) != 1 or statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise UsageError("SQL: exactly one SELECT is run; this is something else")
    connection = connect()
    try:
        for name in named:
            connection.register(name, trace.frame(name))
        with _explained(named):
            connection.execute(sql)
            return [str(column[0]) for column in connection.description or ()], connection.fetchall()
    finally:
        connection.close()


@contextmanager
def _explained(named: Sequence[str]) -> Iterator[None]:
    """Turn DuckDB's errors into ones that name what was meant."""
    import duckdb

    try:
        yield
    except (duckdb.InterruptException, KeyboardInterrupt):
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        raise UsageError(explain(str(error), named)) from error


def explain(message: str, named: Sequence[str]) -> str:
    """DuckDB's message with the nearest frame or column of ours in place of its own guesses."""
    from advisor.frames import SCHEMAS

    text = message.strip()
    if found := re.search(r"Table with name (\S+) does not exist", text):
        return f'SQL: no frame "{found[1]}"{nearest(found[1], SCHEMAS)}. Frames: {", ".join(SCHEMAS)}.'
    if found := re.search(r'Referenced column "([^"]+)" not found|not have a column named "([^"]+)"', text):
        wrong = found[1] or found[2]
        known = [column.name for name in named for column in SCHEMAS[name].columns]
        see = f" Columns: advisor query --schema {named[0]}" if named else ""
        return f'SQL: no column "{wrong}"{nearest(wrong, known)}.{see}'
    return f"SQL: {text}"


def show(names: Sequence[str], rows: Sequence[tuple[Any, ...]], form: str) -> str:
    """The rows as an aligned table, as JSON objects, or as CSV."""
    if form == "json":
        import msgspec

        objects = [dict(zip(unique(names), row, strict=True)) for row in rows]
        return msgspec.json.format(msgspec.json.encode(objects, enc_hook=str), indent=2).decode() + "\n"
    from advisor.report.plain import clean

    if form == "csv":
        import csv
        import io

        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([clean(name) for name in names])
        writer.writerows([clean(value) if isinstance(value, str) else value for value in row] for row in rows)
        return file.getvalue()
    from advisor.report.table import align

    figures = [all(_is_figure(row[index]) for row in rows) and bool(rows) for index in range(len(names))]
    cells = [[_cell(value) for value in row] for row in rows]
    lines = align([clean(name) for name in names], cells, figures, width())
    return "\n".join([*lines, "", f"{len(rows)} row{'s' if len(rows) != 1 else ''}"]) + "\n"


def unique(names: Sequence[str]) -> list[str]:
    """Column names, the second ``ms`` as ``ms_2``: in a JSON object the later would swallow the earlier."""
    seen: dict[str, int] = {}
    made = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        made.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return made


def _is_figure(value: object) -> bool:
    from decimal import Decimal

    return value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool))


def _cell(value: object) -> str:
    from advisor.report.plain import clean

    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"
    return clean(str(value))
