"""A convolution with a bias right before a batch normalization, which takes it out again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from advisor.frames.patterns.tree import Occurrences, Pairs, Tree, join, size_of, spread
from advisor.intervals import Ints
from advisor.regex import regex
from advisor.timeline.calls import OP

_CONVOLUTION = regex(r"^aten::(?:conv[123]d|conv_transpose[123]d)$")
_ADDS = frozenset({"aten::add_", "aten::add"})
_SUMS = regex(r"^aten::sum$|bias")
# Between the two stand at most the count of batches seen and casts.
_MOST_BETWEEN = 4


def biased_convolutions(tree: Tree) -> Occurrences | None:
    """Convolutions whose third operand is a vector, followed by a batch normalization of their output.

    Their own is the addition of the bias, where it is a kernel of its own, and the sum that is the bias's gradient.
    """
    nodes = tree.ops(tree.codes_of(lambda name: _CONVOLUTION.match(name) is not None))
    if not len(nodes):
        return None
    dims = tree.dims(nodes)
    channels = tree.shapes.column(dims, _bias)
    nodes, channels = nodes[channels > 0], channels[channels > 0]
    # Autocast wraps an operator in another of its name: the outer one is the call.
    inner = tree.under(nodes, tree.codes_of(lambda name: _CONVOLUTION.match(name) is not None))
    nodes, channels = nodes[~inner], channels[~inner]
    keep = _before_norm(tree, nodes, channels)
    nodes = nodes[keep]
    if not len(nodes):
        return None
    low, high = nodes, tree.after(nodes)
    inside = tree.launched(low, high)
    forward = spread(low, high)
    forward = forward.where((tree.sequence[forward.index] >= 0) & ~tree.engine[forward.index])
    back = tree.backward_of(forward, low, high)
    adds = _by(tree, inside, _ADDS.__contains__)
    sums = _by(tree, back, lambda name: _SUMS.search(name) is not None)
    return Occurrences(
        kind="conv-bias",
        node=nodes,
        begin=tree.host.start[nodes],
        end=tree.host.end[nodes],
        inside=join(inside, back),
        own=join(adds, sums),
        figures={"dims": tree.dims(nodes)},
    )


def _bias(operands: tuple[tuple[int, ...], ...]) -> int:
    """Length of the bias, 0 without."""
    vector = len(operands) > 2 and len(operands[0]) >= 3 and len(operands[1]) >= 3 and len(operands[2]) == 1
    return size_of(operands[2]) if vector else 0


def _before_norm(tree: Tree, nodes: Ints, channels: Ints) -> Ints:
    """Places of the convolutions that a batch normalization over as many channels follows, with nothing but scalars between."""
    ops = np.flatnonzero(tree.host.group == OP)
    norm = tree.codes_of("aten::batch_norm".__eq__)
    sizes = tree.shapes
    places = []
    for place, (node, width) in enumerate(zip(tree.after(nodes).tolist(), channels.tolist(), strict=True)):
        thread = tree.host.thread[nodes[place]]
        at = np.searchsorted(ops, node)
        for _ in range(_MOST_BETWEEN):
            if at >= len(ops) or tree.host.thread[ops[at]] != thread:
                break
            follower = ops[at : at + 1]
            operands = sizes.operands(int(tree.dims(follower)[0]))
            if norm[tree.host.name[follower[0]]]:
                if operands and len(operands[0]) >= 2 and operands[0][1] == width:
                    places.append(place)
                break
            if max((size_of(shape) for shape in operands), default=-1) > 1:
                break
            at = np.searchsorted(ops, tree.after(follower)[0])
    return np.array(places, np.int64)


def _by(tree: Tree, work: Pairs, holds: Callable[[str], bool]) -> Pairs:
    """The work that operators with certain names launched themselves."""
    launch = tree.work.launch[work.index]
    op = tree.host.attributes.op[launch]
    named = tree.codes_of(holds)
    return work.where((op >= 0) & named[tree.host.name[np.maximum(op, 0)]])
