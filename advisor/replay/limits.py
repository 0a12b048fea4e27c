"""The step with each kernel at its limit: what the trace's own dependencies leave of it when no kernel can be faster."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.intervals import Ints, covered
from advisor.replay.effect import Keep
from advisor.replay.graph import LATE_NS, Floats, Graph, previous_end
from advisor.replay.pricing import Replay
from advisor.replay.steady import clock
from advisor.roofline.limits import limits
from advisor.timeline.context import Context


class StepLimits(NamedTuple):
    """The step (the window without steps) in ms with each modelled kernel at the hardware's limit, and at what is reachable.

    The host, copies, communication and kernels of unknown work take as long as recorded.
    """

    limit_ms: float
    reachable_ms: float


def step_limits(replay: Replay, whole_ms: float) -> StepLimits | None:
    """Replay the trace with faster kernels; None where no kernel's limit is known, or where it cannot be run again.

    What the device takes between two pieces of queued work stays between them, however short they are.
    """
    found = replay.context.once(limits)
    if replay.graph is None or replay.reason or not found.known.any():
        return None
    between = _between(replay.context, replay.graph)
    nothing = np.full(len(found.limit_ns), np.nan)
    base, at_limit, reached = (
        _step_ns(replay, times, between) for times in (nothing, found.limit_ns, found.reachable_ns)
    )
    scale = whole_ms / base if base else 0.0
    return StepLimits(min(at_limit * scale, whole_ms), min(max(at_limit, reached) * scale, whole_ms))


def _between(context: Context, graph: Graph) -> Ints:
    """ns from the end of the work before each piece on its stream to its start, where it was queued by then; else 0."""
    work, steady = context.recording.work, context.once(clock)
    begun, ended = steady.at(work.start[graph.work]), steady.at(work.end[graph.work])
    before = previous_end(graph.stream, begun, ended)
    launches = graph.first[0] if len(graph) else len(graph.work)
    node = np.searchsorted(graph.last, np.arange(len(graph.work)), side="right")
    called = np.append(graph.start, 0)[node] + graph.lag
    queued = (np.arange(len(graph.work)) >= launches) & (called <= before) & (begun - before <= LATE_NS)
    return np.where(queued, np.maximum(begun - before, 0), 0)


def _once(context: Context, graph: Graph) -> Floats:
    """The part of each think time that is start-up behind which the device had work: it owns nothing, and yet happens once."""
    spans = context.once(clock).spans(context.waits.startup.spans())
    begin = graph.start - np.maximum(graph.think, 0)
    return np.clip(covered(spans, begin, graph.start) / np.maximum(graph.think, 1), 0.0, 1.0)


def _step_ns(replay: Replay, times: npt.NDArray[np.float64], between: Ints) -> float:
    """Replay the step with each kernel in the time given for it, where that is known and shorter, and what is *between* them."""
    assert replay.graph is not None
    context: Context = replay.context
    work = context.recording.work
    left = np.ones(len(work))
    rows = context.kernel_rows
    dur = np.maximum(work.end[rows] - work.start[rows], 1)
    left[rows] = np.where(np.isnan(times), 1.0, np.minimum(times / dur, 1.0))
    keep = Keep.all_of(replay.graph)
    keep.dur = left[replay.graph.work] + between / np.maximum(replay.graph.dur, 1)
    keep.think *= 1 - _once(context, replay.graph)
    return replay.step_ns(replay.run(keep)[1])
