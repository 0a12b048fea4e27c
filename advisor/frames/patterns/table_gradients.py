"""Dense gradients of tables that rows are looked up in: which of them one step of the optimizer takes, and its operators on them.

A trace does not say which tensor an operator takes, but the shape of each. All of one shape in one step of the optimizer are a
group. Tables are told from its other parameters by what autograd's engine ran right before it stored a gradient.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Literal

import numpy as np
from msgspec import Struct, field

from advisor.frames import optimizers
from advisor.frames.patterns.tree import HIGHEST, Tree, size_of, spread
from advisor.frames.patterns.updates import LISTED, Shape, first_operand
from advisor.intervals import Bools, Ints, coded, distinct, fetch
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD, FORWARD, OP, ZERO_GRAD

_DENSE = regex(r"^aten::(?:embedding|_embedding_bag)_dense_backward$")
_STORE = "torch::autograd::AccumulateGrad"
_ENGINE = "autograd::engine::evaluate_function: "
"""The engine's call of a node, around all that follows from it. The dialect of 2021 has none."""
_SUMS = frozenset({"aten::add", "aten::add_"})
_ZERO = regex(r"^aten::(?:_foreach_)?zero_$")
_PRODUCT = regex(r"^aten::(?:linear|t|transpose|matmul|mm|addmm|einsum|numpy_T|permute)$")
_MOST = 20_000


class Lookup(Struct, eq=False):
    """One dense gradient: the operator that made it, its forward lookup (-1: not recorded), the table's shape, the number of
    indices, and what the engine did with it: sums with earlier ones of the same tensor, and the node that stored it.

    *store* is -1 where another lookup's gradient was the last to be added.
    """

    node: int
    forward: int
    shape: Shape
    indices: int
    sums: list[int] = field(default_factory=list)
    store: int = -1


class Group(Struct, eq=False):
    """Lookups in tables of one shape whose gradients one step of the optimizer takes.

    *tables* of the *parameters* of that shape are looked up in; *operators* are what works on these tables besides, each with
    the part of it that is theirs; *step* is the row in `optimizers`, -1 without one.
    """

    shape: Shape
    lookups: list[Lookup]
    tables: int
    parameters: int
    step: int = -1
    operators: list[tuple[int, float]] = field(default_factory=list)


def table_gradients(tree: Tree) -> list[Group]:
    """All groups, but for those of which a table also has a gradient that is dense anyway: tied to a product, or in a penalty."""
    lookups = _lookups(tree)
    by_shape: dict[Shape, list[Lookup]] = defaultdict(list)
    for lookup in lookups:
        by_shape[lookup.shape].append(lookup)
    if not by_shape:
        return []
    stores, handled, weights = _stores(tree), _Handled(tree), _weights(tree)
    groups = []
    for shape, same in sorted(by_shape.items()):
        of_shape = _groups(tree, same, stores.get(shape, []), handled.on(shape))
        groups += [group for group in of_shape if not _dense_anyway(tree, group, product=shape in weights)]
    return groups


def _lookups(tree: Tree) -> list[Lookup]:
    host = tree.host
    nodes = tree.ops(tree.codes_of(lambda name: _DENSE.match(name) is not None))
    if not 0 < len(nodes) <= _MOST:
        return []
    nodes = nodes[np.argsort(host.start[nodes], kind="stable")]
    found = []
    for node, forward in zip(nodes.tolist(), _forward(tree, nodes).tolist(), strict=True):
        gradient, indices = (*tree.shapes.operands(int(tree.dims(np.array([node]))[0])), (), ())[:2]
        shape = (first_operand(tree, forward, listed=False) if forward >= 0 else None) or _filled(tree, node)
        fits = shape and gradient and len(shape[0]) == 2 and shape[0][1] == gradient[-1] and shape[0][0] > 0
        if fits and shape and (number := size_of(indices)) > 0:
            found.append(Lookup(node, forward, shape[0], number))
    _add_sums(tree, found)
    return found


def _forward(tree: Tree, nodes: Ints) -> Ints:
    """The forward lookup of each gradient; -1 where it was not recorded."""
    numbered = tree.engine & (tree.sequence >= 0)
    numbers = fetch(tree.sequence, tree.host.above(nodes, numbered, HIGHEST))
    return tree.maker_of(numbers)


def _filled(tree: Tree, node: int) -> list[Shape] | None:
    """Shape of what is filled with zeros first inside an operator."""
    first, behind = np.array([node + 1]), tree.after(np.array([node]))
    for below in range(int(first[0]), int(behind[0])):
        if tree.host.group[below] == OP and _ZERO.match(tree.context.names[tree.host.name[below]]):
            return first_operand(tree, below, listed=False)
    return None


def _add_sums(tree: Tree, lookups: list[Lookup]) -> None:
    """Give each gradient the operators by which the engine adds it to earlier ones of the same tensor."""
    host = tree.host
    calls = tree.calls[np.array([lookup.node for lookup in lookups], np.int64)]
    of = dict(zip(calls.tolist(), lookups, strict=True))
    sums = tree.ops(tree.codes_of(_SUMS.__contains__))
    around = host.above(sums, host.group == OP)
    inside = np.isin(around, calls)
    sums, around = sums[inside], around[inside]
    for node, call in zip(sums.tolist(), around.tolist(), strict=True):
        lookup = of[call]
        if call != lookup.node and first_operand(tree, node, listed=False) == [lookup.shape]:
            lookup.sums.append(node)


def _stores(tree: Tree) -> dict[Shape, list[int]]:
    """Nodes that store a gradient, by its shape, in order."""
    host = tree.host
    nodes = tree.ops(tree.codes_of(_STORE.__eq__))
    found: dict[Shape, list[int]] = defaultdict(list)
    for node in nodes[np.argsort(host.start[nodes], kind="stable")].tolist():
        if shape := first_operand(tree, node, listed=False):
            found[shape[0]].append(node)
    return found


def _groups(tree: Tree, lookups: list[Lookup], stores: list[int], operators: list[Operator]) -> list[Group]:
    """Return the groups of one shape in which a table's gradient is stored."""
    _store(tree, lookups, stores)
    steps = sorted({operator.step for operator in operators} - {-1})
    # A backward pass stores the gradient of each parameter once, and between two of them rows are looked up.
    passes = np.sort(tree.host.start[[lookup.forward for lookup in lookups if lookup.forward >= 0]])
    edges = optimizers.begun(tree.context)[steps] if steps else passes

    def place(nodes: list[int], among: Ints, side: Literal["left", "right"] = "left") -> list[int]:
        """Return how many edges lie before each node; one that lies at its start counts on the right."""
        found: list[int] = np.searchsorted(among, tree.host.start[nodes], side=side).tolist()
        return found

    groups: dict[int, Group] = {}
    for lookup, at in zip(lookups, place([lookup.node for lookup in lookups], edges), strict=True):
        step = steps[at] if at < len(steps) else -1
        groups.setdefault(at, Group(lookup.shape, [], 0, 0, step)).lookups.append(lookup)
    stored = {lookup.store for lookup in lookups}
    tables, parameters = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for store, *turn in zip(stores, place(stores, edges), place(stores, passes), strict=True):
        tables[turn[0], turn[1]] += store in stored
        parameters[turn[0], turn[1]] += 1
    for (at, turn_), number in parameters.items():
        if at in groups:
            groups[at].parameters = max(groups[at].parameters, number)
            groups[at].tables = max(groups[at].tables, tables[at, turn_])
    of: dict[int, list[Operator]] = defaultdict(list)
    for operator, at in zip(operators, place([one.node for one in operators], edges, "right"), strict=True):
        of[at - bool(steps)].append(operator)
    for at, group in groups.items():
        group.operators = _shared_out(group, of[at])
    return [group for group in groups.values() if group.tables]


def _store(tree: Tree, lookups: list[Lookup], stores: list[int]) -> None:
    """Give each gradient the node that stores it: the engine runs that right behind the last that is added to it."""
    calls = tree.outermost
    of = {int(tree.calls[lookup.node]): lookup for lookup in lookups}
    for store in stores:
        at = int(np.searchsorted(calls, tree.calls[store]))
        before = of.get(int(calls[at - 1])) if at else None
        if before is not None and tree.host.thread[before.node] == tree.host.thread[store]:
            before.store = store


def _dense_anyway(tree: Tree, group: Group, *, product: bool) -> bool:
    """Tell whether something else than lookups has a gradient of one of the tables: it is added up with theirs.

    Lookups that are added to nothing begin a table's gradient: as many as there are stored, unless another began one. Where sums do
    not show, a *product* of such a matrix may be by a table (tied weights).
    """
    names, host = tree.context.names, tree.host
    if not all(names[host.name[tree.calls[lookup.node]]].startswith(_ENGINE) for lookup in group.lookups):
        return product
    stored = sum(lookup.store >= 0 for lookup in group.lookups)
    return sum(len(lookup.sums) for lookup in group.lookups) != len(group.lookups) - stored


def _weights(tree: Tree) -> set[Shape]:
    """Shapes of the operands of products and of what is transposed for one."""
    nodes = tree.ops(tree.codes_of(lambda name: _PRODUCT.match(name) is not None))
    nodes = nodes[tree.host.attributes.phase[nodes] == FORWARD]
    found = {shape for code in distinct(tree.dims(nodes)).tolist() for shape in tree.shapes.operands(code)}
    return found | {shape[::-1] for shape in found}


class Operator(Struct, frozen=True):
    """An operator of an optimizer's step (-1: of zero_grad) on tensors of one shape, and their part of all that it works on."""

    node: int
    name: int
    part: float
    step: int


class _Handled:
    """Operators of steps and of zero_grad, by what they work on."""

    def __init__(self, tree: Tree) -> None:
        host, phase = tree.host, tree.host.attributes.phase
        steps = optimizers.nodes(tree.context)
        inner = distinct(spread(steps + 1, tree.after(steps)).index)
        zeros = tree.ops(tree.codes_of(lambda name: _ZERO.match(name) is not None))
        zeros = zeros[np.isin(phase[zeros], (FORWARD, ZERO_GRAD))]
        nodes = np.union1d(inner[(host.group[inner] == OP) & (phase[inner] != BACKWARD)], zeros)
        flags: Bools = np.zeros(host.size, np.bool_)
        flags[nodes] = True
        nodes = nodes[host.above(nodes, flags, HIGHEST) < 0]
        self._nodes = nodes[np.argsort(host.start[nodes], kind="stable")]
        self._names = host.name[self._nodes].astype(np.int64)
        begun = optimizers.begun(tree.context)
        at = np.searchsorted(begun, host.start[self._nodes], side="right") - 1
        self._step = np.where((at >= 0) & (host.start[self._nodes] < fetch(host.end, fetch(steps, at))), at, -1)
        kinds, self._of = coded(self._names << 32 | tree.dims(self._nodes) & 0xFFFFFFFF)
        firsts = np.zeros(len(kinds), np.int64)
        firsts[self._of[::-1]] = self._nodes[::-1]
        self._targets = [_targets(tree, int(node)) for node in firsts]

    def on(self, shape: Shape) -> list[Operator]:
        """Those on tensors of a shape, in order."""
        parts = np.array([_part(target, shape) for target in self._targets])
        chosen = np.flatnonzero(parts[self._of] > 0) if len(parts) else self._nodes
        columns = (self._nodes[chosen], self._names[chosen], parts[self._of[chosen]], self._step[chosen])
        return [Operator(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _targets(tree: Tree, node: int) -> list[Shape]:
    name = tree.context.names[tree.host.name[node]]
    listed = LISTED.match(name) is not None or name.startswith("aten::_foreach_")
    return first_operand(tree, node, listed=listed) or []


def _part(target: list[Shape], shape: Shape) -> float:
    """Return the part of an operator's elements that are those of tensors of a shape."""
    total = sum(max(size_of(one), 0) for one in target)
    return sum(size_of(one) for one in target if one == shape) / total if total else 0.0


def _shared_out(group: Group, operators: list[Operator]) -> list[tuple[int, float]]:
    """Give a group its share of what works on its shape: the tables' part of each kind of operator.

    An optimizer does the same with each parameter. Which is whose does not matter; what works on all in one list is theirs in part.
    """
    parameters = max(group.parameters, group.tables, 1)  # of a damaged trace none may be left
    share = group.tables / parameters
    by_name: dict[int, list[Operator]] = defaultdict(list)
    for operator in operators:
        by_name[operator.name].append(operator)
    found = []
    for same in by_name.values():
        own = len(same) * group.tables
        if own % parameters or any(operator.part < 1 for operator in same):
            found += [(operator.node, operator.part * share) for operator in same]
        else:
            found += [(operator.node, 1.0) for operator in same[: own // parameters]]
    return found
