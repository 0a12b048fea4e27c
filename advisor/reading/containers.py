"""From a path or standard input to a stream of uncompressed bytes, whatever the file is called."""

from __future__ import annotations

import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

from isal import isal_zlib

from advisor.errors import TraceError
from advisor.reading import formats, limits, machine, remote
from advisor.reading.progress import ObservedFile, Observer, Progress, Readable
from advisor.reading.workers import GZIP

Handle: TypeAlias = "BinaryIO | remote.Remote"

BLOCK = 1 << 20
# Compressed bytes are inflated in slices this small, so that where a stream is damaged no more than a slice is lost;
# finer ones for the first megabyte of text, where a slice would be much of the file.
SLICE, FINE = 1 << 12, 1 << 8
_HEADER, _MOST_HEADER, _END, _DEFLATE = 10, 1 << 20, 8, 8
_HEADER_CRC, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16
"""Flags of what else a header of gzip holds."""
_TRUNCATED = ("gzip-truncated", "the gzip stream is cut off; the end of the trace is lost")
# isal's types take its exception for an instance of one.
_GZIP_ERRORS: tuple[type[BaseException], ...] = (isal_zlib.IsalError, zlib.error, EOFError)  # type: ignore[assignment]


def waiting(path: str | os.PathLike[str]) -> str:
    """Return what reading *path* waits for, to go behind its name; nothing of a file, which is there."""
    if os.fspath(path) == "-":
        return ", standard input, as it is typed" if sys.stdin is not None and sys.stdin.isatty() else ""
    with suppress(OSError, ValueError):
        if stat.S_ISFIFO(os.stat(path).st_mode):
            return ", a pipe, once something writes into it"
    return ""


class Source:
    """A readable trace file: ``blocks()`` yields its uncompressed bytes; ``notes`` says what was wrong with it."""

    def __init__(
        self, path: str | os.PathLike[str], progress: Progress | None = None, observer: Observer | None = None
    ) -> None:
        self.address = os.fspath(path)
        self._progress, self._observer = progress, observer
        self.path = remote.shown(self.address)  # as messages name it
        self.notes: list[tuple[str, str]] = []
        self.size = 0
        self.format = ""
        """The format by the first bytes, once they are read; empty of JSON."""
        self.local: str | None = None
        """Path of a file that lies here as it is, neither packed nor a pipe."""
        self.block = min(BLOCK, machine.part_bytes() // 8)
        """Bytes that are read at once."""
        self.plain = True
        """False of a gzip stream, once its first bytes are read."""
        self.begin = 0
        """Byte of plain text from which on it is read."""
        self._compressed = 0  # compressed bytes that the text so far came from
        self._file: ObservedFile | None = None

    def _open(self) -> Handle:
        if self.path == "-":
            if sys.stdin is None:
                raise TraceError("-: there is no standard input. Pass the trace's path.")
            return sys.stdin.buffer
        if remote.is_url(self.address):
            return remote.Remote(self.address)
        path = Path(self.path)
        try:
            if path.is_dir():
                raise TraceError(f"{self.path}: is a directory. Pass the trace files in it: {self.path}/*.json.gz")
            return path.open("rb")
        except FileNotFoundError:
            raise TraceError(f"{self.path}: no such file") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise TraceError(f"{self.path}: cannot be opened: {reason}") from None

    def blocks(self) -> Iterator[bytes]:
        """Uncompressed bytes, about a megabyte at a time. Raises TraceError on what is no trace file at all."""
        handle = self._file = ObservedFile(self._open(), self._progress, self._observer)
        try:
            if self.begin:
                handle.skip(self.begin)
                self.size = self.begin
            first = handle.read(self.block)
            if not first:
                raise TraceError(f"{self.path}: is empty. Was the profiler still writing when it was copied?")
            if first.startswith(GZIP) and not self.begin:
                self.plain = False
                yield from self._inflate(first, handle)
                return
            self.format = formats.of(self.path, first) if not self.begin else ""
            if self.path != "-" and not remote.is_url(self.address):
                self.local = self.address
            if self.path.endswith(".gz"):
                self.notes.append(("not-gzip", "the file is called .gz but is not compressed; read as plain text"))
            while first:
                self.size += len(first)
                yield first
                first = handle.read(self.block)
        except OSError as error:
            raise TraceError(f"{self.path}: cannot be read: {error.strerror or error}") from None
        finally:
            if self.path != "-":
                handle.close()

    # ---- what several processes need that read it together

    def regular(self) -> os.stat_result | None:
        """Return what the file system says of a file that lies here and that others can open too; None of all else."""
        here = self._file is not None and self.path != "-" and not remote.is_url(self.address)
        return self._file.status if here and self._file is not None else None

    def others_read(self, count: int) -> None:
        """Take note that *count* processes read the file together."""
        if self._file is not None:
            self._file.pace = count

    def show_rest(self) -> None:
        """Show the observer what has not been read yet."""
        if self._file is not None:
            self._file.show_rest()

    def done(self, size: int) -> None:
        """Take note that others have read the rest, and that the text has *size* bytes."""
        self.size = size
        if self._file is not None:
            self._file.done()

    def _inflate(self, block: bytes, handle: Readable) -> Iterator[bytes]:
        """Inflate gzip members one after another; a stream cut off or damaged gives what it holds, and a note."""
        for out in self._members(block, handle):
            if not self.size and out:
                self.format = formats.of(self.path, out)
            self.size += len(out)
            limits.check_ratio(self.path, self._compressed, self.size)
            yield out
        if not self.size:
            damaged = any(code == "gzip-damaged" for code, _ in self.notes)
            what = "is damaged from the start" if damaged else "holds nothing"
            raise TraceError(f"{self.path}: the gzip stream {what}. Copy the file again, in binary mode.")

    def _members(self, data: bytes, handle: Readable) -> Iterator[bytes]:
        """Yield the text of the members of a gzip stream, slice by slice; *data* is what has been read of it.

        Header and checksum are read here: isal keeps the last slice to itself where the checksum behind it is wrong.
        """
        at = 0
        while True:
            try:
                while (begin := _header_end(data, at)) < 0:
                    if not (more := handle.read(self.block)):
                        self.notes.append(_TRUNCATED)
                        return
                    at, data = 0, data[at:] + more
            except zlib.error as error:
                self.notes.append(_damaged(error))
                return
            self._compressed += begin - at
            at, checksum, length = begin, 0, 0
            engine = isal_zlib.decompressobj(wbits=-zlib.MAX_WBITS)
            while not engine.eof:
                if at >= len(data):
                    at, data = 0, handle.read(self.block)
                    if not data:
                        self.notes.append(_TRUNCATED)
                        return
                piece = data[at : at + (FINE if self.size < self.block else SLICE)]
                at += len(piece)
                self._compressed += len(piece)
                while piece and not engine.eof:
                    try:
                        out = engine.decompress(piece, self.block)
                    except _GZIP_ERRORS as error:
                        self.notes.append(_damaged(error))
                        return
                    checksum, length = isal_zlib.crc32(out, checksum), length + len(out)
                    yield out
                    piece = engine.unconsumed_tail
            at -= len(engine.unused_data)
            if at < 0:  # the last bytes of the block before were not used either
                at, data = 0, engine.unused_data[:-at] + data
            at, data = self._at_least(_END, data, at, handle)
            self._check(data[at : at + _END], checksum, length)
            at, data = self._at_least(len(GZIP), data, at + _END, handle)
            if not data.startswith(GZIP, at):
                if data[at:].strip(b"\0"):
                    self.notes.append(("gzip-trailing", "bytes after the gzip stream were ignored"))
                return

    def _at_least(self, count: int, data: bytes, at: int, handle: Readable) -> tuple[int, bytes]:
        """Read on until *data* holds *count* bytes from *at* on, where there are so many; return its place and the data."""
        while len(data) - at < count and (more := handle.read(self.block)):
            at, data = 0, data[at:] + more
        return at, data

    def _check(self, end: bytes, checksum: int, length: int) -> None:
        """Note where the end of a gzip member does not fit its text, which is all there."""
        if len(end) < _END:
            problem = "the gzip stream ends before its checksum: nothing of the trace is missing, but nothing proves it either"
        elif end != checksum.to_bytes(4, "little") + (length & 0xFFFFFFFF).to_bytes(4, "little"):
            problem = "the checksum of the gzip stream is wrong: it could be unpacked to its end, but may not be what was written"
        else:
            return
        if all(code != "gzip-checksum" for code, _ in self.notes):
            self.notes.append(("gzip-checksum", problem))


def _damaged(error: BaseException) -> tuple[str, str]:
    return ("gzip-damaged", f"the gzip stream is damaged ({error}); what follows is lost")


def _header_end(data: bytes, at: int) -> int:
    """Return where the header of the gzip member at *at* ends; -1 where it goes on. Raises ``zlib.error`` for none."""
    end = at + _HEADER
    if len(data) < end:
        return -1
    if data[at + 2] != _DEFLATE:
        raise zlib.error("of an unknown kind")
    if len(data) - at > _MOST_HEADER:
        data = data[: at + _MOST_HEADER]
    flags = data[at + 3]
    if flags & _EXTRA:
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for text in (_NAME, _COMMENT):
        if flags & text:
            end = data.find(b"\0", end) + 1 or len(data) + 1
    end += 2 if flags & _HEADER_CRC else 0
    if end <= len(data):
        return end
    if len(data) - at >= _MOST_HEADER:
        raise zlib.error("a header without an end")
    return -1
