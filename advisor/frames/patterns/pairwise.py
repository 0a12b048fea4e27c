"""Numbers of all pairs that are written out, only to be summed up: differences of every two rows, or their products.

``a[:, None] - b[None]`` has a row for each pair, as long as those of a and b; squared and summed over it, the distances come from
three passes over a tensor many times as large as both together, and their backward pass from some more. One matrix product of a
and b gives the same sums, and torch.cdist those of absolute differences, without that tensor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import expansions, following, forward, keys, numbers, stored, strides, worked
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints

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
"""What an operator does with the tensor of all pairs."""


@dataclass(frozen=True)
class _All:
    """The tensor of all pairs: its shape, the dimensions that count pairs, and those that both operands have."""

    shape: Shape
    pairs: frozenset[int]
    shared: frozenset[int]
    times: int


def pairwise(tree: Tree) -> Occurrences | None:
    """One row per tensor of all pairs on the CPU that is summed up, and used for nothing else.

    ``repeats`` says how many times larger than its operands it is, ``length`` over how many numbers of a pair it is summed.
    """
    nodes = forward(tree, frozenset(_FIRST) | _WHOLE) if tree.context.cpu_program else np.zeros(0, np.int64)
    if not len(nodes):
        return None
    steps = strides(tree)
    found, of = keys(tree, nodes, "dims", "strides")
    facts = [_all_pairs(tree.shapes.operands(dims), steps.operands(step)) for _, dims, step in found]
    known = np.array([fact is not None for fact in facts], np.bool_)[of]
    nodes, of = nodes[known], of[known]
    if not 0 < len(nodes) <= _MOST:
        return None
    shapes = sorted({fact.shape for fact in facts if fact is not None})
    shape = np.array([shapes.index(fact.shape) if fact else -1 for fact in facts], np.int64)[of]
    chains = _chains(tree, nodes, [facts[one] for one in of.tolist()], shape)
    rows = np.array([row for row, _, _ in chains], np.int64)
    if not len(rows):
        return None
    told = [facts[one] for one in of[rows].tolist()]
    size = np.array([math.prod(fact.shape) if fact else 0 for fact in told], np.int64)
    marks = [(row, node) for row, (_, _, chain) in enumerate(chains) for node in chain]
    own = Pairs(*(np.array(column, np.int64) for column in zip(*marks, strict=True)))
    wide = expansions(tree, nodes[rows], size)
    own = Pairs(np.concatenate([wide.row, own.row]), np.concatenate([wide.index, own.index]))
    last = np.array([max(chain) for _, _, chain in chains], np.int64)
    return Occurrences(
        kind="pairwise",
        node=nodes[rows],
        begin=tree.host.start[nodes[rows]],
        end=tree.host.end[last],
        inside=NOTHING,
        own=NOTHING,
        ops=worked(tree, own, backward=np.ones(len(rows), np.bool_)),
        figures={
            "repeats": np.array([fact.times if fact else 0 for fact in told], np.int64),
            "length": np.array([math.prod(fact.shape[dim] for dim in fact.shared) if fact else 0 for fact in told], np.int64),
            "part": np.full(len(rows), MILLION, np.int64),
            "dims": tree.dims(nodes[rows]),
        },
        details=[_FORMS[form] for _, form, _ in chains],
    )


def _all_pairs(operands: tuple[Shape, ...], steps: tuple[Shape, ...]) -> _All | None:
    """What two operands that broadcast against each other give; None where the result is not much larger than they are."""
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


def _chains(tree: Tree, nodes: Ints, facts: list[_All | None], shape: Ints) -> list[tuple[int, int, list[int]]]:
    """Rows whose tensor is summed up and not used again: the row, the form, and the nodes of its operators."""
    host = tree.host
    low = tree.after(nodes)
    high = low + _REACH
    # What follows the next tensor of that shape may be its.
    order = np.lexsort((nodes, host.thread[nodes], shape))
    same = (shape[order][1:] == shape[order][:-1]) & (host.thread[nodes][order][1:] == host.thread[nodes][order][:-1])
    high[order[:-1][same]] = np.minimum(high[order[:-1][same]], nodes[order[1:][same]])
    behind = following(tree, nodes, low, high)
    found, of = keys(tree, behind.index, "dims", "concrete")
    kinds, which = np.unique(np.stack([shape[behind.row], of], axis=1), axis=0, return_inverse=True)
    first = {int(one): row for row, one in reversed(list(enumerate(shape.tolist())))}
    uses = np.array([_use(tree, facts[first[one]], *found[key]) for one, key in kinds.tolist()], np.int64)
    use = uses[which.ravel()] if len(uses) else np.zeros(0, np.int64)
    at, until = (np.searchsorted(behind.row, np.arange(len(nodes)), side=side) for side in ("left", "right"))
    names = [tree.context.names[code] for code in host.name[nodes].tolist()]
    out = []
    for row in range(len(nodes)):
        if names[row] in _WHOLE:
            out.append((row, _PRODUCT, [int(nodes[row])]))
            continue
        mine = slice(int(at[row]), int(until[row]))
        used = [(int(kind), int(node)) for kind, node in zip(use[mine], behind.index[mine], strict=True) if kind != NONE]
        form, chain = _form(_FIRST[names[row]], used)
        fact = facts[row]
        if form in _FORMS and fact is not None and (form != _ABSOLUTE or math.prod(fact.shape) > _CACHED):
            out.append((row, form, [int(nodes[row]), *chain]))
    return out


def _form(form: int, used: list[tuple[int, int]]) -> tuple[int, list[int]]:
    """Follow the uses of a tensor of all pairs up to its sum: what is summed (-1: none that is known), and the operators."""
    chain = []
    for place, (use, node) in enumerate(used):
        chain.append(node)
        if use == SQUARE and form == _DIFFERENCE:
            form = _SQUARED
        elif use == ABSOLUTE and form == _DIFFERENCE:
            form = _ABSOLUTE
        elif use in (NORM_1, NORM_2) and form == _DIFFERENCE:
            form = _SQUARED if use == NORM_2 else _ABSOLUTE
            return (form if place == len(used) - 1 else -1), chain
        elif use == SUM and form != _DIFFERENCE:
            return (form if place == len(used) - 1 else -1), chain
        elif use != SCALE or form == _ABSOLUTE:
            return -1, []
    return -1, []


def _use(tree: Tree, fact: _All | None, name: int, dims: int, concrete: int) -> int:
    operands = tree.shapes.operands(dims)
    if fact is None or fact.shape not in operands:
        return NONE
    operator, texts = tree.context.names[name].removeprefix("aten::"), tree.texts(concrete)
    if operator in ("pow", "pow_"):
        return SQUARE if texts and len(texts) > 1 and texts[1] in ("2", "2.", "2.0") else OTHER
    if operator in ("square", "abs", "square_", "abs_"):
        return SQUARE if operator.startswith("square") else ABSOLUTE
    if operator == "mul" and operands[:2] == (fact.shape, fact.shape):
        return SQUARE
    if operator in ("mul", "div", "add", "sub", "mul_", "div_") and operands[0] == fact.shape:
        return SCALE if _of_coordinates(fact, operands[1] if len(operands) > 1 else ()) else OTHER
    if operator in ("sum", "mean", "nansum"):
        return SUM if _reduces(fact, numbers(texts, 1)) else OTHER
    if operator in ("norm", "linalg_vector_norm", "frobenius_norm", "linalg_norm"):
        place = 1 if operator == "frobenius_norm" else 2
        if not _reduces(fact, numbers(texts, place)):
            return OTHER
        power = texts[1] if texts and operator != "frobenius_norm" else "2"
        return {"": NORM_2, "2": NORM_2, "2.": NORM_2, "1": NORM_1, "1.": NORM_1}.get(power, OTHER)
    return OTHER


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

