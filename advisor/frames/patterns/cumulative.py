"""Sums over all that is left of a sequence, taken anew in each turn of a loop: a cumulative sum gives all of them in one pass.

``for k in range(n): logsumexp(s[:, k:])`` reduces n, n - 1, ... numbers: half of n squared, and an operator, its slice and the
backward pass of both for each.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import leading, numbers, worked
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, size_of
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints, alike
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD
from advisor.timeline.ledger import OWNED
from advisor.timeline.operator_names import is_view

_REDUCES = regex(
    r"^aten::(?:sum|nansum|mean|prod|logsumexp|amax|amin|max|min|any|all|dot|count_nonzero|cumsum|cumprod)$"
)
_COMPUTES = regex(
    r"^aten::(?:linear|addmm|mm|matmul|bmm|baddbmm|einsum|conv\w*|embedding\w*|lstm|gru|rnn_\w+|\w+_cell|scaled_dot_product_attention"
    r"|multinomial|argmax|bernoulli_?|normal_?|item|_local_scalar_dense|cat|stack"
    r"|copy_|fill_|zero_|put_|set_|_?index_(?:put|copy|fill|add)_?|(?:select_|slice_|diagonal_|masked_)?scatter\w*|masked_fill_)$"
)
"""Operators by which a turn may depend on the one before: it makes, chooses, joins or writes what the next one reduces."""
_ELEMENTS = regex(
    r"^aten::(?:add|sub|rsub|mul|div|true_divide|remainder|pow|square|sqrt|rsqrt|exp|expm1|exp2|log|log1p|log2|log10|sigmoid"
    r"|logsigmoid|log_sigmoid|tanh|relu6?|gelu|silu|elu|leaky_relu|softplus|sin|cos|abs|neg|reciprocal|round|floor|ceil|sign"
    r"|clamp|clamp_min|clamp_max|clip|where|masked_fill|maximum|minimum|eq|ne|lt|le|gt|ge|logical_\w+|bitwise_\w+|nan_to_num"
    r"|isnan|isinf|isfinite|to|_to_copy|type_as|float|double|contiguous|clone)$"
)
"""Operators that compute each number for itself: what they give of a part is the part of what they give of all."""
_CUTS = frozenset({"aten::slice", "aten::narrow"})
_PICKS = "aten::select"
_TYPED = regex(r"^aten::(?:sum|nansum|mean|prod)$")
"""Reductions whose second input is a type where they have two, and the dimensions where they have more."""
LEAST = 16
"""Turns from which on it is a loop."""
_REACH = 40
"""Operators before a reduction among which its turn makes what it reduces."""
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
    places = np.flatnonzero(reduces[host.name[outer]] & (host.attributes.user[outer] >= 0))
    if not LEAST <= len(places) <= _MOST:
        return None
    loops = _loops(tree, outer, places)
    if not loops:
        return None
    row = np.repeat(np.arange(len(loops)), [len(here) for here, _ in loops])
    ops = worked(tree, Pairs(row, np.concatenate([here for here, _ in loops])), backward=np.ones(len(loops), np.bool_))
    python = leading(tree, ops)
    took = ops.total(tree.context.ledger.cost(len(tree.context.op_rows), *OWNED), len(loops))
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


def _loops(tree: Tree, outer: Ints, places: Ints) -> list[tuple[Ints, int]]:
    """Return the operators of each loop among some in order, and the numbers of its longest part; *places* are of reductions."""
    host, nodes = tree.host, outer[places]
    step = tree.context.recording.host_step_of(host.start[nodes])
    _, group = alike(step, host.thread[nodes], host.attributes.user[nodes], host.name[nodes])
    order = np.lexsort((host.start[nodes], group))
    group, dims = group[order], tree.dims(nodes)[order]
    differs = (group[1:] == group[:-1]) & (dims[1:] != dims[:-1])
    edges = np.flatnonzero(np.diff(np.concatenate([[False], differs, [False]]).astype(np.int8)))
    functions: dict[tuple[str, str], int] = {}
    of_function = np.array(
        [functions.setdefault((one.file, one.function), len(functions)) for one in host.places], np.int64
    )
    before = np.append(0, np.cumsum(tree.codes_of(lambda name: _COMPUTES.match(name) is not None)[host.name[outer]]))
    loops: list[tuple[Ints, int]] = []
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if end + 1 - start < LEAST:
            continue
        turns = places[order[start : end + 1]]
        shapes = [(*tree.shapes.operands(code), ())[0] for code in dims[start : end + 1].tolist()]
        for low, high, axis in _runs(shapes):
            first, last = int(turns[low]), int(turns[high - 1])
            if before[last + 1] != before[first] or not _one_sequence(tree, outer, turns[low:high], axis):
                continue
            here = outer[max(first - 2, 0) : last + 1 + (last - first) // (high - low)]
            same = of_function[host.attributes.user[here]] == of_function[host.attributes.user[outer[first]]]
            here = here[same & (host.attributes.user[here] >= 0) & (host.thread[here] == host.thread[outer[first]])]
            loops.append((here, max(map(size_of, shapes[low:high]))))
    return loops


def _runs(shapes: list[Shape]) -> list[tuple[int, int, int]]:
    """Stretches of shapes of which each differs from the one before in one dimension, by as much: first, end, dimension."""
    found, low, kind = [], 0, (-1, 0)
    for at in range(1, len(shapes) + 1):
        now = _difference(shapes[at - 1], shapes[at]) if at < len(shapes) else None
        if now is not None and (kind == now or at == low + 1):
            kind = now
            continue
        if at - low >= LEAST:
            found.append((low, at, kind[0]))
        low, kind = (at - 1, now) if now is not None else (at, (-1, 0))
    return found


def _difference(one: Shape, other: Shape) -> tuple[int, int] | None:
    """The dimension in which two shapes differ, and by how much; None where they differ in none, or in several."""
    if len(one) != len(other):
        return None
    differ = [at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right]
    return (differ[0], other[differ[0]] - one[differ[0]]) if len(differ) == 1 else None


# ---- what a turn reduces


class _Calls:
    """Some operators in order: name, shapes, and, where they are asked for, values and types of their inputs."""

    def __init__(self, tree: Tree, nodes: Ints) -> None:
        self._tree = tree
        self.names = [tree.context.names[code] for code in tree.host.name[nodes].tolist()]
        self.shapes = [tree.shapes.operands(code) for code in tree.dims(nodes).tolist()]
        self._concrete = tree.context.op_column(nodes, "concrete").tolist()
        self._types = tree.context.op_column(nodes, "types").tolist()

    def value(self, at: int, place: int) -> str:
        """Return the recorded value of an input; empty where there is none."""
        texts = self._tree.texts(self._concrete[at]) or []
        return texts[place] if place < len(texts) else ""

    def reduces(self, at: int, axis: int) -> bool:
        """Tell whether a reduction takes one tensor, or a product of two, and reduces that dimension of it."""
        name, operands = self.names[at], self.shapes[at]
        if name in ("aten::max", "aten::min") and len([one for one in operands if one]) > 1:
            return False  # the larger ones of two tensors
        if name == "aten::dot" or len(operands) < 2 or (_TYPED.match(name) and len(operands) == 2):
            return True
        named, size = numbers(self._tree.texts(self._concrete[at]), 1), len(operands[0])
        return size == 1 or (named is not None and (not named or axis in {dim % size for dim in named}))

    def takes_numbers_alone(self, at: int, shape: Shape) -> bool:
        """Tell whether an operator takes tensors as large as a shape, and numbers that are written down, and nothing else."""
        types = self._tree.words(self._types[at]) or []
        main = {types[place] for place, one in enumerate(self.shapes[at]) if one and place < len(types)}
        return all(
            (one == shape if one else place >= len(types) or types[place] not in main)
            for place, one in enumerate(self.shapes[at])
        )


def _one_sequence(tree: Tree, outer: Ints, turns: Ints, axis: int) -> bool:
    """Tell whether all turns reduce, along a dimension, parts that they cut out of the same tensors, and whose numbers are alike.

    They are not where a turn picks a row of its own (``a[i, :i]``), or brings in a number of its own (``x[k:] - x[k]``), or puts
    the numbers of its part in relation (softmax).
    """
    first = max(int(turns[0]) - _REACH, 0)
    calls = _Calls(tree, outer[first : int(turns[-1]) + 1])
    kinds: set[tuple[tuple[Shape, ...], tuple[str, ...]]] = set()
    for before, at in pairwise((turns - first).tolist()):
        made = _made_of(calls, max(before + 1, at - _REACH), at, axis)
        if made is None:
            return False
        kinds.add(made)
    return len(kinds) == 1


def _made_of(calls: _Calls, low: int, at: int, axis: int) -> tuple[tuple[Shape, ...], tuple[str, ...]] | None:
    """Return the tensors that the operand of a reduction is cut out of, and the places that are picked; None where it is not."""
    if not calls.reduces(at, axis):
        return None
    shape = calls.shapes[at][0]
    cut: list[Shape] = []
    picked: list[str] = []
    for place in range(at - 1, low - 1, -1):
        name, inputs = calls.names[place], calls.shapes[place]
        if is_view(name):
            if name in _CUTS and inputs:
                cut.append(inputs[0])
            elif name == _PICKS:
                picked.append(calls.value(place, 2))
        elif shape not in inputs:
            if cut and cut[-1] in inputs:
                return None  # of this turn, as what is cut out of it
            break
        elif not _ELEMENTS.match(name) or not calls.takes_numbers_alone(place, shape):
            return None
    return (tuple(cut), tuple(picked)) if cut and all(picked) else None
