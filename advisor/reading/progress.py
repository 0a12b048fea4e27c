"""A file that says how far it has been read, and lets others see the bytes as they pass."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Protocol

Told = Callable[[int, int | None], None]
"""Told how many bytes of the file have been read, and of how many, where that is known."""
Seen = Callable[[bytes], None]
"""Shown every block of the file, as it lies on disk, in order."""


class Readable(Protocol):
    """Source of a trace's bytes."""

    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class Watched:
    """A file whose reader is watched."""

    def __init__(self, handle: Readable, told: Told | None = None, seen: Seen | None = None) -> None:
        self._handle = handle
        self._told, self._seen = told, seen
        self._done = 0
        self._whole = _length(handle)

    def read(self, size: int, /) -> bytes:
        """Up to *size* bytes; none at the end."""
        block = self._handle.read(size)
        self._done += len(block)
        if self._told is not None:
            self._told(self._done, self._whole)
        if self._seen is not None and block:
            self._seen(block)
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
