"""Calls of modules that compute once more what is there: as an earlier call of the step, or rows of a batch as other rows of it.

Values are in no trace. One step is watched, the warm-up of the pass for the timings, whose record is thrown away, and only as
long as little time is spent on it. What lies on the host is compared by its bytes. What lies on a GPU is not read, as the program
would wait for it: there a call computes again what an earlier one did where it is given the same memory, with no write into that,
into the parameters or into anything that the module keeps, and where neither drew a random number.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from advisor.reading.program_settings import MOST_ENTRIES, Repeat, Single
from advisor.record import rows
from advisor.record.draws import drawn
from advisor.record.known import is_plain, is_told, on_gpu, reference, sampled, storage_key, version
from advisor.record.places import caller, derives
from advisor.record.singles import Singles

_MOST_SECONDS = 3.0
_LEAST_ROUNDS = 3
"""Rounds of calls, one behind another, that tell of a place where the step was watched in part."""
_MOST_ON_ROWS = 1.5
"""The same of comparing rows, which leaves out the rest of them."""
_DEEPEST, _MOST_PARTS = 4, 64
_Key = tuple[Any, ...]


class _Unknown(Exception):
    """Raised for a value that cannot be compared."""


@dataclass
class _Call:
    """A call of a module: its class, the user's line that it comes from, and the call it runs inside, -1 without."""

    kind: str
    place: tuple[str, int]
    around: int
    versions: _Key = ()
    key: _Key | None = None
    seconds: float = 0.0
    again: bool = False
    rows: float = 0.0
    derives: bool = False
    """For a derivative, which runs more than the call."""
    unread: _Key | None = None
    """Of a call on a GPU what must be the same at its end: the state of its module, and of what numbers may be drawn from."""

    @property
    def spare(self) -> float:
        """The share of it that need not be computed."""
        return 1.0 if self.again else self.rows


class Repeats:
    """Watches calls of modules from :meth:`start` to :meth:`stop`; ``found`` are the places of those that compute again.

    ``singles`` are the places of those that could be one call, ``rows`` tells whether the rows of all calls were compared. They
    are None before that, and where to compare calls took too long or this torch cannot tell a backward pass; of rounds of calls,
    like those before them, the first ones tell all the same. *batches* tells
    how many batches of a loader there were; *look* is shown what the outermost modules are called with; in *hidden*, nobody else
    sees what the watching itself runs; without *waits* the program is not made to wait for a GPU.
    """

    def __init__(
        self,
        torch: Any,
        batches: Callable[[], int] = int,
        look: Callable[[Any, Any], None] | None = None,
        hidden: Callable[[], AbstractContextManager[None]] = nullcontext,
        updates: Callable[[], int] = int,
        waits: bool = True,
    ) -> None:
        self.found: tuple[Repeat, ...] | None = None
        self.singles: tuple[Single, ...] | None = None
        self.rows: bool | None = None
        self._torch = torch
        self._look = look
        self._hidden = hidden
        self._updates = updates
        self._waits = waits
        self._on_rows = 0.0
        self._devices: set[int] = set()
        self._references: dict[int, Any] = {}
        """Of memory on a GPU that calls were given: no other takes its number."""
        self._original: Any = None
        self._replacement: Any = None
        self._calls: list[_Call] = []
        self._running: list[int] = []
        self._outputs: dict[_Key, dict[_Key, bool]] = {}
        """Of inputs the outputs that calls had, and whether one of these has a graph."""
        self._spent = self._worked = 0.0
        """Seconds of watching: by the clock, which calls around took longer for, and of this thread's processor time."""
        self._pid = self._thread = 0
        self._backwards = 0
        self._engine: Any = None
        self._groups = Singles(torch, lambda: (self._backwards, batches()))

    def start(self) -> None:
        """Begin to watch, on this thread. Not by torch's hooks: with one of those, some modules compute in another way."""
        if not hasattr(self._torch._C, "_current_graph_task_id"):
            return  # torch before 2.1
        self._pid, self._thread = os.getpid(), threading.get_ident()
        module = self._torch.nn.Module
        self._original = original = vars(module)["__call__"]

        watch = self._call

        # By this name: a profiler that begins meanwhile takes it for the module whose parameters it lists.
        @functools.wraps(original)
        def __call__(self: Any, *args: Any, **options: Any) -> Any:
            return watch(original, self, args, options)

        self._replacement = module.__call__ = __call__
        self._count_backwards()

    def _count_backwards(self) -> None:
        autograd = self._torch.autograd
        self._engine = engine = getattr(autograd, "_engine_run_backward", None)
        if engine is None:  # torch before 2.3: nothing then tells of the passes between calls
            self._groups.off = True
            return

        @functools.wraps(engine)
        def run(*args: Any, **options: Any) -> Any:
            self._backwards += 1
            self._groups.pass_backward()
            return engine(*args, **options)

        autograd._engine_run_backward = run

    def stop(self) -> None:
        """Watch no more, and sum up."""
        self._groups.end()
        if self._original is None:
            return
        module = self._torch.nn.Module
        if vars(module)["__call__"] is self._replacement:
            module.__call__ = self._original
        if self._engine is not None:
            self._torch.autograd._engine_run_backward = self._engine
        self._original = self._engine = None
        if self._running:  # a call that has not ended: that in which the next step begins
            del self._calls[self._running[0] :]
        if self._worked > _MOST_SECONDS:
            self.singles = self._together(_LEAST_ROUNDS) or None
        else:
            self.found = self._summary()
            self.singles = self._together()
            unread = not self._waits and self._torch.cuda.is_initialized()
            self.rows = self._on_rows <= _MOST_ON_ROWS and not unread
        self._groups.clear()
        self._calls, self._running, self._outputs, self._references = [], [], {}, {}

    def _call(self, original: Any, module: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        # In a backward pass, calls compute again on purpose: of what was not kept.
        if (
            self._original is None
            or threading.get_ident() != self._thread
            or os.getpid() != self._pid  # a worker of a loader
            or self._worked > _MOST_SECONDS
            or self._torch._C._current_graph_task_id() != -1
        ):
            return original(module, *args, **options)
        frame = sys._getframe(2)
        self._groups.pause()
        with self._hidden(), self._torch._C.DisableTorchFunction():  # modes of the program's see nothing of this
            call, before = self._enter(module, args, options, frame)
        began = time.perf_counter()
        try:
            output = original(module, *args, **options)
        except BaseException:
            if self._end(call):
                with self._hidden():
                    self._behind(call, module, (args, options), None)
            raise
        ended, worked = time.perf_counter(), time.thread_time()
        self._groups.pause()
        if self._end(call):
            call.seconds = ended - began - (self._spent - before)
            with self._hidden():
                with self._torch._C.DisableTorchFunction():
                    self._leave(call, module, args, options, output)
                self._behind(call, module, (args, options), output)
            self._spent += time.perf_counter() - ended
            self._worked += time.thread_time() - worked
        return output

    def _behind(self, call: _Call, module: Any, inputs: Any, output: Any) -> None:
        """Watch what comes behind a call, as long as little time was spent on it."""
        if self._worked > _MOST_SECONDS:
            self._groups.end()
        else:
            self._groups.leave(call, module, inputs, output, call.around)

    def _enter(self, module: Any, args: Any, options: Any, frame: Any) -> tuple[_Call, float]:
        """Note the begin of a call; return it, and what was spent on comparing so far."""
        began, worked = time.perf_counter(), time.thread_time()
        call = _Call(type(module).__name__, caller(frame), self._running[-1] if self._running else -1)
        call.derives = derives(frame)
        call.key = None if call.derives else self._key(call, module, args, options)
        if self._look is not None and not self._running:
            self._look(self._torch, (args, options))
        with suppress(Exception):  # a module or value of a kind that nobody thought of must not end the program
            self._groups.enter(call, module, (args, options), frame)
        self._running.append(len(self._calls))
        self._calls.append(call)
        self._spent += time.perf_counter() - began
        self._worked += time.thread_time() - worked
        return call, self._spent

    def _end(self, call: _Call) -> bool:
        """Note the end of a call, and of those inside that have not told of theirs; False where nothing is watched any more."""
        while self._running:
            if self._calls[self._running.pop()] is call:
                return True
        return False

    def _leave(self, call: _Call, module: Any, args: Any, options: Any, output: Any) -> None:
        self._compare(call, module, output)
        if not call.again and not call.derives:
            call.rows = self._rows((args, options), output)

    def _key(self, call: _Call, module: Any, args: tuple[Any, ...], options: dict[str, Any]) -> _Key | None:
        try:
            parameters = list(module.parameters())
            call.versions = tuple(parameter._version for parameter in parameters)
            self._devices = {parameter.device.index for parameter in parameters if on_gpu(parameter)}
            key = (id(module), module.training, call.versions, self._value(args), self._value(options))
            if not self._devices:
                return key
            call.unread = self._unread(module, self._devices)
            weights = tuple(self._place(parameter) for parameter in parameters)
            return (*key, weights, call.unread[0], self._torch.is_autocast_enabled(), self._updates())
        except Exception:  # noqa: BLE001  (a module or value of a kind that nobody thought of must not end the program)
            return None

    def _unread(self, module: Any, devices: set[int]) -> _Key:
        return self._groups.state(module), drawn(self._torch, devices), devices

    def _compare(self, call: _Call, module: Any, output: Any) -> None:
        if call.key is None:
            return
        try:
            if call.unread is not None and self._unread(module, call.unread[2]) != call.unread:
                return
            value = self._value(output, outline=call.unread is not None)
        except Exception:  # noqa: BLE001  (as above)
            return
        known = self._outputs.setdefault(call.key, {})
        graph = self._has_graph(output)
        # Without gradients nothing is kept that a backward pass of this call could go through.
        call.again = value in known and (known[value] or not graph)
        known[value] = graph or known.get(value, False)

    def _has_graph(self, value: Any) -> bool:
        if isinstance(value, dict):
            return any(map(self._has_graph, value.values()))
        if isinstance(value, list | tuple):
            return any(map(self._has_graph, value))
        return isinstance(value, self._torch.Tensor) and bool(value.requires_grad)

    def _rows(self, inputs: Any, output: Any) -> float:
        if any(self._calls[at].rows for at in self._running):
            return 0.0  # inside a call that counts
        if self._on_rows > _MOST_ON_ROWS:
            return 0.0
        began = time.perf_counter()
        try:
            return rows.repeated(self._torch, inputs, output, waits=self._waits)
        except Exception:  # noqa: BLE001  (as above)
            return 0.0
        finally:
            self._on_rows += time.perf_counter() - began

    def _value(self, value: Any, depth: int = 0, *, outline: bool = False) -> _Key:
        """Return what is the same for equal values, with *outline* for tensors alike; raises _Unknown where that cannot be told."""
        if isinstance(value, self._torch.Tensor):
            alike = (str(value.dtype), tuple(value.shape), value.stride())
            return alike if outline else (*alike, *self._tensor(value))
        if value is None or isinstance(value, bool | int | float | str | bytes):
            return (type(value).__name__, value)
        if depth < _DEEPEST and isinstance(value, dict) and len(value) <= _MOST_PARTS:
            return tuple((str(name), self._value(part, depth + 1, outline=outline)) for name, part in value.items())
        if depth < _DEEPEST and isinstance(value, list | tuple) and len(value) <= _MOST_PARTS:
            return tuple(self._value(part, depth + 1, outline=outline) for part in value)
        raise _Unknown

    def _tensor(self, tensor: Any) -> _Key:
        """Return what tells a tensor's numbers: its bytes, or on a GPU its memory and the writes into that."""
        if not is_told(self._torch, tensor) or tensor.is_conj() or tensor.is_neg():
            raise _Unknown
        if is_plain(self._torch, tensor):
            return (sampled(tensor),)
        self._devices.add(tensor.device.index)
        return self._place(tensor)

    def _place(self, tensor: Any) -> _Key:
        """Return a tensor's memory, its place there, and how many writes there were; raises _Unknown where nothing counts these."""
        counted = version(tensor)
        if counted is None:
            raise _Unknown
        key = storage_key(tensor)
        self._references.setdefault(key, reference(self._torch, tensor))
        return (key, tensor.storage_offset(), counted)

    def _summary(self) -> tuple[Repeat, ...]:
        """Return the places of calls that compute again and run inside none that does; those of most time first."""
        inside = [False] * len(self._calls)  # inside a call that computes again, or one itself
        took: dict[tuple[str, int], float] = {}
        at_place: dict[tuple[str, int], list[_Call]] = {}
        for at, call in enumerate(self._calls):
            around = self._calls[call.around] if call.around >= 0 else None
            within = around is not None and inside[call.around]
            inside[at] = call.spare > 0 or within
            if within:
                continue
            at_place.setdefault(call.place, []).append(call)
            if around is None or around.place != call.place:
                took[call.place] = took.get(call.place, 0.0) + call.seconds
        found = []
        for place, calls in at_place.items():
            # One place is told of once: of calls that repeat, else of calls whose rows do.
            again = [call for call in calls if call.again]
            repeat = _repeat(again or [call for call in calls if call.rows], calls, took.get(place, 0.0))
            if repeat is not None and place[0]:
                seconds, entry = repeat
                found.append((seconds, structs.replace(entry, rows=not again, file=place[0], line=place[1])))
        return tuple(repeat for _, repeat in sorted(found, key=lambda entry: -entry[0])[:MOST_ENTRIES])

    def _together(self, rounds: int = 0) -> tuple[Single, ...]:
        """Return the places of calls that could be one call, those of most time first.

        With *rounds* those of as many groups that came one after another, and no others.
        """
        at_place = self._groups.by_place(ended=rounds > 0)
        found = []
        for place, groups in at_place.items():
            if len(groups) < rounds:
                continue
            calls = [call for group in groups for call in group.calls]
            around = {call.around for call in calls}
            seconds = sum(call.seconds for call in calls)
            # A model and its loss may stand in one line: the calls that take longest give the name, and are counted.
            kinds = {call.kind: sum(each.seconds for each in calls if each.kind == call.kind) for call in calls}
            kind = max(kinds, key=lambda each: kinds[each])
            same = [group for group in groups if group.calls[0].kind == kind]
            count = sum(len(group.calls) for group in same)
            # Calls at the place that are no part of a group: of other shapes.
            whole = sum(call.seconds for call in self._calls if call.place == place and call.around in around)
            share = min(seconds / whole, 1.0) if whole else 1.0
            found.append((seconds, Single(kind, count, len(same), round(share, 4), file=place[0], line=place[1])))
        return tuple(single for _, single in sorted(found, key=lambda entry: -entry[0])[:MOST_ENTRIES])


def _repeat(again: list[_Call], calls: list[_Call], whole: float) -> tuple[float, Repeat] | None:
    """Return how many s calls of a place, which take *whole* s, compute again, and the entry that says so."""
    if not again:
        return None
    kind = max(again, key=lambda call: call.seconds).kind
    # Calls that compute the same take the same time: what the first took longer is cold caches, behind the comparing.
    alike: dict[_Key | None, list[float]] = {}
    for call in calls:
        alike.setdefault(call.key, []).append(call.seconds)
    seconds = sum(
        call.spare * (sum(alike[call.key]) / len(alike[call.key]) if call.again else call.seconds) for call in again
    )
    same = sum(call.kind == kind for call in calls)
    repeats = sum(call.kind == kind for call in again)
    if whole:
        share = min(seconds / whole, 1.0)
    else:
        share = sum(call.spare for call in again) / len(again)
    return seconds, Repeat(kind, same, repeats, round(share, 4))
