"""Masks, biases and tables of positions that are built of nothing but numbers, by the same operators again and again.

A trace does not say which tensor an operator takes. In a run of operators that begins with a factory (arange, full, ones), one
whose every operand has a shape and a type that the run itself has made is taken for a part of it, unless something else as large,
which the run did not make, is at hand.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

import numpy as np
from msgspec import Struct, field

from advisor.frames.copies import parse
from advisor.frames.patterns.operands import numbers
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, size_of
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints, distinct
from advisor.regex import regex
from advisor.roofline.pointwise import broadcast
from advisor.timeline.calls import BACKWARD
from advisor.timeline.operator_names import is_view, moves_no_data
from advisor.timeline.recording import COPY

_ORDER = regex(r"^aten::(?:arange|range|linspace|logspace|eye|tril_indices|triu_indices|\w+_window)$")
_TRIANGLE = regex(r"^aten::(?:tril|triu)_?$")
_FILLS = regex(r"^aten::(?:(?:new_)?(?:full|ones|zeros)|(?:full|ones|zeros)_like|scalar_tensor)$")
_TELLS = regex(r"^aten::(?:eq|ne|lt|le|gt|ge|__\w*(?:eq|ne|lt|le|gt|ge)__|logical_\w+|isfinite|isinf|isnan)_?$")
_ELEMENTS = regex(
    r"^aten::(?:add|sub|rsub|mul|div|true_divide|floor_divide|pow|exp2?|log2?|sqrt|rsqrt|square|reciprocal|abs|neg|sign|floor"
    r"|ceil|round|trunc|sin|cos|tan|tanh|sigmoid|remainder|fmod|clamp(?:_min|_max)?|clip|minimum|maximum|where|masked_fill"
    r"|bitwise_\w+|__\w+__|tril|triu|flip|roll|clone|contiguous|copy|to|_to_copy|type_as|float|half|bfloat16|long|int|bool"
    r"|cumsum)_?$"
)
_OUTER = frozenset({"aten::outer", "aten::ger"})
_JOINS = frozenset({"aten::cat", "aten::stack"})
_LARGER = frozenset({"aten::max", "aten::min"})
_GRID = "aten::meshgrid"
_ANY = frozenset({"bool", "int", "float"})
_NUMBERS = frozenset({"int", "float"})
_BOOL, _FLOAT = frozenset({"bool"}), frozenset({"float"})
_LEAST = 1 << 14
"""Elements of the largest tensor of a run: what is smaller is written in a microsecond."""
_BEFORE, _GAP, _AT_HAND = 8, 6, 16
"""Operators before a range in which a run may begin with a fill; of other work that may lie in a run; before it whose tensors are
at hand."""
_REACH, _MOST = 64, 20_000
_OPTIONS = 4
"""Arguments of each factory behind its numbers: type, layout, device, pinned or not."""
_WRITTEN = 12
"""Operators behind a run in which its result would be written into, where it is a buffer and no table."""
Kinds = frozenset[str]
Tensor = tuple[Shape, Kinds]


class _Run(Struct, eq=False):
    """Operators that build something of numbers, by their places among the outermost, and what they made."""

    step: int
    places: list[int]
    key: tuple[int, ...]
    made: list[Tensor] = field(default_factory=list)


class _Call(Struct, frozen=True):
    """An operator: its name, its operands, with their types where they are tensors, and its recorded values."""

    name: str
    tensors: tuple[Tensor, ...]
    texts: tuple[str, ...]
    known: bool
    """Types and shapes of all operands were recorded."""


def rebuilt_tables(tree: Tree) -> Occurrences | None:
    """One row per run of operators on the GPU that builds a tensor of nothing but numbers, as another run has before.

    Built in more than one step, by the same operators on the same shapes and numbers, each of its turns is a row; built of other
    sizes in each step, all but a step's first. ``repeats`` are its turns in a step, ``length`` the elements of the largest tensor.
    """
    host = tree.host
    orders = tree.codes_of(lambda name: bool(_ORDER.match(name) or _TRIANGLE.match(name)))
    if tree.context.cpu_program or not orders.any():
        return None
    outer = tree.outermost
    outer = outer[(host.attributes.phase[outer] != BACKWARD) & ~tree.engine[outer]]
    if not 0 < int(orders[host.name[outer]].sum()) <= _MOST:
        return None
    runs = _repeated(_Reader(tree, outer).runs(orders))
    if not runs:
        return None
    turns = Counter((run.step, run.key) for run in runs)
    nodes = Pairs(
        np.repeat(np.arange(len(runs)), [len(run.places) for run in runs]),
        np.concatenate([outer[run.places] for run in runs]),
    )
    work = tree.launched_below(nodes.index)
    own = Pairs(nodes.row[work.row], work.index).each_once()
    largest = np.array([_heaviest(tree, outer[run.places]) for run in runs], np.int64)
    return Occurrences(
        kind="rebuilt",
        node=largest,
        begin=host.start[[int(outer[run.places[0]]) for run in runs]],
        end=host.end[[int(outer[run.places[-1]]) for run in runs]],
        inside=own,
        own=own,
        ops=NOTHING,
        figures={
            "repeats": np.array([turns[run.step, run.key] for run in runs], np.int64),
            "length": np.array([max(size_of(shape) for shape, _ in run.made) for run in runs], np.int64),
            "dims": tree.dims(largest),
        },
        details=[_names(tree, outer[run.places]) for run in runs],
    )


def _repeated(runs: list[_Run]) -> list[_Run]:
    """Runs of which another with the same operators, shapes and numbers is a layer's or a step's: without a step's first where
    no other step has them."""
    steps: dict[tuple[int, ...], set[int]] = {}
    for run in runs:
        steps.setdefault(run.key, set()).add(run.step)
    kept, seen = [], set()
    for run in runs:
        if len(steps[run.key]) > 1 or run.key in seen:
            kept.append(run)
        seen.add(run.key)
    return kept


def _heaviest(tree: Tree, nodes: Ints) -> int:
    """The operator of a run whose work on the GPU takes longest."""
    work = tree.launched_below(nodes)
    return int(nodes[work.total(tree.work.end - tree.work.start, len(nodes)).argmax()])


def _names(tree: Tree, nodes: Ints) -> str:
    """The operators of a run that write something, in their order, each once."""
    names = [tree.context.names[code].removeprefix("aten::") for code in tree.host.name[nodes].tolist()]
    return " → ".join(dict.fromkeys(name for name in names if not is_view(f"aten::{name}")))


class _Reader:
    """Operators in their order, from which runs are taken."""

    def __init__(self, tree: Tree, outer: Ints) -> None:
        host, column = tree.host, tree.context.op_column
        self.tree, self.outer = tree, outer
        columns = [host.name[outer], *(column(outer, name) for name in ("dims", "types", "concrete"))]
        self.codes = np.stack(columns, axis=1).astype(np.int64)
        self.step = tree.context.recording.host_step_of(host.start[outer])
        self.thread = host.thread[outer]
        self._calls: dict[tuple[int, ...], _Call] = {}
        self._built: set[Shape] = set()
        self._taken = np.zeros(len(outer), np.bool_)
        self._known: dict[tuple[object, ...], tuple[list[int], list[Tensor]]] = {}

    def call(self, place: int) -> _Call:
        """The operator at a place, read once for all that are like it."""
        key = tuple(self.codes[place].tolist())
        if key not in self._calls:
            name, dims, types, concrete = key
            self._calls[key] = _call(self.tree, self.tree.context.names[name], dims, types, concrete)
        return self._calls[key]

    def runs(self, orders: np.ndarray) -> list[_Run]:
        """All runs with something large in them that nothing else writes into."""
        found, behind = [], 0
        for at in np.flatnonzero(orders[self.codes[:, 0]]).tolist():
            if at < behind:
                continue
            first = self._first(at, behind)
            run = self._run(first)
            if run is None:
                continue
            behind = run.places[-1] + 1
            self._built |= {_bare(shape) for shape, _ in run.made}
            self._taken[run.places] = True
            if at in run.places and self._counts(run):
                found.append(run)
        return found

    def _first(self, at: int, behind: int) -> int:
        """The earliest fill or range shortly before a place."""
        low = max(at - _BEFORE, behind)
        starts = [place for place in range(low, at) if self._same(place, at) and _begins(self.call(place).name)]
        return starts[0] if starts else at

    def _same(self, place: int, other: int) -> bool:
        return bool(self.thread[place] == self.thread[other] and self.step[place] == self.step[other])

    def _run(self, first: int) -> _Run | None:
        """The run that begins at a place; None where that is no factory.

        Steps repeat: what is read of one place is known for all at which the same operators lie around it.
        """
        low, high = max(first - _AT_HAND, 0), min(first + _REACH, len(self.outer))
        same = (self.thread[low:high] == self.thread[first]) & (self.step[low:high] == self.step[first])
        around = (self.codes[low:high].tobytes(), same.tobytes(), self._taken[low:first].tobytes(), len(self._built))
        if around not in self._known:
            self._known[around] = self._read(low, first, high, same.tolist())
        behind, made = self._known[around]
        if not behind:
            return None
        places = [first + place for place in behind]
        return _Run(int(self.step[first]), places, tuple(self.codes[places].ravel().tolist()), made)

    def _read(self, low: int, first: int, high: int, same: list[bool]) -> tuple[list[int], list[Tensor]]:
        """Return how far behind the *first* the operators of a run are, and what they make; *same* flags its thread and step."""
        made, behind = list[Tensor](), list[int]()
        others = deque[Tensor](maxlen=_AT_HAND * 4)
        for place in range(low, first):
            if same[place - low] and not self._taken[place]:
                others.extend(_handled(self.call(place), self._built))
        gap = 0
        for place in range(first, high):
            if not same[place - low] or (gap and (self.codes[place] == self.codes[first]).all()):
                break
            call = self.call(place)
            result = _made(call, made, others)
            if result is not None:
                behind.append(place - first)
                made.extend(result)
                gap = 0
            elif not moves_no_data(call.name):
                others.extend(_handled(call, self._built | {_bare(shape) for shape, _ in made}))
                gap += 1
                if gap > _GAP:
                    break
        return behind, made

    def _counts(self, run: _Run) -> bool:
        """Tell whether a run computes something large, on the GPU alone, that stays as it is."""
        tree, nodes = self.tree, self.outer[run.places]
        work = tree.launched_below(nodes).index
        if max(size_of(shape) for shape, _ in run.made) < _LEAST or not len(work):
            return False
        computes = [self.call(place).name for place in run.places]
        if not any(_TELLS.match(name) or (_ELEMENTS.match(name) and not moves_no_data(name)) for name in computes):
            return False
        between = tree.work.kind[work] == COPY
        if between.any() and not _on_device(tree, work[between]):
            return False
        shapes = {shape for shape, _ in run.made if size_of(shape) >= _LEAST}
        last = run.places[-1]
        for place in range(last + 1, min(last + 1 + _WRITTEN, len(self.outer))):
            call = self.call(place)
            if call.name.endswith("_") and call.tensors and call.tensors[0][0] in shapes and self._same(place, last):
                return False
        return True


def _on_device(tree: Tree, copies: Ints) -> bool:
    """Tell whether all of these copies stay on the device."""
    names = [tree.context.names[code] for code in distinct(tree.work.name[copies]).tolist()]
    return all(parse(name)[0] == "DtoD" for name in names)


def _begins(name: str) -> bool:
    return bool(_ORDER.match(name) or _FILLS.match(name))


def _call(tree: Tree, name: str, dims: int, types: int, concrete: int) -> _Call:
    operands, words, texts = tree.shapes.operands(dims), tree.words(types), tree.texts(concrete)
    told = tuple(texts or ())
    if words is None or texts is None:
        return _Call(name, tuple((shape, _ANY) for shape in operands if shape), told, False)
    if "TensorList" in words:
        # A list's shapes stand in a list of their own: what is in it has no types.
        return _Call(name, tuple((shape, _ANY) for shape in operands if shape), told, name in _JOINS or name == _GRID)
    tensors = []
    for at, (shape, word) in enumerate(zip(operands, words, strict=False)):
        if shape or (word not in ("", "Scalar", "ScalarList", "double", "long int", "bool") and not _told(told, at)):
            tensors.append((shape, _kind(word)))
    return _Call(name, tuple(tensors), told, len(operands) == len(words))


def _told(texts: tuple[str, ...], at: int) -> bool:
    return at < len(texts) and bool(texts[at])


def _kind(word: str) -> Kinds:
    if word == "bool":
        return _BOOL
    whole = "int" in word or "char" in word or word in ("long", "short")
    return frozenset({"int"}) if whole else _FLOAT


def _bare(shape: Shape) -> Shape:
    """A shape without what broadcasting adds to it."""
    return tuple(size for size in shape if size != 1)


def _handled(call: _Call, built: set[Shape]) -> list[Tensor]:
    """Large tensors that an operator takes, but for those that a run built, and what it may give."""
    shapes = [shape for shape, _ in call.tensors]
    found = [(_bare(shape), kinds) for shape, kinds in call.tensors if _bare(shape) not in built]
    result = broadcast(shapes)
    found += [(_bare(result), _ANY)] if result is not None else []
    if len(shapes) > 1 and shapes[0] and shapes[1]:
        (*rows, _), other = shapes[:2]
        found += [(_bare((*rows, width)), _FLOAT) for width in {other[-1], other[0]}]
    return [(shape, kinds) for shape, kinds in found if size_of(shape) >= _LEAST]


def _made(call: _Call, made: list[Tensor], others: Iterable[Tensor]) -> list[Tensor] | None:
    """The tensors that an operator makes of those that a run made, or of numbers alone; None where it takes anything else."""
    if _begins(call.name):
        return _first_of(call)
    if not made or not call.known or not call.tensors or not _of_run(call.tensors, made, others):
        return None
    kinds = frozenset[str]().union(*(kind for _, kind in call.tensors))
    shape = _result(call)
    if shape is None:
        return None
    if call.name == _GRID:
        return [(shape, _ANY)] * len(call.tensors)
    if is_view(call.name):
        return [(shape, call.tensors[0][1])]
    if _TELLS.match(call.name):
        return [(shape, _BOOL)]
    return [(shape, _ANY if _converts(call.name) or kinds == _BOOL else kinds | _FLOAT)]


def _result(call: _Call) -> Shape | None:
    """The shape of what an operator gives; None where it is not one of those that a run goes on by."""
    name, shapes = call.name, [shape for shape, _ in call.tensors]
    if name in _OUTER:
        return (size_of(shapes[0]), size_of(shapes[-1]))
    if name in _JOINS:
        return _joined(name, shapes, call.texts)
    if name == _GRID:
        return tuple(map(size_of, shapes))
    if is_view(name):
        return _viewed(name, shapes[0], call.texts)
    if name in _LARGER and len(shapes) > 1:
        return broadcast(shapes)
    if not (_ELEMENTS.match(name) or _TELLS.match(name)):
        return None
    return shapes[0] if name.endswith("_") else broadcast(shapes)


def _converts(name: str) -> bool:
    return name in ("aten::to", "aten::_to_copy", "aten::type_as", "aten::copy_", "aten::bool", "aten::where", *_JOINS)


def _of_run(tensors: Iterable[Tensor], made: list[Tensor], others: Iterable[Tensor]) -> bool:
    """Tell whether a run made all of these tensors, and nothing else of such a size is at hand."""
    for (shape, kind), number in Counter(tensors).items():
        bare = _bare(shape)
        if any(one == bare and bool(kind & kinds) for one, kinds in others):
            return False
        if sum(one == shape and bool(kind & kinds) for one, kinds in made) < number:
            return False
    return True


def _first_of(call: _Call) -> list[Tensor] | None:
    """The tensor that a factory makes, by its recorded arguments; None where they do not tell it."""
    name, texts = call.name, call.texts
    if "_like" in name:
        return [(call.tensors[0][0], _ANY)] if call.tensors else None
    if _FILLS.match(name):
        shape = numbers(list(texts), 1 if "new_" in name else 0)
        return None if shape is None else [(shape, _ANY)]
    values = _leading(texts)
    if not values or "tri" in name:
        return None
    if name == "aten::eye":
        return [((int(values[0]), int(values[-1])), _ANY)]
    length = _length(name, values)
    return [((length,), _NUMBERS)] if length > 0 else None


def _length(name: str, values: list[float]) -> int:
    """Elements of a range, or of a window; 0 where unknown."""
    if "space" in name:
        return int(values[2]) if values[2:] else 0
    if not name.endswith("range") or len(values) == 1:
        return int(values[0])
    step = values[2] if values[2:] else 1.0
    return int(np.ceil((values[1] - values[0]) / step)) if step else 0


def _leading(texts: tuple[str, ...]) -> list[float]:
    values = []
    for text in texts[: max(len(texts) - _OPTIONS, 1)]:
        try:
            values.append(float(text))
        except ValueError:
            break
    return [value for value in values if np.isfinite(value) and abs(value) < 1e12]


def _joined(name: str, shapes: list[Shape], texts: tuple[str, ...]) -> Shape | None:
    along = numbers(list(texts), 1)
    first = shapes[0]
    if any(len(shape) != len(first) for shape in shapes):
        return None
    at = along[0] if along else 0
    if name == "aten::stack":
        at %= len(first) + 1
        return (*first[:at], len(shapes), *first[at:]) if set(shapes) == {first} else None
    at %= len(first)
    return (*first[:at], sum(shape[at] for shape in shapes), *first[at + 1 :])


def _viewed(name: str, shape: Shape, texts: tuple[str, ...]) -> Shape | None:
    """The shape of a view; None where its arguments do not tell it."""
    told, view, rank = numbers(list(texts), 1), name.removeprefix("aten::"), len(shape)
    if view in ("alias", "detach", "lift_fresh", "positive"):
        return shape
    if view in ("t", "numpy_T", "mT"):
        return shape[::-1] if rank <= 2 else None
    if not told or not shape:
        return None
    if view in ("view", "reshape", "_unsafe_view"):
        return _filled(told, size_of(shape))
    if view in ("expand", "broadcast_to"):
        old = (1,) * (len(told) - rank) + shape
        return (
            tuple(kept if new < 0 else new for new, kept in zip(told, old, strict=False)) if len(told) >= rank else None
        )
    if view == "permute":
        return tuple(shape[at % rank] for at in told) if len(told) == rank else None
    return _along(view, shape, told[0], texts)


def _along(view: str, shape: Shape, at: int, texts: tuple[str, ...]) -> Shape | None:
    """The same of a view along one dimension."""
    rank = len(shape)
    if view == "unsqueeze":
        at %= rank + 1
        return (*shape[:at], 1, *shape[at:])
    at %= rank
    if view == "transpose":
        other = numbers(list(texts), 2)
        return _swapped(shape, at, other[0] % rank) if other else None
    if view == "select":
        return (*shape[:at], *shape[at + 1 :])
    return _sliced(shape, at, texts) if view == "slice" else None


def _filled(told: Shape, size: int) -> Shape | None:
    known = -int(np.prod([new for new in told if new >= 0])) if -1 in told else 0
    filled = tuple(size // -known if new < 0 and known else new for new in told)
    return filled if size_of(filled) == size else None


def _swapped(shape: Shape, one: int, other: int) -> Shape:
    out = list(shape)
    out[one], out[other] = out[other], out[one]
    return tuple(out)


def _sliced(shape: Shape, at: int, texts: tuple[str, ...]) -> Shape | None:
    bounds = [numbers(list(texts), place) for place in (2, 3, 4)]
    length = shape[at]
    first, last, step = (one[0] if one else given for one, given in zip(bounds, (0, length, 1), strict=True))
    if step < 1:
        return None
    count = len(range(*slice(first, last, step).indices(length)))
    return (*shape[:at], count, *shape[at + 1 :])
