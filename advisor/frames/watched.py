"""Operators below lines that `advisor record` watched: what frames of such lines share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from advisor.frames import operator_calls
from advisor.intervals import Ints, distinct, fetch, summed
from advisor.reading.program_settings import Again, Recorded, Repeat, Single, Unchanged
from advisor.timeline.calls import BACKWARD, OP
from advisor.timeline.context import Context

_MOST_BETWEEN, _LEAST_TURNS, _ALIKE = 200, 4, 0.8
"""Operators of a turn beside the call; turns, and the part of them that do the same there, from which on that is the turn's."""
Found = tuple[Ints, Ints, list[str]]
Entry = TypeVar("Entry", Repeat, Single, Unchanged, Again)
Path = Sequence[tuple[str, int]]


class Watched(Generic[Entry]):
    """The rows of a frame: operators below the lines of one kind of entries, or in the backward pass of what runs there.

    *path* tells the lines that lead to an entry, where it is not its own alone. With *turns*, beside a GPU also what each turn of a
    loop does between two of the calls, where that is the same in most turns. *host_only*: no rows beside a GPU.
    """

    def __init__(
        self,
        entries: Callable[[Recorded], Sequence[Entry] | None],
        path: Callable[[Entry], Path] | None = None,
        *,
        turns: bool = False,
        host_only: bool = False,
    ) -> None:
        self._of: Callable[[Recorded], Sequence[Entry] | None] = entries
        self._path: Callable[[Entry], Path] = path or (lambda entry: ((entry.file, entry.line),))
        self._turns, self._host_only = turns, host_only

    def entries(self, context: Context) -> Sequence[Entry]:
        """Places of the recording."""
        recorded = context.metadata.recorded
        if recorded is None or (self._host_only and not context.cpu_program):
            return ()
        return self._of(recorded) or ()

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
        """Columns of all such frames: the common ones, the place, the operator, and the calls at the place."""
        host, rows, entries = context.recording.host, self.nodes(context), self.entries(context)
        _, at, functions = context.once(self._found)
        start, dur = host.start[rows], host.end[rows] - host.start[rows]
        return context.common(start=start, dur=dur, cost=self.cost(context), node=rows) | {
            "file": context.labels(at, [entry.file for entry in entries]),
            "line": self.each(context, lambda entry: entry.line, np.int64),
            "function": context.labels(at, functions),
            "name": context.labels(host.name[rows], context.names),
            "calls": self.each(context, lambda entry: entry.calls, np.int64),
        }

    def texts(self, context: Context, value: Callable[[Entry], str]) -> object:
        """Return a text of each row's entry."""
        return context.labels(self.at(context), [value(entry) for entry in self.entries(context)])

    def each(self, context: Context, value: Callable[[Entry], float], kind: type[np.generic]) -> npt.NDArray[Any]:
        """Return a value of each row's entry."""
        return np.array([value(entry) for entry in self.entries(context)], kind)[self.at(context)]

    def _found(self, context: Context) -> Found:
        paths = [self._path(entry) for entry in self.entries(context)]
        if not self._turns or context.cpu_program:
            return operator_calls.within(context, paths)
        calls = [entry.calls for entry in self.entries(context)]
        return operator_calls.within(context, paths, lambda at: _with_turns(context, at, calls))


def _with_turns(context: Context, at: Ints, calls: Sequence[int]) -> Ints:
    """Add to the index of a place of each node (-1: none) that of what each turn does between two of its *calls* in a step."""
    host = context.recording.host
    outer = context.op_rows[~np.isin(context.op_rows, _inner(context))]
    outer = outer[host.attributes.phase[outer] != BACKWARD]
    place, thread, step = at[outer], host.thread[outer], context.recording.host_step_of(host.start[outer])
    first = np.flatnonzero(np.diff(place, prepend=-2) | np.diff(thread, prepend=-1) | np.diff(step, prepend=-2))
    last = np.append(first[1:], len(outer))
    kinds = np.stack([host.name[outer], context.op_column(outer, "dims")], axis=1)
    keys: dict[int, Counter[bytes]] = {}
    between: list[tuple[int, int, int, bytes]] = []
    for run in range(1, len(first)):
        low, high, of = first[run], last[run], int(place[first[run - 1]])
        if place[low] >= 0 or of < 0 or high - low > _MOST_BETWEEN:
            continue
        if (thread[low], step[low]) != (thread[low - 1], step[low - 1]):
            continue
        key = kinds[low:high].tobytes()
        between.append((of, int(low), int(high), key))
        same = high < len(outer) and (place[high], thread[high], step[high]) == (of, thread[low], step[low])
        keys.setdefault(of, Counter())[key] += bool(same)
    own = np.full(host.size, -1, np.int64)
    usual: dict[int, bytes] = {}
    for of, count in keys.items():
        usual[of], times = count.most_common(1)[0]
        turns = (calls[of] - 1) * len(distinct(step[place == of]))
        if times < max(_LEAST_TURNS, _ALIKE * max(turns, count.total())):
            del usual[of]
    for of, low, high, key in between:
        if of in usual and key.startswith(usual[of]):
            own[outer[low : min(high, low + len(usual[of]) // kinds[:1].nbytes)]] = of
    found: Ints = np.where(at >= 0, at, host.flow(own))
    return found


def _inner(context: Context) -> Ints:
    """Operators inside of others."""
    host, rows = context.recording.host, context.op_rows
    around = fetch(host.attributes.op, host.parent[rows])
    inner: Ints = rows[(around >= 0) & (fetch(host.group, around) == OP)]
    return inner
