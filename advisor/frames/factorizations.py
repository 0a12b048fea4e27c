"""`factorizations`: one row per operator of decompositions and inverses that a step need not compute, or not so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.columns import Columns
from advisor.frames import operator_parts
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.intervals import Ints, summed
from advisor.reading.program_settings import Factor
from advisor.timeline.context import Context

_BY = "`advisor record`"
SCHEMA = Schema(
    "factorizations",
    "an operator of a decomposition of a matrix that the same step decomposes again, or of an inverse that is only multiplied, or "
    "in the backward pass of these, as `advisor record` watched one step; no rows where it did not. Beside a GPU it owns the time "
    "of what it launched, and short idle time before that",
    (
        *COMMON,
        text("name", "the operator", "name"),
        text("decomposes", "the decomposition, or the inverse", _BY),
        integer("size", "rows", "rows of its matrices, of the smallest", _BY),
        integer("again", "", "decompositions of the same matrix in a step, at this line and others", _BY),
        integer("columns", "", "columns that the inverse multiplies in a step; 0 where something else is done with it", _BY),
        flag("gradient", "a gradient flows through it", _BY),
        real("spared", "share", "of the operator's time that solving in place of inverting spares, or one factor for all where "
             "there is no gradient; 0 where neither is faster"),
    ),
)  # fmt: skip
_SPARED, _OF_MANY = 0.8, 0.5
"""Parts that solving spares of an inverse: up to an eighth of its rows as columns, and up to a half. One factor: the first."""
_FEW, _MANY = 8, 2
_ONCE_ON_GPU, _SMALL_ON_GPU, _LARGE_ON_GPU, _LARGE = 0.5, 0.2, 0.45, 1024
"""Priors beside a GPU: of two decompositions one is left; a factor takes most of an inverse's time, of a large one less."""


def spared(entry: Factor, *, gpu: bool = False) -> float:
    """Part of the time of a decomposition that goes with the fix."""
    part = _spared(entry)
    if not gpu or not part:
        return part
    if entry.again > 1 and not entry.gradient:
        return _ONCE_ON_GPU
    return _LARGE_ON_GPU if entry.size >= _LARGE else _SMALL_ON_GPU


def _spared(entry: Factor) -> float:
    if entry.columns * _FEW <= entry.size and entry.columns:
        return _SPARED
    # With a gradient, one factor takes as long as two: its backward pass inverts triangles.
    if entry.again > 1 and not entry.gradient:
        return _SPARED
    return _OF_MANY if entry.columns and entry.columns * _MANY <= entry.size else 0.0


def build(context: Context) -> Columns:
    """The frame."""
    host, entries = context.recording.host, _entries(context)
    chosen, at = context.once(_found)
    rows = context.op_rows[chosen]
    segments, row = _parts(context)
    cost = summed(row, context.ledger.dur_ns[segments], len(rows))

    def each(value: Callable[[Factor], Any], kind: type[np.generic]) -> npt.NDArray[Any]:
        return np.array([value(entry) for entry in entries], kind)[at]

    frame = context.common(start=host.start[rows], dur=host.end[rows] - host.start[rows], cost=cost, node=rows)
    frame |= {
        "name": context.labels(host.name[rows], context.names),
        "file": context.labels(at, [entry.file for entry in entries]),
        "line": each(lambda entry: entry.line, np.int64),
        "decomposes": context.labels(at, [entry.operator for entry in entries]),
        "size": each(lambda entry: entry.size, np.int64),
        "again": each(lambda entry: entry.again, np.int64),
        "columns": each(lambda entry: entry.columns, np.int64),
        "gradient": each(lambda entry: entry.gradient, np.bool_),
        "spared": each(lambda entry: spared(entry, gpu=not context.cpu_program), np.float64),
    }
    return Columns({name: frame[name] for name in SCHEMA.names()})


def _entries(context: Context) -> Sequence[Factor]:
    recorded = context.metadata.recorded
    return () if recorded is None else recorded.factors or ()


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
    evidence=("decomposes", "size", "again", "columns", COUNT, *TIME),
    rows=Rows(nodes=_nodes),
    owns=owns_parts(_parts),
    parts=_parts,
)
