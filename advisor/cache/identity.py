"""Identity of a file: by what the file system says of it, and by the hash of its content."""

from __future__ import annotations

import hashlib
import os
import queue
import stat
import threading
from typing import NamedTuple

_BLOCK = 4 << 20
_WAITING = 16
# Time stamps move in ticks, two seconds long on the coarsest file systems. What was written in the tick in which it was
# looked at may be written again without a trace.
_TICK_NS = 2_000_000_000
# Elsewhere st_ctime is the time of creation, and anyone can set the other one back.
_CTIME_TELLS = os.name == "posix"


class Facts(NamedTuple):
    """Facts of the file system on a file."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    def settled(self, looked_ns: int) -> bool:
        """Tell whether the file, whose content was looked at from *looked_ns* on, must look different once it changes."""
        return _CTIME_TELLS and looked_ns - max(self.mtime_ns, self.ctime_ns) > _TICK_NS


def facts(path: str) -> Facts | None:
    """Read the facts of a file on this machine; None for what is none: a pipe, a folder, a URL, nothing."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Facts(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def content(path: str) -> str | None:
    """Return the hash of a file's content; None where it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()


class Hashing:
    """The same of bytes that somebody else reads, in a thread of its own: hashing needs no lock of the interpreter."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._blocks: queue.Queue[bytes | None] = queue.Queue(_WAITING)
        self._size = 0
        self._thread = threading.Thread(target=self._run, name="advisor-hash", daemon=True)
        self._thread.start()

    def update(self, block: bytes) -> None:
        """Take in the next block."""
        self._size += len(block)
        self._blocks.put(block)

    def close(self) -> None:
        """Take note that no more blocks come."""
        if self._thread.is_alive():
            self._blocks.put(None)
            self._thread.join()

    def content(self, size: int) -> str | None:
        """Return the hash; None where not all of a file of *size* bytes was seen."""
        self.close()
        return self._digest.hexdigest() if self._size == size else None

    def _run(self) -> None:
        while (block := self._blocks.get()) is not None:
            self._digest.update(block)
