"""From a path or standard input to a stream of uncompressed bytes, whatever the file is called."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from isal import isal_zlib

from advisor.errors import TraceError

BLOCK = 1 << 20
_GZIP = b"\x1f\x8b"

# Files that people hand over by mistake, by their first bytes.
_FOREIGN = (
    (b"SQLite format 3", "a SQLite database, as Nsight Systems exports. advisor reads what torch.profiler writes"),
    (b"PK\x03\x04", "a zip archive. Unpack it and pass the .json or .json.gz inside"),
    (b"\x28\xb5\x2f\xfd", "zstd compressed. Decompress it first: zstd -d"),
    (b"BZh", "bzip2 compressed. Decompress it first: bunzip2"),
    (b"\xfd7zXZ", "xz compressed. Decompress it first: unxz"),
    (b"\x80\x02", "a Python pickle, such as a memory snapshot. advisor reads chrome traces (export_chrome_trace)"),
    (b"\x80\x04", "a Python pickle, such as a memory snapshot. advisor reads chrome traces (export_chrome_trace)"),
    (b"\x7fELF", "a program. advisor reads what torch.profiler writes"),
    (b"<", "XML or HTML. advisor reads what torch.profiler writes"),
)


class Source:
    """A readable trace file: ``blocks()`` yields its uncompressed bytes; ``notes`` says what was wrong with it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.notes: list[tuple[str, str]] = []
        self.size = 0

    def _open(self) -> BinaryIO:
        if self.path == "-":
            return sys.stdin.buffer
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
        handle = self._open()
        try:
            first = handle.read(BLOCK)
            if not first:
                raise TraceError(f"{self.path}: is empty. Was the profiler still writing when it was copied?")
            if first.startswith(_GZIP):
                yield from self._inflate(first, handle)
                return
            self._refuse_foreign(first)
            if self.path.endswith(".gz"):
                self.notes.append(("not-gzip", "the file is called .gz but is not compressed; read as plain text"))
            while first:
                self.size += len(first)
                yield first
                first = handle.read(BLOCK)
        except OSError as error:
            raise TraceError(f"{self.path}: cannot be read: {error.strerror or error}") from None
        finally:
            if handle is not sys.stdin.buffer:
                handle.close()

    def _refuse_foreign(self, head: bytes) -> None:
        for magic, what in _FOREIGN:
            if head.startswith(magic):
                raise TraceError(f"{self.path}: is {what}.")

    def _inflate(self, block: bytes, handle: BinaryIO) -> Iterator[bytes]:
        """Inflate gzip members one after another; a stream cut off gives what it holds, and a note."""
        engine = isal_zlib.decompressobj(wbits=31)
        checked = False
        while True:
            data = block
            while data:
                try:
                    out = engine.decompress(data, BLOCK * 4)
                except (isal_zlib.IsalError, zlib.error, EOFError) as error:
                    if not self.size:
                        raise TraceError(f"{self.path}: gzip stream is damaged from the start ({error}).") from None
                    self.notes.append(("gzip-damaged", f"the gzip stream is damaged ({error}); what follows is lost"))
                    return
                if out:
                    if not checked:
                        checked = True
                        self._refuse_foreign(out)
                    self.size += len(out)
                    yield out
                if engine.eof:
                    data = engine.unused_data
                    if not data.startswith(_GZIP):
                        if data.strip(b"\0"):
                            self.notes.append(("gzip-trailing", "bytes after the gzip stream were ignored"))
                        data = handle.read(BLOCK) if not data else b""
                        if not data.startswith(_GZIP):
                            return
                    engine = isal_zlib.decompressobj(wbits=31)
                else:
                    data = engine.unconsumed_tail
            block = handle.read(BLOCK)
            if not block:
                if not engine.eof:
                    if not self.size:
                        raise TraceError(f"{self.path}: gzip stream ends before any data. Copy the file again.")
                    self.notes.append(("gzip-truncated", "the gzip stream is cut off; the end of the trace is lost"))
                return
