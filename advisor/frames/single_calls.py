"""`single_calls`: one row per operator of calls of modules that are given one sample after another, and could be one call."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from advisor.frames import operator_calls
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, integer, real, text
from advisor.intervals import Ints, summed
from advisor.timeline.context import Context

_BY = "`advisor record`"
SCHEMA = Schema(
    "single_calls",
    "an operator inside calls of a module of which each is given one sample, though all of them are there before the second, at the "
    "line of these calls; and in their backward pass, of a program on the CPU, as `advisor record` watched one step; no rows where it "
    "did not",
    (
        *COMMON,
        text("name", "the operator", "name"),
        text("called", "the class of the module", _BY),
        integer("calls", "", "calls of it at the place, in the step that was watched", _BY),
        integer("loops", "", "calls that could do the same", _BY),
        real("spared", "share", "of the operator's time that one call for all samples spares, by its kind and length; of calls of "
             "other shapes at the place nothing", _BY),
    ),
)  # fmt: skip
FIXED_NS = 8_000
"""What calling an operator costs, with the Python that leads to it: it is paid once a batch."""
_LONG_NS = 100_000
_CONVOLUTION = re.compile(r"conv")
_RECURRENT = re.compile(r"rnn|lstm|gru")
_PRODUCT = re.compile(r"addmm|::mm$|bmm|linear|matmul")
_OF_RECURRENT, _OF_THIN, _OF_PRODUCT, _OF_OTHERS = 0.9, 0.85, 0.3, 0.2
"""What one call spares beyond that, by kinds: a product of few rows reads its weights for each, one of many is busy computing.

Convolutions spare nothing more, and large ones cost more as one: what lies between them leaves the cache. Nor does what is long.
"""
_THIN = re.compile(r"\[(?:[1-4]|\d+, ?[1-4]|[1-4], ?\d+)\]")
"""A matrix, or a vector, with at most four rows or columns."""


def _rows(context: Context) -> tuple[Ints, Ints, list[str]]:
    """Row of ``operator_calls`` and entry of ``Recorded.singles`` of each row, and the functions of the entries' lines."""
    recorded = context.metadata.recorded
    return operator_calls.within(context, [(entry.file, entry.line) for entry in (recorded and recorded.singles) or ()])


def nodes(context: Context) -> Ints:
    """Forest node of each row."""
    return operator_calls.nodes(context)[context.once(_rows)[0]]


def build(context: Context) -> pd.DataFrame:
    """The frame."""
    host, rows = context.recording.host, nodes(context)
    _, at, functions = context.once(_rows)
    segments, row = _parts(context)
    recorded = context.metadata.recorded
    entries = (recorded.singles or ()) if recorded is not None and len(rows) else ()
    cost = summed(row, context.ledger.dur_ns[segments], len(rows))
    frame = context.common(start=host.start[rows], dur=host.end[rows] - host.start[rows], cost=cost, node=rows)
    calls = np.array([entry.calls for entry in entries], np.int64)[at]
    loops = np.array([entry.loops for entry in entries], np.int64)[at]
    share = np.array([entry.share for entry in entries], np.float64)[at]
    frame |= {
        "file": context.labels(at, [entry.file for entry in entries]),
        "line": np.array([entry.line for entry in entries], np.int64)[at],
        "function": context.labels(at, functions),
        "name": context.labels(host.name[rows], context.names),
        "called": context.labels(at, [entry.module for entry in entries]),
        "calls": calls,
        "loops": loops,
        "spared": share * _spared(context, rows, cost, loops / np.maximum(calls, 1)),
    }
    return pd.DataFrame({name: frame[name] for name in SCHEMA.names()})


def _spared(context: Context, node: Ints, cost: Ints, left: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the part of operators' time that one call for all spares; *left* is the share of calls that is left."""
    beyond = np.array([_of_kind(name) for name in context.names], np.float64)[context.recording.host.name[node]]
    product = np.flatnonzero(beyond == _OF_PRODUCT)
    dims = context.op_column(node[product], "dims")
    codes, of = np.unique(dims, return_inverse=True)
    thin = np.array([code >= 0 and _THIN.search(context.shape_texts[code]) is not None for code in codes.tolist()], np.bool_)
    beyond[product[thin[of]]] = _OF_THIN
    beyond[(beyond == _OF_OTHERS) & (cost > _LONG_NS)] = 0
    fixed = np.minimum(cost, FIXED_NS)
    spared: npt.NDArray[np.float64] = (1 - left) * (fixed + beyond * (cost - fixed)) / np.maximum(cost, 1)
    return spared


def _of_kind(name: str) -> float:
    if _CONVOLUTION.search(name):
        return 0.0
    if _RECURRENT.search(name):
        return _OF_RECURRENT
    return _OF_PRODUCT if _PRODUCT.search(name) else _OF_OTHERS


def _parts(context: Context) -> tuple[Ints, Ints]:
    """Segments that the rows own as ``operator_calls`` does, with the row of each."""
    return operator_calls.parts_of(context, context.once(_rows)[0])


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("called", "calls", "loops", COUNT, *TIME),
    rows=Rows(nodes=nodes),
    owns=owns_parts(_parts),
    parts=_parts,
)
