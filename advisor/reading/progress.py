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


_BLOCK = 1 << 20


class Readable(Protocol):
    """Source of a trace's bytes."""

    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class Seekable(Readable, Protocol):
    """Source that can be read from any place, if it is a file."""

    def seek(self, position: int, /) -> int: ...


class ObservedFile:
    """A file that reports how far it has been read, and hands on each block."""

    def __init__(self, handle: Seekable, progress: Progress | None = None, observer: Observer | None = None) -> None:
        self._handle = handle
        self._progress, self._observer = progress, observer
        self._position = self._seen = 0
        self.status = _status(handle)
        """Facts of the file system; None of a pipe, and of what is no file."""
        self.pace = 1
        """Times that the file is read faster than here, where others read it too."""

    def read(self, size: int, /) -> bytes:
        """Up to *size* bytes; none at the end."""
        block = self._handle.read(size)
        self._position += len(block)
        self._report()
        self._show(block)
        return block

    def skip(self, position: int) -> None:
        """Go on at *position*."""
        self._handle.seek(position)
        self._position = position

    def show_rest(self) -> None:
        """Hand on all that has not been read yet, which stays to be read; of a file that lies here."""
        if self._observer is None:
            return
        here = self._position
        while block := self._handle.read(_BLOCK):
            self._position += len(block)
            self._show(block)
        self.skip(here)

    def done(self) -> None:
        """Report the whole file as read: others have read the rest."""
        if self.status is not None:
            self._position = self.status.st_size
            self._report()

    def _report(self) -> None:
        if self._progress is not None:
            length = self.status.st_size if self.status is not None else None
            far = self._position * self.pace
            self._progress(far if length is None else min(far, max(length, self._position)), length)

    def _show(self, block: bytes) -> None:
        """Hand on a block that ends where the file has been read to, once."""
        if self._observer is not None and block and self._position > self._seen:
            self._observer(block)
            self._seen = self._position

    def close(self) -> None:
        """Close the file."""
        self._handle.close()


def _status(handle: Readable) -> os.stat_result | None:
    """Return what the file system says of a file; None of a pipe, and of what is no file."""
    number = getattr(handle, "fileno", None)
    if number is None:
        return None
    try:
        status = os.fstat(number())
    except (OSError, ValueError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None
