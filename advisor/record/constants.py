"""Operators that compute the same numbers in every step, of nothing but numbers in the code and buffers of modules.

Two steps are watched, some apart, by a mode of torch's that sees each operator with what it is given. What is made of no tensor,
and of nothing random, is constant; so is what an operator makes of constants alone. It counts where the later step gives an
operator at the same line what the earlier one gave it, to the byte. For bytes on a GPU the program waits: the record of one of
these steps is thrown away, and in the other nothing is recorded.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from advisor.reading.program_settings import (
    MOST_ENTRIES,
    Again,
    Carried,
    Chain,
    Constant,
    Factor,
    Mask,
    Unchanged,
    Zeros,
)
from advisor.record import again, modes
from advisor.record.carried import Goers
from advisor.record.chains import Chains
from advisor.record.factors import Factors
from advisor.record.known import fetched, is_plain, is_told, reference, sampled, storage_key
from advisor.record.labels import Labels
from advisor.record.masks import Masks
from advisor.record.places import caller, synchronizes
from advisor.record.unchanged import Compared, Note
from advisor.record.zeros import ZeroFactors

LEAST_SHARE = 0.02
"""Part of a step's time that constants take, from which on a second step is watched."""
_LEAST_ENTRY = 0.001
_WHOLE = 0.99
"""Part of each operator's time from which on a line is told of as a whole."""
_MOST_SECONDS = 3.0
_MOST_OPERATORS = 200_000
_MOST_LIST_BYTES = 1 << 16
"""Lists of Python's beyond that are data, and not numbers in the code."""
_SHAPED = frozenset(
    f"aten::{name}"
    for name in ("empty_like", "zeros_like", "ones_like", "full_like", "new_empty", "new_zeros", "new_ones", "new_full")
)
"""Operators that are given a tensor for its shape."""
_FILLS = _SHAPED | {
    f"aten::{name}"
    for name in ("empty", "empty_strided", "zeros", "ones", "full", "scalar_tensor", "fill_", "zero_", "clone", "_to_copy")
} | {"aten::lift_fresh"}  # fmt: skip
"""Operators whose result is there to be written into, or costs nothing: they count where something is computed of it."""
_RANDOM = (
    "rand",
    "normal",
    "uniform",
    "bernoulli",
    "dropout",
    "multinomial",
    "poisson",
    "exponential",
    "geometric",
    "cauchy",
)
_PLACE = tuple[str, int]
_At = tuple[str, int, str]


class _Varies(Exception):
    """Raised for an operator that is given something else than constants."""


@dataclass
class _Kind:
    """An operator by its schema: the places and names of arguments that it writes, and whether its result is a view."""

    name: str
    usable: bool
    writes: tuple[int | str, ...]
    view: bool
    fills: bool


@dataclass
class _Operator:
    """An operator that ran: *mark* tells what it was given, and is None where that may vary; *used* are marks of what reads it."""

    place: _PLACE
    name: str
    mark: int | None
    fills: bool
    seconds: float = 0.0
    used: set[int] = field(default_factory=set)

    def counts(self, known: set[int] | None = None) -> bool:
        """Tell whether it made a constant that is more than memory: something is computed of that.

        Where marks are given, something of a *known* one: what is written into memory past torch's operators shows as it is read.
        """
        used = bool(self.used if known is None else self.used & known)
        return self.mark is not None and (used or not self.fills)


@dataclass
class _Made:
    """A constant: the memory of a tensor. *by* are the operators that wrote it, by number."""

    mark: int
    by: list[int] = field(default_factory=list)
    fills: bool = False


class Constants:
    """Watches the operators of two steps, from :meth:`start` to :meth:`stop` each; ``found`` are the places of those that repeat.

    None before that, and where watching took too long. ``factors``, ``masks``, ``zeros``, ``chains`` and ``again`` are those of
    the first step, ``labels`` are what losses were given in all, and ``carried`` what all of them read of the one before. After
    the first ``worthwhile`` tells whether there is enough to watch another one for.
    """

    def __init__(self, torch: Any, trains: Callable[[], bool] = bool) -> None:
        self.found: tuple[Constant, ...] | None = None
        self.factors: tuple[Factor, ...] | None = None
        self.masks: tuple[Mask, ...] | None = None
        self.zeros: tuple[Zeros, ...] | None = None
        self.chains: tuple[Chain, ...] | None = None
        self.carried: tuple[Carried, ...] | None = None
        self.again: tuple[Again, ...] | None = None
        self.labels = Labels(torch)
        self._masks = Masks(torch)
        self._zeros = ZeroFactors(torch)
        self._chains = Chains(torch)
        self._goers = Goers(torch)
        self.worthwhile = False
        self._torch = torch
        self._kinds: dict[Any, _Kind] = {}
        self._mode: Any = None
        self._thread, self._pid = threading.get_ident(), os.getpid()
        self._hidden = 0
        self._first: dict[_At, set[int]] | None = None
        self._failed = not modes.possible(torch)
        self._operators: list[_Operator] = []
        self._made: dict[int, tuple[Any, _Made]] = {}
        self._decomposed = Factors(torch)
        self._compared = Compared(torch, trains)
        self._spent = self._began = 0.0
        self._in_group = False

    def start(self) -> None:
        """Begin to watch a step, on this thread; nothing where the program has modes of its own."""
        if self._failed or self._mode is not None or modes.stacked(self._torch):
            return
        self._operators, self._made, self._spent = [], {}, 0.0
        self._hold_buffers()
        self._compared.begin()
        self._goers.begin()
        distributed = self._torch.distributed
        self._in_group = bool(distributed.is_available() and distributed.is_initialized())
        self._mode = modes.put(self._torch, self._see)
        self._began = time.perf_counter()

    def stop(self) -> None:
        """Watch no more; after the second step, sum up."""
        if self._mode is None or threading.get_ident() != self._thread or os.getpid() != self._pid:
            return
        took = time.perf_counter() - self._began - self._spent
        modes.take(self._torch, self._mode)
        self._mode, self._made = None, {}
        self._chains.end()
        if self._failed:
            self._operators = []
            self._compared.fail()
            return
        self._compared.end()
        self._goers.end()
        self.carried = self._goers.summary()
        self._zeros.end()
        self.zeros = self._zeros.summary()
        if self._first is None:
            self._first = {}
            self.factors = self._decomposed.summary()
            self.masks = self._masks.summary()
            self.chains = self._chains.summary()
            self.again = None if self._compared.failed else again.summary(self._compared.notes, _FILLS)
            for each in self._operators:
                if each.counts() and each.mark is not None:
                    self._first.setdefault((*each.place, each.name), set()).add(each.mark)
            seconds = sum(each.seconds for each in self._operators if each.counts())
            self.worthwhile = max(seconds, self._compared.seconds) >= LEAST_SHARE * took or bool(self.zeros)
            if not self.worthwhile:
                self.found = ()
        else:
            self.found = self._summary(self._first, took)
        self._operators = []

    @property
    def watches(self) -> bool:
        """True while operators are looked at, which takes a step up to some seconds more."""
        return self._mode is not None

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Leave out what runs inside: operators of the recorder's own."""
        self._hidden += 1
        try:
            yield
        finally:
            self._hidden -= 1

    def _hold_buffers(self) -> None:
        """Take buffers of modules for constants: whatever writes into them tells otherwise."""
        module = self._torch.nn.Module
        for each in gc.get_objects():
            if issubclass(type(each), module):
                for buffer in list(vars(each).get("_buffers", {}).values()):
                    if buffer is not None and is_told(self._torch, buffer) and not buffer.requires_grad:
                        self._set(buffer, _Made(0))

    # ---- operators

    def _see(self, function: Any, args: Any, kwargs: Any) -> Any:
        if self._hidden or self._failed or self._mode is None or os.getpid() != self._pid:
            return function(*args, **kwargs)
        began = time.perf_counter()
        operator = note = None
        with self.hidden():
            try:
                operator, kind, made, written = self._before(function, args, kwargs)
                note = self._noted(kind, args, kwargs)
            except Exception:  # noqa: BLE001  (a value of a kind that nobody thought of must not end the program)
                self._failed = True
        runs, took = time.perf_counter(), time.thread_time()
        result = function(*args, **kwargs)
        ran, took = time.perf_counter(), time.thread_time() - took
        if operator is not None:
            operator.seconds = ran - runs
            with self.hidden():
                try:
                    self._goers.see((args, tuple(kwargs.values())))
                    self._after(operator, made, written, result)
                    if note is not None:
                        # In inference mode .to() is seen as it is called: a view by its schema, though it may have copied.
                        view = kind.view and _shares(self._torch, result, (args, tuple(kwargs.values())))
                        self._compared.after(note, view, written, result, took)
                    elif self._torch._C._current_graph_task_id() != -1:
                        self._compared.behind(written)
                    forward = self._torch._C._current_graph_task_id() == -1
                    if self._first is None:
                        given, place = (args, tuple(kwargs.values())), operator.place if forward else ("", 0)
                        self._chains.see(kind.name, kind.view, given, (written, result), place)
                    if forward:
                        self.labels.see(kind.name, args)
                        if self._first is None:
                            self._decomposed.see(kind.name, kind.view, args, result, operator.place)
                            self._masks.see(kind.name, args, operator.place)
                        self._zeros.see(kind.name, args, operator.place)
                except Exception:  # noqa: BLE001  (as above)
                    self._failed = True
        self._spent += time.perf_counter() - ran + runs - began
        if self._spent - self._compared.spent > _MOST_SECONDS or len(self._operators) > _MOST_OPERATORS:
            self._failed = True
        return result

    def summary(self) -> dict[str, Any]:
        """Return the fields of :class:`advisor.reading.program_settings.Recorded` that operators told."""
        return {
            "constants": self.found,
            "factors": self.factors,
            "masks": self.masks,
            "zeros": self.zeros,
            "chains": self.chains,
            "carried": self.carried,
            "unchanged": self.unchanged,
            "again": self.again,
        }

    @property
    def unchanged(self) -> tuple[Unchanged, ...] | None:
        """Places of what three steps did alike; None where fewer were watched."""
        return self._compared.found

    def _noted(self, kind: _Kind, args: Any, kwargs: Any) -> Note | None:
        """Note an operator for the comparison of steps, which may fail by itself."""
        try:
            frame = sys._getframe(3)
            note = self._compared.before(kind.name, kind.usable, args, kwargs, frame)
            if note is not None and self._in_group and synchronizes(frame):
                note.free = True  # cpu/buffer-sync tells of it, and what it copies may change
            return note
        except Exception:  # noqa: BLE001  (as above)
            self._compared.fail()
            return None

    def _before(self, function: Any, args: Any, kwargs: Any) -> tuple[_Operator, _Kind, list[_Made], list[Any]]:
        """Note an operator that is about to run; return beside it what it reads, and the tensors that it writes."""
        kind = self._kinds.get(function) or self._kinds.setdefault(function, _kind(self._torch, function))
        read: list[_Made] = []
        mark: int | None = None
        if kind.usable and self._torch._C._current_graph_task_id() == -1:
            try:
                mark = hash(self._text(kind, args, kwargs, read))
            except _Varies:
                read = []
        written = []
        for place in kind.writes:
            value = kwargs.get(place) if isinstance(place, str) else args[place] if place < len(args) else None
            written += [part for part in _leaves(value) if isinstance(part, self._torch.Tensor)]
        frame = sys._getframe(3)
        at = ("", 0) if self._in_group and synchronizes(frame) else caller(frame)
        operator = _Operator(at, kind.name, mark, kind.fills or kind.view)
        if kind.fills or kind.view:
            operator.fills = all(each.fills for each in read)
        return operator, kind, read, written

    def _after(self, operator: _Operator, read: list[_Made], written: list[Any], result: Any) -> None:
        """Note what an operator made."""
        returned = [part for part in _leaves(result) if isinstance(part, self._torch.Tensor)]
        if not returned and not written:
            return
        number = len(self._operators)
        self._operators.append(operator)
        if operator.mark is None:
            for tensor in written:
                self._spoil(tensor)
            return
        if not operator.fills:
            for made in read:
                for each in made.by:
                    self._operators[each].used.add(operator.mark)
        by = [number, *(each for made in read for each in made.by)] if operator.fills else [number]
        for tensor in written:
            entry = self._entry(tensor)
            if entry is not None:
                entry.mark, entry.fills = operator.mark, entry.fills and operator.fills
                entry.by.append(number)
        for at, tensor in enumerate(returned):
            if is_told(self._torch, tensor) and self._entry(tensor) is None:
                self._set(tensor, _Made(hash((operator.mark, at)), list(by), operator.fills))

    def _text(self, kind: _Kind, args: Any, kwargs: Any, read: list[_Made]) -> str:
        """Describe all that an operator is given, and collect the constants that it reads; raises _Varies."""
        if kind.name == "aten::lift_fresh":
            tensor = args[0]
            if not is_plain(self._torch, tensor) or tensor.numel() * tensor.element_size() > _MOST_LIST_BYTES:
                raise _Varies
            return f"{kind.name}{tuple(tensor.shape)}{sampled(tensor)!r}"
        shaped = kind.name in _SHAPED
        parts = [self._describe(part, read, shaped) for part in (*args, *(pair for pair in sorted(kwargs.items())))]
        return kind.name + ",".join(parts)

    def _describe(self, value: Any, read: list[_Made], shaped: bool) -> str:
        torch = self._torch
        if isinstance(value, torch.Tensor):
            if not is_told(torch, value):
                raise _Varies
            geometry = f"{value.dtype}{tuple(value.shape)}{value.stride()}{value.storage_offset()}{value.is_conj()}{value.is_neg()}"
            if shaped:
                return geometry
            entry = self._entry(value)
            if entry is None:
                raise _Varies
            if value.requires_grad:
                self._spoil(value)
                raise _Varies
            read.append(entry)
            held = sampled(value) if is_plain(torch, value) else fetched(torch, value)
            return f"T{entry.mark}{geometry}{held!r}"
        if isinstance(value, list | tuple):
            return "[" + ",".join(self._describe(part, read, shaped) for part in value) + "]"
        if value is None or isinstance(
            value, bool | int | float | complex | str | torch.dtype | torch.device | torch.layout | torch.memory_format
        ):
            return repr(value)
        raise _Varies

    # ---- constants

    def _entry(self, tensor: Any) -> _Made | None:
        found = self._made.get(storage_key(tensor)) if is_told(self._torch, tensor) else None
        return None if found is None else found[1]

    def _set(self, tensor: Any, made: _Made) -> None:
        self._made[storage_key(tensor)] = reference(self._torch, tensor), made

    def _spoil(self, tensor: Any) -> None:
        """Take a tensor for no constant, and what made it for no operator that need not run again."""
        entry = self._entry(tensor)
        if entry is not None:
            for number in entry.by:
                self._operators[number].mark = None
            del self._made[storage_key(tensor)]

    def _summary(self, first: dict[_At, set[int]], took: float) -> tuple[Constant, ...]:
        """Return the places of operators that made in this step what the *first* one made, those of most time first."""
        places: dict[_PLACE, list[_Operator]] = {}
        for each in self._operators:
            if each.place[0]:
                places.setdefault(each.place, []).append(each)
        found: list[tuple[float, Constant]] = []
        known = set().union(*first.values())
        for place, operators in places.items():
            others = {each.name for each in operators if not each.counts(known)}
            shares = {
                name: _share([each for each in operators if each.name == name], first.get((*place, name), set()))
                for name in sorted({each.name for each in operators} - others)
            }
            if not others and all(part >= _WHOLE * whole for _, part, whole in shares.values()):
                calls, part, whole = (sum(column) for column in zip(*shares.values(), strict=True))
                shares = {"": (int(calls), part, whole)}
            for name, (calls, part, whole) in shares.items():
                if part > 0 and part >= _LEAST_ENTRY * took:
                    share = round(min(part / whole, 1.0), 4)
                    found.append((part, Constant(calls, share, operator=name, file=place[0], line=place[1])))
        return tuple(entry for _, entry in sorted(found, key=lambda each: -each[0])[:MOST_ENTRIES])


def _share(operators: list[_Operator], marks: set[int]) -> tuple[int, float, float]:
    """Count the operators that made what is among *marks*, or what one before made; beside that their time and that of all."""
    known, calls, part = set(marks), 0, 0.0
    for each in operators:
        if each.mark in known:
            calls, part = calls + 1, part + each.seconds
        elif each.mark is not None:
            known.add(each.mark)
    return calls, part, sum(each.seconds for each in operators)


def _kind(torch: Any, function: Any) -> _Kind:
    schema = function._schema
    name = str(schema.name)
    plain = name.partition("::")[2]
    writes: list[int | str] = []
    for at, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            writes += [argument.name] if argument.kwarg_only else [at, argument.name]
    random = torch.Tag.nondeterministic_seeded in function.tags or any(word in plain for word in _RANDOM)
    view = not writes and any(each.alias_info is not None for each in schema.returns) and plain != "lift_fresh"
    return _Kind(name, name.startswith("aten::") and not random, tuple(writes), view, name in _FILLS)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _shares(torch: Any, result: Any, given: Any) -> bool:
    """Tell whether tensors of a result lie in the memory of what an operator was given."""
    kinds = (torch.Tensor, torch.nn.Parameter)
    held = {storage_key(part) for part in _leaves(given) if type(part) in kinds and part.layout == torch.strided}
    return all(
        storage_key(part) in held for part in _leaves(result) if type(part) in kinds and part.layout == torch.strided
    )
