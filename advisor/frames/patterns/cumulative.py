"""Sums over all that is left of a sequence, taken anew in each turn of a loop: a cumulative sum gives all of them in one pass.

``for k in range(n): logsumexp(s[:, k:])`` reduces n, n - 1, ... numbers: half of n squared, and an operator, its slice and the
backward pass of both for each.
"""

from __future__ import annotations

import re

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import leading, worked
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, size_of
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints
from advisor.timeline.calls import BACKWARD

_REDUCES = re.compile(
    r"^aten::(?:sum|nansum|mean|prod|logsumexp|amax|amin|max|min|any|all|dot|count_nonzero|cumsum|cumprod)$"
)
_COMPUTES = re.compile(
    r"^aten::(?:linear|addmm|mm|matmul|bmm|baddbmm|einsum|conv\w*|embedding\w*|lstm|gru|rnn_\w+|\w+_cell|scaled_dot_product_attention"
    r"|multinomial|argmax|bernoulli_?|normal_?|item|_local_scalar_dense|cat|stack)$"
)
"""Operators by which a turn may depend on the one before: it makes, chooses or joins what the next one reduces."""
LEAST = 16
"""Turns from which on it is a loop."""
_MOST = 200_000
_FIXED_NS, _NS = 130_000.0, 100.0
"""Time of a cumulative sum, flips and their backward pass: their calls, and for each number."""


def cumulative_loops(tree: Tree) -> Occurrences | None:
    """One row per loop whose turns each reduce a part that is longer, or shorter, by as much; in a program on the CPU.

    ``repeats`` are the turns, ``length`` the numbers of the longest part, ``part`` what one pass spares. It owns what the function
    of the reduction calls in these turns, their backward pass, and the Python that leads to them.
    """
    if not tree.context.cpu_program:
        return None
    host = tree.host
    outer = tree.outermost
    outer = outer[(host.attributes.phase[outer] != BACKWARD) & ~tree.engine[outer]]
    reduces = tree.codes_of(lambda name: _REDUCES.match(name) is not None)
    computes = tree.codes_of(lambda name: _COMPUTES.match(name) is not None)
    places = np.flatnonzero(reduces[host.name[outer]] & (host.attributes.user[outer] >= 0))
    if not LEAST <= len(places) <= _MOST:
        return None
    nodes = outer[places]
    step = tree.context.recording.host_step_of(host.start[nodes])
    keys = np.stack([step, host.thread[nodes], host.attributes.user[nodes], host.name[nodes]], axis=1)
    _, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.ravel()
    functions: dict[tuple[str, str], int] = {}
    of_function = np.array(
        [functions.setdefault((one.file, one.function), len(functions)) for one in host.places], np.int64
    )
    before = np.append(0, np.cumsum(computes[host.name[outer]]))
    loops: list[tuple[Ints, int]] = []
    for one in np.flatnonzero(np.bincount(group) >= LEAST).tolist():
        mine = np.flatnonzero(group == one)
        mine = mine[np.argsort(host.start[nodes[mine]], kind="stable")]
        shapes = [(*tree.shapes.operands(code), ())[0] for code in tree.dims(nodes[mine]).tolist()]
        for low, high in _runs(shapes):
            first, last = int(places[mine[low]]), int(places[mine[high - 1]])
            if before[last + 1] == before[first]:
                here = outer[max(first - 2, 0) : last + 1 + (last - first) // (high - low)]
                same = of_function[host.attributes.user[here]] == of_function[host.attributes.user[outer[first]]]
                here = here[same & (host.attributes.user[here] >= 0) & (host.thread[here] == host.thread[outer[first]])]
                loops.append((here, max(map(size_of, shapes[low:high]))))
    if not loops:
        return None
    row = np.repeat(np.arange(len(loops)), [len(here) for here, _ in loops])
    ops = worked(tree, Pairs(row, np.concatenate([here for here, _ in loops])), backward=np.ones(len(loops), np.bool_))
    python = leading(tree, ops)
    took = ops.total(tree.context.ledger.cost(len(tree.context.op_rows), "compute", "communication"), len(loops))
    took = took + python.total(tree.context.ledger.dur_ns, len(loops))
    longest = np.array([size for _, size in loops], np.int64)
    first_of = np.array([here[0] for here, _ in loops], np.int64)
    return Occurrences(
        kind="cumulative-loop",
        node=np.array([here[reduces[host.name[here]]][0] for here, _ in loops], np.int64),
        begin=host.start[first_of],
        end=np.array([host.end[here].max() for here, _ in loops], np.int64),
        inside=NOTHING,
        own=NOTHING,
        ops=ops,
        python=python,
        figures={
            "repeats": np.array([int(reduces[host.name[here]].sum()) for here, _ in loops], np.int64),
            "length": longest,
            "part": np.rint(np.maximum(1 - (_FIXED_NS + _NS * longest) / np.maximum(took, 1), 0) * MILLION).astype(
                np.int64
            ),
            "dims": tree.dims(first_of),
        },
    )


def _runs(shapes: list[Shape]) -> list[tuple[int, int]]:
    """Stretches of shapes of which each differs from the one before in one dimension, and by as much: first, last (exclusive)."""
    found, low, kind = [], 0, (-1, 0)
    for at in range(1, len(shapes) + 1):
        now = _difference(shapes[at - 1], shapes[at]) if at < len(shapes) else None
        if now is not None and (kind == now or at == low + 1):
            kind = now
            continue
        if at - low >= LEAST:
            found.append((low, at))
        low, kind = (at - 1, now) if now is not None else (at, (-1, 0))
    return found


def _difference(one: Shape, other: Shape) -> tuple[int, int] | None:
    """The dimension in which two shapes differ, and by how much; None where they differ in none, or in several."""
    if len(one) != len(other):
        return None
    differ = [at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right]
    return (differ[0], other[differ[0]] - one[differ[0]]) if len(differ) == 1 else None
