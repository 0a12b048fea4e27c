"""When the threads of one rank that launch work stand still: nothing that they do begins or ends, and they wait for nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.intervals import Ints, Spans, complement, covered, distinct, fetch, intersect, subtract, union
from advisor.timeline.context import Context
from advisor.timeline.likeness import LEAST_NS
from advisor.timeline.owners import found_stalls

# A thread that launches less of the work than this is none whose pace the device feels: a watchdog, a logger.
_LAUNCHES = 0.05
# A stream takes about 1,024 launches ahead; from half of it on a launch that takes long waits for the device.
_FULL_QUEUE = 500


class Standing(NamedTuple):
    """Of one rank: spans in which it stands still, and those in which it waits, ns since its first event, a row of start and end
    each; of what stands still, the ns inside calls that take far longer than their like (``stopped_ns``), and the steady ns in
    which the device idles meanwhile (``idle_ns``)."""

    still: Ints
    waiting: Ints
    stopped_ns: int
    idle_ns: int


def standing(context: Context, window: tuple[int, int]) -> Standing:
    """Find them. Nothing where no call is known to have been stopped: then whatever passes may be Python's own."""
    stops = context.once(found_stalls)
    if not len(stops.start):
        return Standing(_rows(union(*_NOTHING)), _rows(union(*_NOTHING)), 0, 0)
    quiet = _quiet(context, window)
    waiting = _waiting(context, quiet)
    still = subtract(quiet, union(*_both(waiting, _working(context))))
    keep = still.end - still.start >= LEAST_NS
    still = Spans(still.start[keep], still.end[keep])
    stopped = union(stops.start, stops.end)
    ledger = context.ledger
    idle = ledger.idle & ledger.counted
    return Standing(
        still=_rows(still),
        waiting=_rows(waiting),
        stopped_ns=intersect(still, stopped).length,
        idle_ns=int(covered(still, ledger.start_ns[idle], ledger.end_ns[idle]).sum()),
    )


_NOTHING = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def _rows(spans: Spans) -> Ints:
    return np.stack([spans.start, spans.end], axis=1)


def _both(one: Spans, other: Spans) -> tuple[Ints, Ints]:
    return np.concatenate([one.start, other.start]), np.concatenate([one.end, other.end])


def _quiet(context: Context, window: tuple[int, int]) -> Spans:
    """Stretches of the window in which no call of a launching thread begins or ends."""
    host, work = context.recording.host, context.recording.work
    by = host.thread[work.launch[work.launch >= 0]]
    threads, counts = np.unique(by, return_counts=True)
    # Forward and backward passes have a thread each: one waits for the other, and says nothing of it.
    chosen = threads[counts >= _LAUNCHES * counts.sum()]
    on = np.isin(host.thread, chosen)
    edges = distinct(np.concatenate([host.start[on], host.end[on], np.array(window, np.int64)]))
    edges = edges[(edges >= window[0]) & (edges <= window[1])]
    long = np.flatnonzero(np.diff(edges) >= LEAST_NS)
    return Spans(edges[long], edges[long + 1])


def _waiting(context: Context, quiet: Spans) -> Spans:
    """Waits for the device, for data or for room in the queue of launches."""
    waits = context.waits
    known = [waits.syncs, waits.loader, waits.allocator]
    full = _queued(context, quiet.start) >= _FULL_QUEUE
    return union(
        np.concatenate([*(table.start for table in known), quiet.start[full]]),
        np.concatenate([*(table.end for table in known), quiet.end[full]]),
    )


def _working(context: Context) -> Spans:
    """Calls that take their time because they work: on the CPU, or at start-up."""
    waits, host = context.waits, context.recording.host
    spans = [waits.compile.spans(), waits.gc.spans(), waits.profiler.spans(), waits.startup.spans()]
    spans += [union(host.start[waits.computing()], host.end[waits.computing()])]
    return union(np.concatenate([span.start for span in spans]), np.concatenate([span.end for span in spans]))


def _queued(context: Context, at: Ints) -> Ints:
    """Pieces of the busiest device's work that are launched before each moment and begin behind it."""
    work, host = context.recording.work, context.recording.host
    here = (work.device == context.device) & (work.launch >= 0)
    launched = np.sort(fetch(host.start, work.launch[here]))
    ahead: Ints = np.searchsorted(launched, at) - np.searchsorted(np.sort(work.start[here]), at)
    return ahead


def running(digest_window: tuple[int, int], still: Ints, waiting: Ints) -> Spans:
    """Return the rest of a window, in which the rank's threads run."""
    off = union(np.concatenate([still[:, 0], waiting[:, 0]]), np.concatenate([still[:, 1], waiting[:, 1]]))
    return complement(off, *digest_window)
