"""Steps without the profiler: how long they took before the recording, and what of the recorded idle time is the profiler's.

`advisor record` keeps the times of the steps that it does not profile. The profiler slows the host down, not the device: where
recorded steps are longer, the time that the device waits for the host shrinks to what the others leave for it.

A program on the CPU is slowed down by the event: recording an operator takes as long for a small one as for a large one. Where
the recorder measured how long, so much is taken from each call of an operator by Python and the Python before it, for
every operator in it; what recorded steps are longer beyond that is taken from all alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from advisor.intervals import Bools, Ints, summed
from advisor.timeline.context import Context
from advisor.timeline.cpu import main_thread

_LEAST = 0.1
"""Part of a call that is the program's own, however many operators it records."""
_ENOUGH = 3
"""Fewer steps than these have no median worth the name."""
_ALIKE = 0.97
"""Steps as long as this share of the recorded ones were not slowed down."""
_COLD = 1.5
"""Times the median that steps take which still warm up."""
_SPREAD = 0.05
"""Medians of a few steps differ by so much of a step. Beyond that, and the host's idle time, nothing is the profiler's."""
_SLOWED = ("host", "operator", "profiler", "sync")
_DRIVER = ("allocator", "blocking_copy")
"""Time of the driver and of the link, which the profiler hardly slows: the host's own gives way before it."""


@dataclass(frozen=True)
class Unprofiled:
    """The typical step without the profiler, and the ledger's segments as they would be in it."""

    step_ns: float
    steps: int
    dur_ns: Ints
    counted_ns: int

    @property
    def step_ms(self) -> float:
        """The same in ms."""
        return self.step_ns / 1e6


def bare_steps(context: Context) -> bool:
    """Tell whether enough steps without the profiler were kept."""
    recorded = context.metadata.recorded
    return recorded is not None and len(recorded.unprofiled_step_ms) >= _ENOUGH


def unprofiled(context: Context) -> Unprofiled | None:
    """The steps without the profiler; None where none were kept, and where they explain nothing.

    Nothing is explained where they are no shorter than the recorded ones, and where they are shorter by more than the host's
    part: then they did something else, such as finding their batches ready.
    """
    recorded, recording = context.metadata.recorded, context.recording
    if recorded is None or not recording.steps or len(recorded.unprofiled_step_ms) < _ENOUGH:
        return None
    step_ns, before_ns = _bare_ns(context, np.array(recorded.unprofiled_step_ms) * 1e6), context.step_ns
    if not 0 < step_ns < _ALIKE * before_ns:
        return None
    ledger = context.ledger
    slowed = ledger.counted if context.cpu_program else ledger.counted & ledger.through(*_SLOWED)
    if context.cpu_program:
        slowed = slowed & ~ledger.through("loader")
    driver = ledger.counted & ledger.through(*_DRIVER) & ~slowed
    per_ns = before_ns / max(ledger.counted_ns, 1)
    held, beside = (float(ledger.dur_ns[part].sum()) * per_ns for part in (slowed, driver))
    shorter = before_ns - step_ns
    of_events = np.zeros(len(ledger.dur_ns))
    if context.cpu_program and recorded.event_ns and held:
        of_events = _taken_by_events(context, slowed, recorded.event_ns)
        of_events += _taken_while_loading(context, recorded.event_ns)
    loading = float(of_events[~slowed].sum()) * per_ns
    if shorter > held + loading + beside + _SPREAD * before_ns:
        return None
    of_events *= min(1.0, shorter / per_ns / max(of_events.sum(), 1.0))
    events, beyond = (float(part.sum()) * per_ns for part in (of_events[slowed], of_events))
    left = max(1 - (shorter - beyond) / (held - events), 0.0) if held > events else 1.0
    left_beside = max(1 - max(shorter - held, 0.0) / beside, 0.0) if beside else 1.0
    kept = np.where(slowed, left, np.where(driver, left_beside, 1.0))
    dur_ns = np.rint((ledger.dur_ns - of_events) * kept).astype(np.int64)
    return Unprofiled(step_ns, len(recorded.unprofiled_step_ms), dur_ns, int(dur_ns[ledger.counted].sum()))


def _bare_ns(context: Context, bare: npt.NDArray[np.float64]) -> float:
    """Return the typical step of those without the profiler: their median, and where the recorded step is a mean, what comes now
    and then besides.

    What comes once in several steps (an epoch's end) is in the mean alone, and few steps hit it by chance more often than it comes:
    it is what the steps of both kinds show together. Steps before the first ordinary one warm up.
    """
    median = float(np.median(bare))
    steady = context.ledger.step_ns(context.recording.step_count)[context.recording.sampled]
    beyond = context.step_ns - float(np.median(steady))
    if beyond <= 0:
        return median
    warm = bare[int(np.argmax(bare <= _COLD * median)) :]
    besides = np.maximum(warm - median, 0.0)
    recorded = len(context.ledger.counted_steps())
    return median + float(besides.sum() + beyond * recorded) / (len(warm) + recorded)


def _taken_by_events(context: Context, slowed: Bools, event_ns: float) -> npt.NDArray[np.float64]:
    """ns of each segment of the ledger that recording operators took, where *event_ns* is what one takes.

    A call is what lies between the ends of two operators that no other is around, on the thread that sets the pace.
    """
    ledger, host, rows = context.ledger, context.recording.host, context.op_rows
    here = rows[host.thread[rows] == main_thread(context.recording)]
    ends = np.sort(host.end[here[context.top(here)]])
    at = np.flatnonzero(slowed)
    call = np.searchsorted(ends, ledger.start_ns[at], side="right")
    count = summed(np.searchsorted(ends, host.start[here], side="right"), 1, len(ends) + 1)
    length = summed(call, ledger.dur_ns[at], len(ends) + 1)
    taken = np.minimum(count * event_ns, (1 - _LEAST) * length)
    out = np.zeros(len(ledger.dur_ns))
    out[at] = taken[call] * ledger.dur_ns[at] / np.maximum(length[call], 1)
    return out


def _taken_while_loading(context: Context, event_ns: float) -> npt.NDArray[np.float64]:
    """ns of each segment in which the thread loads a batch itself that recording the operators in it took.

    Nothing else is taken from a wait: whether a batch is found ready has nothing to do with the profiler.
    """
    ledger, host, rows = context.ledger, context.recording.host, context.op_rows
    out = np.zeros(len(ledger.dur_ns))
    at = np.flatnonzero(ledger.counted & ledger.through("loader"))
    starts = np.sort(host.start[rows[host.thread[rows] == main_thread(context.recording)]])
    first, last = (np.searchsorted(starts, edge[at], side="left") for edge in (ledger.start_ns, ledger.end_ns))
    out[at] = np.minimum((last - first) * event_ns, (1 - _LEAST) * ledger.dur_ns[at])
    return out
