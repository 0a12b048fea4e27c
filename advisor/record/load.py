"""Load of the machine while a process was recorded: what its threads waited for a core, and what other processes took.

Linux says both (``/proc/*/task/*/schedstat``, ``/proc/stat``); elsewhere nothing is known.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_PROC = Path("/proc")
_TICKS_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_IDLE = (3, 4)
"""Columns of the first line of /proc/stat that are no work: idle, and waiting for a disk. Guests count in others already."""
_WORK = 8
_READINGS = 4


@dataclass(frozen=True)
class Moment:
    """Counts up to one moment: wall and processor time, the machine's too, and what each thread waited; in seconds."""

    wall_s: float
    own_s: float
    children_s: float
    machine_s: float
    waited_s: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Load:
    """Load between two moments: the share of the time that the thread which waited most was ready and did not run, and how many
    cores were taken on average: by this process, by those that it started (a loader's workers), and by all others."""

    waited_share: float
    others_cores: float
    own_cores: float
    workers_cores: float


def now() -> Moment | None:
    """Count up to here; None where the system does not tell."""
    try:
        columns = [int(text) for text in (_PROC / "stat").read_text().split("\n", 1)[0].split()[1:]][:_WORK]
        machine = sum(ticks for at, ticks in enumerate(columns) if at not in _IDLE) / _TICKS_S
        waited = {
            int(task.name): int((task / "schedstat").read_text().split()[1]) / 1e9
            for task in (_PROC / "self" / "task").iterdir()
        }
        return Moment(time.monotonic(), time.process_time(), _of_children(), machine, waited)
    except (OSError, ValueError, IndexError):
        return None


def working_clock() -> Callable[[], float]:
    """Return a clock in s that stands still while the thread that asks for it is ready to run and has no core.

    It may be read in other threads, too. Elsewhere than on Linux it is the usual clock.
    """
    schedule = _schedule(os.getpid(), threading.get_native_id()) if hasattr(threading, "get_native_id") else None
    if schedule is None:
        return time.monotonic

    def clock() -> float:
        try:
            waited = _waited_ns(schedule)
            for _ in range(_READINGS):
                # A wait between the two readings would lie in one and not in the other.
                now, before = time.monotonic(), waited
                waited = _waited_ns(schedule)
                if waited == before:
                    break
            return now - waited / 1e9
        except (OSError, ValueError, IndexError):
            return time.monotonic()

    return clock


@functools.cache
def _schedule(pid: int, thread: int) -> int | None:
    """Open what the system says of a thread of this process, once; None where it says nothing."""
    try:
        return os.open(_PROC / str(pid) / "task" / str(thread) / "schedstat", os.O_RDONLY)
    except OSError:
        return None


def _waited_ns(schedule: int) -> int:
    return int(os.pread(schedule, 64, 0).split()[1])


def between(first: Moment | None, last: Moment | None) -> Load | None:
    """Return the load between two moments; None where one is not known, or they are too near for the system's clock."""
    if first is None or last is None or last.wall_s - first.wall_s < 5 / _TICKS_S:
        return None
    wall = last.wall_s - first.wall_s
    waited = max((then - first.waited_s.get(thread, then) for thread, then in last.waited_s.items()), default=0.0)
    own, children = last.own_s - first.own_s, last.children_s - first.children_s
    others = (last.machine_s - first.machine_s) - own - children
    cores = [round(max(taken / wall, 0.0), 2) for taken in (others, own, children)]
    return Load(round(min(max(waited / wall, 0.0), 1.0), 4), *cores)


def _of_children() -> float:
    """Return the processor time of the processes that this one started: those that ended, and those that still run."""
    ended = os.times()
    total = ended.children_user + ended.children_system
    for children in (_PROC / "self" / "task").glob("*/children"):
        for child in children.read_text().split():
            # The name in brackets may hold blanks: columns are counted behind it.
            columns = (_PROC / child / "stat").read_text().rpartition(")")[2].split()
            total += (int(columns[11]) + int(columns[12])) / _TICKS_S
    return total
