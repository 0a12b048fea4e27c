"""Memory of this process and of the machine, in bytes; None where the system does not tell."""

from __future__ import annotations

import functools
import os
from pathlib import Path

_MACHINE = Path("/proc/meminfo")
_PROCESS = Path("/proc/self/statm")
_STATUS = Path("/proc/self/status")
_GROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)
_KIB, _LINE = 1024, 128
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def resident() -> int | None:
    """Return the memory that this process holds now; within 2 us, as steps are timed meanwhile."""
    try:
        return int(os.pread(_opened(os.getpid()), _LINE, 0).split()[1]) * _PAGE
    except (OSError, ValueError, IndexError, AttributeError):
        return None


@functools.cache
def _opened(_pid: int) -> int:
    """Return the file that tells it, of this process: a fork's is another one."""
    return os.open(_PROCESS, os.O_RDONLY)


def peak() -> int | None:
    """Return the most that this process ever held."""
    return _line(_STATUS, "VmHWM:")


def available() -> int | None:
    """Return what may still be taken: of the machine's memory, and of what the control group allows."""
    rooms = [
        room
        for room in (_line(_MACHINE, "MemAvailable:"), *(_of_group(*paths) for paths in _GROUPS))
        if room is not None
    ]
    return max(min(rooms), 0) if rooms else None


def total() -> int | None:
    """Return the memory of the machine, or what the control group allows of it."""
    whole = _line(_MACHINE, "MemTotal:")
    limits = [limit for paths in _GROUPS if (limit := _number(paths[0])) is not None]
    return whole if whole is None else min([whole, *limits])


def _line(path: Path, word: str) -> int | None:
    """Return the bytes that a line of a file of the kernel's gives in KiB."""
    try:
        for line in path.read_text().splitlines():
            if line.startswith(word):
                return int(line.split()[1]) * _KIB
    except (OSError, ValueError, IndexError):
        pass
    return None


def _of_group(most: Path, used: Path) -> int | None:
    limit, taken = _number(most), _number(used)
    return None if limit is None or taken is None else limit - taken


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # "max": no limit
        return None
