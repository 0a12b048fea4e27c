"""Penalties on parameters that are part of the loss: sums of squares, of absolute values, or of norms of whole parameters.

Also of squares of their distances from other weights, weighted by element or not (FedProx, EWC, L2-SP).

That a tensor is a parameter is told by the backward pass: the engine adds the penalty's gradient to that of the layers, right
before AccumulateGrad stores it.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from msgspec import Struct, field

from advisor.frames import optimizers
from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import keys, owned
from advisor.frames.patterns.passes import calls_between
from advisor.frames.patterns.tree import Occurrences, Pairs, Tree, size_of, spread
from advisor.frames.patterns.unused_gradients import Pass, backward_passes
from advisor.frames.patterns.updates import Shape, first_operand
from advisor.intervals import Bools, Ints
from advisor.regex import regex
from advisor.timeline.calls import FORWARD
from advisor.timeline.ledger import OWNED
from advisor.timeline.operator_names import is_view

_BENDS = regex(
    r"^aten::(?:(?:r?sqrt|exp|expm1|log\w*|pow|square|abs|relu|softplus|sigmoid|tanh|clamp\w*|hardtanh)_?|maximum|minimum|where)$"
)
"""Functions of a sum that are no multiple of it: its gradient is then not the one that is added in place."""
BENT = "bent"
SQUARES, MAGNITUDES, NORMS, MEANS, DISTANCES = "squares", "absolute values", "norms", "means", "distances"
_SCALAR, _VIEW, _ELEMENTS, _SUM, _MEAN, _NORM, _JOIN, _LAYER, _OTHER, _DIFFERENCE = range(10)
_NORMS = regex(r"^aten::(?:linalg_vector_norm|linalg_norm|norm|frobenius_norm|_foreach_norm)$")
_SUMS = {"aten::sum": _SUM, "aten::mean": _MEAN}
_LAYERS = regex(
    r"^aten::(?:linear|addmm|mm|matmul|bmm|mv|einsum|embedding\w*|\w*conv\w*|\w*_norm|prelu|lstm|gru|rnn\w*|to|_to_copy|detach|zeros_like"
    r"|ones_like|empty_like)$"
)
"""Operators that take a parameter and give something else, and those that make a tensor as large."""
_KEEPS = regex(r"^aten::(?:embedding\w*|to|_to_copy|detach|clone|\w+_like|\w*[a-z0-9]_)$")
"""Operators whose first operand may be a parameter: tables, copies, and what is done in place."""
_TWO, _ONE = frozenset({"2", "2.", "2.0"}), frozenset({"1", "1.", "1.0"})
_ADDS = frozenset({"aten::add", "aten::add_"})
_STORES = regex(r"torch::autograd::AccumulateGrad$")
_BEHIND = 4
"""Calls behind a norm among which it is squared: stacked with others before, or not."""
_KINDS = (SQUARES, MAGNITUDES, NORMS, MEANS, DISTANCES)
_MOST = 20_000
Pieces = tuple[Pairs, Pairs, Pairs]
"""GPU work, rows of `ops`, and segments of Python, of rows."""


class _Call(Struct, frozen=True):
    """The part of a call in a penalty: its kind, the numbers that it makes of others, and the tensors that it takes."""

    kind: int
    how: str = ""
    shapes: tuple[Shape, ...] = ()
    first: Shape = ()
    """Shape of the first operand of what is neither a table's, nor in place, nor of a penalty."""
    product: bool = False


class _Term(Struct, eq=False):
    """One parameter, or a list of them, in a penalty: places of its first and last call, and of the one that reads the numbers."""

    first: int
    last: int
    reads: int
    how: str
    shapes: tuple[Shape, ...]
    sums: list[int] = field(default_factory=list)
    """Additions of the penalty's gradient to that of the layers."""


class _Calls(Struct, eq=False):
    """Calls outside of backward passes, in order, with what each does, and the number of passes that were begun before it."""

    nodes: Ints
    found: list[_Call]
    of: Ints
    behind: Ints
    heard: dict[tuple[int, ...], Ints] = field(default_factory=dict)
    """Places of calls of all kinds but some, by these."""

    def __getitem__(self, place: int) -> _Call:
        return self.found[int(self.of[place])]

    def next(self, place: int, step: int, *, silent: tuple[int, ...]) -> int:
        """The place of the next call not of kinds *silent*, or of the last before (*step* -1); -1 where a pass is between."""
        if silent not in self.heard:
            kinds = np.array([call.kind for call in self.found], np.int64)[self.of]
            self.heard[silent] = np.flatnonzero(~np.isin(kinds, silent))
        heard = self.heard[silent]
        at = int(np.searchsorted(heard, place, side="right" if step > 0 else "left")) - (step < 0)
        inside = 0 <= at < len(heard) and self.behind[heard[at]] == self.behind[place]
        return int(heard[at]) if inside else -1


def weight_penalties(tree: Tree) -> Occurrences | None:
    """One row per penalty in a backward pass: terms with nothing else between them.

    ``repeats`` are the parameters, ``length`` their elements. A row owns the terms, what adds them up, the backward pass of both,
    and the additions to the gradients of the layers; ``part`` leaves what a step takes to add the gradient itself.
    """
    reducing = tree.codes_of(lambda name: name in _SUMS or _NORMS.match(name) is not None)
    if not len(tree.ops(reducing)):
        return None
    passes = tree.once(backward_passes)
    calls = _calls(tree, passes) if passes else None
    if calls is None:
        return None
    found = _stretches(calls, _of_parameters(tree, calls, passes, _terms(calls)))
    return _occurrences(tree, calls, found) if found else None


def _calls(tree: Tree, passes: list[Pass]) -> _Calls | None:
    _, nodes = calls_between(tree)
    if not len(nodes):
        return None
    found, of = keys(tree, nodes, "dims", "concrete", "types")
    begun = np.array([one.start for one in passes], np.int64)
    behind = np.searchsorted(begun, tree.host.start[nodes])
    return _Calls(nodes, [_read(tree, *one) for one in found], of, behind)


def _read(tree: Tree, name: int, dims: int, concrete: int, types: int) -> _Call:
    """Return what a call does, by its name and its recorded arguments."""
    operator, operands = tree.context.names[name], tree.shapes.operands(dims)
    texts = tree.texts(concrete)
    tensors = tuple(shape for shape in operands if size_of(shape) > 1)
    if not tensors:
        return _Call(_SCALAR, _of_number(tree, operator, operands, texts, types))
    if operator == "aten::cat":
        return _Call(_JOIN, "", tensors)
    if is_view(operator) or operator == "aten::to":
        return _Call(_VIEW, "", tensors)
    if operator in _SUMS and operands[1:] in ((), ((),)):
        return _Call(_SUMS[operator], "", tensors)
    if _NORMS.match(operator):
        return _Call(_NORM, how, tensors) if (how := _norm(operator, operands, texts)) else _Call(_OTHER, "", tensors)
    if operator == "aten::abs":
        return _Call(_ELEMENTS, MAGNITUDES, tensors)
    if _squares(operator, operands, texts):
        return _Call(_ELEMENTS, SQUARES, tensors[:1], product=operator == "aten::mul")
    if operator == "aten::sub" and operands[:2] == (operands[0], operands[0]):
        return _Call(_DIFFERENCE, "", tensors[:1], operands[0])
    first = () if _KEEPS.match(operator) else operands[0]
    return _Call(_LAYER if _LAYERS.match(operator) else _OTHER, "", tensors, first)


def _of_number(tree: Tree, operator: str, operands: tuple[Shape, ...], texts: list[str] | None, types: int) -> str:
    """Return what an operator does to a single number: squares it, bends it, or neither."""
    if _squares(operator, operands, texts):
        return SQUARES
    return BENT if _bends(tree, operator, types) else ""


def _bends(tree: Tree, operator: str, types: int) -> bool:
    """Tell whether an operator on single numbers is no multiple by a constant, which is a number of Python and no tensor."""
    if operator in ("aten::mul", "aten::mul_", "aten::div", "aten::div_"):
        words = tree.words(types) or []
        return len(words) > 1 and words[0] == words[1]
    return _BENDS.match(operator) is not None


def _squares(operator: str, operands: tuple[Shape, ...], texts: list[str] | None) -> bool:
    """Tell whether an operator squares the numbers of a tensor."""
    if operator == "aten::mul":
        return len(operands) == 2 and operands[0] == operands[1] != ()
    return operator == "aten::square" or (operator == "aten::pow" and _text(texts, 1) in _TWO)


def _norm(operator: str, operands: tuple[Shape, ...], texts: list[str] | None) -> str:
    """Return which norm of a whole tensor an operator computes; an empty text for others, and where that was not recorded."""
    order = _text(texts, 1)
    listed = operator == "aten::_foreach_norm"
    if texts is None or order is None or (not listed and _text(texts, 2) not in (None, "", "[]")):
        return ""
    if order in _ONE and operator != "aten::linalg_norm":
        return MAGNITUDES
    plain = order == "" or (order in _TWO and operator != "aten::linalg_norm") or len(operands[0]) == 1
    return NORMS if plain and (order == "" or order in _TWO) else ""


def _text(texts: list[str] | None, place: int) -> str | None:
    return texts[place].strip() if texts is not None and place < len(texts) else None


# ---- terms


def _terms(calls: _Calls) -> list[_Term]:
    """Whole tensors that are squared, or made positive, and summed; and norms of them."""
    kinds = np.array([call.kind for call in calls.found], np.int64)[calls.of]
    terms: list[_Term] = []
    joined = set[int]()
    for place in np.flatnonzero(np.isin(kinds, (_JOIN, _ELEMENTS, _NORM))).tolist():
        if place in joined:
            continue
        term = _joined(calls, place) if kinds[place] == _JOIN else _term(calls, place)
        if term is not None:
            terms.append(_without_another_s(calls, term, terms[-1]) if terms else term)
            joined.update(range(place, term.last + 1))
    return terms


def _term(calls: _Calls, place: int) -> _Term | None:
    call = calls[place]
    if call.kind == _NORM:
        how = SQUARES if call.how == NORMS and _squared(calls, place, len(call.shapes)) else call.how
        return _of_difference(calls, _Term(place, place, place, how, call.shapes))
    last = calls.next(place, 1, silent=(_VIEW,))
    weighted = last >= 0 and calls[last].product and calls[last].shapes == call.shapes
    if weighted:
        last = calls.next(last, 1, silent=(_VIEW,))
    if last < 0 or calls[last].kind not in (_SUM, _MEAN) or size_of(calls[last].shapes[0]) != size_of(call.shapes[0]):
        return None
    mean = calls[last].kind == _MEAN
    term = _Term(place, last, place, MEANS if mean and not weighted else call.how, call.shapes[:1])
    found = _of_difference(calls, term)
    return found if found.how == DISTANCES or not weighted else None


def _without_another_s(calls: _Calls, term: _Term, before: _Term) -> _Term:
    """The same term without the difference that it begins with, where that lies behind a term which begins with none.

    Weights that are taken together with their norm behind it would look like distances from the second parameter on.
    """
    if term.how != DISTANCES or before.how == DISTANCES:
        return term
    if calls.next(term.first, -1, silent=(_SCALAR, _VIEW)) != before.last:
        return term
    return _Term(term.reads, term.last, term.reads, SQUARES, term.shapes)


def _of_difference(calls: _Calls, term: _Term) -> _Term:
    """The same term, or, of squares of a difference between two tensors made right before, one that begins there."""
    before = calls.next(term.first, -1, silent=(_VIEW,))
    if before < 0 or term.how not in (SQUARES, MEANS) or calls[term.reads].how == MAGNITUDES:
        return term
    if calls[before].kind != _DIFFERENCE or calls[before].shapes != term.shapes:
        return term
    return _Term(before, term.last, term.reads, DISTANCES, term.shapes)


def _joined(calls: _Calls, place: int) -> _Term | None:
    """A term of parameters that are put behind each other first."""
    shapes = calls[place].shapes
    behind = calls.next(place, 1, silent=(_VIEW,))
    if behind < 0 or calls[behind].kind not in (_ELEMENTS, _NORM):
        return None
    term = _term(calls, behind)
    if term is None or size_of(term.shapes[0]) != sum(map(size_of, shapes)):
        return None
    first = place
    while first and calls[first - 1].kind == _VIEW and calls.behind[first - 1] == calls.behind[place]:
        first -= 1
    return _Term(first, term.last, term.reads, term.how, shapes)


def _squared(calls: _Calls, place: int, count: int) -> bool:
    """Tell whether a norm is squared, by itself or stacked with others."""
    at = place
    for _ in range(_BEHIND):
        at = calls.next(at, 1, silent=(_VIEW,))
        if at < 0:
            return False
        call = calls[at]
        if call.how == SQUARES and (call.kind == _SCALAR or (call.kind == _ELEMENTS and call.shapes == ((count,),))):
            return True
        if call.kind not in (_SCALAR, _NORM):
            return False
    return False


# ---- evidence


def _of_parameters(tree: Tree, calls: _Calls, passes: list[Pass], terms: list[_Term]) -> list[_Term]:
    """The terms that take parameters as they are, and that a backward pass goes through, with the additions of their gradients."""
    terms = _apart(tree, calls, terms)
    if not 0 < len(terms) <= _MOST:
        return []
    marks = np.full(tree.host.size, -1, np.int64)
    for number, term in enumerate(terms):
        marks[calls.nodes[term.first : term.last + 1]] = number
    of, sums = tree.host.with_backward(marks), _sums(tree)
    doubled = {int(of[maker]) for maker in sums}
    by_pass: dict[int, list[_Term]] = defaultdict(list)
    for number, term in enumerate(terms):
        # Both factors of a square have a gradient, which are added; those of a product with another tensor are not.
        if number in doubled or term.how == DISTANCES or not calls[term.reads].product:
            by_pass[int(calls.behind[term.first])].append(term)
    for number, here in by_pass.items():
        if number < len(passes):
            added = _added(tree, passes[number], sums, of >= 0)
            taken = _taken_first(tree, calls, number) if added.elsewhere else set()
            _match(here, {shape: nodes for shape, nodes in added.found.items() if shape not in added.elsewhere & taken})
    return [term for term in terms if term.sums]


def _apart(tree: Tree, calls: _Calls, terms: list[_Term]) -> list[_Term]:
    """The terms that a backward pass goes through, which nothing beside them makes or takes; distances only where none is bent."""
    bent = _bent(calls)
    terms = [term for term in terms if term.how != DISTANCES or term.last > bent.get(int(calls.behind[term.last]), -1)]
    ends = {place for term in terms for place in (term.first, term.last)}
    return [term for term in _with_gradient(tree, calls, terms) if _alone(calls, term, ends)]


def _bent(calls: _Calls) -> dict[int, int]:
    """The last place before each backward pass where a function of single numbers is no multiple of them."""
    how = np.array([call.how == BENT for call in calls.found], np.bool_)[calls.of]
    return {int(calls.behind[place]): int(place) for place in np.flatnonzero(how)}


def _with_gradient(tree: Tree, calls: _Calls, terms: list[_Term]) -> list[_Term]:
    if not terms:
        return []
    reads = calls.nodes[np.array([term.reads for term in terms], np.int64)]
    late = tree.backward_nodes(spread(reads, tree.after(reads)), reads, tree.after(reads))
    passed = set(late.row.tolist())
    return [term for number, term in enumerate(terms) if number in passed]


def _alone(calls: _Calls, term: _Term, ends: set[int]) -> bool:
    """Tell whether no operator on elements beside a term makes what it takes, or takes it together with the sum.

    A sum with other weights is made before; a weight that is divided by its norm is taken behind it. *ends* are terms.
    """
    own = {size_of(shape) for shape in term.shapes}
    for place, step in ((term.first, -1), (term.last, 1)):
        at = calls.next(place, step, silent=(_SCALAR, _VIEW))
        beside = at >= 0 and at not in ends and calls[at].kind != _LAYER
        if beside and own & {size_of(shape) for shape in calls[at].shapes}:
            return False
    return True


def _match(terms: list[_Term], added: dict[Shape, list[int]]) -> None:
    """Give each term of a pass the additions of its gradients; none of a shape of which there are more terms than additions."""
    for how in _KINDS:
        left = {shape: list(nodes) for shape, nodes in added.items()}
        own = [term for term in terms if term.how == how]
        for term in own:
            nodes = [_taken(left, shape) for shape in term.shapes]
            term.sums = nodes if all(node >= 0 for node in nodes) else []
        lacking = {shape for term in own if not term.sums for shape in term.shapes}
        for term in own:
            if lacking & set(term.shapes):
                term.sums = []


def _taken_first(tree: Tree, calls: _Calls, number: int) -> set[Shape]:
    """Shapes of what operators take first in a forward pass: there stand activations, and no parameters but tables."""
    places = np.flatnonzero((calls.behind == number) & (tree.host.attributes.phase[calls.nodes] == FORWARD))
    return {calls.found[code].first for code in np.unique(calls.of[places]).tolist()}


def _taken(left: dict[Shape, list[int]], shape: Shape) -> int:
    """Take an addition of a shape, or, for a flat tensor, of as many elements; -1 where there is none."""
    if left.get(shape):
        return left[shape].pop(0)
    if len(shape) == 1:
        for other, nodes in left.items():
            if nodes and size_of(other) == shape[0]:
                return nodes.pop(0)
    return -1


def _sums(tree: Tree) -> dict[int, list[int]]:
    """Additions that the engine itself makes, by the node of the graph that gave the second gradient."""
    adds = tree.ops(tree.codes_of(_ADDS.__contains__))
    parent = tree.host.parent[adds]
    adds = adds[(parent >= 0) & tree.engine[np.maximum(parent, 0)]]
    found: dict[int, list[int]] = defaultdict(list)
    for node, above in zip(adds.tolist(), tree.host.parent[adds].tolist(), strict=True):
        found[above].append(node)
    return found


class _Added(Struct, eq=False):
    """Additions of the engine in one pass, by shape, whose result is stored right behind; shapes of those of which it is not."""

    found: dict[Shape, list[int]]
    elsewhere: set[Shape]


def _added(tree: Tree, one: Pass, sums: dict[int, list[int]], own: Bools) -> _Added:
    """Return the additions of a pass. Those stored are of parameters with two gradients; *own* flags nodes of the penalty."""
    names = tree.context.names
    nodes = one.nodes[np.argsort(tree.host.start[one.nodes], kind="stable")]
    storing = [_STORES.search(names[code]) is not None for code in tree.host.name[nodes].tolist()]
    shape_of, inner_of = {}, {}
    for store, shape in zip(one.stored, one.shapes, strict=True):
        top = int(tree.host.parent[store])
        shape_of[top] = shape_of[store] = shape
        inner_of[top] = inner_of[store] = store
    found: dict[Shape, list[int]] = defaultdict(list)
    elsewhere = set[Shape]()
    left: list[tuple[Shape, int]] = []
    maker = -1
    for node, stores in zip([*nodes.tolist(), -1], [*storing, False], strict=True):
        if not stores:
            elsewhere.update(shape for shape, _ in left if not own[maker])
            maker = node
            left = [(shapes[0], at) for at in sums.get(node, ()) if (shapes := first_operand(tree, at, listed=False))]
            continue
        place = next((place for place, (shape, _) in enumerate(left) if shape == shape_of.get(node)), -1)
        if place >= 0:
            shape, at = left.pop(place)
            found[shape].append(at)
        elif maker >= 0 and own[maker] and node in inner_of:
            # A pass of the penalty alone: what it makes is stored as it is, and added to what the layers' pass stored.
            found[shape_of[node]].extend(sums.get(inner_of[node], ()))
    return _Added(found, elsewhere)


# ---- rows


def _stretches(calls: _Calls, terms: list[_Term]) -> list[list[_Term]]:
    """Terms of one kind and pass, of those with nothing but numbers and views between them; each gets what stands behind it."""
    found: list[list[_Term]] = []
    for before, term in zip([None, *terms], terms, strict=False):
        if before is not None and calls.next(term.first, -1, silent=(_SCALAR, _VIEW)) == before.last:
            before.last = term.first - 1
            found[-1].append(term)
        else:
            found.append([term])
    kinds = [{how: [term for term in one if term.how == how] for how in _KINDS} for one in found]
    return [terms for one in kinds for terms in one.values() if terms]


def _occurrences(tree: Tree, calls: _Calls, found: list[list[_Term]]) -> Occurrences:
    host = tree.host
    own, added = np.full(host.size, -1, np.int64), np.full(host.size, -1, np.int64)
    reads = added.copy()
    for row, terms in enumerate(found):
        for term in terms:
            own[calls.nodes[term.first : term.last + 1]] = row
            reads[calls.nodes[term.reads]] = row
            added[term.sums] = row
    of = host.with_backward(np.where(added >= 0, added, own))
    pieces = inside, ops, python = owned(tree, of)
    of_pass = [int(calls.behind[terms[0].first]) for terms in found]
    node = np.array([calls.nodes[terms[0].reads] for terms in found], np.int64)
    how = [terms[0].how for terms in found]
    shapes = [[shape for term in terms for shape in term.shapes] for terms in found]
    return Occurrences(
        kind="weight-penalty",
        node=node,
        begin=host.start[calls.nodes[[terms[0].first for terms in found]]],
        end=host.end[calls.nodes[[terms[-1].last for terms in found]]],
        inside=inside,
        own=inside,
        idle=not tree.context.cpu_program,
        ops=ops,
        python=python,
        figures={
            "repeats": np.array([len(each) for each in shapes], np.int64),
            "length": np.array([sum(map(size_of, each)) for each in shapes], np.int64),
            "part": _spared(tree, pieces, [host.flow(reads), host.flow(added)], how, of_pass),
            "dims": tree.dims(node),
        },
        details=how,
    )


def _spared(tree: Tree, whole: Pieces, kept: list[Ints], how: list[str], of_pass: list[int]) -> Ints:
    """Millionths of what rows own that go: all but what a step takes to add the penalty's gradient by itself.

    That is one addition of as many numbers for squares; of absolute values the signs are made first, of norms also a quotient.
    Of distances there are two additions, of the parameters and of the other weights.
    It takes as long as what reads the parameters here, and what adds to the gradients, and is due once for all passes of a step.
    The same for all rows of a kind, by their medians.
    """
    steps = len(optimizers.nodes(tree.context))
    read, added = (_lasting(tree, owned(tree, marks), len(how)) for marks in kept)
    kept_ns = {SQUARES: np.maximum(read, added), MEANS: np.maximum(read, added), MAGNITUDES: read + added}
    kept_ns[NORMS] = read + 2 * added
    kept_ns[DISTANCES] = 2 * np.maximum(read, added)
    taken = _lasting(tree, whole, len(how))
    kinds, of_passes = np.array(how), np.array(of_pass)
    part = np.ones(len(how))
    for kind in dict.fromkeys(how):
        rows = kinds == kind
        passes = len(np.unique(of_passes[rows]))
        each = min(steps / passes, 1.0) if steps else 1.0
        left = each * float(np.median(kept_ns[kind][rows]))
        part[rows] = 1 - min(left / max(float(np.median(taken[rows])), 1.0), 1.0)
    return np.rint(part * MILLION).astype(np.int64)


def _lasting(tree: Tree, pieces: Pieces, count: int) -> Ints:
    """ns of the GPU that pieces of each row take; in a program on the CPU, those that its operators own, and their Python."""
    context, (inside, ops, python) = tree.context, pieces
    if not context.cpu_program:
        return inside.total(tree.work.end - tree.work.start, count)
    cost = context.ledger.cost(len(context.op_rows), *OWNED)
    return ops.total(cost, count) + python.total(context.ledger.dur_ns, count)
