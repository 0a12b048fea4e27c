"""`repeated_calls`: one row per operator of calls of modules that compute again what the same step has computed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from advisor.frames import operator_calls
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.intervals import Ints, summed
from advisor.timeline.calls import BACKWARD
from advisor.timeline.context import Context

_BY = "`advisor record`"
SCHEMA = Schema(
    "repeated_calls",
    "an operator inside calls of modules of which some computed again what the same step had computed, or rows of their batch that "
    "are the same as others of it, at the line of these calls; and in their backward pass, of a program on the CPU, as "
    "`advisor record` watched one step; no rows where it did not",
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
    ),
)


def _rows(context: Context) -> tuple[Ints, Ints, list[str]]:
    """Row of ``operator_calls`` and entry of ``Recorded.repeats`` of each row, and the functions of the entries' lines."""
    recorded, nodes = context.metadata.recorded, operator_calls.nodes(context)
    if recorded is None or not recorded.repeats or not len(nodes):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), []
    index, functions = context.recording.host.within_frames([(entry.file, entry.line) for entry in recorded.repeats])
    # The stack of a backward pass says where it was called; its operators are those calls' whose derivatives they compute.
    forward = np.where(context.recording.host.attributes.phase == BACKWARD, -1, index)
    at = context.recording.host.with_backward(forward)[nodes]
    return np.flatnonzero(at >= 0), at[at >= 0], functions


def nodes(context: Context) -> Ints:
    """Forest node of each row."""
    return operator_calls.nodes(context)[context.once(_rows)[0]]


def build(context: Context) -> pd.DataFrame:
    """The frame."""
    host, rows = context.recording.host, nodes(context)
    _, at, functions = context.once(_rows)
    segments, row = _parts(context)
    recorded = context.metadata.recorded
    entries = (recorded.repeats or ()) if recorded is not None and len(rows) else ()
    frame = context.common(
        start=host.start[rows],
        dur=host.end[rows] - host.start[rows],
        cost=summed(row, context.ledger.dur_ns[segments], len(rows)),
        node=rows,
    )
    frame |= {
        "file": context.labels(at, [entry.file for entry in entries]),
        "line": np.array([entry.line for entry in entries], np.int64)[at],
        "function": context.labels(at, functions),
        "name": context.labels(host.name[rows], context.names),
        "called": context.labels(at, [entry.module for entry in entries]),
        "calls": np.array([entry.calls for entry in entries], np.int64)[at],
        "repeats": np.array([entry.repeats for entry in entries], np.int64)[at],
        "of_rows": np.array([entry.rows for entry in entries], np.bool_)[at],
        "repeated_share": np.array([entry.share for entry in entries], np.float64)[at],
    }
    return pd.DataFrame({name: frame[name] for name in SCHEMA.names()})


def _parts(context: Context) -> tuple[Ints, Ints]:
    """Segments that the rows own as ``operator_calls`` does, with the row of each."""
    rows = context.once(_rows)[0]
    row_of = np.full(len(operator_calls.nodes(context)), -1, np.int64)
    row_of[rows] = np.arange(len(rows))
    segments, row = operator_calls.parts(context)
    own = row_of[row] if len(row) else row
    return segments[own >= 0], own[own >= 0]


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("called", "calls", "repeats", COUNT, *TIME),
    rows=Rows(nodes=nodes),
    owns=owns_parts(_parts),
    parts=_parts,
)
