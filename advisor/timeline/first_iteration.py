"""Rest of a first iteration that start-up fills, where a recording has no steps and launches the same again.

Python imports, caches and first calls of less than half a ms each add up there: what repeats later says what it takes.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from advisor.intervals import Ints, Spans, complement, covered, distinct, without
from advisor.regex import regex
from advisor.timeline.calls import OP
from advisor.timeline.recording import KERNEL, Recording
from advisor.timeline.startup_table import FEW, FIRST_ITERATION, TIMES, Rows, Startup

# A first iteration is start-up as a whole where that fills so much of it, later ones launch the same but for so many kernels,
# and what is left of it takes so many times as long a launch as they do.
_FILLED, _NEW, _SLOWER = 0.9, 0.05, 2
# Kernels among which a pass that comes again is looked for, and the fewest that are one.
_MOST, _LEAST = 50_000, 8
_INPUTS = regex(
    r"^aten::(?:rand\w*|normal|(?:uniform|normal|random|bernoulli|fill|zero)_|zeros|ones|full|arange|to|copy_)$"
)


_FOUND: WeakKeyDictionary[Recording, Spans | None] = WeakKeyDictionary()
"""Passes of recordings: memory that is allocated asks for them, and the rest of the first one."""


def with_first_iteration(recording: Recording, table: Startup) -> Startup:
    """Add what is left of a first pass far above those after it, or of a first iteration up to the last row of start-up."""
    work = recording.work
    if len(recording.steps) >= 2 or not len(table.start) or not (work.launch >= 0).any():
        return table
    low = recording.extent[0]
    until = _first_pass(recording, int(table.end.max())) or _first_launches(recording, table)
    if until is None or covered(table.spans(), np.array([low]), np.array([until]))[0] < _FILLED * (until - low):
        return table
    holes = complement(table.spans(), low, until)
    rows = Rows()
    for kind in distinct(table.kind).tolist():
        at = np.flatnonzero(table.kind == kind)
        rows.add(kind, table.node[at], table.start[at], table.end[at])
    rows.add(FIRST_ITERATION, np.full(len(holes.start), -1, np.int64), holes.start, holes.end)
    return rows.table()


def _first_launches(recording: Recording, table: Startup) -> int | None:
    """Return the end of start-up where as much as was launched by then is launched again, and the rest of it took far longer."""
    work = recording.work
    linked = np.flatnonzero(work.launch >= 0)
    low, until, high = recording.extent[0], int(table.end.max()), recording.last_work
    called, names = recording.host.start[work.launch[linked]], work.name[linked]
    early = called < until
    count, later = int(early.sum()), int((~early).sum())
    if count < FEW or later < count or until <= low or high <= until:
        return None
    # The layers of one iteration are alike too, but for its first kernels and its last.
    launched, later_names = distinct(names[early]), distinct(names[~early])
    gone, new = without(launched, later_names), without(later_names, launched)
    if len(gone) or len(new) > _NEW * len(launched):
        return None
    rest = until - low - int(covered(table.spans(), np.array([low]), np.array([until]))[0])
    return until if rest * later >= _SLOWER * (high - until) * count else None


def _first_pass(recording: Recording, until: int) -> int | None:
    """Return the end of the first of some passes, where it takes far longer than each of them; None where there is none.

    What start-up there is ends before the second.
    """
    found = passes(recording)
    if found is None or found.start[1] < until:
        return None
    begin, end = found
    first = end[0] - recording.extent[0]
    return int(end[0]) if first >= TIMES * np.median(end[1:] - begin[1:]) else None


def passes(recording: Recording) -> Spans | None:
    """Return the passes that all kernels are of, each from its first launch to the end of its last operator; None without several.

    Before the first, such as draw or fill its input may stand.
    """
    if recording not in _FOUND:
        _FOUND[recording] = _passes(recording)
    return _FOUND[recording]


def _passes(recording: Recording) -> Spans | None:
    work, host = recording.work, recording.host
    kernels = np.flatnonzero((work.kind == KERNEL) & (work.launch >= 0))
    if not 2 * _LEAST <= len(kernels) <= _MOST:
        return None
    kernels = kernels[np.argsort(host.start[work.launch[kernels]], kind="stable")]
    calls = work.launch[kernels]
    inputs = _drawn(recording, calls)
    period = _period(work.name[kernels], inputs)
    if not period:
        return None
    firsts = np.arange(len(kernels) % period, len(kernels), period)
    return Spans(host.start[calls[firsts]], host.end[_operators(recording, calls[firsts + period - 1])])


def _drawn(recording: Recording, calls: Ints) -> int:
    """Count the launches before the first that is none of an operator which draws, fills or moves a tensor."""
    codes = recording.host.name[_operators(recording, calls[: len(calls) // 2])].tolist()
    return next((at for at, code in enumerate(codes) if not _INPUTS.match(recording.names[code])), len(codes))


def _operators(recording: Recording, calls: Ints) -> Ints:
    """The outermost operator around each call, or the call itself. What a program calls its own parts is none."""
    host = recording.host
    named = np.array(["::" in name for name in recording.names], np.bool_)
    found, up = calls.copy(), calls.copy()
    while (up >= 0).any():
        on = up >= 0
        operators = on & (host.group[up] == OP) & named[host.name[up]]
        found[operators] = up[operators]
        up[on] = host.parent[up[on]]
    return found


def _period(names: Ints, most: int) -> int:
    """Return the length of the shortest sequence that *names* repeat, behind so many at *most*; 0 where that is no pass."""
    total = len(names)
    for period in (np.flatnonzero(names[-2::-1] == names[-1]) + 1).tolist():
        before = total % period
        if 2 * period <= total and before <= most and np.array_equal(names[before + period :], names[before:-period]):
            return int(period) if period >= _LEAST else 0
    return 0
