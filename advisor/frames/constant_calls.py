"""`constant_calls`: one row per operator that computes the same numbers in every step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from advisor.columns import Columns
from advisor.frames import operator_parts
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, integer, real, text
from advisor.intervals import Ints, summed
from advisor.reading.program_settings import Constant
from advisor.timeline.context import Context

_BY = "`advisor record`"
SCHEMA = Schema(
    "constant_calls",
    "an operator, or one inside it, that computes the same numbers in every step, of nothing but numbers in the code and buffers "
    "of modules, as `advisor record` saw in two steps; no rows where it did not. Beside a GPU it owns the time of what it "
    "launched, and short idle time before that",
    (
        *COMMON,
        text("name", "the operator", "name"),
        integer("calls", "", "calls of operators at its line, in the second step, that made what the first one made", _BY),
        real("constant_share", "share", "of the time of its line's operators: those", _BY),
    ),
)  # fmt: skip


def build(context: Context) -> Columns:
    """The frame."""
    host, entries = context.recording.host, _entries(context)
    chosen, at = context.once(_found)
    rows = context.op_rows[chosen]
    segments, row = _parts(context)
    cost = summed(row, context.ledger.dur_ns[segments], len(rows))
    frame = context.common(start=host.start[rows], dur=host.end[rows] - host.start[rows], cost=cost, node=rows)
    frame |= {
        "name": context.labels(host.name[rows], context.names),
        "calls": np.array([entry.calls for entry in entries], np.int64)[at],
        "constant_share": np.array([entry.share for entry in entries], np.float64)[at],
    }
    return Columns({name: frame[name] for name in SCHEMA.names()})


def _entries(context: Context) -> Sequence[Constant]:
    recorded = context.metadata.recorded
    return () if recorded is None else recorded.constants or ()


def _found(context: Context) -> tuple[Ints, Ints]:
    """Rows of ``operator_calls`` that the entries are about, and the entry of each."""
    places = [(entry.file, entry.line, entry.operator) for entry in _entries(context)]
    return operator_parts.called_at(context, places)


def _nodes(context: Context) -> Ints:
    return context.op_rows[context.once(_found)[0]]


def _parts(context: Context) -> tuple[Ints, Ints]:
    return operator_parts.parts_of(context, context.once(_found)[0])


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("name", "calls", COUNT, *TIME),
    rows=Rows(nodes=_nodes),
    owns=owns_parts(_parts),
    parts=_parts,
)
