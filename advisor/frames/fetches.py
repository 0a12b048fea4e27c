"""Batches that a loader puts together of samples fetched one by one, where a sample is no more than a row of tensors in memory.

A ``Dataset`` that returns ``x[i], y[i]`` costs a few views and copies for each of its tensors, and the Python around them, for some
bytes; then ``stack`` makes views of all of them again. Indexed with all of a batch's indices, the tensors give the same batch in
one operator each. Where samples take work (decoding, augmentation, tokens) they do not, and these are no such rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from advisor.frames.patterns.tree import Shapes
from advisor.intervals import Bools, Ints, fetch, summed
from advisor.timeline.calls import OP
from advisor.timeline.context import Context

Floats = npt.NDArray[np.float64]
_ROWS = frozenset(
    f"aten::{name}"
    for name in (
        "select", "slice", "narrow", "index", "index_select", "view", "reshape", "unsqueeze", "squeeze", "permute", "transpose",
        "movedim", "t", "alias", "as_strided", "expand", "unbind", "split", "chunk",  # views, and rows that are picked
        "lift_fresh", "detach", "detach_", "to", "_to_copy", "clone", "contiguous", "empty", "copy_", "set_", "resolve_conj",
        "resolve_neg", "item", "_local_scalar_dense",  # numbers that become tensors
    )
)  # fmt: skip
_JOINS = frozenset({"aten::stack", "aten::cat"})
_COPIED = frozenset({"aten::cat", "aten::copy_", "aten::_to_copy", "aten::index", "aten::index_select", "aten::clone"})
_LEAST = 16
"""Samples of a batch from which on indexing them at once is told from fetching each."""
_OTHERS = 0.1
"""Other operators for each sample: the seed of an epoch and its order are a few for all of them."""
_OPERATORS = 24
"""Operators for each sample, at most: a handful for each of a few tensors."""
_PYTHON_NS, _CALL_NS = 30_000, 5_000
"""Python for each sample, and for each operator of it besides, at most: rows took a third of that. To decode an image
takes more, and so does cutting a text into words."""
_NUMBERS = 8
"""Numbers of a Python list that a sample's tensor may be made of: a row of a table is none, tokens are."""
_MOST_TENSORS = 64


class Fetches(Struct, eq=False):
    """Of each wait the samples that are fetched one by one as rows in memory (-1: none are), and what part of it copies."""

    samples: Ints
    copied: Floats


def fetches(context: Context) -> Fetches:
    """Find what is fetched in each wait of the training loop for a batch."""
    waits, host = context.waits.loader, context.recording.host
    size = len(waits.start)
    out = Fetches(np.full(size, -1, np.int64), np.zeros(size))
    names = [name for name in context.names if "SingleProcess" in name]
    if not size or not names or _iterated(context):
        return out
    rows = context.op_rows[np.argsort(host.start[context.op_rows], kind="stable")]
    at = np.searchsorted(waits.start, host.start[rows], side="right") - 1
    single = np.isin(host.name[waits.node], [context.names.index(name) for name in names])
    inside = (
        (at >= 0) & single[at] & (host.end[rows] <= waits.end[at]) & (host.thread[rows] == host.thread[waits.node[at]])
    )
    rows, at = rows[inside], at[inside]
    if not len(rows):
        return out
    length = host.end[rows] - host.start[rows]
    called = context.top(rows)
    joins = called & _named(context, _JOINS)[host.name[rows]]
    told = called & _named(context, _ROWS)[host.name[rows]]
    tensors, others = _count(at, joins, size), _count(at, called & ~joins & ~told, size)
    taken = summed(at, np.where(called, length, 0), size)
    samples = _samples(context, rows, at, joins)
    each = np.maximum(samples, 1)
    operators = _count(at, told, size) / each
    python = (waits.end - waits.start - taken) / each
    found = (
        (samples >= _LEAST)
        & (tensors > 0)
        & (tensors <= _MOST_TENSORS)
        & (operators >= 1)
        & (operators <= _OPERATORS)
        & (others <= _OTHERS * each)
        & (_count(at, _listed(context, rows), size) < each)
    )
    # A wait in which the machine did something else is one of many: what most of them say holds.
    if not found.any() or np.median((python - _CALL_NS * operators)[found]) > _PYTHON_NS:
        return out
    out.samples = np.where(found, samples, -1)
    # What copies a sample's numbers into the batch's tensor, one indexing of the whole batch has to copy as well.
    copies = _named(context, _COPIED)[host.name[rows]] & ~_named(context, _COPIED)[_around(context, rows)]
    out.copied = summed(at, np.where(copies, length, 0), size) / np.maximum(waits.end - waits.start, 1)
    return out


def _count(row: Ints, flags: Bools, size: int) -> Ints:
    """For each row, the flags of it that are set."""
    return np.bincount(row[flags], minlength=size)


def _named(context: Context, names: frozenset[str]) -> Bools:
    """Flag the codes of some names; the last is that of no name."""
    return np.array([*(name in names for name in context.names), False], np.bool_)


def _around(context: Context, rows: Ints) -> Ints:
    """Code of the name of the operator around each; -1 where there is none."""
    host = context.recording.host
    outer = fetch(host.attributes.op, host.parent[rows])
    return np.where(fetch(host.group, outer) == OP, fetch(host.name, outer), -1)


def _samples(context: Context, rows: Ints, at: Ints, joins: Bools) -> Ints:
    """Count the samples that each wait puts together, as its first stack tells: by the views that it makes, or the shape of what it
    makes; where it tells neither, the operators for each of the tensors."""
    host, size = context.recording.host, len(context.waits.loader.start)
    around = _around(context, rows)
    stacks = _named(context, frozenset({"aten::stack"}))[around]
    views = stacks & _named(context, frozenset({"aten::unsqueeze"}))[host.name[rows]]
    tensors = np.maximum(_count(at, joins, size), 1)
    shaped = stacks & _named(context, frozenset({"aten::view"}))[host.name[rows]]
    counted = np.zeros(size, np.int64)
    np.maximum.at(counted, at[shaped], _leading(context, rows[shaped]))
    unsqueezed = np.zeros(size, np.int64)
    if views.any():
        outer = fetch(host.attributes.op, host.parent[rows[views]])
        stack, number = np.unique(outer, return_counts=True)
        np.maximum.at(unsqueezed, at[views][np.searchsorted(outer, stack)], number)
    told = _count(at, context.top(rows) & _named(context, _ROWS)[host.name[rows]], size) // tensors
    exact = np.maximum(counted, unsqueezed)
    return np.where(exact > 0, exact, told)


def _leading(context: Context, rows: Ints) -> Ints:
    """First number of the shape that a view is told to make; 0 where it was not recorded."""
    inputs = Shapes(context.recording.recorded.inputs)
    return inputs.column(context.op_column(rows, "concrete"), lambda lists: _first(lists[-1]) if lists else 0)


def _first(numbers: tuple[int, ...]) -> int:
    return numbers[0] if numbers else 0


def _listed(context: Context, rows: Ints) -> Bools:
    """Flag operators that make room for a tensor of a Python list with more than a few numbers, as tokens are."""
    host = context.recording.host
    makes = context.top(rows) & _named(context, frozenset({"aten::empty"}))[host.name[rows]]
    out = np.zeros(len(rows), np.bool_)
    chosen = np.flatnonzero(makes)
    if len(chosen):
        inputs = Shapes(context.recording.recorded.inputs)
        codes = context.op_column(rows[chosen], "concrete")
        out[chosen] = (
            inputs.column(codes, lambda lists: int(np.prod(lists[0][:4])) if lists and lists[0] else 1) > _NUMBERS
        )
    return out


def _iterated(context: Context) -> bool:
    """Tell whether a loader reads an ``IterableDataset``, which nothing can index."""
    recorded = context.metadata.recorded
    return recorded is not None and any(loader.iterable for loader in recorded.loaders if not loader.workers)
