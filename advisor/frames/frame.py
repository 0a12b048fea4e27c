"""A frame: its columns, its builder, and the meaning of its rows on the device, on the host and on the ledger.

Claims, the replay and the timeline ask the frame; nothing else knows frames by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial

import numpy as np
from msgspec import Struct

from advisor.columns import Columns
from advisor.frames.schema import Column, Schema
from advisor.intervals import EMPTY, Bools, Ints, Spans, summed, union
from advisor.timeline.context import Context
from advisor.timeline.ledger import BUSY
from advisor.timeline.waits import Waits

Index = Callable[[Context], Ints]
"""One number for each row of a frame."""
Pick = Callable[[Context, Bools], Ints]
"""Any numbers for the chosen rows of a frame."""
Couples = Callable[[Context, Bools], tuple[Ints, Ints]]
"""Pairs of segments of the ledger for the chosen rows of a frame."""
Stretches = Callable[[Context, Bools], Spans]
"""Stretches of time for the chosen rows of a frame."""
Makers = Mapping[str, Callable[[], object]]
"""A maker for each column of a frame, by name."""

# Of so many rows each is asked by itself what it owns.
_FEW_ROWS = 64
COUNT = "count(*) AS count"
TIME = ("round(sum(dur_ns) / 1e6, 3) AS time_ms", "round(sum(cost_ns) / 1e6, 3) AS cost_ms")
SELF = "round(sum(self_ns) / 1e6, 3) AS self_ms"
MEGABYTES = "round(sum(bytes) / 1e6, 1) AS megabytes"
IN_PYTHON, NOT_LINKED = "(Python, outside operators)", "(not linked)"


class Rows(Struct, frozen=True):
    """Identity of the rows: for each the piece of GPU work or the call on the host that it is.

    ``work`` are indices into ``Recording.work``, ``nodes`` are nodes of the host's forest (-1: none). Rows that are
    segments of the ledger say which in ``segments``, and in ``within`` the node that the launching thread is in meanwhile.
    Rows that stand for several events each say in ``events`` which GPU
    work and which nodes are evidence of them. Rows of none of these are found on the timeline by thread and time.
    """

    work: Index | None = None
    nodes: Index | None = None
    within: Index | None = None
    segments: Pick | None = None
    events: Callable[[Context, Bools], tuple[Ints, Ints]] | None = None


class Frame(Struct, frozen=True):
    """One frame. Either its rows own time on the ledger, and ``owns`` says which segments, or it is ``timeless``.

    ``build`` makes the whole table. A frame of very many rows gives ``makers`` as well: then only those of its columns are made
    that somebody asks for.
    ``parts`` holds those segments with the row that each belongs to, where rows share none. ``evidence`` is what a rule shows
    of the matched rows where it does not say so itself, with ``no_op`` in place of an operator where there is none, and
    ``unlinked`` where ``linked`` is false. ``shortens`` is the host's time that a fix of the rows shortens: by default the
    idle time that they own, and none where the rows are GPU work. ``spares`` is the host's time that goes with the rows where a fix
    removes them, behind the GPU's work as well. ``frees`` are nodes of the waits that a fix does away with;
    ``encloses`` is the GPU work inside the rows that goes with a fix of them, though they do not own it. ``returns`` are the
    parts of what rows own that a fix takes cautiously and at most, where they own what it replaces only. ``behind`` pairs segments
    that rows own with those of the operators before them, with which they go: what these made is given back there. ``excess``
    is a column of ns that a row takes too long: what the gate compares of rows that own no time. ``failed`` are words of a column,
    each with the error for which the frame lacks the rows that say it: the verdict of rules that ask for that word. One that is
    ``slow`` to build comes last among the frames that rules are asked on: of a large trace a second thread builds it while the
    others are asked.
    Raises ``TypeError`` for a frame that says neither what its rows own nor that they own nothing.
    """

    schema: Schema
    build: Callable[[Context], Columns]
    evidence: tuple[str, ...]
    rows: Rows = Rows()
    owns: Pick | None = None
    parts: Callable[[Context], tuple[Ints, Ints]] | None = None
    timeless: bool = False
    shortens: Stretches | None = None
    spares: Stretches | None = None
    frees: Pick | None = None
    encloses: Pick | None = None
    returns: Callable[[Context, Bools], tuple[float, float]] | None = None
    behind: Couples | None = None
    failed: Callable[[Context], Mapping[str, Exception]] | None = None
    excess: str = ""
    no_op: str = ""
    unlinked: str = ""
    makers: Callable[[Context], Makers] | None = None
    slow: bool = False

    def __post_init__(self) -> None:
        if (self.owns is None) != self.timeless:
            name = self.schema.name
            both = "both timeless and an owner of time" if self.timeless else "neither timeless nor an owner of time"
            raise TypeError(
                f"the frame '{name}' is {both}: give owns=, the segments that its rows own, or timeless=True"
            )

    def table(self, context: Context, columns: Sequence[str]) -> Columns:
        """Build what the frame has of some *columns*: the first, which has as many rows, where that is none; all without makers."""
        if self.makers is None:
            return self.build(context)
        names = self.schema.names()
        return assemble(self.makers(context), [name for name in names if name in columns] or names[:1])

    def claims(self, context: Context, mask: Bools) -> Ints:
        """Segments of the ledger that the chosen rows own, each once."""
        return self.owns(context, mask) if self.owns is not None else np.zeros(0, np.int64)

    def costs(self, context: Context, mask: Bools, segments: Ints) -> Ints | None:
        """ns that each row of the frame owns of some *segments*, 0 for rows that are not chosen; None where it cannot be told."""
        ledger, out = context.ledger, np.zeros(len(mask), np.int64)
        if self.parts is not None:
            parts, row = self.parts(context)
            keep = np.isin(parts, segments)
            return np.where(mask, summed(row[keep], ledger.dur_ns[parts[keep]], len(mask)), 0)
        if self.rows.work is not None and (ledger.busy[segments] & (ledger.row[segments] >= 0)).all():
            owned = summed(ledger.row[segments], ledger.dur_ns[segments], len(context.recording.work))
            return np.where(mask, owned[self.rows.work(context)], 0)
        chosen = np.flatnonzero(mask)
        if self.owns is None or len(chosen) > _FEW_ROWS:
            return None
        for at in chosen.tolist():
            one = np.zeros(len(mask), np.bool_)
            one[at] = True
            out[at] = int(ledger.dur_ns[np.intersect1d(self.owns(context, one), segments)].sum())
        return out


def each(make: Callable[[], Mapping[str, object]], names: Iterable[str | Column]) -> dict[str, Callable[[], object]]:
    """A maker for each of some columns that are made together, once at most: when the first of them is asked for."""
    made = cache(make)

    def column(name: str) -> object:
        return made()[name]

    return {name: partial(column, name) for name in (name if isinstance(name, str) else name.name for name in names)}


def assemble(makers: Makers, names: Sequence[str]) -> Columns:
    """Make some columns into a table that takes each as it is: side by side in one block they would stand twice meanwhile."""

    return Columns({name: makers[name]() for name in names})


def owns_work(work: Index) -> Pick:
    """Ownership of rows that are GPU work: the device's time in it."""
    return lambda context, mask: context.ledger.owned(work(context)[mask], *BUSY)


def owns_parts(parts: Callable[[Context], tuple[Ints, Ints]]) -> Pick:
    """Ownership of rows that share no segment: those that *parts* gives to the chosen ones."""

    def owned(context: Context, mask: Bools) -> Ints:
        segments, row = parts(context)
        return segments[mask[row]]

    return owned


def owns_waits(*causes: str) -> Pick:
    """Ownership of rows that are the rows of a table of waits: the idle time for which they are the *causes*."""
    return lambda context, mask: context.ledger.owned(np.flatnonzero(mask), *causes)


def owns_calls(nodes: Index, waits: Callable[[Context], Waits], cause: str) -> Pick:
    """Ownership of rows that are calls of which some are in a table of waits: the idle time for which these are the *cause*."""

    def owned(context: Context, mask: Bools) -> Ints:
        rows = np.flatnonzero(np.isin(waits(context).node, nodes(context)[mask]))
        return context.ledger.owned(rows, cause)

    return owned


def calls(nodes: Index) -> Stretches:
    """Time of rows that are calls on the host."""

    def stretches(context: Context, mask: Bools) -> Spans:
        host, rows = context.recording.host, nodes(context)[mask]
        return union(host.start[rows], host.end[rows])

    return stretches


def nothing(context: Context, mask: Bools) -> Spans:
    """No time of the host."""
    return EMPTY
