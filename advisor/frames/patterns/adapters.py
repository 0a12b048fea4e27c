"""Low-rank adapters beside a frozen product, in a program that only infers: x W + s (x A) B, where W + s A B would do.

LoRA keeps two thin matrices beside a layer's weight while it is trained. Left there, each call of the layer runs two products
more, a scaling and an addition, and where the adapter is of another type than the layer casts of its input and of the sum.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.operands import keys, with_python
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, size_of
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Bools, Ints
from advisor.timeline.calls import BACKWARD
from advisor.timeline.operator_names import is_view
from advisor.timeline.program import INFERENCE, program_of

_PRODUCTS = {"aten::linear": 0, "aten::matmul": 0, "aten::mm": 0, "aten::addmm": 1}
"""Place of what is multiplied; the weight follows it."""
_CONVOLUTIONS = frozenset({"aten::conv1d", "aten::conv2d", "aten::conv3d"})
_CASTS = frozenset({"aten::to", "aten::_to_copy"})
_PASSES = _CASTS | {"aten::dropout", "aten::dropout_", "aten::clone", "aten::contiguous"}
_SCALES = frozenset({"aten::mul", "aten::mul_", "aten::div", "aten::div_"})
_SUMS = frozenset({"aten::add", "aten::add_"})
_RANK = 128
_MOST = 40_000
_REACH = 6
"""Calls behind a product in which its scaling, a cast and the addition are looked for."""
PASS, SUM, OTHER, PRODUCT = range(4)


class Calls(Struct, eq=False):
    """Calls of the forward pass that are no views, in order.

    *role* is the part that each can have, *size* the elements of its largest operand, *small* those of the second largest,
    *rows*, *inner* and *columns* are a product's, *added* tells of one that it adds to a matrix, *mixed* that operands differ in
    type.
    """

    node: Ints
    role: Ints
    size: Ints
    rows: Ints
    inner: Ints
    columns: Ints
    added: Bools
    cast: Bools
    mixed: Bools
    kind: Ints


class _Adapter(Struct, eq=False):
    """Places of an adapter among the calls: of its first product, of the layer's, and of all that goes."""

    down: int
    base: int
    own: list[int]
    cast: bool


def unmerged_adapters(tree: Tree) -> Occurrences | None:
    """One row per call of a layer with an adapter beside it, in a program that only infers.

    ``length`` is the adapter's rank, ``repeats`` the rows that it multiplies.
    """
    calls = tree.once(calls_of)
    found = tree.once(_adapters)
    if calls is None or not found:
        return None
    host = tree.host
    row = np.repeat(np.arange(len(found)), [len(one.own) for one in found])
    nodes = Pairs(row, calls.node[np.array([place for one in found for place in one.own], np.int64)])
    work = tree.launched_below(nodes.index)
    own = Pairs(nodes.row[work.row], work.index).each_once()
    ops, python = with_python(tree, nodes) if tree.context.cpu_program else (NOTHING, NOTHING)
    down = np.array([one.down for one in found], np.int64)
    first, last = (calls.node[np.array([side(one.own) for one in found], np.int64)] for side in (min, max))
    return Occurrences(
        kind="unmerged-adapter",
        node=calls.node[down],
        begin=host.start[first],
        end=host.end[last],
        inside=own,
        own=own,
        idle=True,
        ops=ops,
        python=python,
        figures={
            "repeats": calls.rows[down],
            "length": calls.columns[down],
            "dims": tree.dims(calls.node[down]),
        },
        details=["in another type" if one.cast else "in the layer's type" for one in found],
    )


def of_adapters(tree: Tree) -> Ints:
    """Nodes of all calls that are an adapter's."""
    calls = tree.once(calls_of)
    places = sorted({place for one in tree.once(_adapters) for place in one.own})
    return calls.node[places] if calls is not None else np.zeros(0, np.int64)


def _adapters(tree: Tree) -> list[_Adapter]:
    """Adapters, in the order of their calls.

    Of two products in turn the first gives few columns, which the second takes; of the products beside them the one before, or
    the one behind, has the rows and columns that the two have together; and the results are added up.
    """
    calls = tree.once(calls_of)
    if calls is None:
        return []
    products = np.flatnonzero(calls.role == PRODUCT)
    down, up = products[:-1], products[1:]
    rank = calls.columns[down]
    thin = (rank <= _RANK) & (2 * rank <= np.minimum(calls.inner[down], calls.columns[up]))
    thin &= (rank == calls.inner[up]) & (calls.rows[down] == calls.rows[up]) & (calls.kind[down] == calls.kind[up])
    thin &= tree.host.thread[calls.node[down]] == tree.host.thread[calls.node[up]]
    # Between them nothing but a cast, a scale or a dropout: a function that bends makes it a layer of its own.
    between = np.append(0, np.cumsum((calls.role == OTHER) | (calls.role == SUM)))
    thin &= between[up] == between[down]
    at = np.flatnonzero(thin)
    if not 0 < len(at) <= _MOST:
        return []
    found: list[_Adapter] = []
    latest: _Adapter | None = None
    for turn in at.tolist():
        adapter = _adapter(tree, calls, products, turn, latest)
        if adapter is not None:
            found.append(adapter)
            latest = adapter
    return found


def _adapter(tree: Tree, calls: Calls, products: Ints, turn: int, latest: _Adapter | None) -> _Adapter | None:
    """The adapter of a pair of thin products; *latest* is the one before, which may lie beside the same layer."""
    down, up = int(products[turn]), int(products[turn + 1])
    before = int(products[turn - 1]) if turn else -1
    begin = before + 1
    if latest is not None and before in latest.own:
        before, begin = latest.base, max(latest.own) + 1
    if _is_base(tree, calls, before, down, up) and OTHER not in calls.role[begin:down]:
        behind = _added(calls, up, int(calls.rows[up] * calls.columns[up]))
        if behind is None:
            return None
        own = [*range(begin, down), *range(down, up + 1), *behind]
        return _made(tree, calls, down, before, own)
    # The layer's own product comes behind it: scale * b(a(x)) + layer(x).
    base = int(products[turn + 2]) if turn + 2 < len(products) else -1
    if not _is_base(tree, calls, base, down, up) or {OTHER, SUM} & set(calls.role[up:base].tolist()):
        return None
    behind = _added(calls, base, int(calls.rows[up] * calls.columns[up]))
    if behind is None:
        return None
    return _made(tree, calls, down, base, [*range(down, base), *behind])


def _is_base(tree: Tree, calls: Calls, base: int, down: int, up: int) -> bool:
    """Tell whether a product takes as many rows and columns as the first of two thin ones, and gives as many as the second."""
    if base < 0 or calls.added[base] or tree.host.thread[calls.node[base]] != tree.host.thread[calls.node[down]]:
        return False
    same = calls.rows[base] == calls.rows[down] and calls.kind[base] == calls.kind[down]
    return bool(same and calls.inner[base] == calls.inner[down] and calls.columns[base] == calls.columns[up])


def _added(calls: Calls, product: int, size: int) -> list[int] | None:
    """Places behind a product up to the addition of its result to another as large, and the cast of the sum; None without one."""
    own: list[int] = []
    if calls.added[product]:
        return own
    for place in range(product + 1, min(product + 1 + _REACH, len(calls.node))):
        role = int(calls.role[place])
        if role not in (PASS, SUM) or calls.size[place] != size:
            return None
        own.append(place)
        if role == SUM:
            if (
                place + 1 < len(calls.node)
                and calls.mixed[place]
                and calls.cast[place + 1]
                and calls.size[place + 1] == size
            ):
                own.append(place + 1)
            return own
    return None


def _made(tree: Tree, calls: Calls, down: int, base: int, own: list[int]) -> _Adapter:
    kinds = [tree.words(code) for code in tree.context.op_column(calls.node[[down, base]], "types").tolist()]
    words = [next((word for word in known or [] if word), "") for known in kinds]
    return _Adapter(down, base, own, words[0] != words[1])


def calls_of(tree: Tree) -> Calls | None:
    """The calls of the forward pass that move numbers; None where the program learns, or has no products."""
    named = tree.codes_of(lambda name: name in _PRODUCTS or name in _CONVOLUTIONS)
    if not named.any() or tree.context.once(program_of).kind != INFERENCE:
        return None
    host = tree.host
    nodes = tree.outermost[host.attributes.phase[tree.outermost] != BACKWARD]
    nodes = nodes[~tree.codes_of(is_view)[host.name[nodes]]]
    if not len(nodes):
        return None
    found, of = keys(tree, nodes, "dims", "types")
    facts = np.array([_facts(tree, *key) for key in found], np.int64)[of]
    role, size, rows, inner, columns, added, cast, mixed, kind = facts.T
    return Calls(nodes, role, size, rows, inner, columns, added > 0, cast > 0, mixed > 0, kind)


def _facts(tree: Tree, code: int, dims: int, types: int) -> tuple[int, ...]:
    """The columns of a call by its name, shapes and types."""
    name, operands = tree.context.names[code], tree.shapes.operands(dims)
    sizes = sorted((max(size_of(shape), 1) if shape else 0 for shape in operands), reverse=True)
    large, small = (*sizes, 0, 0)[:2]
    words = [word for word in tree.words(types) or [] if word not in ("", "Scalar", "ScalarList")]
    mixed = len({word for word, shape in zip(tree.words(types) or [], operands, strict=False) if shape}) > 1 and bool(
        words
    )
    product = _product(name, operands)
    if product is not None:
        return PRODUCT, large, *product, 0, int(mixed), int(name in _CONVOLUTIONS)
    role = OTHER
    if name in _PASSES or (name in _SCALES and small <= 1):
        role = PASS
    elif name in _SUMS and small == large:
        role = SUM
    return role, large, 0, 0, 0, 0, int(name in _CASTS), int(mixed), 0


def _product(name: str, operands: tuple[Shape, ...]) -> tuple[int, int, int, int] | None:
    """Rows, inner dimension and columns of a product, and 1 where it adds itself to a matrix; None for other operators."""
    if name in _CONVOLUTIONS:
        if len(operands) < 2 or len(operands[0]) < 3 or len(operands[1]) != len(operands[0]):
            return None
        given, weight = operands[:2]
        # Of a group of channels it is no product of all.
        return (size_of(given) // given[1], given[1], weight[0], 0) if given[1] == weight[1] > 0 else None
    place = _PRODUCTS.get(name)
    if place is None or len(operands) < place + 2:
        return None
    given, weight = operands[place : place + 2]
    if len(given) < 2 or len(weight) != 2 or size_of(given) <= 0:
        return None
    inner, columns = weight[::-1] if name == "aten::linear" else weight
    if inner != given[-1] or inner <= 0:
        return None
    rows = size_of(given) // inner
    return rows, inner, columns, int(place == 1 and size_of(operands[0]) == rows * columns and rows > 1)
