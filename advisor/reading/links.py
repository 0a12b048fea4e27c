"""Links from work of a device to the call that launched it, for work that carries no ``correlation``.

Kineto ties the two in three ways: both carry one correlation; an arrow (``ac2g``: ph ``s`` at the call, ``f`` at the work) leads
from one to the other; both carry the External id of the operator around the call. The first is asked before the second, the
second before the third. What is found is written into the columns as a correlation, so that all that follows knows one link.

Arrows and External ids cost time and memory, and nearly every trace can do without: they are kept until the first kernels
show that they have correlations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from advisor.intervals import coded, distinct
from advisor.regex import regex

if TYPE_CHECKING:
    from advisor.reading.columns import Array, Table

Mask = npt.NDArray[np.bool_]
FLOW = "flow"
DEVICE = ("kernel", "copy", "memset")
NOT_RECORDED = "Launch (call not recorded)"
_LAUNCHES = regex(r"Launch|Memcpy|Memset")
_MOST_CLIMBED = 1 << 10
_HALF = 0.5
_MOST_ID = 1 << 62


def ids(values: list[Any]) -> Array:
    """Ids as whole numbers above 0; -1 for anything else, which ties nothing to anything."""
    try:
        array = np.array([-1 if v is None else v for v in values], np.int64)
    except (TypeError, ValueError, OverflowError):
        array = np.array([_id(value) for value in values], np.int64)
    return array


def _id(value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return -1
    return number if 0 < number < _MOST_ID else -1


def lacks_correlation(table: Table) -> bool:
    """Tell whether some work of this table has no correlation."""
    return bool((table["correlation"] <= 0).any())


def tie(tables: dict[str, Table], flows: Table | None, names: dict[str, int]) -> list[tuple[str, str]]:
    """Give the work without a correlation that of its launch, in place. Returns notes on how it was found."""
    device = [tables[group] for group in DEVICE if group in tables]
    if not device or not any(lacks_correlation(table) for table in device):
        return []
    return _Tying(tables, flows, names).run()


class _Tying:
    """One trace's rows: all work of its devices as one table, the host's calls, its operators."""

    def __init__(self, tables: dict[str, Table], flows: Table | None, names: dict[str, int]) -> None:
        self.tables, self.flows, self.names = tables, flows, names
        self.groups = [group for group in DEVICE if group in tables]
        keys = ("correlation", "external", "ts", "dur", "thread", "device")
        parts = {key: [tables[group].get(key, _none(tables[group])) for group in self.groups] for key in keys}
        self.work = {key: np.concatenate(columns).astype(np.int64) for key, columns in parts.items()}
        self.calls = tables.get("runtime", {})
        self.ops = tables.get("op", {})

    def run(self) -> list[tuple[str, str]]:
        """Find the launch of each piece of work, and write it down."""
        size = len(self.work["ts"])
        missing = self.work["correlation"] <= 0
        call, op = self._by_flow()
        told = (call >= 0) | (op >= 0)
        by_flow = missing & told
        other = self._by_external()
        by_call = missing & ~told & (other >= 0)
        named = self._operators()
        by_op = missing & ~told & (other < 0) & (named >= 0)
        numbered = np.where(missing, -1, self._by_correlation())
        clash = self._contradict(np.where(numbered >= 0, numbered, call), named)
        clashes = int((clash | ((call >= 0) & (numbered >= 0) & (call != numbered))).sum())
        chosen = np.where(by_flow, call, np.where(by_call, other, -1))
        around = np.where(by_flow & (call < 0), op, np.where(by_op, named, -1))
        self._write(np.where(missing, chosen, -1), np.where(missing, around, -1))
        found = int(by_flow.sum()), int(by_call.sum()), int(by_op.sum())
        notes = []
        if sum(found):
            ways = [f"{count:,} by {way}" for count, way in zip(found, _WAYS, strict=True) if count]
            what = f"{int(missing.sum()):,} of {size:,} pieces of GPU work carry no correlation; tied to their launches are "
            notes.append(("links", what + " and ".join([", ".join(ways[:-1]), ways[-1]] if len(ways) > 1 else ways)))
        if clashes:
            what = (
                "pieces of GPU work have an External id of another launch than their flow or correlation, which counts"
            )
            notes.append(("contradicting-links", f"{clashes:,} {what}"))
        return notes

    # ---- three ways

    def _by_correlation(self) -> Array:
        return _lookup(self.calls.get("correlation"), self.work["correlation"])

    def _by_flow(self) -> tuple[Array, Array]:
        """Row of the call, else of the operator, from which an arrow leads to each piece of work; -1."""
        none = np.full(len(self.work["ts"]), -1, np.int64)
        flows = self.flows
        if flows is None or not len(flows["ts"]):
            return none, none.copy()
        ends = flows["finish"]
        start = {key: column[~ends] for key, column in flows.items()}
        finish = {key: column[ends] for key, column in flows.items()}
        targets = _lines(self.work, finish)
        reached = _open_at(self.work, targets[0], finish["ts"], targets[1])
        alone = reached < 0
        if alone.any():
            again = _open_at(self.work, self.work["thread"], finish["ts"], finish["thread"])
            reached = np.where(alone, again, reached)
        arrow = none.copy()
        arrow[reached[reached >= 0]] = finish["id"][reached >= 0]
        begun = _lookup(start["id"], arrow)
        found = []
        for table in (self.calls, self.ops):
            rows = none
            if table:
                rows = _open_at(table, table["thread"], start["ts"], start["thread"])
                rows = np.where(begun >= 0, rows[np.maximum(begun, 0)], -1) if len(rows) else none
            found.append(rows)
        return found[0], np.where(found[0] >= 0, -1, found[1])

    def _by_external(self) -> Array:
        """Row of the call that shares an External id with each piece of work; -1.

        An operator may launch several times: then the calls that launch, as many as there are pieces of work, are theirs in
        order; else the latest call before the work began is its own.
        """
        out = np.full(len(self.work["ts"]), -1, np.int64)
        if "external" not in self.calls:
            return out
        text = list(self.names)
        launching = np.array([_LAUNCHES.search(name) is not None for name in text], np.bool_)[self.calls["name"]]
        wanted = np.flatnonzero((self.work["external"] > 0) & (self.work["correlation"] <= 0))
        usable = self.calls["external"] > 0
        usable &= launching | ~np.isin(self.calls["external"], self.calls["external"][launching & usable])
        calls = np.flatnonzero(usable)
        wanted = wanted[np.isin(self.work["external"][wanted], self.calls["external"][calls])]
        calls = calls[np.lexsort((self.calls["ts"][calls], self.calls["external"][calls]))]
        wanted = wanted[np.lexsort((self.work["ts"][wanted], self.work["external"][wanted]))]
        if not len(wanted):
            return out
        ids, first, count = np.unique(self.calls["external"][calls], return_index=True, return_counts=True)
        own, begin, many = np.unique(self.work["external"][wanted], return_index=True, return_counts=True)
        at = np.searchsorted(ids, own)
        group = np.repeat(np.arange(len(own)), many)
        place = np.arange(len(wanted)) - begin[group]
        in_order = (count[at] == many)[group]
        # Ids before times in one number: the latest call of that id before the work began.
        low = min(int(self.calls["ts"][calls].min()), int(self.work["ts"][wanted].min()))
        width = max(int(self.calls["ts"][calls].max()), int(self.work["ts"][wanted].max())) - low + 1
        rank = np.searchsorted(ids, self.calls["external"][calls])
        latest = _last_before(rank, self.calls["ts"][calls] - low, at[group], self.work["ts"][wanted] - low, width)
        latest = np.maximum(latest, first[at][group])
        out[wanted] = calls[np.where(in_order, first[at][group] + np.minimum(place, count[at][group] - 1), latest)]
        return out

    def _operators(self) -> Array:
        """Row of the operator whose External id each piece of work carries; -1, also where ids are not the operators'.

        From 2022 to 2024 Kineto wrote the correlation as External id of calls and work.
        """
        none = np.full(len(self.work["ts"]), -1, np.int64)
        if "external" not in self.ops:
            return none
        rows = _lookup(self.ops["external"], self.work["external"])
        if "external" in self.calls:
            around = _lookup(self.ops["external"], self.calls["external"])
            known = around >= 0
            if known.any() and self._holds(around[known], np.flatnonzero(known)).mean() < _HALF:
                return none
        return rows

    # ---- what they come to

    def _holds(self, op: Array, call: Array) -> Mask:
        """Tell of pairs of an operator and a call whether the call lies in the operator."""
        if not len(op) or "ts" not in self.ops or "ts" not in self.calls:
            return np.zeros(len(op), np.bool_)
        start, end = self.ops["ts"][op], self.ops["ts"][op] + self.ops["dur"][op]
        at = self.calls["ts"][call]
        inside: Mask = (
            (self.ops["thread"][op] == self.calls["thread"][call]) & (start <= at) & (at < np.maximum(end, start + 1))
        )
        return inside

    def _contradict(self, call: Array, op: Array) -> Mask:
        """Flag the work whose External id is that of another call or operator than *call* or what it lies in."""
        clash = np.zeros(len(call), np.bool_)
        if "external" not in self.calls:
            return clash
        rows = np.flatnonzero((call >= 0) & (self.work["external"] > 0))
        own = self.calls["external"][call[rows]]
        differs = (own > 0) & (own != self.work["external"][rows])
        elsewhere = (own <= 0) & (op[rows] >= 0)
        elsewhere[elsewhere] = ~self._holds(op[rows[elsewhere]], call[rows[elsewhere]])
        clash[rows] = differs | elsewhere
        return clash

    def _write(self, call: Array, op: Array) -> None:
        """Give work and calls one correlation; where only the operator is known, a call without length in it."""
        known = [self.work["correlation"], self.calls.get("correlation", self.work["correlation"])]
        fresh = max(0, *(int(column.max(initial=0)) for column in known)) + 1
        correlation = self.work["correlation"].copy()
        rows = np.flatnonzero(call >= 0)
        if len(rows):
            own = self.calls["correlation"]
            unnumbered = distinct(call[rows][own[call[rows]] <= 0])
            own[unnumbered] = np.arange(fresh, fresh + len(unnumbered))
            fresh += len(unnumbered)
            correlation[rows] = own[call[rows]]
        rows = np.flatnonzero(op >= 0)
        if len(rows):
            correlation[rows] = np.arange(fresh, fresh + len(rows))
            self._add_calls(op[rows], self.work["ts"][rows], correlation[rows])
        low = 0
        for group in self.groups:
            high = low + len(self.tables[group]["ts"])
            self.tables[group]["correlation"] = correlation[low:high]
            low = high

    def _add_calls(self, op: Array, began: Array, correlation: Array) -> None:
        start = self.ops["ts"][op]
        last = np.maximum(start, start + self.ops["dur"][op] - 1)
        new: Table = {
            "name": np.full(len(op), self.names[NOT_RECORDED], np.int32),
            "thread": self.ops["thread"][op],
            "ts": np.clip(began, start, last),
            "dur": np.zeros(len(op), np.int64),
            "correlation": correlation,
        }
        there = self.tables.get("runtime")
        if there is not None:
            new = {key: np.concatenate([there[key], new.get(key, np.full(len(op), -1))]) for key in there}
        self.tables["runtime"] = new


_WAYS = ("an arrow", "the External id of the call", "the External id of the operator, its call not being recorded")


def _none(table: Table) -> Array:
    return np.full(len(table["ts"]), -1, np.int64)


def _lookup(known: Array | None, wanted: Array) -> Array:
    """Last row of *known* that holds each of the *wanted* ids, all above 0; -1."""
    out = np.full(len(wanted), -1, np.int64)
    if known is None:
        return out
    order = np.argsort(known, kind="stable")
    order = order[known[order] > 0]
    if not len(order):
        return out
    at = np.maximum(np.searchsorted(known[order], wanted, side="right") - 1, 0)
    hit = (known[order[at]] == wanted) & (wanted > 0)
    out[hit] = order[at[hit]]
    return out


def _lines(work: Table, flows: Table) -> tuple[Array, Array]:
    """A number for the pair of device and stream of each row of both tables."""
    pairs = np.concatenate([np.stack([table["device"], table["thread"]]) for table in (work, flows)], axis=1)
    _, line = np.unique(pairs, axis=1, return_inverse=True)
    size = len(work["ts"])
    return line.ravel()[:size], line.ravel()[size:]


def _last_before(group: Array, time: Array, wanted: Array, before: Array, width: int) -> Array:
    """Index of the last row of the *wanted* group that is no later than *before*; rows are sorted by group, then time."""
    if int(group.max(initial=0)) + 1 < (1 << 62) // max(width, 1):
        return np.searchsorted(group * width + time, wanted * width + before, side="right") - 1
    # Too long a recording for one number: ranks of the times stand for them.
    ranks = coded(np.concatenate([time, before]))[1]
    most = int(ranks.max()) + 1
    return np.searchsorted(group * most + ranks[: len(time)], wanted * most + ranks[len(time) :], side="right") - 1


def _open_at(table: Table, line: Array, times: Array, lines: Array) -> Array:
    """Row of *table* that is open on each of the *lines* at each time, the innermost where several are; -1."""
    out = np.full(len(times), -1, np.int64)
    for number in distinct(lines).tolist():
        rows = np.flatnonzero(line == number)
        if not len(rows):
            continue
        rows = rows[np.lexsort((-table["dur"][rows], table["ts"][rows]))]
        start = table["ts"][rows]
        end = start + np.maximum(table["dur"][rows], 0)
        here = np.flatnonzero(lines == number)
        at = np.searchsorted(start, times[here], side="right") - 1
        for _ in range(_MOST_CLIMBED):
            closed = (at >= 0) & (end[np.maximum(at, 0)] < times[here])
            if not closed.any():
                break
            at[closed] -= 1
        found = (at >= 0) & (end[np.maximum(at, 0)] >= times[here])
        out[here[found]] = rows[at[found]]
    return out
