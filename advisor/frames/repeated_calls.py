"""`repeated_calls`: one row per operator of calls of modules that compute again what the same step has computed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from advisor.frames import single_calls
from advisor.frames.filling import blocks_per_sm
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.frames.watched import Watched
from advisor.intervals import Bools, Ints, alike, fetch, summed
from advisor.timeline.context import Context

_BY = "`advisor record`"
SCHEMA = Schema(
    "repeated_calls",
    "an operator inside calls of modules of which some computed again what the same step had computed, or rows of their batch that "
    "are the same as others of it, at the line of these calls; and in their backward pass, as `advisor record` watched one step; "
    "no rows where it did not. Beside a GPU it owns the time of what it launched, and, but for rows, short idle time before that",
    (
        *COMMON,
        text("name", "the operator", "name"),
        text("called", "the class of the modules", _BY),
        integer("calls", "", "calls of it at the place, in the step that was watched", _BY),
        integer(
            "repeats", "", "those of the same input, parameters and output as an earlier call, or with such rows", _BY
        ),
        flag("of_rows", "not whole calls repeat, but rows within a call's batch", _BY),
        real("repeated_share", "share", "of the time of all calls at the place: those, or such rows", _BY),
        real(
            "spared",
            "share",
            "of the operator's time that goes with them: as much, but for rows beside a GPU of a kernel "
            "what is beyond its start, where its blocks fill half of the GPU",
        ),
        real("batched", "share", "of the time of the calls at the place that one call for all their samples spares "
             "(`single_calls`); 0 where they could not be one", _BY),
    ),
)  # fmt: skip


_START_NS = 5_000
"""A kernel that takes no longer takes as long on fewer rows."""
_FILLED = 0.5
"""Blocks for each multiprocessor under which fewer blocks take as long."""
_SEVERAL = 1.5
"""Calls whose graphs a backward pass goes through, from which on it goes through one graph where they share a result."""
_ENGINE = "autograd::engine::evaluate_function"
_WATCHED = Watched(lambda recorded: recorded.repeats)


def build(context: Context) -> pd.DataFrame:
    """The frame."""
    frame = _WATCHED.columns(context) | {
        "called": _WATCHED.texts(context, lambda entry: entry.module),
        "repeats": _WATCHED.each(context, lambda entry: entry.repeats, np.int64),
        "of_rows": _WATCHED.each(context, lambda entry: entry.rows, np.bool_),
        "repeated_share": _WATCHED.each(context, lambda entry: entry.share, np.float64),
    }
    segments, row = _parts(context)
    cost = summed(row, context.ledger.dur_ns[segments], len(_WATCHED.at(context)))
    batched = single_calls.batched(context)
    frame |= {
        "cost_ns": cost,
        "spared": _spared(context, cost),
        "batched": _WATCHED.each(context, lambda entry: batched.get((entry.file, entry.line), 0.0), np.float64),
    }
    return pd.DataFrame({name: frame[name] for name in SCHEMA.names()})


def _parts(context: Context) -> tuple[Ints, Ints]:
    """Segments that the rows own: with fewer rows as many operators are called, so beside a GPU what it waits is not theirs.

    What several backward passes run of one call's graph (a Jacobian, row by row) they would run of the first result's as well.
    """
    segments, row = _WATCHED.parts(context)
    if not len(segments):
        return segments, row
    again = context.once(_run_again)
    segments, row = segments[~again[row]], row[~again[row]]
    if context.cpu_program:
        return segments, row
    of_rows = _WATCHED.each(context, lambda entry: entry.rows, np.bool_)
    kept = ~of_rows[row] | context.ledger.busy[segments]
    return segments[kept], row[kept]


def _run_again(context: Context) -> Bools:
    """Flag rows of backward passes that run as often on the first result's graph: one call's graph, which another pass runs, too.

    A pass that goes through the graphs of several calls goes through one graph where their result is shared.
    """
    host, rows = context.recording.host, _WATCHED.nodes(context)
    if "op" not in host.node_of:
        return np.zeros(len(rows), np.bool_)
    table, node = context.tables["op"], host.node_of["op"]
    engine = np.array([name.startswith(_ENGINE) for name in context.names], np.bool_)[host.name]
    number, thread = np.full(host.size, -1, np.int64), np.full(host.size, -1, np.int64)
    number[node], thread[node] = table["sequence"], table["forward_thread"]
    own = np.full(host.size, -1, np.int64)
    own[engine & (number >= 0)] = np.flatnonzero(engine & (number >= 0))
    around = host.flow(own)[rows]
    inside = np.flatnonzero(around >= 0)
    if not len(inside):
        return np.zeros(len(rows), np.bool_)
    # Each engine's call with the entry whose line it belongs to.
    found, first, of = np.unique(around[inside], return_index=True, return_inverse=True)
    entry = _WATCHED.at(context)[inside[first]]
    step = context.recording.host_step_of(host.start[found])
    _, graph = alike(step, number[found], thread[found])
    passes = _passes(context, engine, found, graph)
    often = np.bincount(graph)[graph] > 1
    _, place = alike(step, entry)
    _, one = alike(step, entry, passes)
    calls = np.array([each.calls for each in _WATCHED.entries(context)], np.float64)[entry]
    whole = np.bincount(np.unique(np.stack([place, graph]), axis=1)[0])[place]
    covered = calls * np.bincount(one)[one] / np.maximum(whole, 1)
    stays = often & (covered < _SEVERAL)
    flags = np.zeros(len(rows), np.bool_)
    flags[inside] = stays[of.ravel()]
    return flags


def _passes(context: Context, engine: Bools, found: Ints, graph: Ints) -> Ints:
    """The backward pass that each call of the engine is of: another one begins behind an operator of Python's, and where nodes of
    the graph come again.
    """
    host = context.recording.host
    outer = context.op_rows[fetch(host.attributes.op, host.parent[context.op_rows]) < 0]
    order = np.lexsort((host.start[outer], host.thread[outer]))
    turned = np.zeros(host.size, np.int64)
    turned[outer[order]] = np.cumsum(~engine[outer[order]])
    run = np.zeros(len(found), np.int64)
    seen: set[int] = set()
    last, number = (-1, -1), 0
    for at in np.lexsort((host.start[found], host.thread[found])).tolist():
        key = (int(host.thread[found[at]]), int(turned[found[at]]))
        if key != last or int(graph[at]) in seen:
            number, last, seen = number + 1, key, set()
        seen.add(int(graph[at]))
        run[at] = number
    return run


def _spared(context: Context, cost: Ints) -> npt.NDArray[np.float64]:
    """Return the part of operators' time that goes without the calls, or the rows."""
    share = _WATCHED.each(context, lambda entry: entry.share, np.float64)
    of_rows = _WATCHED.each(context, lambda entry: entry.rows, np.bool_)
    if context.cpu_program or not of_rows.any():
        return share
    ledger, (segments, row) = context.ledger, _parts(context)
    busy = ledger.busy[segments]
    segments, row = segments[busy], row[busy]
    work = ledger.row[segments]
    took = context.recording.work.end[work] - context.recording.work.start[work]
    goes = 1 - np.minimum(_START_NS / np.maximum(took, 1), 1)
    goes[blocks_per_sm(context)[work] < _FILLED] = 0
    part = np.bincount(row, weights=ledger.dur_ns[segments] * goes, minlength=len(share)) / np.maximum(cost, 1)
    return np.where(of_rows, share * part, share)


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("called", "calls", "repeats", COUNT, *TIME),
    rows=Rows(nodes=_WATCHED.nodes),
    owns=owns_parts(_parts),
    parts=_parts,
)
