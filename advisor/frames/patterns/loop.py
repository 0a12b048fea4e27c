"""A Python loop over an index: the same few operators again and again, each time on another row or element."""

from __future__ import annotations

import re

import numpy as np

from advisor.frames.patterns.tree import Occurrences, Tree, join, spread
from advisor.intervals import Bools, Ints, fetch
from advisor.timeline.calls import FORWARD, OP

LEAST_REPEATS = 10
_LONGEST = 40  # operators in one turn of the loop
_MIX = np.int64(0x1E3779B97F4A7C15)  # odd, with its bits well spread: products of it, cut to 64 bits, tell codes apart
_INDEXING = frozenset(
    {"aten::select", "aten::slice", "aten::index", "aten::narrow", "aten::index_select", "aten::index_put_",
     "aten::gather", "aten::masked_select", "aten::take"}
)  # fmt: skip
# Operators with weights of their own repeat in every layer of a model: only the module tells a loop from a stack of layers.
_WEIGHTED = re.compile(
    r"^aten::(?:linear|addmm|mm|matmul|bmm|baddbmm|einsum|conv|_?convolution|(?:native_|batch_|layer_|group_|rms_|instance_)*norm$"
    r"|embedding|lstm|gru|rnn|scaled_dot_product|_native_multi_head|_transformer)|^triton_|^Torch-Compiled|Function$"
)


def loops(tree: Tree) -> Occurrences | None:
    """Runs of ten or more turns. Their own is all that they launch, with its backward, and the host's idle meanwhile."""
    indexing = tree.codes_of(_INDEXING.__contains__)
    if len(tree.ops(indexing)) < LEAST_REPEATS:
        return None
    items, token = _items(tree)
    if len(items) < LEAST_REPEATS:
        return None
    weighted = tree.codes_of(lambda name: _WEIGHTED.search(name) is not None)[tree.host.name[items]]
    layered = weighted & (tree.host.attributes.module[items] < 0)
    first, period, repeats = _runs(token, indexing[tree.host.name[items]], layered)
    if not len(first):
        return None
    start, last = items[first], items[first + period * repeats - 1]
    low, high = start, tree.after(last)
    ops = spread(first, first + period * repeats)
    ops.index = items[ops.index]
    inner = spread(low, high)
    inner = inner.where((tree.sequence[inner.index] >= 0) & ~tree.engine[inner.index])
    own = join(tree.launched(low, high), tree.backward_of(inner, low, high))
    # The place is that of the first operator that indexes.
    indexes = ops.where(indexing[tree.host.name[ops.index]])
    _, at = np.unique(indexes.row, return_index=True)
    node = indexes.index[at]
    return Occurrences(
        kind="loop",
        node=node,
        begin=tree.host.start[start],
        end=tree.host.end[last],
        inside=own,
        own=own,
        idle=True,
        figures={"repeats": repeats, "length": period, "dims": tree.dims(node)},
        details=[_spell(tree, items[low:high]) for low, high in zip(first, first + period, strict=True)],
    )


def _items(tree: Tree) -> tuple[Ints, Ints]:
    """Forward operators that Python called, in order, and a number for each that says when, what, in what, and from where."""
    host = tree.host
    attributes = host.attributes
    nodes = np.flatnonzero((host.group == OP) & (attributes.phase == FORWARD))
    around = fetch(attributes.op, host.parent[nodes])
    native = tree.codes_of(
        lambda name: name.startswith(("aten::", "autograd::", "c10d::", "Torch-Compiled", "triton_"))
    )
    inside = (around >= 0) & (host.group[np.maximum(around, 0)] == OP) & native[host.name[np.maximum(around, 0)]]
    nodes, around = nodes[~inside], around[~inside]
    order = np.lexsort((nodes, around, host.thread[nodes]))
    nodes, around = nodes[order], around[order]
    token = np.zeros(len(nodes), np.int64)
    step = tree.context.recording.host_step_of(host.start[nodes])
    user, module = attributes.user[nodes], attributes.module[nodes]
    for values in (step, host.thread[nodes], around, host.name[nodes], user, module):
        token = (token ^ values.astype(np.int64)) * _MIX
        token ^= token >> 29
    return nodes, token


def _runs(token: Ints, indexing: Bools, layered: Bools) -> tuple[Ints, Ints, Ints]:
    """First place, length of a turn and number of turns of every run, the shortest turns first; none overlap."""
    size = len(token)
    busy = np.zeros(size, np.bool_)
    index_count = np.concatenate([np.zeros(1, np.int64), np.cumsum(indexing)])
    layer_count = np.concatenate([np.zeros(1, np.int64), np.cumsum(layered)])
    runs: list[tuple[int, int, int]] = []
    for period in range(1, min(_LONGEST, size // LEAST_REPEATS) + 1):
        same = (token[:-period] == token[period:]) & ~busy[:-period] & ~busy[period:]
        edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
        starts, ends = edges[::2], edges[1::2]
        long = ends - starts >= (LEAST_REPEATS - 1) * period
        for start, end in zip(starts[long].tolist(), ends[long].tolist(), strict=True):
            turns = (end + period - start) // period
            stop = start + turns * period
            busy[start : end + period] = True
            if index_count[stop] - index_count[start] >= turns and layer_count[stop] == layer_count[start]:
                runs.append((start, period, turns))
    table = np.array(sorted(runs), np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _spell(tree: Tree, nodes: Ints) -> str:
    names = [tree.context.names[code].removeprefix("aten::") for code in tree.host.name[nodes].tolist()]
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
