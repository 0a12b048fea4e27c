"""Two pieces of work side by side: numpy lets go of the interpreter while it works on long columns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from threading import RLock, Thread, get_ident
from typing import Any, Self, TypeVar, overload

First = TypeVar("First")
Second = TypeVar("Second")


def both(first: Callable[[], First], second: Callable[[], Second], *, beside: bool) -> tuple[First, Second]:
    """Return what two calls return that need nothing of one another: *beside* in two threads, else the first before the second.

    What either raises is raised, once both are over.
    """
    if not beside:
        return first(), second()
    results: list[Second] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(second())
        except BaseException as error:  # noqa: BLE001  (it is raised in the thread that waits for it)
            errors.append(error)

    thread = Thread(target=run, name="advisor-beside", daemon=True)
    thread.start()
    try:
        found = first()
    finally:
        thread.join()
    if errors:
        raise errors[0]
    return found, results[0]


def each(calls: Sequence[Callable[[], First]], *, beside: bool) -> list[First]:
    """Return what calls return that need nothing of one another, in their order: *beside* in two threads, else one by one."""
    if not beside or len(calls) < 2:
        return [call() for call in calls]
    found: dict[int, First] = {}
    left = iter(range(len(calls)))

    def run() -> None:
        for at in left:
            found[at] = calls[at]()

    both(run, run, beside=True)
    return [found[at] for at in range(len(calls))]


def processor_clock() -> Callable[[], float]:
    """Return a clock of the processor time of the thread that asks for it, in seconds, which other threads may read while it runs.

    Where the system has none it goes at half the speed of the process's: two threads at most are at work.
    """
    if hasattr(time, "pthread_getcpuclockid"):
        return partial(time.clock_gettime, time.pthread_getcpuclockid(get_ident()))
    return lambda: time.process_time() / 2


_ARENA_MAX = -8
"""M_ARENA_MAX of malloc.h."""


def share_heap() -> None:
    """Let threads ask for memory from one heap, where the C library is glibc: what is free in a heap of its own no other gets.

    It is for good, and for all threads: for a process that does nothing else than this.
    """
    import ctypes

    if os.name == "posix" and (set_option := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        set_option(_ARENA_MAX, 1)


class once_property(cached_property[First]):
    """A ``cached_property`` that threads work out once: that of Python 3.12 has no lock, that of 3.11 one for all objects."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> First: ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Self | First:
        if instance is None:
            return self
        kept, name = vars(instance), str(self.attrname)
        with kept.setdefault(f"lock of {name}", RLock()):
            if name not in kept:
                kept[name] = self.func(instance)
        found: First = kept[name]
        return found


class Ahead:
    """Calls that a second thread makes one after the other, whose results others ask for later: what keeps them is theirs.

    What one raises is passed over: whoever asks for the result makes the call again, and has the error where it belongs.
    """

    def __init__(self, calls: Sequence[Callable[[], object]]) -> None:
        self._left = list(calls)
        self._thread = Thread(target=self._run, name="advisor-ahead", daemon=True)
        if calls:
            self._thread.start()

    def _run(self) -> None:
        while self._left:
            with suppress(Exception):
                self._left.pop(0)()

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        """Let go of the calls that have not begun, and wait for the one that has, but for somebody who interrupts."""
        self._left.clear()
        if self._thread.ident is not None and (kind is None or issubclass(kind, Exception)):
            self._thread.join()
