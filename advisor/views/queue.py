"""Depth of the launch queue over time: pieces of launched work that wait for the GPU or run on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from advisor.intervals import coded
from advisor.results.views import QueueCurve
from advisor.views.memory import thin
from advisor.views.steps import Extent

if TYPE_CHECKING:
    from advisor.trace import Trace

_LEAST_LINKED = 0.5


def queue(trace: Trace, extent: Extent) -> QueueCurve | None:
    """The curve over the shown step; None where launches are not known."""
    recording = trace.context.recording
    work, host = recording.work, recording.host
    rows = np.flatnonzero(work.device == trace.device)
    low, high = extent.low, extent.high
    if not len(rows) or high <= low or (work.launch[rows] >= 0).mean() < _LEAST_LINKED:
        return None
    launch = work.launch[rows]
    issue = np.where(launch >= 0, host.start[np.maximum(launch, 0)], work.start[rows])
    issue = np.clip(np.minimum(issue, work.start[rows]), low, high)
    finish = np.clip(work.end[rows], low, high)
    when = np.concatenate([np.array([low]), issue, finish])
    change = np.concatenate([[0], np.ones(len(rows), np.int64), np.full(len(rows), -1)])
    times, at = coded(when)
    delta = np.zeros(len(times), np.int64)
    np.add.at(delta, at, change)
    depth = np.cumsum(delta)
    times, depth = times[times < high], depth[times < high]
    length = np.diff(np.append(times, high))
    order = np.argsort(depth, kind="stable")
    reached = np.cumsum(length[order])
    median = float(depth[order][np.searchsorted(reached, (high - low) / 2)])
    keep = thin(times, [depth])
    return QueueCurve(
        ms=[int(time) / 1e6 for time in (times[keep] - low).tolist()],
        depth=depth[keep].tolist(),
        median=median,
        empty_share=float(length[depth == 0].sum() / (high - low)),
    )
