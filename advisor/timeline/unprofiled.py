"""Steps without the profiler: how long they took before the recording, and what of the recorded idle time is the profiler's.

`advisor record` keeps the times of the steps that it does not profile. The profiler slows the host down, not the device: where
recorded steps are longer, the time that the device waits for the host shrinks to what the others leave for it.

A program on the CPU is slowed down by the event: recording an operator takes as long for a small one as for a large one. Where
the recorder measured how long, so much is taken from each call of an operator by Python and the Python before it, for
every operator in it; what recorded steps are longer beyond that is taken from all alike. That is cautious for small operators:
events also push out of the caches what the large ones read. Where all of it is taken from all alike, they keep most.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from advisor.intervals import Bools, Ints, summed
from advisor.reading.program_settings import Recorded
from advisor.timeline.context import Context
from advisor.timeline.cpu import main_thread
from advisor.timeline.ledger import CAUSES, Ledger

Floats = npt.NDArray[np.float64]

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
_PREFETCHED = 2
"""Batches that each worker holds ready, unless it is told otherwise."""
_FED = 0.5
"""Part of the other steps' waits below which steps were fed by batches that lay ready."""
_LITTLE = 0.1
"""Part of a step that it may wait and be one that waits for no batch."""
_SLOWED = ("host", "operator", "profiler", "sync")
_DRIVER = ("allocator", "blocking_copy")
"""Time of the driver and of the link, which the profiler hardly slows: the host's own gives way before it."""


class Pace(NamedTuple):
    """The pace of a loader's workers: ns from batch to batch, and what of it the loop waits."""

    batch_ns: float
    waited_ns: float


class Unprofiled(Struct, frozen=True):
    """The typical step without the profiler, and the ledger's segments as they would be in it.

    ``steps`` is how many told it, 0 where it is reckoned from what recording an operator takes. ``loader`` is how many times as
    long as in the recorded steps these waited for batches. Where workers are what they waited for, and recorded steps hid it,
    ``pace`` is theirs, and ``fed_ns`` the step with batches that are there when asked.
    """

    step_ns: float
    steps: int
    dur_ns: Ints
    counted_ns: int
    loader: float = 1.0
    pace: Pace | None = None
    fed_ns: float = 0.0
    alike_ns: Ints | None = None

    @property
    def step_ms(self) -> float:
        """The same in ms."""
        return self.step_ns / 1e6

    def causes(self, ledger: Ledger) -> dict[str, float]:
        """Return the share of each cause of steady work, as they add up to the step."""
        at = ledger.counted
        spent = np.bincount(ledger.cause[at], weights=self.dur_ns[at], minlength=len(CAUSES))
        return {name: float(ns) / max(self.counted_ns, 1) for name, ns in zip(CAUSES, spent, strict=True) if ns}


def bare_steps(context: Context) -> bool:
    """Tell whether enough steps without the profiler were kept."""
    recorded = context.metadata.recorded
    return recorded is not None and len(recorded.unprofiled_step_ms) >= _ENOUGH


def bare_times(recorded: Recorded) -> tuple[Floats, Floats | None]:
    """Return the ns of the steps without the profiler, and of the waits for batches in them, None where those are not known.

    Where waits are known, steps are left out that were fed by batches which workers held ready: they tell nothing of the workers.
    Where the first ones wait as well, none is: of batches that come in turns of several steps, all turns count.
    """
    steps, waits = (np.array(times) * 1e6 for times in (recorded.unprofiled_step_ms, recorded.unprofiled_wait_ms))
    if len(waits) != len(steps) or not len(steps):
        return steps, None
    ready = max((loader.workers * (loader.prefetch or _PREFETCHED) for loader in recorded.loaders), default=0)
    ready = math.ceil(ready / max(recorded.backwards_per_step or 1.0, 1.0))
    first = ready if len(steps) - ready >= _ENOUGH and _was_fed(waits, ready) else 0
    return steps[first:], waits[first:]


def _was_fed(waits: Floats, ready: int) -> bool:
    """Tell whether so many first steps waited less than the rest, but for one: handing over what is ready can be what is slow."""
    first = np.sort(waits[:ready])[:-1]
    return not len(first) or float(first.mean()) < _FED * float(waits[ready:].mean())


def slowed_by_workers(recorded: Recorded) -> float | None:
    """Return the part of the steps without the profiler, waits for batches left out, that steps which wait for none do not take.

    With more workers than cores, batches come in turns: while workers take theirs, the operators have no core, whether the loop
    waits for a batch or not. None where there are no more workers than cores, or few steps of either kind.
    """
    steps, waits = bare_times(recorded)
    workers = sum(loader.workers for loader in recorded.loaders)
    if waits is None or workers <= (recorded.cores or workers):
        return None
    still = waits < _LITTLE * steps
    if min(still.sum(), (~still).sum()) < _ENOUGH:
        return None
    rest = steps - waits
    return max(1 - float(np.median(rest[still])) / float(rest.mean()), 0.0)


def unprofiled(context: Context) -> Unprofiled | None:
    """The steps without the profiler; None where none were kept, and where they explain nothing.

    Nothing is explained where they are shorter by more than the host's part: then they did something else, such as finding their
    batches ready. Where they are no shorter than the recorded ones, the step is reckoned from what recording an operator took, if
    that was measured. How long they waited for batches is taken from their own waits, where those are known: behind a host that
    the profiler slows down, slow workers keep up.
    """
    recorded, recording = context.metadata.recorded, context.recording
    if recorded is None or not recording.steps or len(recorded.unprofiled_step_ms) < _ENOUGH:
        return None
    bare, waits = bare_times(recorded)
    ledger, before_ns = context.ledger, context.step_ns
    per_ns = before_ns / max(ledger.counted_ns, 1)
    loads = ledger.counted & ledger.through("loader")
    loaded = float(ledger.dur_ns[loads].sum()) * per_ns
    step_ns = _bare_ns(context, bare)
    waited = _waited_ns(context, bare, waits, step_ns, loaded)
    if waited is None:
        if not 0 < step_ns < _ALIKE * before_ns:
            return _reckoned(context, recorded.event_ns)
        waited = loaded
    elif waited > loaded:
        # Waits for workers come now and then, for several batches at once.
        waited, step_ns = waited * float(bare.mean()) / step_ns, float(bare.mean())
    loader = waited / loaded if loaded else 1.0
    shorter = (before_ns - loaded) - (step_ns - waited)
    dur_ns = _shortened(context, recorded.event_ns, shorter, loading=loader == 1.0)
    if dur_ns is None:
        return None
    left_ns = np.rint(np.where(loads, dur_ns * loader, dur_ns)).astype(np.int64)
    alike = _shortened(context, None, shorter, loading=False) if context.cpu_program and recorded.event_ns else None
    alike_ns = None if alike is None else np.rint(np.where(loads, dur_ns * loader, alike)).astype(np.int64)
    pace = None
    if loader > 1 and any(one.workers for one in recorded.loaders):
        batches = max(len(context.waits.loader.start) / recording.step_count, 1.0)
        pace = Pace(step_ns / batches, waited / batches)
    counted_ns = int(left_ns[ledger.counted].sum())
    return Unprofiled(step_ns, len(bare), left_ns, counted_ns, loader, pace, step_ns - waited, alike_ns)


def _reckoned(context: Context, event_ns: float | None) -> Unprofiled | None:
    """The step without what recording its operators took, where steps without the profiler were no shorter; None where that is
    little, or not known.

    What recording an operator takes was measured by the processor's time. Steps on the clock that do not show it waited for cores
    that other programs had, or were the first ones, which warm up.
    """
    ledger = context.ledger
    if not context.cpu_program or not event_ns or not ledger.counted_ns:
        return None
    per_ns = context.step_ns / ledger.counted_ns
    taken = float(_taken_by_events(context, ledger.counted & ~ledger.through("loader"), event_ns).sum()) * per_ns
    if taken <= (1 - _ALIKE) * context.step_ns:
        return None
    by_event, alike = (_shortened(context, each_ns, taken, loading=False) for each_ns in (event_ns, None))
    if by_event is None or alike is None:
        return None
    dur_ns, alike_ns = (np.rint(ns).astype(np.int64) for ns in (by_event, alike))
    counted_ns = int(dur_ns[ledger.counted].sum())
    return Unprofiled(context.step_ns - taken, 0, dur_ns, counted_ns, alike_ns=alike_ns)


def _shortened(context: Context, event_ns: float | None, shorter: float, *, loading: bool) -> Floats | None:
    """Return the ledger's segments where a step is *shorter* by so many ns, the waits for batches left out; None where nothing
    explains it.

    *event_ns* is what recording an operator takes, None where all are slowed alike. *loading*: whether the profiler's part of
    loading in this thread is not known by itself.
    """
    ledger, before_ns = context.ledger, context.step_ns
    slowed = ledger.counted if context.cpu_program else ledger.counted & ledger.through(*_SLOWED)
    if context.cpu_program:
        slowed = slowed & ~ledger.through("loader")
    driver = ledger.counted & ledger.through(*_DRIVER) & ~slowed
    per_ns = before_ns / max(ledger.counted_ns, 1)
    held, beside = (float(ledger.dur_ns[part].sum()) * per_ns for part in (slowed, driver))
    of_events = np.zeros(len(ledger.dur_ns))
    if context.cpu_program and event_ns and held:
        of_events = _taken_by_events(context, slowed, event_ns)
        if loading:
            of_events += _taken_while_loading(context, event_ns)
    of_loading = float(of_events[~slowed].sum()) * per_ns
    if not -_SPREAD * before_ns <= shorter <= held + of_loading + beside + _SPREAD * before_ns:
        return None
    shorter = max(shorter, 0.0)
    of_events *= min(1.0, shorter / per_ns / max(of_events.sum(), 1.0))
    events, beyond = (float(part.sum()) * per_ns for part in (of_events[slowed], of_events))
    left = max(1 - (shorter - beyond) / (held - events), 0.0) if held > events else 1.0
    left_beside = max(1 - max(shorter - held, 0.0) / beside, 0.0) if beside else 1.0
    kept: Floats = (ledger.dur_ns - of_events) * np.where(slowed, left, np.where(driver, left_beside, 1.0))
    return kept


def _waited_ns(context: Context, bare: Floats, waits: Floats | None, step_ns: float, loaded: float) -> float | None:
    """Return what of a step without the profiler the device waits for batches, where that is another time than the recorded
    *loaded* ns; None where it is not, or not known.

    Of a wait the device idles for as large a part as in the recorded ones, and no longer than its work leaves of the step.
    """
    if waits is None or loaded <= 0:
        return None
    ledger, table = context.ledger, context.waits.loader
    at = np.searchsorted(ledger.start_ns, table.start, side="right") - 1
    inside = (at >= 0) & ledger.counted[np.maximum(at, 0)]
    recorded = float((table.end - table.start)[inside].sum()) * context.step_ns / max(ledger.counted_ns, 1)
    idle = min(loaded / recorded, 1.0) if recorded > 0 else 1.0
    waited = float(waits.sum() / bare.sum()) * step_ns * idle
    works = ledger.counted & ~ledger.idle
    worked = float(ledger.dur_ns[works].sum()) * context.step_ns / max(ledger.counted_ns, 1)
    waited = min(waited, step_ns - worked) if not context.cpu_program else waited
    return waited if waited > 0 and abs(waited - loaded) > _SPREAD * context.step_ns else None


def _bare_ns(context: Context, bare: Floats) -> float:
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


def _taken_by_events(context: Context, slowed: Bools, event_ns: float) -> Floats:
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


def _taken_while_loading(context: Context, event_ns: float) -> Floats:
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
