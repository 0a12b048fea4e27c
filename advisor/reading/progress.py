"""Progress of reading a file: how far it is read, and its bytes as they pass."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Protocol

Progress = Callable[[int, int | None], None]
"""Function that is given how many bytes of the file have been read, and of how many, where that is known."""
Observer = Callable[[bytes], None]
"""Function that is given every block of the file, as it lies on disk, in order."""


class Readable(Protocol):
    """Source of a trace's bytes."""

    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class ObservedFile:
    """A file that reports how far it has been read, and hands on each block."""

    def __init__(self, handle: Readable, progress: Progress | None = None, observer: Observer | None = None) -> None:
        self._handle = handle
        self._progress, self._observer = progress, observer
        self._position = 0
        self._length = _length(handle)

    def read(self, size: int, /) -> bytes:
        """Up to *size* bytes; none at the end."""
        block = self._handle.read(size)
        self._position += len(block)
        if self._progress is not None:
            self._progress(self._position, self._length)
        if self._observer is not None and block:
            self._observer(block)
        return block

    def close(self) -> None:
        """Close the file."""
        self._handle.close()


def _length(handle: Readable) -> int | None:
    """Bytes of the file; None of a pipe, and of what is no file."""
    number = getattr(handle, "fileno", None)
    if number is None:
        return None
    try:
        facts = os.fstat(number())
    except (OSError, ValueError):
        return None
    return facts.st_size if stat.S_ISREG(facts.st_mode) else None
