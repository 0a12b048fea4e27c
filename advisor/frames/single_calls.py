"""`single_calls`: one row per operator of calls of modules that are given one sample after another, and could be one call."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.columns import Columns
from advisor.frames.filling import blocks_per_sm, per_sample
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, integer, real, text
from advisor.frames.watched import Watched
from advisor.intervals import Ints, coded
from advisor.regex import regex
from advisor.timeline.context import Context

_BY = "`advisor record`"
SCHEMA = Schema(
    "single_calls",
    "an operator inside calls of a module of which each is given one sample, though all of them are there before the second, at "
    "the line of these calls; and in their backward pass, as `advisor record` watched one step; no rows where it did not. Beside a "
    "GPU it owns the time of what it launched, and short idle time before that, and what each turn does behind the call is a row "
    "as well, where most turns do the same",
    (
        *COMMON,
        text("name", "the operator", "name"),
        text("called", "the class of the module", _BY),
        integer("calls", "", "calls of it at the place, in the step that was watched", _BY),
        integer("loops", "", "calls that could do the same", _BY),
        real("spared", "share", "of the operator's time that one call for all samples spares, by its kind and length, and beside a "
             "GPU by the blocks of its kernels; of calls of other shapes at the place nothing", _BY),
    ),
)  # fmt: skip
FIXED_NS = 8_000
"""The cost of calling an operator, with the Python that leads to it: it is paid once a batch."""
_LONG_NS = 100_000
_START_NS = 2_000
"""Time of a kernel on a GPU that does nothing."""
_CONVOLUTION = regex(r"conv")
_RECURRENT = regex(r"rnn|lstm|gru")
_PRODUCT = regex(r"addmm|::mm$|bmm|linear|matmul")
_OF_RECURRENT, _OF_THIN, _OF_PRODUCT, _OF_OTHERS = 0.9, 0.9, 0.4, 0.2
"""Parts that one call spares beyond that, by kinds: a product of few rows reads its weights for each, one of many computes.

Convolutions spare nothing more, and large ones cost more as one: what lies between them leaves the cache. Nor does what is long.
"""
_THIN = regex(r"\[(?:[1-4]|\d+, ?[1-4]|[1-4], ?\d+)\]")
"""A matrix, or a vector, with at most four rows or columns."""


_WATCHED = Watched(lambda recorded: recorded.singles, turns=True)


def build(context: Context) -> Columns:
    """The frame, which other frames ask for as well."""
    return context.once(_built)


def _built(context: Context) -> Columns:
    frame = _WATCHED.columns(context)
    calls = _WATCHED.each(context, lambda entry: entry.calls, np.int64)
    loops = _WATCHED.each(context, lambda entry: entry.loops, np.int64)
    share = _WATCHED.each(context, lambda entry: entry.share, np.float64)
    left = loops / np.maximum(calls, 1)
    if context.cpu_program:
        spared = _spared(context, _WATCHED.nodes(context), _WATCHED.cost(context), left)
    else:
        spared = _spared_beside_gpu(context, _WATCHED.cost(context), left)
    frame["called"] = _WATCHED.texts(context, lambda entry: entry.module)
    frame |= {"loops": loops, "spared": share * spared}
    return Columns({name: frame[name] for name in SCHEMA.names()})


def batched(context: Context) -> dict[tuple[str, int], float]:
    """Part of the time at each place of such calls that one call for all samples spares."""
    return context.once(_batched)


def _batched(context: Context) -> dict[tuple[str, int], float]:
    entries = _WATCHED.entries(context)
    if not entries:
        return {}
    frame, at = build(context), _WATCHED.at(context)
    cost = frame["cost_ns"].to_numpy(np.float64)
    whole = np.bincount(at, cost, len(entries))
    spares = np.bincount(at, cost * frame["spared"].to_numpy(np.float64), len(entries))
    part = spares / np.maximum(whole, 1)
    return {(entry.file, entry.line): float(share) for entry, share in zip(entries, part, strict=True)}


def _spared(context: Context, node: Ints, cost: Ints, left: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the part of operators' time that one call for all spares; *left* is the share of calls that is left."""
    names, dims = context.recording.host.name[node], context.op_column(node, "dims")
    beyond = np.array([_of_kind(name) for name in context.names], np.float64)[names]
    product = np.flatnonzero(beyond == _OF_PRODUCT)
    codes, of = coded(dims[product])
    texts = [context.shape_texts[code] if code >= 0 else "" for code in codes.tolist()]
    thin = np.array([_THIN.search(text) is not None for text in texts], np.bool_)
    beyond[product[thin[of]]] = _OF_THIN
    usual = _usual(names, dims, cost)
    beyond[(beyond == _OF_OTHERS) & (usual > _LONG_NS)] = 0
    fixed = np.minimum(usual, FIXED_NS)
    spared: npt.NDArray[np.float64] = (1 - left) * (fixed + beyond * (usual - fixed)) / np.maximum(usual, 1)
    return spared


def _spared_beside_gpu(context: Context, cost: Ints, left: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the same beside a GPU: of what it waits for the calls themselves, of kernels what leaves multiprocessors idle.

    What is no kernel, or does not tell its blocks, takes as long in one call as in many, but for the start.
    """
    ledger, (segments, row) = context.ledger, _WATCHED.parts(context)
    rest, busy = left[row], ledger.busy[segments]
    work = ledger.row[segments[busy]]
    took = np.maximum(context.recording.work.end[work] - context.recording.work.start[work], 1)
    start = np.minimum(_START_NS / took, 1)
    rest[busy] = start * rest[busy] + (1 - start) * per_sample(blocks_per_sm(context)[work], 1 / rest[busy])
    kept = np.bincount(row, weights=ledger.dur_ns[segments] * rest, minlength=len(cost))
    spared: npt.NDArray[np.float64] = 1 - np.minimum(kept / np.maximum(cost, 1), 1.0)
    return spared * (cost > 0)


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


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("called", "calls", "loops", COUNT, *TIME),
    rows=Rows(nodes=_WATCHED.nodes),
    owns=owns_parts(_WATCHED.parts),
    parts=_WATCHED.parts,
)
