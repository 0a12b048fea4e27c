"""The other side of :mod:`advisor.reading.parts`: a process that reads one part of a file and sends its columns."""

from __future__ import annotations

import gc
import os
import sys
from itertools import chain
from typing import Any

import msgspec

from advisor.reading import parts, workers
from advisor.reading.stream import Reader


class PartReader(Reader):
    """Reads what lies between two cuts of a file, for the process *parent* that reads what lies before: no further without it."""

    def __init__(
        self, path: str, separator: bytes, start: int, stop: int | None, *, seek: bool, parent: int | None = None
    ) -> None:
        super().__init__(path, together=False)
        self.separator = separator
        self._from, self._stop = start, stop
        self._parent = parent
        self._start = -1  # of the text that is taken in
        if seek:
            self._offset = self.source.begin = start - self.chunk
        self._seek = seek

    def answer(self) -> parts.Answer | None:
        """Read the part; None where anything is out of the ordinary. Raises TraceError."""
        rest = b"" if self._seek else self._header()[1]
        known = len(self.notes)
        trailer: bytes | None = self._events(rest)
        columns, source = self.columns, self.source
        if self._start < 0 or self.truncated or self.salvaged or columns.lacks or columns.coerced:
            return None
        if len(self.notes) > known or source.notes:
            return None
        if self._stop is not None:
            if source.size < self._stop:  # the list ended before it should
                return None
            trailer = None
        return parts.Answer(
            file=parts.identity(source),
            start=self._start,
            end=self._offset,
            size=source.size,
            events=columns.events,
            shapeless=columns.shapeless,
            counter_ranges=columns.counter_ranges,
            early=columns.early,
            exact=columns.exact,
            ties=columns.ties,
            accelerator=columns.accelerator,
            unknown=columns.unknown,
            programs=sorted(columns.programs),
            threads=list(columns.threads),
            texts={kind: list(getattr(columns, kind)) for kind in ("names", "stacks", "texts")},
            raws={kind: list(getattr(columns, kind)) for kind in ("raws", "inputs")},
            tables=[
                (group, [(key, column.dtype.str, len(column)) for key, column in grown.columns()])
                for group, grown in columns.tables()
            ],
            trailer=trailer,
        )

    def _chunk(self, text: bytes, *, last: bool) -> tuple[int, bool]:
        return super()._chunk(text, last=last) if self._start >= 0 else (len(text), False)

    def _elsewhere(self, rest: int) -> bytes | None:
        """End where the next part begins, or where something is out of the ordinary; the process, where its parent has gone."""
        if self._parent is not None and os.getppid() != self._parent:
            raise SystemExit(1)
        size = self.source.size
        if self._start < 0 and size >= self._from:
            self._start = self._offset
        elif self.salvaged or (self._start >= 0 and self._stop is not None and size >= self._stop):
            return b""
        return None


class _Scout(Reader):
    """Finds where the parts of a file begin, as a reader does that has taken in its first chunk."""

    def __init__(self, path: str, *, ahead: int, lead: int) -> None:
        super().__init__(path, together=False)
        self._ahead, self._lead = ahead, lead
        self.found: parts.Bounds | None = None

    def run(self) -> parts.Bounds | None:
        """Return where they begin; None for one part alone. Raises TraceError of what is no trace."""
        first = next(self.blocks, b"")
        if not self.source.format:
            self.blocks = chain([first], self.blocks)
            self._events(self._header()[1])
        return self.found

    def _chunk(self, text: bytes, *, last: bool) -> tuple[int, bool]:
        return len(text), last

    def _elsewhere(self, rest: int) -> bytes | None:
        self.found = parts.bounds(self.source, rest, self.chunk, ahead=self._ahead, lead=self._lead)
        return b""


def _placed(order: dict[str, Any]) -> dict[str, Any] | None:
    """Return an order with the place of its part, for one that says which of how many it is; None where there is no such part."""
    if "part" not in order:
        return order
    scout = _Scout(order["file"], ahead=order["many"] - 1, lead=order["lead"])
    found, at = scout.run(), order["part"] - 1
    if found is None or scout.separator is None or at >= len(found.starts):
        return None
    return {**order, **workers.orders(order["file"], found.starts, scout.separator, seek=found.seek)[at]}


def serve(order: dict[str, Any]) -> None:
    """Read the part that *order* names and write it to standard output; nothing where it is out of the ordinary."""
    gc.disable()
    placed = _placed(order)
    if placed is None:
        return
    part = PartReader(
        placed["file"],
        placed["separator"].encode("latin-1"),
        placed["start"],
        placed["stop"],
        seek=placed["seek"],
        parent=placed["parent"],
    )
    answer = part.answer()
    if answer is None:
        return
    text = msgspec.msgpack.encode(answer)
    out = sys.stdout.buffer
    out.write(len(text).to_bytes(parts.HEAD, "little") + text)
    for _, grown in part.columns.tables():
        for _, column in grown.columns():
            out.write(column.data.cast("B"))
    out.flush()
