"""Steps and window of a replayed timeline, by the recording's own definitions."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from advisor.intervals import Ints, covered, union
from advisor.replay.graph import BATCH, BLOCKING, MARK, WAIT, Graph
from advisor.replay.simulate import Timeline
from advisor.timeline.context import Context
from advisor.timeline.recording import KERNEL

_LATE_SHARE = 0.10
"""As in the recording: more GPU time than this in a later step than its launch, and steps go by the GPU's clock."""


class Measurement(Struct, frozen=True):
    """``step_ns`` is the median step and ``mean_ns`` the mean of all (the window where there are none)."""

    step_ns: float
    mean_ns: float
    window_ns: int


def measure(context: Context, graph: Graph, timeline: Timeline) -> Measurement:
    """Steps and window of a replayed timeline: as design has them, by the replayed marks and work."""
    recording = context.recording
    if not recording.steps:
        begun = [int(timeline.begun.min())] if len(timeline.begun) else []
        ended = [int(timeline.ended.max())] if len(timeline.ended) else []
        if (marks := timeline.start[graph.kind == MARK]).size:
            begun, ended = [*begun, int(marks[0])], [*ended, int(marks[-1])]
        # However far the host is ahead, it does not go through the next such interval faster than it can.
        window = max(max(ended) - min(begun), timeline.host_ns) if ended else 0
        return Measurement(float(window), float(window), window)
    marks = timeline.start[graph.kind == MARK]
    starts, finish = marks[:-1], max(int(marks[-1]), int(timeline.ended.max()))
    linked = np.arange(len(graph.work)) >= (graph.first[0] if len(graph) else 0)
    # Nodes are in order: what lies behind a step's mark is of that step, where the clock takes whole steps out as well.
    launched = np.minimum(graph.marks_before, len(starts)) - 1
    ran = np.searchsorted(starts, timeline.begun, side="right") - 1
    time = timeline.ended - timeline.begun
    edges, pace = np.append(starts, finish), 0.0
    if len(starts) > 1 and time[linked & (ran > launched)].sum() > _LATE_SHARE * time[linked].sum():
        # The host runs ahead: a step ends with the last work that it launched.
        last = np.full(len(starts), int(marks[0]), np.int64)
        rows = linked & (launched >= 0)
        np.maximum.at(last, launched[rows], timeline.ended[rows])
        edges = np.concatenate([marks[:1], np.maximum.accumulate(last)])
        pace = _host_pace(context, marks)
    pace = max(pace, timeline.host_ns)
    durations = np.diff(edges)[recording.sampled]
    mean = float(edges[-1] - edges[0]) / max(len(context.ledger.counted_steps()), 1)
    return Measurement(max(float(np.median(durations)), pace), max(mean, pace), finish - int(marks[0]))


def _host_pace(context: Context, marks: Ints) -> float:
    """Return the median step of the host, where it was steps ahead when the device's first began; else 0.

    The clock takes those steps out. But however far it is ahead, no device keeps up shorter steps than its host for long.
    """
    begun = np.array([step.start for step in context.recording.steps[: len(marks) - 1]], np.int64)
    whole = begun >= context.recording.bounds[0]
    return float(np.median(np.diff(marks)[whole])) if whole.any() and not whole[:2].any() else 0.0


def bound_by(context: Context, graph: Graph, timeline: Timeline, loader: Ints) -> str:
    """Name what holds the replayed program back most: work, collectives, copies, waits, loader or launches.

    *loader* is the loader's part of each think time.
    """
    busy = union(timeline.begun, timeline.ended)
    if not len(busy.start):
        return "launches"
    idle_start, idle_end = busy.end[:-1], busy.start[1:]
    idle = int((idle_end - idle_start).sum())
    work = int((busy.end - busy.start).sum())
    if idle < 0.15 * (idle + work):
        return _most_work(context, graph, timeline)
    begin = np.concatenate([timeline.start[:1], np.maximum.accumulate(timeline.end)[:-1]])
    gaps = union(idle_start, idle_end)
    thinking = covered(gaps, np.minimum(begin, timeline.start), timeline.start)
    calling = covered(gaps, timeline.start, timeline.end)
    think = np.maximum(timeline.start - begin, 1)
    of_loader = np.minimum(loader, think) / think
    waits = (graph.kind == WAIT) | (graph.kind == BLOCKING)
    batches = graph.kind == BATCH
    parts = {
        "waits": float(calling[waits].sum()),
        "loader": float((thinking * of_loader).sum() + calling[batches].sum()),
        "launches": float((thinking * (1 - of_loader)).sum() + calling[~waits & ~batches].sum()),
    }
    return max(parts, key=lambda name: parts[name])


def _most_work(context: Context, graph: Graph, timeline: Timeline) -> str:
    """Name the kind of work that takes most of the device's time: of work that runs at once the one that computes counts."""
    work = context.recording.work
    talks, kernels = work.communication[graph.work], work.kind[graph.work] == KERNEL
    left, parts = 0, {}
    for name, covering in (("work", kernels & ~talks), ("collectives", kernels), ("copies", np.ones_like(kernels))):
        busy = union(timeline.begun[covering], timeline.ended[covering])
        total = int((busy.end - busy.start).sum())
        parts[name], left = total - left, total
    return max(parts, key=lambda name: parts[name])
