"""Runs of short kernels: one behind the other on a stream, none a product, each mostly start and end."""

from __future__ import annotations

import numpy as np

from advisor.intervals import Bools, Ints
from advisor.timeline.context import Context

_SHORT_NS = 10_000
"""So short a kernel is mostly start and end, 2 to 5 us of it."""
_REST_NS = 5_000
"""Kernels of one graph, or queued, follow closer: a longer rest is a wait for a launch, which is another matter."""


def short_runs(context: Context, fusible: Bools) -> Ints:
    """For each kernel, how many are in its run; 0 for none. *fusible* flags those that a fused kernel could take in by name.

    A longer kernel between them, a product or attention ends a run: what comes behind reads what it wrote as a whole.
    """
    work, rows = context.recording.work, context.kernel_rows
    out = np.zeros(len(rows), np.int64)
    if not len(rows):
        return out
    start, end = work.start[rows], work.end[rows]
    order = np.lexsort((start, work.stream[rows], work.device[rows]))
    start, end, stream, device = start[order], end[order], work.stream[rows][order], work.device[rows][order]
    short = fusible[order] & (end - start < _SHORT_NS)
    near = (stream[1:] == stream[:-1]) & (device[1:] == device[:-1]) & (start[1:] - end[:-1] <= _REST_NS)
    joined = np.append(False, near & short[1:] & short[:-1])
    run = np.cumsum(~joined) - 1
    out[order] = np.where(short, np.bincount(run)[run], 0)
    return out
