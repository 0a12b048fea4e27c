"""The processes that read the other parts of a large file, started before this one loads what analyzing takes.

To import pandas, DuckDB and the rules takes most of a second, in which the other processes read already; they get the more of
the file for it. What was started for nothing is ended.
"""

from __future__ import annotations

import os
from itertools import chain

from advisor.errors import TraceError
from advisor.reading import parts
from advisor.reading.containers import Source
from advisor.reading.stream import Reader


class _Scout(Reader):
    """Finds where the parts of a file begin, as a reader does that has taken in its first chunk."""

    def start(self) -> None:
        """Start the processes that are worth while. Raises TraceError of what is no trace."""
        first = next(self.blocks, b"")
        if not self.source.format:
            self.blocks = chain([first], self.blocks)
            self._events(self._header()[1])

    def _chunk(self, text: bytes, *, last: bool) -> tuple[int, bool]:
        return len(text), last

    def _elsewhere(self, rest: int) -> bytes | None:
        parts.start_ahead(self, rest)
        return b""


def start(path: str) -> None:
    """Start reading what lies behind the first part of a file that lies here; nothing where that is not worth while.

    Whoever calls this calls :func:`advisor.reading.parts.end_ahead` at the end.
    """
    try:
        source = Source(path)
        if source.lying_bytes() >= 2 * parts.least_bytes(source, early=True):
            _Scout(os.fspath(path), together=False).start()
    except (OSError, TraceError):
        pass  # whoever reads the file says what is wrong with it
