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
    "an operator inside calls of a module of which each is given one sample, though all of them are there before the second, at "
    "the line of these calls; and in their backward pass, of a program on the CPU, as `advisor record` watched one step; no rows "
    "where it did not",
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
"""The cost of calling an operator, with the Python that leads to it: it is paid once a batch."""
_LONG_NS = 100_000
_CONVOLUTION = re.compile(r"conv")
_RECURRENT = re.compile(r"rnn|lstm|gru")
_PRODUCT = re.compile(r"addmm|::mm$|bmm|linear|matmul")
_OF_RECURRENT, _OF_THIN, _OF_PRODUCT, _OF_OTHERS = 0.9, 0.9, 0.4, 0.2
"""Parts that one call spares beyond that, by kinds: a product of few rows reads its weights for each, one of many computes.

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
    names, dims = context.recording.host.name[node], context.op_column(node, "dims")
    beyond = np.array([_of_kind(name) for name in context.names], np.float64)[names]
    product = np.flatnonzero(beyond == _OF_PRODUCT)
    codes, of = np.unique(dims[product], return_inverse=True)
    texts = [context.shape_texts[code] if code >= 0 else "" for code in codes.tolist()]
    thin = np.array([_THIN.search(text) is not None for text in texts], np.bool_)
    beyond[product[thin[of]]] = _OF_THIN
    usual = _usual(names, dims, cost)
    beyond[(beyond == _OF_OTHERS) & (usual > _LONG_NS)] = 0
    fixed = np.minimum(usual, FIXED_NS)
    spared: npt.NDArray[np.float64] = (1 - left) * (fixed + beyond * (usual - fixed)) / np.maximum(usual, 1)
    return spared


def _usual(names: Ints, dims: Ints, cost: Ints) -> Ints:
    """Return for each row the median cost of operators of its name and shapes: one that was interrupted is no long one."""
    order = np.lexsort((cost, dims, names))
    changes = np.flatnonzero(np.diff(names[order]) | np.diff(dims[order])) + 1
    first = np.concatenate([np.zeros(1, np.int64), changes])
    sizes = np.diff(np.append(first, len(order)))
    usual = np.zeros(len(cost), np.int64)
    if len(order):
        usual[order] = np.repeat(cost[order][first + sizes // 2], sizes)
    return usual


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
