"""`repeated_calls`: one row per operator of calls of modules that compute again what the same step has computed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from advisor.frames import operator_calls
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.intervals import Ints, summed
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
    recorded = context.metadata.recorded
    return operator_calls.within(context, [(entry.file, entry.line) for entry in (recorded and recorded.repeats) or ()])


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
    return operator_calls.parts_of(context, context.once(_rows)[0])


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("called", "calls", "repeats", COUNT, *TIME),
    rows=Rows(nodes=nodes),
    owns=owns_parts(_parts),
    parts=_parts,
)
