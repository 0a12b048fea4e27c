"""A Python loop: the same few operators again and again, each time on another row or element, parameter or time step."""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.tree import Occurrences, Tree, join, spread
from advisor.intervals import Bools, Ints, fetch
from advisor.regex import regex
from advisor.timeline.calls import FORWARD, OP

LEAST_REPEATS = 10
_LONGEST = 40  # operators in one turn of the loop
_MIX = np.int64(0x1E3779B97F4A7C15)  # odd, with its bits well spread: products of it, cut to 64 bits, tell codes apart
_INDEXING = frozenset(
    {"aten::select", "aten::slice", "aten::index", "aten::narrow", "aten::index_select", "aten::index_put_",
     "aten::gather", "aten::masked_select", "aten::take"}
)  # fmt: skip
# Operators with weights of their own repeat in every layer of a model: only the module tells a loop from a stack of layers.
_WEIGHTED = regex(
    r"^aten::(?:linear|addmm|mm|matmul|bmm|baddbmm|einsum|conv|_?convolution|(?:native_|batch_|layer_|group_|rms_|instance_)*norm$"
    r"|embedding|lstm|gru|rnn|scaled_dot_product|_native_multi_head|_transformer)|^triton_|^Torch-Compiled|Function$"
)


def loops(tree: Tree) -> list[Occurrences]:
    """Runs of ten or more turns: those that index, and the others.

    Their own is all that they launch, with its backward, and the host's idle meanwhile.
    """
    indexing = tree.codes_of(_INDEXING.__contains__)
    if tree.context.device < 0 and len(tree.ops(indexing)) < LEAST_REPEATS:
        return []  # on the CPU a loop launches nothing
    items, token = items_of(tree)
    if len(items) < LEAST_REPEATS:
        return []
    weighted = tree.codes_of(lambda name: _WEIGHTED.search(name) is not None and not name.endswith("_cell"))[
        tree.host.name[items]
    ]
    layered = weighted & (tree.host.attributes.module[items] < 0)
    found = runs(token)
    found = found[_within(layered, found) == 0]
    first, period, repeats = found.T
    indexed = _within(indexing[tree.host.name[items]], found) >= repeats
    placed = tree.host.attributes.user[items[first]] >= 0
    # Of those that do not index only what launches: views alone cost nothing here.
    last = items[first + period * repeats - 1] if len(first) else first
    launched = np.bincount(tree.launched(items[first], tree.after(last)).row, minlength=len(first)) >= repeats
    kinds = (("loop", indexed), ("repeat", ~indexed & placed & launched))
    return [
        _occurrences(tree, kind, items, (first[rows], period[rows], repeats[rows]), indexing)
        for kind, rows in kinds
        if rows.any()
    ]


def _occurrences(tree: Tree, kind: str, items: Ints, runs: tuple[Ints, Ints, Ints], indexing: Bools) -> Occurrences:
    """Occurrences of some runs: the first item, the length of a turn and the number of turns of each."""
    first, period, repeats = runs
    start, last = items[first], items[first + period * repeats - 1]
    low, high = start, tree.after(last)
    ops = spread(first, first + period * repeats)
    ops.index = items[ops.index]
    inner = spread(low, high)
    inner = inner.where((tree.sequence[inner.index] >= 0) & ~tree.engine[inner.index])
    own = join(tree.launched(low, high), tree.backward_of(inner, low, high))
    # The place is that of the first operator that indexes, if one does.
    indexes = ops.where(indexing[tree.host.name[ops.index]])
    rows, at = np.unique(indexes.row, return_index=True)
    node = start.copy()
    node[rows] = indexes.index[at]
    return Occurrences(
        kind=kind,
        node=node,
        begin=tree.host.start[start],
        end=tree.host.end[last],
        inside=own,
        own=own,
        idle=True,
        figures={"repeats": repeats, "length": period, "dims": tree.dims(node)},
        details=[_spell(tree, items[low:high]) for low, high in zip(first, first + period, strict=True)],
    )


def items_of(tree: Tree, *, shapes: bool = False, modules: bool = True) -> tuple[Ints, Ints]:
    """Forward operators that Python called, in order, and a number for each that says when, what, in what, and from where.

    With *shapes* it also says on operands of which shapes; without *modules* not in which module.
    """
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
    told = [step, host.thread[nodes], around, host.name[nodes], user, *([module] if modules else [])]
    for values in (*told, tree.dims(nodes)) if shapes else told:
        token = (token ^ values.astype(np.int64)) * _MIX
        token ^= token >> 29
    return nodes, token


def runs(token: Ints, least: int = LEAST_REPEATS) -> Ints:
    """First place, length of a turn, number of turns of every run of *least* turns or more; none overlap."""
    size = len(token)
    busy = np.zeros(size, np.bool_)
    found: list[tuple[int, int, int]] = []
    for period in range(1, min(_LONGEST, size // least) + 1):
        same = (token[:-period] == token[period:]) & ~busy[:-period] & ~busy[period:]
        edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
        starts, ends = edges[::2], edges[1::2]
        long = ends - starts >= (least - 1) * period
        for start, end in zip(starts[long].tolist(), ends[long].tolist(), strict=True):
            busy[start : end + period] = True
            found.append((start, period, (end + period - start) // period))
    return np.array(sorted(found), np.int64).reshape(-1, 3)


def _within(flags: Bools, found: Ints) -> Ints:
    """The number of flagged items of each run."""
    count = np.concatenate([np.zeros(1, np.int64), np.cumsum(flags)])
    within: Ints = count[found[:, 0] + found[:, 1] * found[:, 2]] - count[found[:, 0]]
    return within


def _spell(tree: Tree, nodes: Ints) -> str:
    names = [tree.context.names[code].removeprefix("aten::") for code in tree.host.name[nodes].tolist()]
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
