"""Operators inside calls of modules at lines that `advisor record` watched: what frames of such calls share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from advisor.frames import operator_calls
from advisor.intervals import Ints, summed
from advisor.reading.program_settings import Recorded, Repeat, Single
from advisor.timeline.context import Context

Found = tuple[Ints, Ints, list[str]]
Entry = TypeVar("Entry", Repeat, Single)


class Watched(Generic[Entry]):
    """The rows of a frame: operators inside the calls of one kind of entries, or in the backward pass of such calls."""

    def __init__(self, entries: Callable[[Recorded], Sequence[Entry] | None]) -> None:
        self._of: Callable[[Recorded], Sequence[Entry] | None] = entries

    def entries(self, context: Context) -> Sequence[Entry]:
        """Places of the recording."""
        recorded = context.metadata.recorded
        return () if recorded is None else self._of(recorded) or ()

    def at(self, context: Context) -> Ints:
        """Index of each row's entry."""
        return context.once(self._found)[1]

    def nodes(self, context: Context) -> Ints:
        """Forest node of each row."""
        return context.op_rows[context.once(self._found)[0]]

    def parts(self, context: Context) -> tuple[Ints, Ints]:
        """Segments that the rows own as ``operator_calls`` does, with the row of each."""
        return operator_calls.parts_of(context, context.once(self._found)[0])

    def cost(self, context: Context) -> Ints:
        """Return the time in ns that each row owns."""
        segments, row = self.parts(context)
        return summed(row, context.ledger.dur_ns[segments], len(self.at(context)))

    def columns(self, context: Context) -> dict[str, object]:
        """Columns of all such frames: the common ones, the place, the operator, the module's class, and its calls."""
        host, rows, entries = context.recording.host, self.nodes(context), self.entries(context)
        _, at, functions = context.once(self._found)
        start, dur = host.start[rows], host.end[rows] - host.start[rows]
        return context.common(start=start, dur=dur, cost=self.cost(context), node=rows) | {
            "file": context.labels(at, [entry.file for entry in entries]),
            "line": self.each(context, lambda entry: entry.line, np.int64),
            "function": context.labels(at, functions),
            "name": context.labels(host.name[rows], context.names),
            "called": context.labels(at, [entry.module for entry in entries]),
            "calls": self.each(context, lambda entry: entry.calls, np.int64),
        }

    def each(self, context: Context, value: Callable[[Entry], float], kind: type[np.generic]) -> npt.NDArray[Any]:
        """Return a value of each row's entry."""
        return np.array([value(entry) for entry in self.entries(context)], kind)[self.at(context)]

    def _found(self, context: Context) -> Found:
        return operator_calls.within(context, [(entry.file, entry.line) for entry in self.entries(context)])
