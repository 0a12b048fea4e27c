"""`zero_products`: one row per operator of products with a matrix that is nearly all zeros, and of their backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.columns import Columns
from advisor.frames import operator_parts
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, integer, real, text
from advisor.intervals import Ints, summed
from advisor.reading.program_settings import Zeros
from advisor.timeline.context import Context

_BY = "`advisor record`"
SCHEMA = Schema(
    "zero_products",
    "an operator of a product one of whose factors is nearly all zeros, or in the backward pass of it, as `advisor record` counted "
    "them in one step; no rows where it did not, nor beside a GPU",
    (
        *COMMON,
        text("name", "the operator", "name"),
        real("zeros", "share", "of the factor that is zero, the least of several calls", _BY),
        integer("size", "", "numbers of that factor", _BY),
        integer("columns", "", "numbers of the other factor for each of its rows", _BY),
        real("spared", "share", "of the time that goes where only what is not zero is multiplied: one number of a row that is "
             "gathered and added takes as long as thirty of a dense product"),
    ),
)  # fmt: skip
_DENSE = 30
"""Numbers of a dense product on one core (0.04 ns) in the time of one that is gathered and added (1.2 ns)."""


def spared(zeros: float) -> float:
    """Part of a product's time that its zeros take."""
    return max(1 - _DENSE * (1 - zeros), 0.0)


def build(context: Context) -> Columns:
    """The frame."""
    host, entries = context.recording.host, _entries(context)
    chosen, at = context.once(_found)
    rows = context.op_rows[chosen]
    segments, row = _parts(context)
    cost = summed(row, context.ledger.dur_ns[segments], len(rows))

    def each(value: Callable[[Zeros], Any], kind: type[np.generic]) -> npt.NDArray[Any]:
        return np.array([value(entry) for entry in entries], kind)[at]

    frame = context.common(start=host.start[rows], dur=host.end[rows] - host.start[rows], cost=cost, node=rows)
    frame |= {
        "name": context.labels(host.name[rows], context.names),
        "file": context.labels(at, [entry.file for entry in entries]),
        "line": each(lambda entry: entry.line, np.int64),
        "zeros": each(lambda entry: entry.share, np.float64),
        "size": each(lambda entry: entry.size, np.int64),
        "columns": each(lambda entry: entry.columns, np.int64),
        "spared": each(lambda entry: spared(entry.share), np.float64),
    }
    return Columns({name: frame[name] for name in SCHEMA.names()})


def _entries(context: Context) -> Sequence[Zeros]:
    recorded = context.metadata.recorded
    return () if recorded is None or not context.cpu_program else recorded.zeros or ()


def _found(context: Context) -> tuple[Ints, Ints]:
    """Rows of ``operator_calls`` that the entries are about, and the entry of each."""
    places = [(entry.file, entry.line, entry.operator) for entry in _entries(context)]
    return operator_parts.called_at(context, places, backward=True)


def _nodes(context: Context) -> Ints:
    return context.op_rows[context.once(_found)[0]]


def _parts(context: Context) -> tuple[Ints, Ints]:
    return operator_parts.parts_of(context, context.once(_found)[0])


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("zeros", "size", "columns", COUNT, *TIME),
    rows=Rows(nodes=_nodes),
    owns=owns_parts(_parts),
    parts=_parts,
)
