"""SQL over the frames of a trace: one SELECT of the user's, run by DuckDB with files and the network out of its reach."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import duckdb

from advisor.errors import UsageError, nearest
from advisor.frames import SCHEMAS
from advisor.regex import regex
from advisor.rulebook.conditions import Watch, connect
from advisor.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

Answer = TypeVar("Answer")
_TABLES = regex(r"\s*show\s+(?:all\s+)?tables\s*;?\s*", re.IGNORECASE)
_FRAMES = ["frame", "one row is"]
_CHUNK, _COUNTED = 10_000, 10_000_000


def run(trace: Trace, sql: str, seconds: float = math.inf) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of one SELECT. Only the frames that it names are built.

    Raises ``UsageError`` with the nearest frame or column for what DuckDB cannot run, and where the query takes more than
    *seconds* of the processor.
    """
    if _TABLES.fullmatch(sql):
        return _FRAMES, _frames()

    def fetch(answer: duckdb.DuckDBPyConnection) -> tuple[list[str], list[tuple[Any, ...]]]:
        return [str(column[0]) for column in answer.description or ()], answer.fetchall()

    return _run(trace, sql, fetch, seconds)


def table(trace: Trace, sql: str) -> pd.DataFrame:
    """The rows of one SELECT as a DataFrame; NULL is pandas' missing value. Raises ``UsageError`` as :func:`run`."""
    import pandas as pd

    if _TABLES.fullmatch(sql):
        return pd.DataFrame(_frames(), columns=_FRAMES)
    return _run(trace, sql, lambda answer: answer.df())


class Page(NamedTuple):
    """Some rows of an answer, and how many it has; ``more`` says that it has more than could be counted in time."""

    names: list[str]
    rows: list[tuple[Any, ...]]
    total: int
    more: bool


def page(trace: Trace, sql: str, *, skip: int, most: int, seconds: float) -> Page:
    """Return at most *most* rows behind the first *skip*; all others are counted, not kept.

    Raises ``UsageError`` as :func:`run`, and where the query takes more than *seconds* of the processor.
    """
    if _TABLES.fullmatch(sql):
        return Page(_FRAMES, _frames()[skip : skip + most], len(SCHEMAS), False)

    def fetch(answer: duckdb.DuckDBPyConnection) -> Page:
        names = [str(column[0]) for column in answer.description or ()]
        left = skip
        while left and (rows := answer.fetchmany(min(left, _CHUNK))):
            left -= len(rows)
        wanted = [] if left else answer.fetchmany(most)
        total, rows = skip - left + len(wanted), wanted
        while rows and total < _COUNTED:
            rows = answer.fetchmany(_CHUNK)
            total += len(rows)
        return Page(names, wanted, total, total >= _COUNTED)

    return _run(trace, sql, fetch, seconds)


def _frames() -> list[tuple[Any, ...]]:
    return [(name, schema.row) for name, schema in SCHEMAS.items()]


def _run(
    trace: Trace, sql: str, fetch: Callable[[duckdb.DuckDBPyConnection], Answer], seconds: float = math.inf
) -> Answer:
    """Run one SELECT and *fetch* what it comes to, within so many *seconds* of the processor."""
    try:
        sql.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError("SQL: is not valid UTF-8") from None
    words = set(re.findall(r"\w+", sql.lower()))
    named = [name for name in SCHEMAS if name in words]
    with _explain_errors(named):
        statements = duckdb.extract_statements(sql)
    if len(statements) != 1 or statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise UsageError("SQL: exactly one SELECT is run; this is something else")
    connection = connect()
    try:
        for name in named:
            connection.register(name, trace.frame(name))
        if math.isinf(seconds):
            with _explain_errors(named):
                connection.execute(sql)
                return fetch(connection)
        return _watched(connection, sql, named, fetch, seconds)
    finally:
        connection.close()


def _watched(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    named: Sequence[str],
    fetch: Callable[[duckdb.DuckDBPyConnection], Answer],
    seconds: float,
) -> Answer:
    with Watch(connection) as watch:
        try:
            with watch.limit(seconds), _explain_errors(named):
                connection.execute(sql)
                return fetch(connection)
        except KeyboardInterrupt:
            if not watch.stopped:  # somebody pressed Ctrl-C
                raise
            raise UsageError(
                f"SQL: stopped after {seconds:g} s of the processor; filter or group in SQL, and ask for fewer rows"
            ) from None


@contextmanager
def _explain_errors(named: Sequence[str]) -> Iterator[None]:
    """Turn DuckDB's errors into ones that name what was meant."""
    try:
        yield
    except (duckdb.InterruptException, KeyboardInterrupt):
        raise KeyboardInterrupt from None
    except RuntimeError as error:
        if "interrupt" in str(error).lower():  # as DuckDB puts Ctrl-C
            raise KeyboardInterrupt from None
        raise
    except duckdb.Error as error:
        raise UsageError(explain(str(error), named)) from error


def explain(message: str, named: Sequence[str]) -> str:
    """DuckDB's message with the nearest frame or column of ours in place of its own guesses."""
    text = message.strip()
    if found := re.search(r"Table with name (\S+) does not exist", text):
        return f'SQL: no frame "{found[1]}"{nearest(found[1], SCHEMAS)}. Frames: {", ".join(SCHEMAS)}.'
    if found := re.search(r'Referenced column "([^"]+)" not found|not have a column named "([^"]+)"', text):
        wrong = found[1] or found[2]
        known = [column.name for name in named for column in SCHEMAS[name].columns]
        see = f" Columns: advisor query --schema {named[0]}" if named else ""
        return f'SQL: no column "{wrong}"{nearest(wrong, known)}.{see}'
    return f"SQL: {text}"
