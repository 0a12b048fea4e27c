"""Two pieces of work side by side: numpy lets go of the interpreter while it works on long columns."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

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


_ARENA_MAX = -8
"""M_ARENA_MAX of malloc.h."""


def share_heap() -> None:
    """Let threads ask for memory from one heap, where the C library is glibc: what is free in a heap of its own no other gets.

    It is for good, and for all threads: for a process that does nothing else than this.
    """
    import ctypes

    if os.name == "posix" and (set_option := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        set_option(_ARENA_MAX, 1)
