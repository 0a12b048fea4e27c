"""Replays of graphs whose work is not all in the trace: as long as one is pending, an idle device may not be idle."""

from __future__ import annotations

import numpy as np

from advisor.intervals import Ints, Spans, distinct, union
from advisor.timeline.recording import Recording


def pending(recording: Recording, graphs: Ints) -> Spans:
    """Time from each launch of a graph until work that was launched behind it runs on its stream: then it is done.

    *graphs* are the forest nodes of the launches. A graph of which nothing was recorded is pending until the next work of any
    stream that was launched behind it; where none follows, to the end of the recording.
    """
    work, host = recording.work, recording.host
    linked = np.flatnonzero(work.launch >= 0)
    called = host.start[work.launch[linked]]
    until = np.full(len(graphs), -1, np.int64)
    end = int(recording.extent[1])
    replayed = np.isin(work.launch[linked], graphs)
    streams = work.device[linked].astype(np.int64) * (1 << 32) + work.stream[linked]
    used = distinct(streams[replayed]).tolist()
    for stream in used:
        here = np.flatnonzero(streams == stream)
        of_stream = np.isin(graphs, work.launch[linked[here]])
        done = _first_behind(called[here], work.start[linked[here]], host.start[graphs[of_stream]], end)
        until[of_stream] = np.maximum(until[of_stream], done)
    rest = until < 0
    if rest.any():
        until[rest] = _first_behind(called, work.start[linked], host.start[graphs[rest]], end)
    return union(host.start[graphs], until)


def _first_behind(called: Ints, start: Ints, points: Ints, end: int) -> Ints:
    """For each point, the first start of work that was launched behind it; *end* where there is none."""
    order = np.argsort(called, kind="stable")
    first = np.append(np.minimum.accumulate(start[order][::-1])[::-1], end)
    found: Ints = first[np.searchsorted(called[order], points, side="right")]
    return found
