"""Operators below lines that `advisor record` watched: what frames of such lines share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from advisor.frames import operator_parts
from advisor.intervals import Bools, Ints, alike, distinct, fetch, summed
from advisor.reading.program_settings import Again, Recorded, Repeat, Single, Unchanged
from advisor.timeline.calls import BACKWARD, OP
from advisor.timeline.context import Context

_MOST_BETWEEN, _LEAST_TURNS, _ALIKE = 200, 4, 0.8
"""Operators of a turn beside the call; turns, and the part of them that do the same there, from which on that is the turn's."""
_SEVERAL = 1.5
"""Calls whose graphs a backward pass goes through, from which on it goes through one graph where they share a result."""
_ENGINE = "autograd::engine::evaluate_function"
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
        return operator_parts.parts_of(context, context.once(self._found)[0])

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

    def goes(self, context: Context, graphs: Callable[[Entry], float]) -> npt.NDArray[np.float64]:
        """Part of each row's time that goes at most where its entry's calls share a result: below 1 in some backward passes.

        A pass through the graphs of several calls goes through one then; *graphs* says how many an entry has. A pass through the
        graph of one call, which another pass goes through as well, may run on the first result's graph as before (a Jacobian, row
        by row), or be one with those of other calls (derivatives by each input): half of what goes where all that can be are one.
        So of derivatives of derivatives, of which some calls may have their own.
        """
        host, rows = context.recording.host, self.nodes(context)
        most = np.ones(len(rows), np.float64)
        if "op" not in host.node_of:
            return most
        table, node = context.tables["op"], host.node_of["op"]
        engine = np.array([name.startswith(_ENGINE) for name in context.names], np.bool_)[host.name]
        number, thread = np.full(host.size, -1, np.int64), np.full(host.size, -1, np.int64)
        number[node], thread[node] = table["sequence"], table["forward_thread"]
        own = np.full(host.size, -1, np.int64)
        own[engine & (number >= 0)] = np.flatnonzero(engine & (number >= 0))
        around = host.flow(own)[rows]
        inside = np.flatnonzero(around >= 0)
        if not len(inside):
            return most
        # Each engine's call with the entry whose line it belongs to.
        found, first, of = np.unique(around[inside], return_index=True, return_inverse=True)
        entry = self.at(context)[inside[first]]
        step = context.recording.host_step_of(host.start[found])
        _, graph = alike(step, number[found], thread[found])
        run = _passes(context, engine, found, graph)
        _, place = alike(step, entry)
        _, one = alike(step, entry, run)
        count = np.array([graphs(each) for each in self.entries(context)], np.float64)[entry]
        whole = np.bincount(np.unique(np.stack([place, graph]), axis=1)[0])[place]
        alone = count * np.bincount(one)[one] / np.maximum(whole, 1) < _SEVERAL
        part = np.ones(len(found), np.float64)
        for at in distinct(place[alone & (np.bincount(graph)[graph] > 1)]).tolist():
            here = np.flatnonzero(alone & (place == at))
            often = np.bincount(graph[here])
            part[here[np.bincount(graph)[graph[here]] > 1]] = (1 - often.max() / len(distinct(run[here]))) / 2
        further = np.isin(found, host.of_further_derivatives())
        part[further] = np.minimum(part, (1 - 1 / np.maximum(count, 1)) / 2)[further]
        most[inside] = part[of.ravel()]
        return most

    def _found(self, context: Context) -> Found:
        paths = [self._path(entry) for entry in self.entries(context)]
        if not self._turns or context.cpu_program:
            return operator_parts.within(context, paths)
        calls = [entry.calls for entry in self.entries(context)]
        return operator_parts.within(context, paths, lambda at: _with_turns(context, at, calls))


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


def _passes(context: Context, engine: Bools, found: Ints, graph: Ints) -> Ints:
    """The backward pass that each call of the engine is of: another one begins behind an operator of Python's, and where nodes of
    the graph come again.
    """
    host = context.recording.host
    outer = context.op_rows[fetch(host.attributes.op, host.parent[context.op_rows]) < 0]
    order = np.lexsort((host.start[outer], host.thread[outer]))
    turned = np.zeros(host.size, np.int64)
    turned[outer[order]] = np.cumsum(~engine[outer[order]])
    run = np.zeros(len(found), np.int64)
    seen: set[int] = set()
    last, number = (-1, -1), 0
    for at in np.lexsort((host.start[found], host.thread[found])).tolist():
        key = (int(host.thread[found[at]]), int(turned[found[at]]))
        if key != last or int(graph[at]) in seen:
            number, last, seen = number + 1, key, set()
        seen.add(int(graph[at]))
        run[at] = number
    return run


def _inner(context: Context) -> Ints:
    """Operators inside of others."""
    host, rows = context.recording.host, context.op_rows
    around = fetch(host.attributes.op, host.parent[rows])
    inner: Ints = rows[(around >= 0) & (fetch(host.group, around) == OP)]
    return inner
