"""Time of which a file no longer holds the events: the profiler numbers them (``Ev Idx``), and some tool took some out.

In a file as torch writes it the numbers of operators, annotations, Python calls and memory events run without a break. Where
thousands are missing between two operators, nobody can say what host and device did there: it reads as idle time and is none.
"""

from __future__ import annotations

import numpy as np

from advisor.intervals import EMPTY, Ints, Spans, union
from advisor.timeline.recording import Recording

_NUMBERED = ("op", "annotation", "python", "instant")
_LEAST_SHARE = 0.1
"""Of the numbers: a part of a file, as a tool cuts it for a test, lacks a few around its edges."""
_LEAST = 100
"""Missing between two operators: fewer are a moment."""


def taken_out(recording: Recording) -> Spans:
    """Spans between two operators between which over a hundred events are missing; none where events have no numbers."""
    tables = [recording.tables[group] for group in _NUMBERED if group in recording.tables]
    numbered = [table for table in tables if "index" in table]
    if not numbered:
        return EMPTY
    index: Ints = np.concatenate([table["index"] for table in numbered])
    start: Ints = np.concatenate([table["ts"] for table in numbered])[index >= 0]
    index = index[index >= 0]
    kept = sum(len(table["ts"]) for table in tables)
    # Numbers that no profiler hands out are no numbers.
    if len(index) < 2 or not _LEAST < int(index.max()) - int(index.min()) + 1 - kept < np.iinfo(np.int64).max // 2:
        return EMPTY
    span = int(index.max()) - int(index.min()) + 1
    if span - kept < _LEAST_SHARE * span:
        return EMPTY
    order = np.lexsort((start, index))
    index, start = index[order], start[order]
    # Python calls and memory events have numbers, too, which are not read: those that began in between are there.
    others = [table["ts"] for table in tables if "index" not in table]
    between = np.diff(np.searchsorted(np.sort(np.concatenate(others), kind="stable"), start)) if others else 0
    missing = np.diff(index) - 1 - between
    gone = np.flatnonzero((missing > _LEAST) & (start[1:] > start[:-1]))
    return union(start[gone] - recording.zero_ns, start[gone + 1] - recording.zero_ns)
