"""``query``: one SELECT over the frames of a trace, bounded in rows and time."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from advisor.errors import UsageError
from advisor.mcp.answers import Answer
from advisor.mcp.tool import Arguments, Tool, Trace
from advisor.mcp.workspace import Workspace
from advisor.regex import regex

if TYPE_CHECKING:
    from advisor.engine.query import Page

SECONDS = 10.0
"""Processor time of a query, until it is interrupted."""
PATIENCE = 30.0
"""Seconds until a query that no interrupt stops is left alone."""
_MARGIN = 700
"""Bytes of an answer beside its rows."""
_DESCRIBE = regex(r"\s*describe\s+(\w+)\s*;?\s*", re.IGNORECASE)
_places = threading.Semaphore(4)
"""Queries that run at a time, those among them that nothing could stop."""


class Query(Arguments, frozen=True, kw_only=True):
    """The question, and the rows of its answer that are wanted."""

    trace: Trace
    sql: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=20_000,
            description="One SELECT of DuckDB over the frames: kernels, ops, gaps, steps, ...",
        ),
    ]
    limit: Annotated[int, Meta(ge=1, le=1000, description="Rows at most.")] = 50
    offset: Annotated[
        int, Meta(ge=0, le=10_000_000, description="Rows to leave out: to go on where rows were cut.")
    ] = 0


def run(workspace: Workspace, arguments: Query) -> Answer:
    """Run the query; the rows that do not fit an answer are counted, and can be asked for."""
    from advisor.frames import SCHEMAS
    from advisor.report.rows import describe, show

    if described := _DESCRIBE.fullmatch(arguments.sql):
        return Answer(describe(described[1].lower(), "text"))
    words = set(re.findall(r"\w+", arguments.sql.lower()))
    with workspace.lock:  # frames are built one at a time; queries run beside each other
        trace = workspace.trace(arguments.trace)
        for name in words & set(SCHEMAS):
            trace.frame(name)
    found = _bounded(lambda: _page(trace, arguments))

    shown = found.rows
    while True:
        text = show(found.names, shown, "csv", 0)
        if len(text.encode()) <= workspace.most_bytes - _MARGIN or len(shown) <= 1:
            break
        shown = shown[: max(len(shown) * 9 // 10, 1)]
    end = arguments.offset + len(shown)
    total = f"at least {found.total:,}" if found.more else f"{found.total:,}"
    rest = f" The rest: offset={end}." if end < found.total or found.more else ""
    which = f"rows {arguments.offset + 1:,} to {end:,} of {total}" if shown else f"no row from {end:,} on, of {total}"
    return Answer(
        text, f"{which}.{rest} Times are in ns where a column ends in _ns; an empty cell is NULL: unknown, not 0."
    )


def _page(trace: Any, arguments: Query) -> Page:
    from advisor.engine.query import page

    return page(trace, arguments.sql, skip=arguments.offset, most=arguments.limit, seconds=SECONDS)


def _bounded(ask: Any) -> Any:
    """Run a query in a thread of its own, and leave it there where nothing stops it. Raises ``UsageError``."""
    if not _places.acquire(timeout=PATIENCE):
        raise UsageError(
            "queries that nothing could stop are still running; ask again in a minute, with a simpler SELECT"
        )
    result: list[Any] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            result.append(ask())
        except BaseException as error:  # noqa: BLE001  (it is raised where the answer is waited for)
            failure.append(error)
        finally:
            _places.release()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if failure:
        raise failure[0]
    if not result:
        raise UsageError(
            f"the query was stopped after {PATIENCE:.0f} s; filter or group in SQL, and ask for fewer rows"
        )
    return result[0]


TOOL = Tool(
    name="query",
    title="SQL over a trace",
    description=(
        "Run one SELECT of DuckDB over the frames of a trace (trace, steps, kernels, ops, launches, copies, gaps, syncs, loader, "
        "collectives, memory, python, ...). The SQL `SHOW TABLES` lists the frames, `DESCRIBE kernels` the columns of one with "
        "units. Aggregate in SQL: rows that do not fit are counted and can be asked for with offset. NULL means that the trace "
        "does not tell."
    ),
    arguments=Query,
    run=run,
)
