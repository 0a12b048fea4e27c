"""Tensors of an int8 network that are dequantized, and quantized again by the next operator: ``quant(dequant(x))``.

Each block of such a network has stubs of its own. Between two operators that both take int8 the numbers need not become floats: the
first writes its output with the scale that the second asks for.
"""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.gathered import Memory
from advisor.frames.patterns.operands import owned
from advisor.frames.patterns.tree import Occurrences, Tree, size_of
from advisor.intervals import Bools, Ints
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD
from advisor.timeline.operator_names import moves_no_data

_BACK = frozenset({"aten::dequantize"})
_AGAIN = frozenset({"aten::quantize_per_tensor", "aten::quantize_per_tensor_dynamic"})
_QUANTIZES = regex(r"^aten::quantize_per_|^quantized::quantize")
_INT8 = regex(r"^c10::q(?:u?int8|int32)$")
_MOST = 200_000


def quantized_again(tree: Tree) -> Occurrences | None:
    """One row per tensor that one int8 operator makes and another takes, dequantized and quantized again between.

    Nothing that reads or writes numbers lies between the two, both see the same shape, and no step ends between: one that has an
    image in and an image out begins with another one. A tensor that was quantized right
    before it is dequantized simulates int8, and counts no more than one that goes on as floats. Where the floats are kept for
    longer than it takes to make the next ones, something else reads them: what makes them stays. ``length`` are its elements.
    """
    if not tree.context.cpu_program:
        return None
    host = tree.host
    back, again = tree.codes_of(_BACK.__contains__), tree.codes_of(_AGAIN.__contains__)
    if not (back.any() and again.any()):
        return None
    silent = tree.codes_of(moves_no_data)
    nodes = tree.outermost[~silent[host.name[tree.outermost]]]
    nodes = nodes[host.attributes.phase[nodes] != BACKWARD][:_MOST]
    nodes = nodes[np.lexsort((host.start[nodes], host.thread[nodes]))]
    if len(nodes) < 4:
        return None
    name, thread = host.name[nodes], host.thread[nodes]
    at = np.flatnonzero(back[name[1:-2]] & again[name[2:-1]] & (thread[:-3] == thread[3:])) + 1
    step = tree.context.recording.host_step_of(host.start[nodes])
    at = at[step[at] == step[at + 1]]
    if not len(at):
        return None
    int8 = _takes_int8(tree, nodes, tree.codes_of(lambda label: label.startswith("quantized::")))
    makes = int8 & ~tree.codes_of(lambda label: _QUANTIZES.match(label) is not None)[name] & ~back[name]
    at = at[makes[at - 1] & makes[at + 2]]
    given, taken = ([tree.shapes.operands(code)[:1] for code in tree.dims(nodes[one]).tolist()] for one in (at, at + 1))
    sizes = np.array(
        [size_of(one[0]) if one and one == other else -1 for one, other in zip(given, taken, strict=True)], np.int64
    )
    at, sizes = at[sizes > 0], sizes[sizes > 0]
    if not len(at):
        return None
    own = np.full(host.size, -1, np.int64)
    own[nodes[at + 1]] = np.arange(len(at))
    last = np.flatnonzero(back[name])
    gone = _kept(tree, nodes, at, sizes.tolist(), last)
    own[nodes[at[~gone]]] = np.flatnonzero(~gone)
    inside, ops, python = owned(tree, host.flow(own))
    node: Ints = nodes[at]
    return Occurrences(
        kind="quantized-again",
        node=node,
        begin=host.start[node],
        end=host.end[nodes[at + 1]],
        inside=inside,
        own=inside,
        ops=ops,
        python=python,
        figures={
            "length": sizes,
            "dims": tree.dims(node),
        },
    )


def _kept(tree: Tree, nodes: Ints, at: Ints, sizes: list[int], back: Ints) -> Bools:
    """Flag floats that are still there as the second tensor behind them is made, or their step has ended; unknown ones are not.

    A module's caller holds what it gave the module until that returns.
    """
    memory, host = Memory(tree), tree.host
    step = tree.context.recording.host_step_of(host.start[nodes])
    last = dict(zip(step.tolist(), range(len(nodes)), strict=True))
    out = np.zeros(len(at), np.bool_)
    if not len(memory.when):
        return out
    for row, (place, size) in enumerate(zip(at.tolist(), sizes, strict=True)):
        second = int(np.searchsorted(back, place, side="right")) + 1
        until = int(back[second]) if second < len(back) else len(nodes) - 1
        until = min(until, last[int(step[place])])
        freed = memory.freed(int(nodes[place]), size, "float")
        out[row] = freed is not None and freed >= host.end[nodes[until]]
    return out


def _takes_int8(tree: Tree, nodes: Ints, quantized: Bools) -> Bools:
    """Flag operators of a quantized kind, and those of which the first operand is of int8."""
    types = tree.context.op_column(nodes, "types")
    known = {code: bool(_INT8.match((tree.words(code) or [""])[0])) for code in set(types.tolist())}
    return quantized[tree.host.name[nodes]] | np.array([known[code] for code in types.tolist()], np.bool_)
