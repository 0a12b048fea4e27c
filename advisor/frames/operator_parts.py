"""Time of the operators of a program on the CPU: what each of them owns, loops in Python, and operators by their places."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from advisor.frames import beside_gpu
from advisor.intervals import Bools, Ints, summed
from advisor.timeline.calls import BACKWARD
from advisor.timeline.context import Context
from advisor.timeline.cpu import main_thread
from advisor.timeline.ledger import OWNED
from advisor.timeline.source import Place

LONGEST_NS = 100_000
"""Python of so long between two operators is work of its own (``cpu/python-time``), and no way from one to the other."""
MANY = 200
"""Operators that a line calls in a step, from which on it is taken for a loop's."""
_TINY_NS = 10_000
_VIEWS = 1_000
"""Views of one tensor that nobody makes but to go through its elements: layers unbind heads, gates and time steps, some hundred."""


def nodes(context: Context) -> Ints:
    """Forest node of each row."""
    return context.op_rows if context.cpu_program else context.op_rows[:0]


def outermost(context: Context, rows: Ints) -> Ints:
    """Node of the operator that each row runs inside, its own where nothing is around it."""
    own, top = np.full(context.recording.host.size, -1, np.int64), rows[context.top(rows)]
    own[top] = top
    return context.recording.host.flow(own)[rows]


def python(context: Context) -> tuple[Ints, Ints]:
    """Segments of short Python before operators of the main thread, and the row of the operator that each leads to."""
    return context.once(_python)


def _python(context: Context) -> tuple[Ints, Ints]:
    """Segments of short Python before operators of the main thread, and the row of the operator that each leads to."""
    ledger, host, rows = context.ledger, context.recording.host, nodes(context)
    here = np.flatnonzero(context.top(rows) & (host.thread[rows] == main_thread(context.recording)))
    short = np.flatnonzero(ledger.through("host") & (ledger.dur_ns < LONGEST_NS))
    if not len(here) or not len(short):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    here = here[np.argsort(host.start[rows[here]], kind="stable")]
    starts = host.start[rows[here]]
    at = np.minimum(np.searchsorted(starts, ledger.end_ns[short]), len(starts) - 1)
    leads = starts[at] == ledger.end_ns[short]
    return short[leads], here[at[leads]]


def looped(context: Context) -> Bools:
    """Flag the rows of lines that loop in Python: their column of that name."""
    return context.once(_loops)


def _loops(context: Context) -> Bools:
    rows = nodes(context)
    segments, row = context.once(_without_pauses)
    cost = summed(row, context.ledger.dur_ns[segments], len(rows))
    return _looped(context, rows, outermost(context, rows), cost)


def _looped(context: Context, rows: Ints, around: Ints, own: Ints) -> Bools:
    """Flag operators of lines that call very many in a step, most of them tiny; forward, and in the backward pass of these.

    Tiny is one of which no part takes long in itself (*own*, ns): logsumexp on five numbers calls ten others for 2 us each.
    """
    host = context.recording.host
    line = host.attributes.user[rows]
    longest = np.zeros(host.size, np.int64)
    np.maximum.at(longest, around, own)
    called = context.top(rows) & (line >= 0) & (context.phases(rows) != BACKWARD)
    size = int(line.max()) + 1 if len(line) else 0
    calls, tiny = summed(line[called], 1, size), summed(line[called & (longest[rows] < _TINY_NS)], 1, size)
    loops = (calls >= MANY * max(len(context.recording.steps), 1)) & (2 * tiny >= calls)
    found = np.zeros(len(rows), np.bool_)
    found[line >= 0] = loops[line[line >= 0]]
    return found


def unbinds(context: Context, rows: Ints) -> Bools:
    """Flag calls of unbind with very many operators inside, and these."""
    host = context.recording.host
    unbind = np.array([name == "aten::unbind" for name in context.names], np.bool_)[host.name]
    if not unbind[rows].any():
        return np.zeros(len(rows), np.bool_)
    inner = summed(host.parent[rows[host.parent[rows] >= 0]], 1, host.size)
    own = np.full(host.size, -1, np.int64)
    many = rows[unbind[rows] & (inner[rows] >= _VIEWS)]
    own[many] = many
    found: Bools = host.flow(own)[rows] >= 0
    return found


def parts(context: Context) -> tuple[Ints, Ints]:
    """Segments that rows own, and the row of each."""
    return context.once(_parts)


def _parts(context: Context) -> tuple[Ints, Ints]:
    """Segments that rows own, and the row of each: the operator's time, each moment the innermost one's, and the Python before.

    In a loop the collections of garbage, too, that its objects bring on.
    """
    pauses, behind = _pauses(context)
    segments, row = context.once(_without_pauses)
    return np.concatenate([segments, pauses]), np.concatenate([row, behind])


def _without_pauses(context: Context) -> tuple[Ints, Ints]:
    ledger = context.ledger
    if not context.cpu_program:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    owned = np.flatnonzero(ledger.through(*OWNED) & (ledger.row >= 0))
    short, behind = context.once(_python)
    return np.concatenate([owned, short]), np.concatenate([ledger.row[owned], behind])


def _pauses(context: Context) -> tuple[Ints, Ints]:
    """Longer stretches between operators that are a loop's, and the row of each: the objects that it makes are their reason.

    A view for each element is an object. Python makes these behind an unbind, and its collector runs when so many have been made;
    a call of gc.collect() stands outside of such a loop.
    """
    ledger, host, rows = context.ledger, context.recording.host, nodes(context)
    pauses, wraps = ledger.through("gc"), ledger.through("host") & (ledger.dur_ns >= LONGEST_NS)
    found = np.flatnonzero(pauses | wraps)
    views = unbinds(context, rows) if len(found) else np.zeros(len(rows), np.bool_)
    loops = views | (looped(context) if pauses.any() else False)
    here = np.flatnonzero(context.top(rows) & (host.thread[rows] == main_thread(context.recording)))
    if not loops.any() or len(here) < 2:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    here = here[np.argsort(host.start[rows[here]], kind="stable")]
    starts = host.start[rows[here]]
    at = np.searchsorted(starts, ledger.end_ns[found])
    inside = (at > 0) & (at < len(here))
    found, behind, before = found[inside], here[at[inside]], here[at[inside] - 1]
    of_line, line = functions(host.places), host.attributes.user[rows]
    turns = pauses[found] & loops[before] & loops[behind] & (line[before] >= 0) & (line[behind] >= 0)
    turns[turns] = of_line[line[before[turns]]] == of_line[line[behind[turns]]]
    made = wraps[found] & views[before]
    return np.concatenate([found[turns], found[made]]), np.concatenate([behind[turns], before[made]])


def parts_of(context: Context, chosen: Ints) -> tuple[Ints, Ints]:
    """Segments that the *chosen* operators own, and for each the place of its operator among these."""
    row_of = np.full(len(context.op_rows), -1, np.int64)
    row_of[chosen] = np.arange(len(chosen))
    segments, row = context.once(_parts if context.cpu_program else beside_gpu.owned)
    own = row_of[row] if len(row) else row
    return segments[own >= 0], own[own >= 0]


def within(
    context: Context, paths: Sequence[Sequence[tuple[str, int]]], more: Callable[[Ints], Ints] | None = None
) -> tuple[Ints, Ints, list[str]]:
    """Operators that run inside the last place of one of *paths*, or in the backward pass of what does: places in ``op_rows``.

    Each place of a path, a file and a line, is called from the one before it. Beside them the index of the path of each, and the
    functions of the last places. *more* adds to the index of each node, -1 for none.
    """
    rows = context.op_rows
    if not paths or not len(rows):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), []
    host = context.recording.host
    index, functions = host.within_frames(paths)
    # The stack of a backward pass says where it was called; its operators are those calls' whose derivatives they compute.
    forward = np.where(host.attributes.phase == BACKWARD, -1, index)
    if more is not None:
        forward = more(forward)
    at = host.with_backward(forward, orders=True)[rows]
    return np.flatnonzero(at >= 0), at[at >= 0], functions


def called_at(context: Context, places: Sequence[tuple[str, int, str]], *, backward: bool = False) -> tuple[Ints, Ints]:
    """Operators that the user's own line in one of *places* calls (file, line, operator, "" for all), and inside them.

    With *backward* the backward pass of these as well. They are places in ``op_rows``; beside them the index of the place of each.
    """
    host, rows = context.recording.host, context.op_rows
    if not places or not len(rows):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    codes: dict[tuple[str, int], list[int]] = {}
    for code, known in enumerate(host.places):
        codes.setdefault((known.file, known.line), []).append(code)
    own = np.full(host.size, -1, np.int64)
    user, name = host.attributes.user[rows], host.name[rows]
    forward = context.phases(rows) != BACKWARD
    for at, (file, line, operator) in enumerate(places):
        here = np.isin(user, codes.get((file, line), [])) & forward
        if operator:
            here &= np.array([each == operator for each in context.names], np.bool_)[name]
        own[rows[here]] = at
    if backward:
        index = host.with_backward(host.flow(own))[rows]
        return np.flatnonzero(index >= 0), index[index >= 0]
    index = host.flow(own)[rows]
    chosen = np.flatnonzero((index >= 0) & forward)
    return chosen, index[chosen]


def functions(places: Sequence[Place]) -> Ints:
    """Return the number of each line's function."""
    functions: dict[tuple[str, str], int] = {}
    return np.array([functions.setdefault((one.file, one.function), len(functions)) for one in places], np.int64)
