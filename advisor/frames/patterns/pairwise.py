"""Numbers of all pairs that are written out, only to be summed up: differences of every two rows, or their products.

``a[:, None] - b[None]`` has a row for each pair, as long as those of a and b; squared and summed over it, the distances come from
three passes over a tensor many times as large as both together, and their backward pass from some more. One matrix product of a
and b gives the same sums, and torch.cdist those of absolute differences, without that tensor.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import (
    around,
    expansions,
    following,
    forward,
    keys,
    launched_of,
    numbers,
    stored,
    worked,
)
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, join
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints
from advisor.timeline.calls import BACKWARD

_DIFFERENCE, _PRODUCT, _SQUARED, _ABSOLUTE = range(4)
_FORMS = {_PRODUCT: "products", _SQUARED: "squared differences", _ABSOLUTE: "absolute differences"}
_FIRST = {"aten::sub": _DIFFERENCE, "aten::mul": _PRODUCT, "aten::mse_loss": _SQUARED}
_WHOLE = frozenset({"aten::cosine_similarity"})
"""Operators that multiply and sum up themselves."""
_TIMES = 8
"""The tensor of all pairs has so many times the elements of both operands together."""
_LEAST = 1 << 14
_CACHED = 1 << 23
"""Elements up to which absolute differences stay as they are: what torch.cdist(p=1) returned was a tenth to seven tenths of them,
and above that (32 MB, from where the C library maps memory anew for each tensor) six sevenths."""
_REACH = 400
_MOST = 20_000
NONE, SQUARE, ABSOLUTE, SCALE, NORM_1, NORM_2, SUM, OTHER = range(8)
"""Uses of the tensor of all pairs by an operator."""
_NEXT = {SQUARE: _SQUARED, NORM_2: _SQUARED, ABSOLUTE: _ABSOLUTE, NORM_1: _ABSOLUTE}
_ALONE = {"square": SQUARE, "square_": SQUARE, "abs": ABSOLUTE, "abs_": ABSOLUTE}
_SCALES = frozenset({"mul", "mul_", "div", "div_", "add", "sub"})
_SUMS = frozenset({"sum", "mean", "nansum"})
_NORMS = {"norm": 2, "linalg_vector_norm": 2, "linalg_norm": 2, "frobenius_norm": 1}
"""Norms, and the place of their dimensions."""
_TWO = ("2", "2.", "2.0")
_LEFT = {_PRODUCT: (1, 2), _SQUARED: (6, 10)}
"""Numbers for each pair that are read or written where a product takes the place of the tensor of pairs: forward and backward.
Of distances that is its result, the squares that are added to it, what keeps it above 0 and its root."""
_PRODUCTS = (0.06, 0.12)
"""Arithmetic of these products, as a part of a pass that writes the tensor of pairs: 32-bit units of V100 to H100 take 3 to 6 %."""
_LEAST_NS = 2000
"""The least time of each of these passes: of short kernels, which read and write."""


class _All(Struct, frozen=True):
    """The tensor of all pairs: its shape, the dimensions that count pairs, and those that both operands have."""

    shape: Shape
    pairs: frozenset[int]
    shared: frozenset[int]
    times: int


class _Made(Struct, frozen=True):
    """Tensors of all pairs in order: the operators that make them."""

    node: Ints
    fact: list[_All]


class _Sum(Struct, frozen=True):
    """A tensor that is summed up: its row, what is summed, and the operators that make and take it."""

    row: int
    form: int
    nodes: list[int]


def pairwise(tree: Tree) -> Occurrences | None:
    """One row per tensor of all pairs that is summed up, and used for nothing else.

    ``repeats`` says how many times larger than its operands it is, ``length`` over how many numbers of a pair it is summed, and
    ``part`` is what a product, or torch.cdist, spares of its time at most. On a GPU it is a row where anything is spared; sums of
    absolute differences are none: torch.cdist writes such a tensor there as well, for their gradient.
    """
    made = _made(tree) if tree.context.cpu_program or tree.context.device >= 0 else None
    sums = _sums(tree, made) if made is not None else []
    if made is None or not sums:
        return None
    if tree.context.cpu_program:
        own = _marks(tree, made, sums)
        ops = worked(tree, own, backward=np.ones(len(sums), np.bool_))
        facts = [made.fact[one.row] for one in sums]
        parts = [_spared(fact, one.form) for fact, one in zip(facts, sums, strict=True)]
        return _occurrences(tree, made, sums, parts, NOTHING, ops)
    parts = _spared_on_gpu(tree, made, sums)
    sums = [one for one, part in zip(sums, parts, strict=True) if part > 0]
    if not sums:
        return None
    inside = _launched(tree, _marks(tree, made, sums))
    return _occurrences(tree, made, sums, [part for part in parts if part > 0], inside, NOTHING)


def _occurrences(tree: Tree, made: _Made, sums: list[_Sum], parts: list[int], inside: Pairs, ops: Pairs) -> Occurrences:
    nodes = made.node[[one.row for one in sums]]
    facts = [made.fact[one.row] for one in sums]
    return Occurrences(
        kind="pairwise",
        node=nodes,
        begin=tree.host.start[nodes],
        end=tree.host.end[[max(one.nodes) for one in sums]],
        inside=inside,
        own=inside,
        ops=ops,
        figures={
            "repeats": np.array([fact.times for fact in facts], np.int64),
            "length": np.array(
                [_width(tree, fact, one.nodes[-1]) for fact, one in zip(facts, sums, strict=True)], np.int64
            ),
            "part": np.array(parts, np.int64),
            "dims": tree.dims(nodes),
        },
        details=[_FORMS[one.form] for one in sums],
    )


def _marks(tree: Tree, made: _Made, sums: list[_Sum]) -> Pairs:
    """Pairs of a row and each of its operators, with what expanded its operands."""
    nodes = made.node[[one.row for one in sums]]
    marks = [(row, node) for row, one in enumerate(sums) for node in one.nodes]
    own = Pairs(*(np.array(column, np.int64) for column in zip(*marks, strict=True)))
    sizes = np.array([math.prod(made.fact[one.row].shape) for one in sums], np.int64)
    return join(expansions(tree, nodes, sizes), own)


def _launched(tree: Tree, marks: Pairs) -> Pairs:
    """GPU work of some operators, and of their backward pass."""
    own = np.full(tree.host.size, -1, np.int64)
    own[marks.index] = marks.row
    return launched_of(tree, tree.host.with_backward(own))


def _spared_on_gpu(tree: Tree, made: _Made, sums: list[_Sum]) -> list[int]:
    """Millionths of the time that are spared on a GPU: all but what the products take, told by the pass that writes the tensor."""
    count, work = len(sums), tree.work
    first = tree.launched_below(made.node[[one.row for one in sums]]).total(work.end - work.start, count)
    inside = _launched(tree, _marks(tree, made, sums))
    time = inside.total(work.end - work.start, count)
    late = tree.context.phases(work.launch[inside.index]) == BACKWARD
    trains = np.bincount(inside.row[late], minlength=count) > 0
    found = []
    for one, pass_ns, own_ns, late_too in zip(sums, first.tolist(), time.tolist(), trains.tolist(), strict=True):
        left = _left(one.form, _width(tree, made.fact[one.row], one.nodes[-1]), pass_ns, late_too)
        found.append(round(MILLION * max(1 - left / max(own_ns, 1), 0)))
    return found


def _width(tree: Tree, fact: _All, node: int) -> int:
    """Numbers of each pair that an operator sums up."""
    name = tree.context.names[tree.host.name[node]].removeprefix("aten::")
    place = 2 if f"aten::{name}" in _WHOLE else _NORMS.get(name, 1)
    told = numbers(tree.texts(int(tree.context.op_column(np.array([node]), "concrete")[0])), place)
    rank = len(fact.shape)
    dims = {dim % rank for dim in told if -rank <= dim < rank} if told else set(fact.shared)
    return math.prod(fact.shape[dim] for dim in dims)


def _left(form: int, width: int, pass_ns: int, trains: bool) -> float:
    """ns that products and what is done to their result take, where writing the tensor of pairs takes *pass_ns*; none for sums of
    absolute differences: infinite.
    """
    if form not in _LEFT:
        return math.inf
    passes = sum(_LEFT[form][: 1 + trains])
    return passes * max(pass_ns / max(width, 1), _LEAST_NS) + sum(_PRODUCTS[: 1 + trains]) * pass_ns


def _spared(fact: _All, form: int) -> int:
    """Millionths of the time that are spared on the CPU: the part that a product or torch.cdist did not take, at most."""
    return round(MILLION * (0.9 if form == _ABSOLUTE else 1.0 if math.prod(fact.shape) > _CACHED else 0.92))


def _made(tree: Tree) -> _Made | None:
    nodes = forward(tree, frozenset(_FIRST) | _WHOLE)
    if not len(nodes):
        return None
    found, of = keys(tree, nodes, "dims", "strides")
    facts = [_all_pairs(tree.shapes.operands(dims), tree.strides.operands(step)) for _, dims, step in found]
    known = np.array([fact is not None for fact in facts], np.bool_)[of]
    told = [fact for fact in (facts[one] for one in of[known].tolist()) if fact is not None]
    return _Made(nodes[known], told) if 0 < len(told) <= _MOST else None


def _all_pairs(operands: tuple[Shape, ...], steps: tuple[Shape, ...]) -> _All | None:
    """The result of two operands that broadcast against each other; None where the result is not much larger than they are."""
    if len(operands) < 2 or len(steps) < 2 or not operands[0] or not operands[1]:
        return None
    left, right = (stored(shape, step) for shape, step in zip(operands[:2], steps[:2], strict=True))
    rank = max(len(left), len(right))
    left, right = (1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right
    if any(1 < one != other > 1 for one, other in zip(left, right, strict=True)):
        return None
    shape = tuple(map(max, left, right))
    size, both = math.prod(shape), math.prod(left) + math.prod(right)
    pairs = frozenset(at for at in range(rank) if left[at] != right[at])
    sides = {left[at] > 1 for at in pairs}
    if len(sides) < 2 or size < _TIMES * both or not _LEAST <= size < 1 << 50:
        return None
    shared = frozenset(at for at in range(rank) if left[at] == right[at] > 1)
    return _All(shape, pairs, shared, size // both) if shared else None


def _sums(tree: Tree, made: _Made) -> list[_Sum]:
    """Tensors that are summed up and not used again."""
    host, nodes = tree.host, made.node
    shapes = {shape: number for number, shape in enumerate(dict.fromkeys(fact.shape for fact in made.fact))}
    shape = np.array([shapes[fact.shape] for fact in made.fact], np.int64)
    low = tree.after(nodes)
    high = low + _REACH
    # What follows the next tensor of that shape may be its.
    order = np.lexsort((nodes, host.thread[nodes], shape))
    same = (np.diff(shape[order]) == 0) & (np.diff(host.thread[nodes][order]) == 0)
    high[order[:-1][same]] = np.minimum(high[order[:-1][same]], nodes[order[1:][same]])
    behind = following(tree, nodes, low, high)
    found, of = keys(tree, behind.index, "dims", "concrete")
    kind = {fact: number for number, fact in enumerate(dict.fromkeys(made.fact))}
    facts, each = list(kind), np.array([kind[fact] for fact in made.fact], np.int64)
    kinds, which = np.unique(np.stack([each[behind.row], of], axis=1), axis=0, return_inverse=True)
    uses = np.array([_use(tree, facts[one], *found[key]) for one, key in kinds.tolist()], np.int64)
    use = uses[which.ravel()] if len(uses) else np.zeros(0, np.int64)
    behind, use = behind.where(use != NONE), use[use != NONE]
    at, until = (np.searchsorted(behind.row, np.arange(len(nodes)), side=side).tolist() for side in ("left", "right"))
    callers = around(tree, nodes).tolist()
    out = []
    for row, (node, name) in enumerate(zip(nodes.tolist(), host.name[nodes].tolist(), strict=True)):
        operator, mine = tree.context.names[name], slice(at[row], until[row])
        if operator in _WHOLE:
            out.append(_Sum(row, _PRODUCT, [node]))
            continue
        form = _form(_FIRST[operator], use[mine].tolist())
        if form in _FORMS and (form != _ABSOLUTE or math.prod(made.fact[row].shape) > _CACHED):
            caller = callers[row]
            inside = caller >= 0 and tree.context.names[host.name[caller]] == "aten::pairwise_distance"
            out.append(_Sum(row, form, [*([caller] if inside else []), node, *behind.index[mine].tolist()]))
    return out


def _form(form: int, uses: list[int]) -> int:
    """Follow the uses of a tensor of all pairs up to its sum, which has to be the last: what is summed; -1 for anything else."""
    for place, use in enumerate(uses):
        last = place == len(uses) - 1
        if use in _NEXT and form == _DIFFERENCE:
            form = _NEXT[use]
            if use in (NORM_1, NORM_2):
                return form if last else -1
        elif use == SUM and form != _DIFFERENCE:
            return form if last else -1
        elif use != SCALE or form == _ABSOLUTE:
            return -1
    return -1


def _use(tree: Tree, fact: _All, name: int, dims: int, concrete: int) -> int:
    operands = tree.shapes.operands(dims)
    if fact.shape not in operands:
        return NONE
    operator, texts = tree.context.names[name].removeprefix("aten::"), tree.texts(concrete) or []
    if operator in _ALONE:
        return _ALONE[operator]
    if operator in ("pow", "pow_"):
        return SQUARE if _word(texts, 1) in _TWO else OTHER
    if operator == "mul" and operands[:2] == (fact.shape, fact.shape):
        return SQUARE
    if operator in _SCALES and operands[0] == fact.shape:
        return SCALE if _of_coordinates(fact, operands[1] if len(operands) > 1 else ()) else OTHER
    if operator in _SUMS:
        return SUM if _reduces(fact, numbers(texts, 1)) else OTHER
    if operator in _NORMS and _reduces(fact, numbers(texts, _NORMS[operator])):
        power = "2" if operator == "frobenius_norm" else _word(texts, 1)
        return NORM_2 if power in ("", *_TWO) else NORM_1 if power in ("1", "1.") else OTHER
    return OTHER


def _word(texts: list[str], place: int) -> str:
    return texts[place] if place < len(texts) else ""


def _of_coordinates(fact: _All, other: Shape) -> bool:
    """Tell whether an operand has a number for each coordinate at most: none for each pair."""
    if len(other) > len(fact.shape):
        return False
    place = len(fact.shape) - len(other)
    return all(size == 1 or place + at not in fact.pairs for at, size in enumerate(other))


def _reduces(fact: _All, dims: Shape | None) -> bool:
    """Tell whether a reduction runs over dimensions that both operands have; over all of them where none is named."""
    rank = len(fact.shape)
    if not dims:
        return True
    return all(-rank <= dim < rank and dim % rank in fact.shared for dim in dims)
