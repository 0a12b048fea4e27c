"""SQL conditions of rules, bounded before they run.

DuckDB parses the text, ``advisor.rulebook.expression`` checks every node of the tree against an allowlist, and the SQL that runs
is printed anew from what was checked. So nothing reaches the database that is not named there: no subquery, no table
function, no file, no list, nothing that could allocate or loop at will. Refusing is all that is safe: neither a memory
limit nor an interrupt stops one call such as ``len(range(1e9))``.
"""

from __future__ import annotations

import atexit
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import chain
from typing import Any

import duckdb
import msgspec

from advisor.reading import machine
from advisor.regex import regex
from advisor.rulebook.expression import Condition, ConditionError, Limit, Node, Printer, Request
from advisor.threads import each, processor_clock

__all__ = [
    "Condition",
    "ConditionError",
    "Limit",
    "Request",
    "Watch",
    "compile_all",
    "connect",
    "reason",
    "session",
]

MAX_TEXT = 4_000
MAX_BRACKETS = 48
CHECK_SECONDS = 5.0
_STARVED = 10
"""On a machine so busy, a second of the processor takes this many."""
_GLANCE_SECONDS = 0.02

_MANY = 200
"""Conditions from which on two threads parse them."""

_BOOLEAN = ("BOOLEAN", "bool")  # as the versions of DuckDB's client name it
_NUMBER = regex(r"NUMBER|\w*INT|INTEGER|DOUBLE|FLOAT|DECIMAL", re.IGNORECASE)
_CONTROL = regex(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_BRACKET = regex(r"[()\[\]{}]")
_STRING = regex(r"'(?:[^']|'')*'")


def connect() -> duckdb.DuckDBPyConnection:
    """An in-memory database that reaches no file, no network and no Python variable, and cannot be told otherwise."""
    connection = duckdb.connect(":memory:")
    for setting, value, essential in (
        ("temp_directory", "''", False),
        # In a program without a file (python -c, a notebook) a query of two seconds would draw one on standard output.
        ("enable_progress_bar", "false", False),
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


class Watch:
    """Interrupts what runs on a connection for too long. One thread watches all its queries: starting one costs more.

    Counted is processor time of the thread that asks, so that neither a busy machine nor what another thread works out meanwhile
    makes a rule fail; and ten times as much of the clock's.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._due = self._latest = math.inf
        self._clock: Callable[[], float] = time.process_time
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.stopped = False
        """True once a query has been interrupted."""
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    @contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Inside, a query that takes longer raises ``duckdb.InterruptException``."""
        with self._lock:
            self._clock = processor_clock()
            self._due, self._latest = self._clock() + seconds, time.monotonic() + _STARVED * seconds
        if self._thread is None:  # of many traces every answer is known: no query, no thread
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        try:
            yield
        finally:
            with self._lock:  # not while the watch interrupts: it would hit the next query
                self._due = self._latest = math.inf

    def _watch(self) -> None:
        while not self._over.wait(_GLANCE_SECONDS):
            with self._lock:
                # Between queries there is no clock to read: the thread that asked may be over.
                if self._due < math.inf and (self._clock() > self._due or time.monotonic() > self._latest):
                    self.stopped = True
                    self._connection.interrupt()


def reason(error: Exception) -> str:
    """The first line of an error, without DuckDB's name of its class."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^(?:[A-Z][a-z]+ )+Error: ", "", first)


def compile_all(requests: Sequence[Request], proven: Sequence[bool] = ()) -> list[Condition | ConditionError]:
    """Compile many texts with one parse and one type check per frame; a result or an error for each, in order.

    The types of those that are *proven* are not checked.
    """
    outcomes: list[Condition | ConditionError] = []
    with _LOCK:
        for request, node in zip(requests, _parse(requests), strict=True):
            try:
                outcomes.append(Printer(request).condition(_only_item(node, request)))
            except ConditionError as error:
                outcomes.append(ConditionError(error.problem, request.where))
        doubtful = [at for at in range(len(requests)) if not (proven and proven[at])]
        if doubtful:
            checked = [outcomes[at] for at in doubtful]
            with Watch(_checker()) as watch, watch.limit(CHECK_SECONDS):
                _check_types([requests[at] for at in doubtful], checked)
            for at, outcome in zip(doubtful, checked, strict=True):
                outcomes[at] = outcome
    return outcomes


_LOCK = threading.Lock()


def _checker() -> duckdb.DuckDBPyConnection:
    with _OPENING:  # two threads may ask for the first time
        return _opened()


_OPENING = threading.Lock()


@cache
def _opened() -> duckdb.DuckDBPyConnection:
    # Closed before Python takes the modules apart: else DuckDB's binding now and then reports leaks on stderr.
    atexit.register(close)
    return connect()


def close() -> None:
    """Close the database, where it is open; who ends the process without taking it apart need not wait for that."""
    if is_open():
        _opened().close()
        _opened.cache_clear()


def is_open() -> bool:
    """Tell whether the database is open, which has threads of its own from then on."""
    return bool(_opened.cache_info().currsize)


def session() -> duckdb.DuckDBPyConnection:
    """A connection with nothing in it to the database that checks conditions: opening one anew takes ten times as long."""
    return _checker().cursor()


def _parse(requests: Sequence[Request]) -> list[Node | ConditionError]:
    """The syntax tree of each text, as the statement that holds it, or why there is none."""
    trees: dict[tuple[str, bool], Node | ConditionError | None] = {}
    for request in requests:
        trees.setdefault((request.text, request.item), _unfit(request.text))
    fit = [key for key, problem in trees.items() if problem is None]
    texts = [f"SELECT\n{text}\nFROM t" if item else f"SELECT (\n{text}\n) FROM t" for text, item in fit]
    half = len(texts) // 2
    # DuckDB lets go of the interpreter meanwhile.
    plain, *answers = chain(
        *each(
            [partial(_serialized, ["SELECT 1 FROM t", *texts[:half]]), partial(_serialized, texts[half:])],
            beside=len(texts) >= _MANY and machine.has_cores(),
        )
    )
    frame = _around(msgspec.json.decode(plain)["statements"][0])
    for key, answer in zip(fit, answers, strict=True):
        trees[key] = _statement(answer, frame)
    return [tree for request in requests if (tree := trees[request.text, request.item]) is not None]


def _serialized(statements: list[str]) -> list[str]:
    """The syntax tree of each statement, or its error, as JSON."""
    query = "SELECT json_serialize_sql(q::VARCHAR) FROM (SELECT unnest(CAST(? AS VARCHAR[])) AS q)"
    return [answer for (answer,) in session().execute(query, [statements]).fetchall()]


def _statement(answer: str, around: Any) -> Node | ConditionError:
    try:
        tree = msgspec.json.decode(answer)
    except (msgspec.DecodeError, RecursionError):
        return ConditionError("nested too deeply")
    if tree.get("error"):
        return ConditionError(f"not an SQL condition: {str(tree.get('error_message')).splitlines()[0]}")
    if len(tree["statements"]) != 1 or _around(tree["statements"][0]) != around:
        return ConditionError("must be one expression, without clauses of its own")
    statement: Node = tree["statements"][0]
    return statement


def _around(statement: Node) -> Any:
    """Return a statement without its selected items, to compare with a plain SELECT: FROM, WHERE, ORDER BY and so on."""
    node = {key: part for key, part in statement["node"].items() if key != "select_list"}
    table = node.get("from_table") or {}
    source = {key: part for key, part in table.items() if not key.startswith("query_location")}
    return {**node, "from_table": source}


def _unfit(text: str) -> ConditionError | None:
    """Return what forbids even to parse *text*: the parser's time grows steeply with brackets that do not close."""
    if not text.strip():
        return ConditionError("is empty")
    if len(text) > MAX_TEXT:
        return ConditionError(f"longer than {MAX_TEXT} characters")
    if _CONTROL.search(text):
        return ConditionError("holds control characters")
    bare = _STRING.sub("''", text)
    depth = deepest = 0
    for bracket in _BRACKET.findall(bare):
        depth += 1 if bracket in "([{" else -1
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
            groups.setdefault((request.frame, outcome.aggregate), {}).setdefault(outcome.sql, []).append(index)
    for members in groups.values():
        columns = {
            name: requests[index].columns[name]
            for indices in members.values()
            for index in indices
            for name in getattr(outcomes[index], "columns", ())
        }
        for kind, indices in zip(_kinds(columns, list(members)), members.values(), strict=True):
            for index in indices:
                request = requests[index]
                if isinstance(kind, ConditionError):
                    outcomes[index] = ConditionError(kind.problem, request.where)
                elif request.number and not _NUMBER.match(kind):
                    outcomes[index] = ConditionError(f"must be a number, but is {kind}", request.where)
                elif not request.item and not request.number and kind not in _BOOLEAN:
                    outcomes[index] = ConditionError(f"must be true or false, but is {kind}", request.where)


def _kinds(columns: Mapping[str, str], expressions: list[str]) -> list[str | ConditionError]:
    """The SQL type of each expression over one row of ones, where a wrong type shows without data; or why it has none."""
    ones = ", ".join(f'CAST(1 AS {kind}) AS "{name}"' for name, kind in columns.items()) or "1"
    try:
        _checker().execute(f"SELECT {', '.join(expressions)} FROM (SELECT {ones})").fetchall()
        return [str(column[1]) for column in _checker().description or ()]
    except duckdb.Error as error:
        if len(expressions) == 1:
            return [ConditionError(reason(error))]
    return [_kinds(columns, [sql])[0] for sql in expressions]
