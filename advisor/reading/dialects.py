"""The reader of each format that is no JSON of torch: a module a format, imported where a file is of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.reading.stream import Reader, Recorded


def read(reader: Reader, first: bytes) -> Recorded:
    """Read a file that is no JSON; *first* is what has been read of it."""
    if reader.source.format == "sqlite":
        from advisor.reading import nsys

        return nsys.read(reader, first)
    if reader.source.format == "rocprof":
        from advisor.reading import rocprof

        return rocprof.read(reader, first)
    if reader.source.format == "pickle":
        from advisor.reading import snapshot

        return snapshot.read(reader, first)
    from advisor.reading import pftrace

    return pftrace.read(reader, first)
