"""The machine that an analysis runs on: the cores and the memory that this process may take."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_PART_BYTES = 64 << 20
_SMALLEST = 1 << 10
_MANY = 1 << 20
PART_BYTES = "ADVISOR_PART_BYTES"
"""Variable of the environment: the bytes of text from which on a file is worth another process; tests set it low."""


def part_bytes() -> int:
    """Return the bytes of text that a process is worth while for."""
    told = os.environ.get(PART_BYTES, "")
    return max(int(told), _SMALLEST) if told.isdecimal() and len(told) < 16 else _PART_BYTES


ALONE = "ADVISOR_PART_ALONE"
"""Variable of the environment that a process has which works alone: there are as many of them as cores."""
LEAST_ROWS = 1 << 20
"""Rows from which on work on them is divided between two threads."""


def alone() -> None:
    """Work in this process alone from now on, and in those that it starts: there are as many of them as cores."""
    os.environ[ALONE] = "1"


def is_alone() -> bool:
    """Tell whether this process is one of as many as there are cores."""
    return ALONE in os.environ


def has_room_for_threads(rows: int) -> bool:
    """Tell whether a second thread is worth while for work on so many rows: of fewer, what holds the interpreter is most of it."""
    return rows >= LEAST_ROWS and has_cores()


def has_cores() -> bool:
    """Tell whether there is a core for a second thread."""
    return cores() > 1 and not is_alone()


def cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def give_back(rows: int) -> None:
    """Give memory that is free inside this process back to the system, after work on so many rows; where the C library can.

    Arrays of up to 32 MB lie side by side on the heap, which shrinks by itself only from its end: what a large trace leaves
    free between those that stay would be kept, and not fit what comes next.
    """
    if rows >= _MANY:
        trim()


def trim() -> None:
    """Give all memory that is free inside this process back to the system, in some milliseconds; where the C library can."""
    if os.name != "posix":
        return
    trimming = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trimming is not None:
        trimming(0)


def available_bytes() -> int:
    """Return the bytes of memory that the system says are available, and no more than the container's limit leaves."""
    limits = []
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        limits.append(int(lines["MemAvailable"].split()[0]) << 10)
        limit, used = (Path(f"/sys/fs/cgroup/memory.{name}").read_text().strip() for name in ("max", "current"))
        if limit.isdecimal():
            limits.append(max(int(limit) - int(used), 0))
    except (OSError, KeyError, ValueError):
        pass
    return min(limits, default=4 << 30)
