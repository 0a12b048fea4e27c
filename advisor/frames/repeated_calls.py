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
from advisor.intervals import Bools, Ints, alike, summed
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

    What several backward passes run of one graph (a Jacobian, row by row) they would run of the first result's graph as well.
    """
    segments, row = _WATCHED.parts(context)
    if not len(segments):
        return segments, row
    again = context.once(_run_again)[_WATCHED.nodes(context)]
    segments, row = segments[~again[row]], row[~again[row]]
    if context.cpu_program:
        return segments, row
    of_rows = _WATCHED.each(context, lambda entry: entry.rows, np.bool_)
    kept = ~of_rows[row] | context.ledger.busy[segments]
    return segments[kept], row[kept]


def _run_again(context: Context) -> Bools:
    """Flag what runs in nodes of autograd's graph that more than one backward pass runs, by the nodes of the forest."""
    host = context.recording.host
    again = np.zeros(host.size, np.bool_)
    if "op" not in host.node_of:
        return again
    table, node = context.tables["op"], host.node_of["op"]
    engine = np.array([name.startswith(_ENGINE) for name in context.names], np.bool_)
    number = np.where(engine[host.name[node]], table["sequence"], -1)
    at = np.flatnonzero(number >= 0)
    if not len(at):
        return again
    step = context.recording.host_step_of(host.start[node[at]])
    _, of = alike(step, number[at], table["forward_thread"][at])
    own = np.full(host.size, -1, np.int64)
    own[node[at]] = np.bincount(of)[of] > 1
    found: Bools = host.flow(own) > 0
    return found


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
