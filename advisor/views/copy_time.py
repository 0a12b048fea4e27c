"""Copies in a step, by direction, with their sizes."""

from __future__ import annotations

import numpy as np

from advisor.frames.copies import parse, transfers
from advisor.intervals import covered, distinct, intersect, union
from advisor.results.copy_time import CopyTime
from advisor.timeline.context import Context

_DIRECTIONS = ("HtoD", "DtoH", "DtoD", "PtoP")
_OTHER_WAY = {"HtoD": "DtoH", "DtoH": "HtoD"}
_NEARLY = 0.95
"""Part of a direction's time that is of one kind of memory where the kind is named."""


def copy_time(context: Context) -> list[CopyTime]:
    """Sum up the copies of the busiest device in steady work by direction, the longest first."""
    work, ledger = context.recording.work, context.ledger
    rows = transfers(context)
    rows = rows[work.device[rows] == context.device] if len(rows) else rows
    mine = ledger.counted
    steady = union(ledger.start_ns[mine], ledger.end_ns[mine])
    time = covered(steady, work.start[rows], work.end[rows])
    rows, time = rows[time > 0], time[time > 0]
    if not len(rows):
        return []
    steps = max(len(ledger.counted_steps()), 1) if context.recording.steps else 1
    hidden = np.minimum(covered(context.kernel_spans(context.device), work.start[rows], work.end[rows]), time)
    size = context.work_column("copy", "bytes", rows)
    codes = distinct(work.name[rows]).tolist()
    facts = {code: parse(context.names[code]) for code in codes}
    of_way = {way: np.isin(work.name[rows], [code for code in codes if facts[code][0] == way]) for way in _DIRECTIONS}
    found = []
    for direction, here in of_way.items():
        if not here.any():
            continue
        other = of_way.get(_OTHER_WAY.get(direction, ""), np.zeros(len(rows), np.bool_))
        back = intersect(union(work.start[rows[other]], work.end[rows[other]]), steady)
        total = int(time[here].sum())
        kinds: dict[str, int] = {}
        for code in codes:
            of = here & (work.name[rows] == code)
            kinds[facts[code][3]] = kinds.get(facts[code][3], 0) + int(time[of].sum())
        kind = max(kinds, key=lambda name: kinds[name])
        known = kind if kind not in ("", "unknown") and kinds[kind] >= _NEARLY * total else None
        found.append(
            CopyTime(
                direction=direction,
                ms=total / steps / 1e6,
                hidden_ms=int(hidden[here].sum()) / steps / 1e6,
                count=int(here.sum()) / steps,
                bytes=float(size[here].sum()) / steps if (size[here] >= 0).all() else None,
                host_memory=known,
                both_ms=int(covered(back, work.start[rows[here]], work.end[rows[here]]).sum()) / steps / 1e6
                if other.any()
                else None,
            )
        )
    return sorted(found, key=lambda one: -one.ms)
