"""SQL conditions of rules, bounded before they run.

DuckDB parses the text, ``advisor.expression`` checks every node of the tree against an allowlist, and the SQL that runs
is printed anew from what was checked. So nothing reaches the database that is not named there: no subquery, no table
function, no file, no list, nothing that could allocate or loop at will. Refusing is all that is safe: neither a memory
limit nor an interrupt stops one call such as ``len(range(1e9))``.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import duckdb
import msgspec

from advisor.expression import Condition, ConditionError, Limit, Node, Printer, Request, nearest

__all__ = [
    "Condition",
    "ConditionError",
    "Limit",
    "Request",
    "compile_all",
    "compile_condition",
    "connect",
    "nearest",
    "reason",
    "time_limit",
]

MAX_TEXT = 4_000
MAX_BRACKETS = 48
CHECK_SECONDS = 5.0

_BOOLEAN = ("BOOLEAN", "bool")  # as the versions of DuckDB's client name it
_STRING = re.compile(r"'(?:[^']|'')*'")


def connect() -> duckdb.DuckDBPyConnection:
    """An in-memory database that reaches no file, no network and no Python variable, and cannot be told otherwise."""
    connection = duckdb.connect(":memory:")
    for setting, value, essential in (
        ("temp_directory", "''", False),
        ("threads", "1", True),
        ("memory_limit", "'1GB'", True),
        ("autoload_known_extensions", "false", True),
        ("autoinstall_known_extensions", "false", True),
        ("allow_community_extensions", "false", False),
        ("python_enable_replacements", "false", False),
        ("enable_external_access", "false", True),
        ("lock_configuration", "true", True),
    ):
        try:
            connection.execute(f"SET {setting} = {value}").fetchall()
        except duckdb.Error:
            if essential:
                raise
    return connection


@contextmanager
def time_limit(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt what runs on *connection* after *seconds*; it then raises ``duckdb.InterruptException``."""
    timer = threading.Timer(seconds, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def reason(error: Exception) -> str:
    """The first line of an error, without DuckDB's name of its class."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^(?:[A-Z][a-z]+ )+Error: ", "", first)


def compile_condition(
    text: str,
    columns: Mapping[str, str],
    limits: Mapping[str, Limit],
    *,
    aggregates: bool = False,
    late: tuple[str, ...] = (),
    frame: str = "frame",
    where: str = "",
) -> Condition:
    """One condition over *columns* (name to SQL type), checked.

    Raises :class:`ConditionError`, whose message starts with *where* and names the nearest column.
    """
    (outcome,) = compile_all([Request(text, frame, columns, limits, aggregates, late=late, where=where)])
    if isinstance(outcome, ConditionError):
        raise outcome
    return outcome


def compile_all(requests: Sequence[Request]) -> list[Condition | ConditionError]:
    """Compile many texts with one parse and one type check per frame; a result or an error for each, in order."""
    outcomes: list[Condition | ConditionError] = []
    with _LOCK:
        for request, node in zip(requests, _parse(requests), strict=True):
            try:
                outcomes.append(Printer(request).condition(_only_item(node, request)))
            except ConditionError as error:
                outcomes.append(ConditionError(error.problem, request.where))
        _check_types(requests, outcomes)
    return outcomes


_LOCK = threading.Lock()


@cache
def _checker() -> duckdb.DuckDBPyConnection:
    return connect()


@cache
def _table(columns: tuple[tuple[str, str], ...]) -> str:
    """A table of one row of ones with these columns: any wrong type shows on it, without data."""
    name = f"frame{_table.cache_info().currsize}"
    items = ", ".join(f'CAST(1 AS {kind}) AS "{column}"' for column, kind in columns)
    _checker().execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT {items}').fetchall()
    return name


def _parse(requests: Sequence[Request]) -> list[Node | ConditionError]:
    """The syntax tree of each text, as the statement that holds it, or why there is none."""
    parsed: list[Node | ConditionError | None] = [_unfit(request.text) for request in requests]
    fit = [index for index, problem in enumerate(parsed) if problem is None]
    texts = ["SELECT (\n1\n) FROM t"]
    for index in fit:
        text = requests[index].text
        texts.append(f"SELECT\n{text}\nFROM t" if requests[index].item else f"SELECT (\n{text}\n) FROM t")
    query = "SELECT json_serialize_sql(q::VARCHAR) FROM (SELECT unnest(?) AS q)"
    answers = _checker().execute(query, [texts]).fetchall()
    plain = _skeleton(msgspec.json.decode(answers[0][0])["statements"][0])
    for index, (answer,) in zip(fit, answers[1:], strict=True):
        try:
            tree = msgspec.json.decode(answer)
        except (msgspec.DecodeError, RecursionError):
            parsed[index] = ConditionError("nested too deeply")
            continue
        if tree.get("error"):
            parsed[index] = ConditionError(f"not an SQL condition: {str(tree.get('error_message')).splitlines()[0]}")
        elif len(tree["statements"]) != 1 or _skeleton(tree["statements"][0]) != plain:
            parsed[index] = ConditionError("must be one expression, without clauses of its own")
        else:
            parsed[index] = tree["statements"][0]
    return [node for node in parsed if node is not None]


def _unfit(text: str) -> ConditionError | None:
    """What forbids even to parse *text*: the parser's time grows steeply with brackets that do not close."""
    if not text.strip():
        return ConditionError("is empty")
    if len(text) > MAX_TEXT:
        return ConditionError(f"longer than {MAX_TEXT} characters")
    if any(ord(character) < 32 and character not in "\n\r\t" for character in text):
        return ConditionError("holds control characters")
    bare = _STRING.sub("''", text)
    depth = deepest = 0
    for character in bare:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
        if depth < 0:
            break
    if depth:
        return ConditionError("its brackets do not match")
    if deepest > MAX_BRACKETS:
        return ConditionError("nested too deeply")
    if "~" in bare:
        # What the operator means differs between the versions of DuckDB.
        return ConditionError("the operator ~ is not allowed; write regexp_matches(column, 'pattern')")
    if re.search(r"\b0[xXbBoO]", bare):
        return ConditionError("numbers are written in decimal")
    return None


def _skeleton(statement: Node) -> Any:
    """The statement without its selected items and positions, to compare with that of a plain SELECT."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: bare(part) for key, part in value.items() if not key.startswith("query_location")}
        return [bare(part) for part in value] if isinstance(value, list) else value

    return bare({**statement, "node": {**statement["node"], "select_list": []}, "named_param_map": []})


def _only_item(statement: Node | ConditionError, request: Request) -> Node:
    if isinstance(statement, ConditionError):
        raise statement
    items = statement["node"]["select_list"]
    if len(items) != 1 or (items[0].get("alias") and not request.item):
        raise ConditionError("must be one expression, without a name or a comma outside brackets")
    node: Node = items[0]
    return node


def _check_types(requests: Sequence[Request], outcomes: list[Condition | ConditionError]) -> None:
    """Turn conditions that cannot run, or are not true or false, into errors; one query per frame while all is well."""
    groups: dict[tuple[str, bool], dict[str, list[int]]] = {}
    for index, (request, outcome) in enumerate(zip(requests, outcomes, strict=True)):
        if isinstance(outcome, Condition):
            # One aggregate makes all of a query aggregates, so the plain conditions are asked apart from them.
            group = (_table(tuple(request.columns.items())), outcome.aggregate)
            groups.setdefault(group, {}).setdefault(outcome.sql, []).append(index)
    for (table, _), members in groups.items():
        for kind, indices in zip(_kinds(table, list(members)), members.values(), strict=True):
            for index in indices:
                request = requests[index]
                if isinstance(kind, ConditionError):
                    outcomes[index] = ConditionError(kind.problem, request.where)
                elif not request.item and kind not in _BOOLEAN:
                    outcomes[index] = ConditionError(f"must be true or false, but is {kind}", request.where)


def _kinds(table: str, expressions: list[str]) -> list[str | ConditionError]:
    """The SQL type of each expression on *table*, or why it has none."""
    try:
        with time_limit(_checker(), CHECK_SECONDS):
            _checker().execute(f'SELECT {", ".join(expressions)} FROM "{table}"').fetchall()
        return [str(column[1]) for column in _checker().description or ()]
    except duckdb.Error as error:
        if len(expressions) == 1:
            return [ConditionError(reason(error))]
    return [_kinds(table, [sql])[0] for sql in expressions]
