"""Batches that came late: waits of the loop for worker processes that had none ready.

Workers go on whatever the loop does meanwhile. Such a batch therefore comes when it came, however early the loop asks for it:
what is saved elsewhere lengthens the wait, until the loader itself gets faster.
"""

from __future__ import annotations

import numpy as np

from advisor.intervals import Ints, distinct
from advisor.timeline.context import Context
from advisor.timeline.unprofiled import unprofiled
from advisor.timeline.waits import unpickling

LATE_NS = 3_000_000
"""A wait longer than this, but for unpickling, was for a batch: taking one that is ready takes a millisecond or two."""
AT_WILL = 0.95
"""A fix that takes so much of the wait makes a loader that delivers when it is asked."""


def late(context: Context, calls: Ints, marks: Ints) -> Ints:
    """Return the waits (rows of the loader's) for a batch that workers had not ready.

    *calls* are the nodes of the host's calls, *marks* the starts of steps: a wait with one inside is no plain wait. Neither is
    that for the first batch of new workers, who begin when they are asked.
    """
    waits, recording = context.waits.loader, context.recording
    if not len(waits.node):
        return waits.node
    host = recording.host
    workers = np.array(["MultiProcessing" in name for name in recording.names], np.bool_)[host.name[waits.node]]
    taken = waits.end - waits.start - np.maximum(unpickling(recording, waits), 0)
    thread = host.thread[waits.node]
    bare = context.once(unprofiled)
    # Where workers have a pace of their own without the profiler, each batch is theirs, even one that was there when asked.
    least_ns = LATE_NS if bare is None or bare.pace is None else 0
    long = workers & ~waits.restart & (taken > least_ns) & np.isin(thread, host.thread[calls])
    for number in distinct(thread[long]).tolist():
        here = np.flatnonzero(long & (thread == number))
        inner = np.sort(np.append(host.start[calls[host.thread[calls] == number]], marks))
        begun, ended = (
            np.searchsorted(inner, waits.start[here], "right"),
            np.searchsorted(inner, waits.end[here], "left"),
        )
        long[here] = begun == ended
    rows: Ints = np.flatnonzero(long)
    return rows
