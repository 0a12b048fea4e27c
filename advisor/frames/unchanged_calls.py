"""`unchanged_calls`: one row per operator below lines that do in a step what steps before it did."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from advisor.frames import operator_calls
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, integer, real, text
from advisor.intervals import Ints, summed
from advisor.reading.program_settings import Unchanged
from advisor.timeline.context import Context

_BY = "`advisor record`"
SCHEMA = Schema(
    "unchanged_calls",
    "an operator below a line that does in each of three steps the same, as `advisor record` saw by the bytes that operators are "
    "given: the line is the outermost one of which nearly all repeats; no rows where it did not watch, and beside a GPU",
    (
        *COMMON,
        text("name", "the operator", "name"),
        text("work", "same: of the same tensors; samples: of samples alone, picked from memory that did not change; evaluated: of "
             "the same tensors through parameters that changed, without gradients", _BY),
        integer("calls", "", "operators below its line, in the last step, that did what the others did", _BY),
        real("unchanged_share", "share", "of the time of its line's operators: those", _BY),
    ),
)  # fmt: skip


def build(context: Context) -> pd.DataFrame:
    """The frame."""
    host, entries = context.recording.host, _entries(context)
    chosen, at, functions = context.once(_found)
    rows = context.op_rows[chosen]
    segments, row = _parts(context)
    cost = summed(row, context.ledger.dur_ns[segments], len(rows))
    frame = context.common(start=host.start[rows], dur=host.end[rows] - host.start[rows], cost=cost, node=rows)
    frame |= {
        "file": context.labels(at, [entry.file for entry in entries]),
        "line": np.array([entry.line for entry in entries], np.int64)[at],
        "function": context.labels(at, functions),
        "name": context.labels(host.name[rows], context.names),
        "work": context.labels(at, [entry.work for entry in entries]),
        "calls": np.array([entry.calls for entry in entries], np.int64)[at],
        "unchanged_share": np.array([entry.share for entry in entries], np.float64)[at],
    }
    return pd.DataFrame({name: frame[name] for name in SCHEMA.names()})


def _entries(context: Context) -> Sequence[Unchanged]:
    recorded = context.metadata.recorded
    return () if recorded is None or not context.cpu_program else recorded.unchanged or ()


def _found(context: Context) -> tuple[Ints, Ints, list[str]]:
    """Rows of ``operator_calls`` that the entries are about, the entry of each, and the functions of their lines."""
    return operator_calls.within(context, [(entry.file, entry.line) for entry in _entries(context)])


def _nodes(context: Context) -> Ints:
    return context.op_rows[context.once(_found)[0]]


def _parts(context: Context) -> tuple[Ints, Ints]:
    return operator_calls.parts_of(context, context.once(_found)[0])


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("work", "name", "calls", COUNT, *TIME),
    rows=Rows(nodes=_nodes),
    owns=owns_parts(_parts),
    parts=_parts,
)
