"""Recurrent cells that Python calls once for each time step, though all their inputs are known before the first.

``for t in range(T): h, c = cell(x[:, t], (h, c))`` is nn.LSTM written out. A decoder that takes its own output as the next input
is none: there something that samples, attends or joins stands between a cell and its input, or nothing that picks a time step.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.tree import NOTHING, Occurrences, Tree, size_of
from advisor.frames.patterns.turns import Turns, owned, turns
from advisor.frames.patterns.updates import Shape
from advisor.regex import regex

_CELLS = regex(r"^aten::(?:lstm_cell|gru_cell|rnn_(?:tanh|relu)_cell)$")
_LAYERS = regex(r"^aten::(?:lstm|gru|rnn_tanh|rnn_relu)$")
_FILLS = regex(r"^aten::(?:add|where|lerp)_?$")
_SPARED = {"lstm": (0.9, 9e6), "gru": (0.25, 4e7), "rnn": (0.4, 4e6)}
"""Part of a cell's time that its layer spares, for small sizes, and the multiply-adds of a call at which it is half of that."""
_BESIDE = 0.88
"""Part that is spared of what else the loop does in each turn, when it is done once for all."""
_LONG_NS = 200_000
"""From so long on what stands beside the cells is work of its own, and no matter of calls."""


class _Loop(Struct, eq=False):
    """A loop over time: its turns, the positions that it owns, and the spared part of each."""

    turns: Turns
    cells: list[int]
    spared: dict[int, float]


def unrolled_cells(tree: Tree) -> Occurrences | None:
    """One row per loop on the CPU that calls recurrent cells on inputs that are known before it.

    ``repeats`` are its turns, ``length`` the size of the hidden state, and ``part`` what the layer spares of what it owns: the
    operators of the turns, their backward, what joins their results, and the Python that leads to all of these.
    """
    cells = tree.ops(tree.codes_of(_named)) if tree.context.cpu_program else np.zeros(0, np.int64)
    loops = [loop for one in turns(tree) if (loop := _loop(one)) is not None] if len(cells) else []
    if not loops:
        return None
    host, count = tree.host, len(loops)
    own, rate = np.full(host.size, -1, np.int64), np.zeros(host.size)
    for row, loop in enumerate(loops):
        for place, spared in loop.spared.items():
            own[loop.turns.nodes[:, place]], rate[loop.turns.nodes[:, place]] = row, spared
        joined = loop.turns.join()
        own[joined], rate[joined] = row, 1.0
    marked = np.flatnonzero(own >= 0)
    source = np.full(host.size, -1, np.int64)
    source[marked] = marked
    of = host.with_backward(source)[tree.context.op_rows]
    ops, python, part = owned(tree, of, own, rate, count)
    first = np.array([loop.turns.nodes[0, loop.cells[0]] for loop in loops], np.int64)
    return Occurrences(
        kind="unrolled-cell",
        node=first,
        begin=host.start[np.array([loop.turns.nodes[0, 0] for loop in loops])],
        end=host.end[np.array([loop.turns.nodes[-1, -1] for loop in loops])],
        inside=NOTHING,
        own=NOTHING,
        ops=ops,
        python=python,
        figures={
            "repeats": np.array([loop.turns.count for loop in loops], np.int64),
            "length": np.array([_state(loop.turns, loop.cells[0])[-1] for loop in loops], np.int64),
            "part": part,
            "dims": tree.dims(first),
        },
        details=[loop.turns.names[loop.cells[0]].removeprefix("aten::") for loop in loops],
    )


def _named(name: str) -> bool:
    return _CELLS.match(name) is not None or _LAYERS.match(name) is not None


def _input(one: Turns, place: int) -> Shape:
    return one.operands[place][0]


def _state(one: Turns, place: int) -> Shape:
    return one.operands[place][1]


def _loop(one: Turns) -> _Loop | None:
    """Return a loop that calls cells on known inputs; None for any other."""
    cells = [at for at, name in enumerate(one.names) if _named(name) and len(one.operands[at]) > 3]
    cells = [at for at in cells if _CELLS.match(one.names[at]) or 1 in _input(one, at)[:2]]
    if not cells or not _known(one, cells) or _reset(one, _state(one, cells[0])):
        return None
    spared = {at: _of_cell(one, at) for at in cells}
    for at in range(one.period):
        if at not in spared and one.mean_ns[at] < _LONG_NS:
            spared[at] = 1.0 if one.picked(at) else _BESIDE
    return _Loop(one, cells, spared)


def _known(one: Turns, cells: list[int]) -> bool:
    """Tell whether what the first cell takes is picked from a tensor, and every other takes what one before it gives."""
    fed = [one.fed(at, cells.__contains__) for at in cells]
    if any(each.how == "mixed" for each in fed):
        return False
    picks = [(at, each) for at, each in zip(cells, fed, strict=True) if each.how == "pick"]
    if picks:
        return all(each.through or one.picked(each.place) == size_of(_input(one, at)) for at, each in picks)
    # The loop goes over what unbind gave, unless a layer in it gives what the cell takes.
    taken = _input(one, cells[0])
    if not taken:
        return False
    wide = taken[-1]
    layers = [one.operands[at] for at, name in enumerate(one.names) if name in ("aten::linear", "aten::embedding")]
    gives = any(len(each) > 1 and (each[1][:1] == (wide,) or each[0][-1:] == (wide,)) for each in layers)
    return not gives and one.unbound(size_of(taken))


def _reset(one: Turns, state: Shape) -> bool:
    """Tell whether states are set to zero between time steps: multiplied by a number for each sample, and not filled up again."""
    masked, filled = 0, 0
    for at, name in enumerate(one.names):
        shapes = one.tensors(at)
        mask = len(shapes) > 1 and size_of(shapes[0]) != size_of(shapes[1]) and state[-2] in map(size_of, shapes)
        masked += bool(name in ("aten::mul", "aten::mul_") and mask)
        filled += bool(_FILLS.match(name) and size_of(state) in map(size_of, shapes))
    return masked > 0 and not filled


def _of_cell(one: Turns, place: int) -> float:
    """Part of a cell's time that its layer spares, by its multiply-adds in one call."""
    kind = one.names[place].removeprefix("aten::").split("_")[0]
    small, half = _SPARED[kind]
    weights = [shape for shape in one.operands[place][2:] if len(shape) == 2 and shape != _state(one, place)]
    rows = math.prod(_state(one, place)[:-1])
    return small / (1 + rows * sum(map(size_of, weights)) / half)
