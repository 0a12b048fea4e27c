"""Slices of one tensor, taken one by one, whose backward passes each fill a gradient of the whole tensor, and add these up.

``x[:, t]``, ``x[a:b]`` or ``x[mask]`` is an operator whose gradient is zeros as large as x with the slice's own in its place. Of n
slices autograd makes n of these and adds them: about 3 n passes over x, where unbind, split, unfold or index_add take one.
So does each lookup in a table; where its gradient is sparse, what was looked up before is copied to put more behind it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from advisor.frames import operator_parts
from advisor.frames.optimizers import backward_begins
from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import leading
from advisor.frames.patterns.tree import HIGHEST, NOTHING, Occurrences, Pairs, Tree, size_of, spread
from advisor.intervals import Bools, Ints, coded, distinct, fetch, summed
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD
from advisor.timeline.ledger import OWNED

_NODE = r"(?:Slice|Select|Narrow|Index|IndexSelect|MaskedSelect|Gather|Take|Diagonal|Embedding)Backward\d*$"
_ENGINE = regex(r"^autograd::engine::evaluate_function: " + _NODE)
_BACKWARD = regex("^" + _NODE)
_PLACED = frozenset({"aten::slice_backward", "aten::select_backward"})
"""Operators in such a node whose arguments say which part of the tensor it is of."""
_LOOKUP, _SPARSE = "aten::embedding", "aten::embedding_sparse_backward"
_VIEWS = regex(r"^aten::(?:slice|select|narrow|diagonal)$")
_PICKS = regex(r"^aten::(?:index|index_select|masked_select|gather|take|embedding)$")
_WRITES = regex(
    r"^aten::(?:(?:_?index_(?:put|add|copy|fill)|scatter(?:_add|_reduce)?|masked_(?:scatter|fill)|copy)_|zeros_like)$"
)
_PUTS = regex(r"^autograd::engine::evaluate_function: IndexPutBackward\d*$")
_JOINS = regex(r"^aten::(?:stack|cat|concat|concatenate|[hvd]stack)$")
_SUMS = regex(r"^aten::add_?$")
LEAST = 3
"""Slices of one tensor from which on it is a pattern: queries, keys and values of one product are three."""
Floats = npt.NDArray[np.float64]


class _Sliced(Struct, eq=False):
    """Backward nodes of slices, by columns.

    *forward* is the operator that Python called (-1: unknown), *whole* and *part* are elements, *dims* tells the shape of the
    whole, and *told* the arguments that say which part it is (-1: unknown). *added*: to gradients of the same tensor.
    """

    node: Ints
    forward: Ints
    whole: Ints
    part: Ints
    dims: Ints
    told: Ints
    added: Bools

    def where(self, keep: Bools) -> _Sliced:
        """Some of them."""
        node, forward, whole, part, dims, told = (
            column[keep] for column in (self.node, self.forward, self.whole, self.part, self.dims, self.told)
        )
        return _Sliced(node, forward, whole, part, dims, told, self.added[keep])


def repeated_slices(tree: Tree) -> Occurrences | None:
    """One row per line, backward pass and shape of a tensor that is sliced three times or more, and needs a gradient.

    ``repeats`` are the slices, ``length`` the elements of the tensor, and ``part`` what one pass spares of the time that it owns:
    of a slice's backward all but the slice's part of the tensor. In a program on the CPU it owns the views of the forward pass
    and the Python that leads to them as well; on a line that calls hundreds of tiny operators, and is there to slice, all of
    them.
    """
    sliced = _sliced(tree)
    if sliced is None:
        return None
    host = tree.host
    step = tree.context.recording.step_of(host.start[sliced.node])
    user, at_pass = host.attributes.user[sliced.node].astype(np.int64), _pass_of(tree, host.start[sliced.node])
    keys = np.stack([step, user, sliced.dims, at_pass], axis=1)
    groups, of = np.unique(keys, axis=0, return_inverse=True)
    of, size = of.ravel(), len(groups)
    number = summed(of, 1, size)
    kept = number >= LEAST * _tensors(tree, sliced, of, number)
    if not kept.any():
        return None
    chosen = kept[of]
    return _occurrences(tree, sliced.where(chosen), (np.cumsum(kept) - 1)[of[chosen]], groups[kept])


def _pass_of(tree: Tree, times: Ints, *, forward: bool = False) -> Ints:
    """Number of the backward pass at each time, or of the one to which a *forward* pass leads; 0 where passes are not told apart.

    Micro-batches have a gradient each, whatever the loop over them does.
    """
    begins = tree.context.once(backward_begins)
    if begins is None:
        return np.zeros(len(times), np.int64)
    return np.searchsorted(begins, times, side="right") + forward


def _occurrences(tree: Tree, sliced: _Sliced, row: Ints, groups: Ints) -> Occurrences:
    host, size = tree.host, len(groups)
    told = np.where(sliced.forward >= 0, sliced.forward, sliced.node)
    first = np.full(size, -1, np.int64)
    order = np.argsort(host.start[told], kind="stable")[::-1]
    first[row[order]] = told[order]
    end = np.zeros(size, np.int64)
    np.maximum.at(end, row, host.end[told])
    whole = np.zeros(size, np.int64)
    np.maximum.at(whole, row, sliced.whole)
    back = _backward(tree, sliced, row, groups)
    work = tree.launched_below(back.node)
    launched = Pairs(back.row[work.row], work.index)
    ops, python, part = NOTHING, NOTHING, np.zeros(size)
    if tree.context.cpu_program:
        ops, python, part = _on_cpu(tree, sliced, row, groups, back)
    else:
        taken = summed(work.row, (tree.work.end - tree.work.start)[work.index], len(back.row))
        part = np.bincount(back.row, taken * back.spared, size) / np.maximum(np.bincount(back.row, taken, size), 1)
    return Occurrences(
        kind="repeated-slicing",
        node=first,
        begin=host.start[first],
        end=end,
        inside=launched.each_once(),
        own=launched.each_once(),
        ops=ops,
        python=python,
        figures={
            "repeats": summed(row, 1, size),
            "length": whole,
            "part": np.rint(part * MILLION).astype(np.int64),
            "dims": groups[:, 2],
        },
    )


class _Backward(Struct, eq=False):
    """Nodes of the backward pass, the group of each, and the part of its time that one pass over the tensor spares."""

    node: Ints
    row: Ints
    spared: Floats


def _backward(tree: Tree, sliced: _Sliced, row: Ints, groups: Ints) -> _Backward:
    """Return the backward of the slices, and of what a line writes by the masks that it picks by.

    The gradient of ``out[mask] = f(x[mask])`` is a copy of out's, with zeros at the mask: another pass for each mask.
    """
    host, size = tree.host, len(groups)
    spared = 1 - np.minimum(sliced.part / np.maximum(sliced.whole, 1), 1.0)
    puts = tree.ops(tree.codes_of(lambda name: _PUTS.match(name) is not None))
    vague = np.bincount(row, sliced.told < 0, size) > 0
    known = {
        (step, user, at_pass): at
        for at, (step, user, _, at_pass) in enumerate(groups.tolist())
        if vague[at] and user >= 0
    }
    step, user = tree.context.recording.step_of(host.start[puts]), host.attributes.user[puts]
    at_pass = _pass_of(tree, host.start[puts])
    of = np.array(
        [known.get(key, -1) for key in zip(step.tolist(), user.tolist(), at_pass.tolist(), strict=True)], np.int64
    )
    puts, of = puts[of >= 0], of[of >= 0]
    mean = np.bincount(row, spared, size) / np.maximum(np.bincount(row, minlength=size), 1)
    return _Backward(np.append(sliced.node, puts), np.append(row, of), np.append(spared, mean[of]))


def _sliced(tree: Tree) -> _Sliced | None:
    host = tree.host
    nodes = tree.ops(tree.codes_of(lambda name: _ENGINE.match(name) is not None))
    if len(nodes) < LEAST:
        return None
    flags: Bools = np.zeros(host.size, np.bool_)
    flags[nodes] = True
    place = np.full(host.size, -1, np.int64)
    place[nodes] = np.arange(len(nodes))

    def around(holds: Callable[[str], bool]) -> tuple[Ints, Ints]:
        """Operators of some names that run in one of the nodes, and the number of that node."""
        found = tree.ops(tree.codes_of(holds))
        at = fetch(place, host.above(found, flags, HIGHEST))
        return found[at >= 0], at[at >= 0]

    def elements(of: Ints) -> Ints:
        found: Ints = tree.shapes.column(of, lambda operands: size_of(operands[0]) if operands else -1)
        return found

    dims, told, part = (np.full(len(nodes), -1, np.int64) for _ in range(3))
    zeros, at = around("aten::zero_".__eq__)
    dims[at] = tree.dims(zeros)
    inner, at = around(lambda name: _BACKWARD.match(name) is not None)
    part[at] = elements(tree.dims(inner))
    called, at = around(_PLACED.__contains__)
    told[at] = tree.context.op_column(called, "concrete")
    sums, at = around(lambda name: _SUMS.match(name) is not None)
    added: Bools = np.zeros(len(nodes), np.bool_)
    # The engine's own: not what a node computes by.
    added[at[fetch(host.attributes.op, host.parent[sums]) == nodes[at]]] = True
    forward = _forward(tree, nodes)
    _, at = around(_SPARSE.__eq__)
    at = at[forward[at] >= 0]
    dims[at] = _tables(tree, tree.dims(forward[at]))
    whole = elements(dims)
    found = _Sliced(nodes, forward, whole, np.maximum(part, 0), dims, told, added)
    return found.where(whole > 0)


def _tables(tree: Tree, dims: Ints) -> Ints:
    """For lookups by their arguments one code for each shape of a table, whatever is looked up."""
    codes, of = coded(dims)
    first: dict[tuple[int, ...], int] = {}
    known = [first.setdefault((*tree.shapes.operands(code), ())[0], code) for code in codes.tolist()]
    return np.array(known, np.int64)[of]


def _forward(tree: Tree, nodes: Ints) -> Ints:
    """The operators that Python called whose backward the nodes are; -1 where they were not recorded."""
    host = tree.host
    own = np.full(host.size, -1, np.int64)
    top = tree.outermost[host.attributes.phase[tree.outermost] != BACKWARD]
    own[top] = top
    found: Ints = host.with_backward(own)[nodes]
    return found


def _tensors(tree: Tree, sliced: _Sliced, of: Ints, number: Ints) -> Ints:
    """Tensors that the slices of each group are of, at least.

    All but the first gradient of a tensor are added to those before; where another use of it came first, all of them are. So it
    also counts that no part of a tensor is taken twice, where numbers tell the part. Of masks and indices they do not: there
    something else that reads a tensor of that shape between two slices makes these two tensors', as from layer to layer.
    """
    size = len(number)
    least: Ints = np.maximum(number - summed(of, sliced.added.astype(np.int64), size), 1)
    vague = sliced.told < 0
    kinds = np.unique(np.stack([of[~vague], sliced.told[~vague]], axis=1), axis=0)
    parts = summed(kinds[:, 0], 1, size) + summed(of[vague], 1, size)
    least = np.maximum(least, -(-number // np.maximum(parts, 1)))
    # A layer's weight may have a table's shape, and lookups tell by their sums alone.
    lookups = tree.codes_of(_LOOKUP.__eq__)[fetch(tree.host.name, sliced.forward)] & (sliced.forward >= 0)
    chosen = np.flatnonzero(vague & ~lookups)
    if len(chosen):
        least = np.maximum(least, _runs(tree, sliced, of, chosen, size))
    return least


def _runs(tree: Tree, sliced: _Sliced, of: Ints, chosen: Ints, size: int) -> Ints:
    """Runs of the *chosen* slices of each group without another use of a tensor of that shape in between."""
    host, tops = tree.host, tree.outermost
    shapes = {code: tree.shapes.operands(code)[0] for code in distinct(sliced.dims[chosen]).tolist()}
    number = {shape: at for at, shape in enumerate(sorted(set(shapes.values())))}
    tops = tops[(host.attributes.phase[tops] != BACKWARD) & ~tree.codes_of(_same)[host.name[tops]]]
    tops = tops[np.argsort(host.start[tops], kind="stable")]
    codes, which = coded(tree.dims(tops))
    read = [[number[shape] for shape in {*tree.shapes.operands(code)} if shape in number] for code in codes.tolist()]
    count = np.array([len(one) for one in read], np.int64)
    flat = np.array([shape for one in read for shape in one], np.int64)
    low = np.cumsum(count) - count
    uses = spread(low[which], (low + count)[which])
    place = np.arange(len(tops))[uses.row]
    keys = np.sort(flat[uses.index] * (len(tops) + 1) + place)
    told = np.where(sliced.forward >= 0, sliced.forward, sliced.node)[chosen]
    shape = np.array([number[shapes[code]] for code in sliced.dims[chosen].tolist()], np.int64)
    before = np.searchsorted(keys, shape * (len(tops) + 1) + np.searchsorted(host.start[tops], host.start[told]))
    runs = np.unique(np.stack([of[chosen], before], axis=1), axis=0)
    found: Ints = summed(runs[:, 0], 1, size)
    return found


def _same(name: str) -> bool:
    """Tell whether an operator slices, or writes into a tensor beside those that are sliced, as a loop over masks does."""
    return any(kind.match(name) for kind in (_VIEWS, _PICKS, _WRITES))


def _on_cpu(tree: Tree, sliced: _Sliced, row: Ints, groups: Ints, back: _Backward) -> tuple[Pairs, Pairs, Floats]:
    """Operators that each row owns, segments of Python that lead to them, and the part of both that one pass spares."""
    host, size = tree.host, len(groups)
    below = tree.ops_below(back.node)
    backward = Pairs(back.row[below.row], below.index)
    cost = tree.context.ledger.cost(len(tree.context.op_rows), *OWNED)
    kept = np.bincount(backward.row, cost[backward.index] * (1 - back.spared[below.row]), size)
    views = tree.codes_of(lambda name: _VIEWS.match(name) is not None)
    has = (sliced.forward >= 0) & views[host.name[np.maximum(sliced.forward, 0)]]
    forward = tree.ops_below(sliced.forward[has])
    ops = [backward, Pairs(row[has][forward.row], forward.index), _masks(tree, sliced, row), _loop(tree, row, groups)]
    pairs = Pairs(np.concatenate([one.row for one in ops]), np.concatenate([one.index for one in ops])).each_once()
    python = leading(tree, pairs)
    whole = pairs.total(cost, size) + python.total(tree.context.ledger.dur_ns, size)
    return pairs, python, 1 - kept / np.maximum(whole, 1)


def _masks(tree: Tree, sliced: _Sliced, row: Ints) -> Pairs:
    """Rows of `ops` that look for the places of a mask: the same values by indices that are sorted once need none."""
    has = sliced.forward >= 0
    below = tree.ops_below(sliced.forward[has])
    found = tree.codes_of("aten::nonzero".__eq__)[tree.host.name[tree.context.op_rows[below.index]]]
    return Pairs(row[has][below.row], below.index).where(found)


def _loop(tree: Tree, row: Ints, groups: Ints) -> Pairs:
    """Rows of `ops` of lines that call hundreds of tiny operators to slice, with their backward; of the group with most slices.

    What joins the slices on that line goes as well: of ``torch.stack([x[i : i + n] for i in starts])`` it is called outside.
    """
    host, context = tree.host, tree.context
    line_of = _lines(tree)
    group: dict[tuple[int, int, int], int] = {}
    for at in np.argsort(summed(row, 1, len(groups)), kind="stable").tolist():
        if groups[at, 1] >= 0:
            group[int(groups[at, 0]), int(line_of[groups[at, 1]]), int(groups[at, 3])] = at
    tops = tree.outermost[host.attributes.phase[tree.outermost] != BACKWARD]
    tops = tops[host.attributes.user[tops] >= 0]
    line = line_of[host.attributes.user[tops]]
    here = np.isin(line, [known for _, known, _ in group])
    tops, line = tops[here], line[here]
    if not len(tops):
        return NOTHING
    flags: Bools = np.zeros(host.size, np.bool_)
    flags[context.op_rows] = operator_parts.looped(context)
    looped = flags[tops]
    cuts = tree.codes_of(lambda name: _VIEWS.match(name) is not None)[host.name[tops]]
    picked = tree.codes_of(lambda name: _PICKS.match(name) is not None)[host.name[tops]]
    joins = tree.codes_of(lambda name: _JOINS.match(name) is not None)
    size = int(line.max()) + 1
    calls, views, picks = (summed(line[chosen], 1, size) for chosen in (looped, looped & cuts, looped & picked))
    # Groups are told by a mask each, and reduced: feats[owner == i].mean(0) picks in one of three. A recurrence slices as well,
    # h * a[:, t] + b[:, t] in half of its operators, and stays a loop.
    enough = (calls > 0) & ((2 * views > calls) | (3 * picks >= calls))
    kept = enough[line] & (looped | joins[host.name[tops]])
    tops, line = tops[kept], line[kept]
    step = context.recording.step_of(host.start[tops])
    own = np.full(host.size, -1, np.int64)
    at_pass = _pass_of(tree, host.start[tops], forward=True)
    own[tops] = [group.get(key, -1) for key in zip(step.tolist(), line.tolist(), at_pass.tolist(), strict=True)]
    rows = host.with_backward(own)[context.op_rows]
    return Pairs(rows[rows >= 0], np.flatnonzero(rows >= 0))


def _lines(tree: Tree) -> Ints:
    """A number for the line of each place: a comprehension is a function of its own in older versions of Python."""
    places = [(place.file, place.line) for place in tree.host.places]
    number = {line: at for at, line in enumerate(dict.fromkeys(places))}
    return np.array([number[line] for line in places], np.int64)
