"""Shapes that each step of an optimizer updates, by the operators inside its annotation."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
from msgspec import Struct

from advisor.frames import optimizers
from advisor.frames.patterns.tree import HIGHEST, Tree, spread
from advisor.intervals import Ints
from advisor.regex import regex
from advisor.timeline.calls import OP
from advisor.timeline.context import Context

Shape = tuple[int, ...]
_IN_PLACE = regex(
    r"^aten::(?!(?:zero|fill|resize|detach|set|as_strided|squeeze|unsqueeze|requires_grad|t|transpose)_$)\w*[a-z0-9]_$"
)
LISTED = regex(r"^aten::_(?:foreach|fused)_\w+_$")
"""In-place operators on lists of tensors: their first operand is a list."""
_LAST = "addcdiv_"
"""The operator that changes the parameter, once for each, in every form of Adam, AdamW, NAdam, RAdam, RMSprop and Adagrad."""
_MOST_BYTES = 1 << 16
_MOST_STEPS, _MOST_NODES = 2000, 400_000


class Update(Struct, eq=False):
    """One step: its forest node, and the tensors that it updates, by shape.

    *most* is an upper bound of their number; *count* the number itself, None where the operators do not tell it.
    """

    node: int
    start: int
    end: int
    most: Counter[Shape]
    count: Counter[Shape] | None

    def upto(self, shape: Shape) -> int:
        """Return how many tensors of a shape it updates: the number where it is known, else the most."""
        return (self.most if self.count is None else self.count)[shape]


def updates_known(context: Context) -> bool | None:
    """True where recorded shapes tell what each step of an optimizer updates; None where one hides it, or none was seen."""
    return True if context.once(recorded_updates) is not None else None


def recorded_updates(context: Context) -> list[Update] | None:
    """The same as :func:`updates`, of a recording: found once."""
    return updates(Tree(context)) if len(optimizers.nodes(context)) else None


def updates(tree: Tree) -> list[Update] | None:
    """All steps of optimizers in order; None where there are none, or where one of them does not show what it updates.

    A step that updates nothing with a recorded shape (a compiled one, an extension's), and one on a list that the profiler left
    out (it writes lists of up to 30 tensors), hide which parameters are theirs.
    """
    nodes = optimizers.nodes(tree.context)
    if not 0 < len(nodes) <= _MOST_STEPS:
        return None
    begun, inner = optimizers.begun(tree.context), inner_operators(tree, nodes)
    found = [_update(tree, *one) for one in zip(nodes.tolist(), begun.tolist(), inner, strict=True)]
    kept = [update for update in found if update is not None]
    return kept if len(kept) == len(found) else None


def inner_operators(tree: Tree, nodes: Ints) -> list[Ints]:
    """In-place operators below each of some nodes, but for those that lie in one another."""
    host = tree.host
    below = spread(nodes + 1, tree.after(nodes))
    if len(below.row) > _MOST_NODES:
        return [np.zeros(0, np.int64) for _ in nodes]
    chosen = tree.codes_of(lambda name: _IN_PLACE.match(name) is not None)
    below = below.where((host.group[below.index] == OP) & chosen[host.name[below.index]])
    flags = np.zeros(host.size, np.bool_)
    flags[below.index] = True
    below = below.where(host.above(below.index, flags, HIGHEST) < 0)
    return np.split(below.index, np.searchsorted(below.row, np.arange(1, len(nodes))))


def targets(tree: Tree, node: int) -> list[Shape] | None:
    """Shapes of what an in-place operator writes: of its first operand, or of all in its list; None where they are not recorded."""
    return first_operand(tree, node, listed=LISTED.match(tree.context.names[tree.host.name[node]]) is not None)


def first_operand(tree: Tree, node: int, *, listed: bool) -> list[Shape] | None:
    """Shapes of an operator's first operand, which is a list of tensors if *listed*; None where they are not recorded."""
    code = int(tree.dims(np.array([node]))[0])
    known = tree.lists
    if (code, listed) not in known:
        known[code, listed] = _parsed(bytes(tree.context.recording.recorded.raws[code]) if code >= 0 else b"", listed)
    return known[code, listed]


def _parsed(raw: bytes, listed: bool) -> list[Shape] | None:
    try:
        operands = json.loads(raw) if len(raw) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(operands, list) or not operands or not isinstance(operands[0], list):
        return None
    shapes = operands[0] if listed else [operands[0]]
    if not shapes or not all(isinstance(shape, list) and all(type(size) is int for size in shape) for shape in shapes):
        return None
    return [tuple(shape) for shape in shapes]


def _update(tree: Tree, node: int, begun: int, inner: Ints) -> Update | None:
    counts: dict[str, Counter[Shape]] = {}
    for at in inner[tree.host.start[inner] >= begun].tolist():
        name = tree.context.names[tree.host.name[at]]
        shapes = targets(tree, at)
        if shapes is None:
            return None
        counts.setdefault(name.removeprefix("aten::").removeprefix("_foreach_"), Counter()).update(
            shape for shape in shapes if shape
        )
    shapes_of = {shape for counted in counts.values() for shape in counted}
    if not shapes_of:
        return None
    most = Counter({shape: max(counted[shape] for counted in counts.values()) for shape in shapes_of})
    numbers = {shape: _number({name: c[shape] for name, c in counts.items() if c[shape]}) for shape in shapes_of}
    known = Counter({shape: number for shape, number in numbers.items() if number is not None})
    return Update(node, begun, int(tree.host.end[node]), most, known if len(known) == len(numbers) else None)


def _number(counts: dict[str, int]) -> int | None:
    """Return how many tensors of one shape a step updates, by how often each operator wrote one; None where that does not tell."""
    fused = [count for name, count in counts.items() if name.startswith("_fused_")]
    if fused:
        return sum(fused) if len(fused) == len(counts) else None
    if _LAST in counts:
        return counts[_LAST]
    if len(set(counts.values())) == 1:
        return next(iter(counts.values()))
    # SGD with momentum: the buffer is multiplied and added to, then the parameter.
    return counts["mul_"] if set(counts) == {"add_", "mul_"} and counts["add_"] == 2 * counts["mul_"] else None
