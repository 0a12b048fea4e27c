"""Gradients of embeddings that have a row for each of the table's, though the batch read few: written, zeroed, and updated with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.frames import optimizers
from advisor.frames.patterns.table_gradients import Group, Lookup, table_gradients
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints, summed
from advisor.regex import regex

Floats = npt.NDArray[np.float64]
MILLION = 1_000_000
"""A part is kept as so many of a million."""
DOUBT = 0.5
"""Part of what is left of a gradient and its update by which that may be more, or less."""
_SPARSE = {"SGD": (2.5, 100_000), "Adagrad": (10.0, 250_000)}
_LAZY = (16.0, 300_000)
"""A sparse gradient and its step, by optimizer, else of SparseAdam: how often as long as the forward lookup of the same rows they
take, and ns a table besides. On one core, of 2 to 40 % of 12,000 to 200,000 rows of 16 to 768 numbers, uniform and Zipfian, it was
1.1 to 4 times with SGD, 6 to 15 with Adagrad, 8 to 23 with SparseAdam."""
_SERIAL = 0.35
"""Power of the threads by which these multiples grow: rows are summed up and sorted by one thread. With 2 threads they were 1.1 to
1.3 times as large; beyond, it is a prior."""
_READ_NS = {True: 1.0, False: 0.01}
"""ns that it takes to look a number up on one core of a CPU, and on a GPU, where the lookup was not recorded."""
_SLOWEST_NS = (40, 2)
"""ns for a row and for each of its numbers that a lookup takes at most: twice what was measured. Longer ones waited for a core."""
_CALL_NS = 20_000
_CLASS = regex(r"#(\w+)")


def dense_embeddings(tree: Tree) -> Occurrences | None:
    """One row per dense gradient of an embedding, with what is done to it: added up, stored, zeroed, and the step of the optimizer.

    ``length`` are the rows of the table and ``repeats`` the indices that a table is given between two steps, at least as many as
    rows were read; ``part`` is what sparse gradients spare of the time of all tables of that shape, which they share: all but a
    multiple of what it takes to look the rows up. A table of which something else has a gradient, too (tied weights), is none.
    """
    groups = table_gradients(tree)
    lookups = [lookup for group in groups for lookup in group.lookups]
    if not lookups:
        return None
    host = tree.host
    pairs, shares, of = _worked(groups)
    taken = _time(tree, pairs.index)
    counted, whole = (np.bincount(of, weights=taken * part, minlength=len(groups)) for part in (shares, 1.0))
    left = np.array([_left_ns(tree, group) for group in groups])
    part = _typical((counted - left) / np.maximum(whole, 1), [group.shape for group in groups])
    group = np.repeat(np.arange(len(groups)), [len(group.lookups) for group in groups])
    indices = summed(group, np.array([lookup.indices for lookup in lookups]), len(groups))
    each = np.array([[group.shape[0], group.tables] for group in groups], np.int64)
    work = tree.launched_below(pairs.index)
    launched = Pairs(pairs.row[work.row], work.index).each_once()
    nodes = np.array([lookup.node for lookup in lookups], np.int64)
    return Occurrences(
        kind="dense-embedding",
        node=nodes,
        begin=host.start[nodes],
        end=host.end[nodes],
        inside=launched,
        own=launched,
        ops=tree.rows_of_ops(pairs) if tree.context.cpu_program else NOTHING,
        doubt=DOUBT,
        figures={
            "repeats": (indices // each[:, 1])[group],
            "length": each[group, 0],
            "part": np.rint(part * MILLION).astype(np.int64)[group],
            "dims": tree.dims(np.array([_shown(lookup) for lookup in lookups], np.int64)),
        },
    )


def _typical(parts: Floats, shapes: list[Shape]) -> Floats:
    """Median of the groups of each shape, at least 0: a step that was held up, or its lookup, tells little."""
    typical = {
        shape: np.median([part for part, other in zip(parts, shapes, strict=True) if other == shape])
        for shape in set(shapes)
    }
    found: Floats = np.clip([typical[shape] for shape in shapes], 0, 1)
    return found


def _shown(lookup: Lookup) -> int:
    """The node whose shapes stand for the table's."""
    return next(node for node in (lookup.store, lookup.forward, lookup.node) if node >= 0)


def _worked(groups: list[Group]) -> tuple[Pairs, Floats, Ints]:
    """Rows (lookups) and the nodes that are theirs, which part of each counts, and its group; a step's are dealt out to rows."""
    found: list[tuple[int, int, float, int]] = []
    row = 0
    for number, group in enumerate(groups):
        for at, lookup in enumerate(group.lookups):
            stored = [lookup.store] if lookup.store >= 0 else []
            found += [(row + at, node, 1.0, number) for node in (lookup.node, *lookup.sums, *stored)]
        for at, (node, part) in enumerate(group.operators):
            found.append((row + at % len(group.lookups), node, part, number))
        row += len(group.lookups)
    found.sort()
    rows, nodes, parts, numbers = zip(*found, strict=True)
    return Pairs(np.array(rows, np.int64), np.array(nodes, np.int64)), np.array(parts), np.array(numbers, np.int64)


def _time(tree: Tree, nodes: Ints) -> Ints:
    """ns of each node: on the CPU its own, else of the work that it launches."""
    if tree.context.cpu_program:
        time: Ints = (tree.host.end - tree.host.start)[nodes]
        return time
    work = tree.launched_below(nodes)
    return summed(work.row, (tree.work.end - tree.work.start)[work.index], len(nodes))


def _left_ns(tree: Tree, group: Group) -> float:
    """ns that sparse gradients of a group and their step take."""
    steps = optimizers.nodes(tree.context)
    name = tree.context.names[tree.host.name[steps[group.step]]] if group.step >= 0 else "#SGD"
    match = _CLASS.search(name)
    times, table_ns = _SPARSE.get(match[1] if match else "", _LAZY)
    rows = np.array([lookup.indices for lookup in group.lookups], np.int64)
    forward = np.array([lookup.forward for lookup in group.lookups], np.int64)
    most = rows * (_SLOWEST_NS[0] + _SLOWEST_NS[1] * group.shape[1]) + _CALL_NS
    took = np.minimum(_time(tree, np.maximum(forward, 0)), most)
    guess = _READ_NS[tree.context.cpu_program] * rows * group.shape[1]
    reading = float(np.where(forward >= 0, took, guess).sum())
    left: float = times * _threads(tree) ** _SERIAL * reading + table_ns * group.tables
    return left


def _threads(tree: Tree) -> int:
    """Threads that operators divide their work among, on a CPU and where they were recorded; else 1."""
    recorded = tree.context.metadata.recorded
    return max(recorded.threads or 1, 1) if recorded is not None and tree.context.cpu_program else 1
