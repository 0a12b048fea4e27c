"""Division of a program's time on the CPU by line: operators and their backward pass, and the Python between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from advisor.frames.gaps import heads
from advisor.intervals import Ints, fetch, summed
from advisor.results.host_time import HostTime
from advisor.timeline.launch_origin import outermost
from advisor.timeline.ledger import OWNED

if TYPE_CHECKING:
    from advisor.timeline.context import Context
    from advisor.timeline.source import Place
    from advisor.trace import Trace

_KNOWN = 0.5
"""Of steady work without what other threads exchange: where lines of less are known, they say little of it."""
_SMALL = 0.005
"""Of steady work: lines of less are summed up."""


def _lines(context: Context) -> Ints:
    """The user's place of each operator: what a backward operator's own calls run is of the line that they are called from.

    A checkpoint's forward pass again, and a function's own backward pass: their stack is another than that of the call which
    began the backward pass. The backward pass of what was not recorded, as in a first step, is of no line.
    """
    host, rows = context.recording.host, context.op_rows
    outer = np.maximum(outermost(context, rows), 0)
    called, around = host.called_from(rows), host.called_from(outer)
    user = np.where(host.without_forward(rows), -1, fetch(host.attributes.user, rows))
    return np.where((called >= 0) & (around >= 0) & (called != around), called, user)


def line_time(trace: Trace) -> list[HostTime]:
    """Divide the steady time of a program on the CPU by the user's line, the longest first; what has none is of the others.

    Each moment belongs to the line that called its operator, forward and backward, or that the stretch between two operators is
    of: Python, a loader's wait, a collection. What other threads exchange meanwhile is of no line. Empty with a device, and where
    most lines are unknown.
    """
    context, ledger = trace.context, trace.ledger
    total = ledger.counted_ns
    if not context.cpu_program or not total:
        return []
    places: Sequence[Place] = context.recording.host.places
    busy = np.flatnonzero(ledger.counted & ledger.through(*OWNED) & (ledger.row >= 0))
    user = _lines(context)[ledger.row[busy]]
    sums = summed(user[user >= 0], ledger.dur_ns[busy][user >= 0], len(places))
    found: dict[tuple[str, int, str], int] = {}
    for place, ns in zip(places, sums.tolist(), strict=True):
        if ns:
            key = (place.file, place.line, place.function)
            found[key] = found.get(key, 0) + ns
    gaps = trace.columns("gaps")
    known = gaps["file"].notna() & gaps["line"].notna() & gaps["function"].notna()
    gaps = gaps.rows(ledger.counted[heads(context)] & known)
    columns = (gaps[name].tolist() for name in ("file", "line", "function", "cost_ns"))
    for file, line, function, ns in zip(*columns, strict=True):
        key = (str(file), int(line), str(function))
        found[key] = found.get(key, 0) + int(ns)
    exchanged = int(ledger.dur_ns[ledger.counted & ledger.through("communication") & (ledger.row < 0)].sum())
    if sum(found.values()) < _KNOWN * (total - exchanged) or not found:
        return []
    ms = context.step_ns / 1e6 / total
    large = sorted(((ns, key) for key, ns in found.items() if ns >= _SMALL * total), reverse=True)
    told = [
        HostTime(where=f"{file}:{line} {function}", kind="line", ms=ns * ms, share=ns / total)
        for ns, (file, line, function) in large
    ]
    if (rest := total - sum(ns for ns, _ in large)) > 0:
        told.append(HostTime(where="", kind="others", ms=rest * ms, share=rest / total))
    return told
