"""Work that a step does once more: on tensors that did not change since a step before it, through layers that did not either.

Each operator of a watched step has a mark, of its name and of the marks of what it is given; memory that was there before the
step is marked by its bytes. Where a later step has the same mark, it computed the same. There are four marks. The first takes
all bytes. The second takes rows that are picked of a tensor for those of any batch: what is computed of samples alone is the same
in each epoch. The third takes parameters by their memory, whatever is in it: without gradients, that is an evaluation.
The fourth takes parameters by their memory and the writes into it: what has it twice in one step was computed twice there.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from advisor.reading.program_settings import EVALUATED, MOST_ENTRIES, SAME, SAMPLES, Unchanged
from advisor.record.callers import Callers, Calls, Place
from advisor.record.draws import drawn
from advisor.record.known import components, glimpse, reference, sampled, span, storage_key, version

_MOST_SECONDS = 2.0
STEPS = 3
"""Steps that are compared: of batches that go round, two that lie apart may be the same, and the next is another."""
_LEAST_ENTRY = 0.005
_WHOLE = 0.98
"""Part of the time below a call from which on it is told of as a whole."""
_SAMPLED_BYTES = 1 << 20
"""Of tensors beyond that not all bytes are read: their memory, and the writes into it, have to be the same besides."""
_LAST = 3
PICKS = frozenset({"aten::index", "aten::index_select"})
"""Operators that pick rows: a batch, or of what was computed."""
_FREE = frozenset({"aten::index", "aten::index_select", "aten::lift_fresh", "aten::detach", "aten::empty", "aten::item",
                   "aten::_local_scalar_dense", "aten::empty_like", "aten::empty_strided", "aten::new_empty",
                   "aten::randperm"})  # fmt: skip
"""Operators that fetch a batch, or read of it, and compute nothing."""
_CONVERTS = frozenset({"aten::to", "aten::_to_copy"})
"""Conversions: those of autocast go over the weights of each layer, in each call, and are for cpu/cast-weights to say."""
_READS = frozenset({"aten::_local_scalar_dense", "aten::is_nonzero"})
_SETS = frozenset({"aten::cat", "aten::stack"})
_PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::mv", "aten::dot"})
"""Products of matrices: of two that hold samples, they take each of one with each of the other."""
_MOST_GLIMPSES = 8

Marks = tuple[int | None, int | None, int | None, int | None]
_NOTHING: Marks = (None, None, None, None)
_NUMBERS = (bool, int, float, complex, str, type(None))


class _Unknown(Exception):
    """Raised for an operator that is given what cannot be compared."""


@dataclass(frozen=True)
class _Value:
    """Marks of a tensor: by all bytes, by samples, by parameters' memory, within a step; None where it differs, or nothing tells.

    *picked*: it holds samples. *trained*: a parameter that takes gradients leads to it. *data*: something that is no part of a
    module does. *leaf*: so does memory from before the step. *drawn*: so does a random number, and no parameter. *derived*: what is
    read is asked for its gradient.
    """

    marks: Marks = _NOTHING
    picked: bool = False
    trained: bool = False
    data: bool = False
    leaf: bool = False
    drawn: bool = False
    derived: bool = False


@dataclass
class Note:
    """An operator that ran: what called it, and the marks of what it made; *seconds* are processor time of its thread."""

    callers: Callers
    value: _Value
    free: bool
    graded: bool
    name: str
    number: int
    """Number of operators that these lines called before it in the step."""
    view: bool = False
    """It returns a view of what it is given."""
    own: bool = True
    """It makes something: it writes into no memory that is from before the step."""
    seconds: float = 0.0
    sequence: int = -1
    """Number of autograd's node that it may be a part of."""
    flows: bool = False
    """A gradient flows through it."""
    passes: int = 0
    """Backward passes of the step before it that free what they go through."""
    seen: int = 0
    """A glimpse of what it made: memory may be written past torch's operators."""

    @property
    def places(self) -> tuple[Place, ...]:
        """The user's lines that lead to it, the outermost first."""
        return self.callers.places

    @property
    def within(self) -> int | None:
        """The mark that an operator of the same step has where it computed the same; None where nothing tells."""
        mark = self.value.marks[3]
        return None if mark is None or not self.own else hash((mark, self.seen))

    @property
    def constant(self) -> bool:
        """True where it is given nothing but numbers."""
        return not self.value.leaf and self.value.marks[0] is not None

    @property
    def same(self) -> int | None:
        """The mark by all bytes and by the calls of these lines before it: rows drawn at random meet again in other places."""
        mark = self.value.marks[0]
        return None if mark is None else hash((mark, self.places, self.number))


class Compared:
    """Compares the operators of steps: :meth:`begin` and :meth:`end` each, :meth:`before` and :meth:`after` each operator.

    ``found`` is None until enough steps were compared. ``seconds`` tells, behind the first, how many may be spared, and
    ``spent`` how many comparing took in a step.
    """

    def __init__(self, torch: Any, trains: Callable[[], bool] = bool) -> None:
        self.found: tuple[Unchanged, ...] | None = None
        self.seconds = self.spent = 0.0
        self._torch, self._trains = torch, trains
        self._training = False
        self._made: dict[int, tuple[Any, _Value]] = {}
        self._read: dict[tuple[Any, ...], tuple[Any, bytes]] = {}
        self._state: set[int] = set()
        self.notes: list[Note] = []
        self._met: set[int] = set()
        self._fresh = False
        self._only = 0
        self._numbers: Counter[tuple[Place, ...]] = Counter()
        self._common: tuple[set[int], set[int], set[int]] | None = None
        self._steps = 0
        self._wavers = self.failed = False
        self._ran: set[int] = set()
        self._passes: set[int] = set()
        self._freed = 0
        self._calls = Calls()
        self._sequence = _sequence(torch)
        self._random: Any = None

    def begin(self) -> None:
        """Begin with a step."""
        self.notes, self._training, self.spent = [], self._trains(), 0.0
        self._numbers.clear()
        self._met.clear()
        self._ran.clear()
        self._passes.clear()
        self._freed = 0
        self._state = {storage_key(tensor) for tensor in _of_modules(self._torch)}
        self._random = drawn(self._torch, ())[1:]

    def end(self) -> None:
        """End a step; behind the last, sum up."""
        self._made, self._read = {}, {}
        self._calls.clear()
        if self.failed:
            return
        for note in self.notes:
            note.flows = note.graded and note.value.derived and note.sequence in self._ran
        self._steps += 1
        # A coin that the program tosses in Python may decide what it does with a batch.
        self._wavers = self._wavers or drawn(self._torch, ())[1:] != self._random
        marks = _marks(self.notes)
        if self._common is None:
            self._common = marks
            spare = (note for note in self.notes if self._may_repeat(note))
            self.seconds = sum(note.seconds for note in spare)
            return
        self._common = (self._common[0] & marks[0], self._common[1] & marks[1], self._common[2] & marks[2])
        if self._steps >= STEPS:
            self.found = self._summary()
        self.notes = []

    def fail(self) -> None:
        """Compare nothing more."""
        self.failed, self.found = True, None
        self.notes, self._made, self._read = [], {}, {}
        self._calls.clear()

    def before(self, name: str, usable: bool, args: Any, kwargs: Any, frame: FrameType | None) -> Note | None:
        """Note an operator that is about to run; None for one of a backward pass."""
        if self.failed or self._torch._C._current_graph_task_id() != -1:
            return None
        began = time.perf_counter()
        value = _Value()
        try:
            value = self._given(name, args, kwargs)
            if value.marks[3] in self._met:
                value = self._given_now(name, args, kwargs)
        except _Unknown:
            pass
        random = not usable and name.startswith("aten::")
        drew = (random or value.drawn) and not value.trained
        value = replace(value, marks=value.marks if usable else _NOTHING, drawn=drew)
        self._wavers = self._wavers or (name in _READS and value.drawn)
        callers = self._calls.at(frame)
        free = name in _FREE or (name in _CONVERTS and _under_autocast(self._torch))
        number = self._numbers[callers.places]
        note = Note(callers, value, free, self._torch.is_grad_enabled(), name, number, passes=self._freed)
        note.sequence = self._sequence()
        self._numbers[callers.places] += 1
        self.spent += time.perf_counter() - began
        if self.spent > _MOST_SECONDS:
            self.fail()
            return None
        return note

    def after(self, note: Note, view: bool, written: Iterable[Any], result: Any, seconds: float) -> None:
        """Note what an operator made."""
        note.seconds = seconds
        note.view, note.free = view, note.free or view
        self.notes.append(note)
        for tensor in self._plain(written):
            known = storage_key(tensor) in self._made
            note.own = note.own and known
            whole = span(tensor) == tensor.untyped_storage().nbytes() or known
            self._set(tensor, self._kept(tensor, note.value if whole else _Value()))
        if view:
            return
        made = self._plain(_tensors(self._torch, result))
        if note.value.marks[3] is not None:
            self._met.add(note.value.marks[3])
            note.seen = hash(tuple(map(glimpse, made[:_MOST_GLIMPSES])))
        for at, tensor in enumerate(made):
            if storage_key(tensor) not in self._made:
                self._set(tensor, _numbered(note.value, at))

    def behind(self, written: Iterable[Any]) -> None:
        """Note an operator of a backward pass: what is in the memory that it has *written* its bytes tell."""
        task = self._torch._C._current_graph_task_id()
        if task not in self._passes:
            self._passes.add(task)
            # A derivative of which another is taken (create_graph) keeps the graph that it goes through.
            self._freed += not self._torch.is_grad_enabled()
            self._calls.prune()  # the forward pass has returned, and what its variables held shall go as usual
        node = getattr(self._torch._C, "_current_autograd_node", lambda: None)()
        if node is not None:
            self._ran.add(node._sequence_nr())
        for tensor in self._plain(written):
            self._made.pop(storage_key(tensor), None)

    def _plain(self, values: Iterable[Any]) -> list[Any]:
        tensors = (value for value in values if isinstance(value, self._torch.Tensor))
        return [part for tensor in tensors for part in components(self._torch, tensor)]

    def _set(self, tensor: Any, value: _Value) -> None:
        if value.marks[3] is None:  # random, or unknown: within the step it is this one, and no other
            self._only += 1
            value = replace(value, marks=(*value.marks[:3], hash(("only", self._only))))
        self._made[storage_key(tensor)] = reference(self._torch, tensor), value

    def _kept(self, tensor: Any, value: _Value) -> _Value:
        """Return the marks of memory that was written: that of a module is still the same memory."""
        key = storage_key(tensor)
        if key not in self._state:
            return value
        trained = value.trained or (bool(tensor.requires_grad) and self._training)
        same, samples, _, within = value.marks
        marks = (same, samples, hash(("state", key)), within)
        return replace(value, marks=marks, trained=trained, data=False, leaf=True)

    # ---- what operators are given

    def _given_now(self, name: str, args: Any, kwargs: Any) -> _Value:
        """Do the same, with the bytes that are there now: numpy writes into tensors, and torch counts nothing."""
        self._fresh = True
        try:
            return self._given(name, args, kwargs)
        finally:
            self._fresh = False

    def _given(self, name: str, args: Any, kwargs: Any) -> _Value:
        """Mark an operator by what it is given; raises _Unknown."""
        read: list[_Value] = []
        texts: list[tuple[Any, ...]] = []
        parts = [*args, *(pair for pair in sorted(kwargs.items()))]
        picks = name in PICKS and _first_alone(self._torch, name, args)
        for part in parts:
            self._describe(part, texts, read)
        marks = _combined(name, texts, picks=picks)
        picked = any(value.picked for value in read) or (picks and marks[1] is not None)
        if not picks and self._mixes(name, parts):
            marks[1] = None
        return _Value(
            (marks[0], marks[1], marks[2], marks[3]),
            picked=picked,
            trained=any(value.trained for value in read),
            data=any(value.data for value in read),
            leaf=any(value.leaf for value in read),
            drawn=any(value.drawn for value in read),
            derived=any(value.derived for value in read),
        )

    def _mixes(self, name: str, parts: Iterable[Any]) -> bool:
        """Tell whether an operator takes samples of a batch together: which others are in the batch changes what it makes."""
        held = [part for part in parts if isinstance(part, self._torch.Tensor) and part.dim()]
        # A sparse tensor is told by its indices and values.
        shapes = [
            tuple(part.shape)
            for part in held
            if any(self._value(each).picked for each in components(self._torch, part))
        ]
        if name in _PRODUCTS:
            return len(shapes) > 1
        return any(_pairs(one, other) for at, one in enumerate(shapes) for other in shapes[at + 1 :])

    def _describe(self, part: Any, texts: list[tuple[Any, ...]], read: list[_Value]) -> None:
        torch = self._torch
        if isinstance(part, torch.Tensor):
            values = [self._value(each) for each in components(torch, part)]
            if not values:
                raise _Unknown
            read += [replace(value, derived=True) for value in values] if part.requires_grad else values
            texts.append(values[0].marks if len(values) == 1 else _together(values, tuple(part.shape)))
        elif isinstance(part, list | tuple):
            texts.append(("[",) * 4)
            for each in part:
                self._describe(each, texts, read)
        elif isinstance(part, (*_NUMBERS, torch.dtype, torch.device, torch.layout, torch.memory_format)):
            texts.append((repr(part),) * 4)
        else:
            raise _Unknown

    def _value(self, tensor: Any) -> _Value:
        key = storage_key(tensor)
        geometry = (str(tensor.dtype), tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
        part = _part(tensor)
        loose = geometry if part is None else part
        made = self._made.get(key)
        if made is None:
            return self._leaf(tensor, key, geometry, part)
        value = made[1]
        same, samples, by_place, within = (
            None if mark is None else hash((mark, shape))
            for mark, shape in zip(value.marks, (geometry, loose, geometry, geometry), strict=True)
        )
        return replace(value, marks=(same, samples, by_place, within), picked=value.picked or part is not None)

    def _leaf(self, tensor: Any, key: int, geometry: tuple[Any, ...], part: tuple[Any, ...] | None) -> _Value:
        """Mark memory that was there before the step, or that came from elsewhere."""
        torch = self._torch
        state, trained = key in self._state or tensor.requires_grad, bool(tensor.requires_grad) and self._training
        written = version(tensor)
        known = self._read.get((key, geometry, written))
        if known is None or (self._fresh and not state):
            known = self._read[key, geometry, written] = reference(torch, tensor), sampled(tensor)
        large = (key, written) if span(tensor) > _SAMPLED_BYTES else ()
        same = hash((known[1], geometry, large))
        samples = same if part is None else hash((key, written, part))
        by_place = hash((hash(("state", key)), geometry)) if state else same
        within = hash((same, key, written)) if state else same
        return _Value((same, samples, by_place, within), part is not None, trained, data=not state, leaf=True)

    # ---- what repeats

    def _may_repeat(self, note: Note) -> bool:
        value = note.value
        if note.free or not value.leaf or (value.trained and note.graded):
            return False
        return any(mark is not None for mark in value.marks[:3])

    def _kind(self, note: Note) -> str:
        """Name what an operator repeats; "" where it does not."""
        value, common = note.value, self._common
        if common is None or not value.leaf:
            return ""
        _, samples, by_place, _ = value.marks
        if note.same in common[0]:
            return SAME
        if self._training and value.picked and not self._wavers and samples in common[1]:
            return SAMPLES
        if self._training and value.trained and value.data and not note.graded and by_place in common[2]:
            return EVALUATED
        return ""

    def _summary(self) -> tuple[Unchanged, ...]:
        notes = [note for note in self.notes if not note.free and note.places]
        kinds = [self._kind(note) for note in notes]
        # Where the results of the step are the same as well, it is one batch that goes through again and again.
        if all(kind == SAME for kind in kinds[-_LAST:]):
            kinds = [kind if kind != SAME else "" for kind in kinds]
        whole = sum(note.seconds for note in notes)
        found = [
            entry for kind in (SAME, SAMPLES, EVALUATED) for entry in _placed(kind, notes, kinds, _LEAST_ENTRY * whole)
        ]
        return tuple(entry for _, entry in sorted(found, key=lambda each: -each[0])[:MOST_ENTRIES])


def _under_autocast(torch: Any) -> bool:
    """Tell whether this runs in a region of autocast. In its own conversions it is off, and no function tells the depth alone."""
    torch.autocast_increment_nesting()
    return bool(torch.autocast_decrement_nesting() > 0)


def _placed(kind: str, notes: list[Note], kinds: list[str], least: float) -> Iterator[tuple[float, Unchanged]]:
    """Yield seconds and place of what repeats: the outermost lines of which nearly all does."""
    chosen: dict[Place, list[float]] = {}
    for note, at in outermost(notes, [own == kind for own in kinds]):
        sums = chosen.setdefault(note.places[at], [0.0, 0.0])
        sums[0], sums[1] = sums[0] + note.seconds, sums[1] + 1
    for place, (seconds, calls) in chosen.items():
        if seconds < least or seconds <= 0:
            continue
        there = sum(note.seconds for note in notes if place in note.places)
        share = round(min(seconds / there, 1.0), 4)
        if share > 0:
            yield seconds, Unchanged(kind, int(calls), share, file=place[0], line=place[1])


def outermost(notes: list[Note], chosen: list[bool], from_place: list[int] | None = None) -> Iterator[tuple[Note, int]]:
    """Yield the chosen notes, each with which of its lines is the outermost of whose time nearly all is chosen.

    Lines before *from_place* of a note, if given, are left out; where less of all is chosen, it is the innermost.
    """
    whole: dict[tuple[Place, ...], list[float]] = {}
    for note, own in zip(notes, chosen, strict=True):
        for depth in range(1, len(note.places) + 1):
            sums = whole.setdefault(note.places[:depth], [0.0, 0.0])
            sums[0] += note.seconds
            sums[1] += note.seconds if own else 0.0
    for note, own, first in zip(notes, chosen, from_place or [0] * len(notes), strict=True):
        if own:
            depths = range(first + 1, len(note.places) + 1)
            sums_of = (whole[note.places[:depth]] for depth in depths)
            found = (depth for depth, (total, part) in zip(depths, sums_of, strict=True) if part >= _WHOLE * total)
            yield note, next(found, len(note.places)) - 1


def _sequence(torch: Any) -> Callable[[], int]:
    """Return what tells the number of autograd's newest node, -1 in torch that does not tell."""
    newest = getattr(torch._C._autograd, "_get_sequence_nr", None)
    return (lambda: -1) if newest is None else (lambda: int(newest()) - 1)


def _marks(notes: list[Note]) -> tuple[set[int], set[int], set[int]]:
    columns: tuple[set[int], set[int], set[int]] = set(), set(), set()
    for note in notes:
        for column, mark in zip(columns, (note.same, *note.value.marks[1:3]), strict=True):
            if mark is not None:
                column.add(mark)
    return columns


def _numbered(value: _Value, at: int) -> _Value:
    """Marks of one of several results."""
    same, samples, by_place, within = (None if mark is None else hash((mark, at)) for mark in value.marks)
    return replace(value, marks=(same, samples, by_place, within))


def _together(values: list[_Value], shape: tuple[int, ...]) -> tuple[int | None, ...]:
    """Marks of a sparse tensor, by those of its indices and values."""
    columns = zip(*(value.marks for value in values), strict=True)
    return tuple(None if None in column else hash((shape, column)) for column in columns)


def _part(tensor: Any) -> tuple[Any, ...] | None:
    """Describe a batch of whole rows of a larger tensor, without which; None for other tensors.

    Batches begin at multiples of their size. A window that begins anywhere is no such batch.
    """
    count = tensor.numel()
    if not count or not tensor.is_contiguous() or tensor.storage_offset() % count:
        return None
    if count * tensor.element_size() >= tensor.untyped_storage().nbytes():
        return None
    return str(tensor.dtype), tuple(tensor.shape[1:])


def _combined(name: str, texts: list[tuple[Any, ...]], *, picks: bool) -> list[int | None]:
    """Marks of an operator by those of what it is given; of what *picks* rows, the second leaves out which."""
    marks: list[int | None] = []
    for kind in range(4):
        column = [text[kind] for text in texts]
        if picks and kind == 1:
            column = column[:1]
        elif name in _SETS and kind == 1:
            column = sorted(set(map(str, column))) if None not in column else column
        marks.append(None if None in column else hash((name, *map(str, column))))
    return marks


def _pairs(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Tell whether two shapes broadcast against each other, from the first dimension on: a number for each pair of samples."""
    rank = max(len(one), len(other))
    sizes = list(zip((1,) * (rank - len(one)) + one, (1,) * (rank - len(other)) + other, strict=True))
    if sizes[0][0] > 1:
        sizes = [(right, left) for left, right in sizes]
    return sizes[0][0] == 1 < sizes[0][1] and any(right == 1 < left for left, right in sizes)


def _first_alone(torch: Any, name: str, args: Any) -> bool:
    """Tell whether an operator picks rows of its first argument by a tensor."""
    if name == "aten::index_select":
        return len(args) > 2 and args[1] == 0
    indices = list(args[1]) if len(args) > 1 and isinstance(args[1], list | tuple) else []
    others = [index for index in indices[1:] if index is not None]
    return bool(indices) and indices[0] is not None and not others and indices[0].dtype != torch.bool


def _of_modules(torch: Any) -> Iterator[Any]:
    """Yield parameters and buffers of all modules."""
    module = torch.nn.Module
    for each in gc.get_objects():
        if issubclass(type(each), module):
            held = vars(each)
            for tensor in [*held.get("_parameters", {}).values(), *held.get("_buffers", {}).values()]:
                yield from components(torch, tensor) if tensor is not None else ()


def _tensors(torch: Any, value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(torch, part)
