"""Limits of what a recording explains: idle with work queued, launches behind a full queue, a host of which nothing was recorded.

Of such time nobody is the owner: neither that the host was busy nor with what is in the trace.
"""

from __future__ import annotations

import numpy as np

from advisor.intervals import EMPTY, Bools, Ints, Spans, complement, distinct, fetch, union
from advisor.timeline.calls import OP, RANGES, RUNTIME, STEP
from advisor.timeline.recording import Recording

# So long behind the last event of the host, or between two of them, nothing is known of what it did.
SILENCE_NS = 1_000_000
_LATENCY_NS = 100_000
# Launches that a GPU takes before it holds the host up: 1,024 on NVIDIA's, some of which the driver may keep for itself.
_QUEUE = 900


def unexplained_idle(recording: Recording, device: int) -> Spans:
    """Idle stretches that no launch explains: the work that ends them was launched before they began, or outside the trace.

    The device then waits for something of its own (an event, a dependency, the front end, work that was not recorded).
    """
    work, host = recording.work, recording.host
    low, high = recording.ends
    gaps = complement(recording.busy(device), low, high)
    here = np.flatnonzero(work.device == device)
    if not len(gaps.start) or not len(here):
        return EMPTY
    # Work that names no launch at all (an accelerator's own transfers) does not tell when it was queued: what follows does.
    telling = here[work.correlation[here] > 0]
    here = telling if len(telling) else here
    first = np.searchsorted(work.start[here], gaps.end, side="left")
    has_next = first < len(here)
    following = here[np.minimum(first, len(here) - 1)]
    launch = work.launch[following]
    launched = fetch(host.end, launch, low)
    start = np.maximum(gaps.start, launched)
    # A launch takes microseconds to reach the device: that latency is the host's. Longer, something else held it back.
    unexplained = has_next & (start < gaps.end) & ((launched <= gaps.start) | (gaps.end - start > _LATENCY_NS))
    return Spans(start[unexplained], gaps.end[unexplained])


def queue_full(recording: Recording, calls: Ints) -> Bools:
    """Flag calls that begin with as many launches outstanding as a GPU's queue takes: these wait for the device."""
    work, host = recording.work, recording.host
    linked = np.flatnonzero(work.launch >= 0)
    launched, started = np.sort(host.start[work.launch[linked]]), np.sort(work.start[linked])
    at = host.start[calls]
    outstanding = np.searchsorted(launched, at) - np.searchsorted(started, at, side="right")
    flags: Bools = outstanding >= _QUEUE
    return flags


def silent(recording: Recording) -> Spans:
    """Stretches of a millisecond or more between events of the host in which no thread that launches has any: no operator, no call.

    Annotations say where the program was, not what it did; torch's own around its optimizers and loaders do. None where stacks
    were recorded: Python functions, or the lines that operators were called from, tell what lies between.
    """
    host = recording.host
    acts = np.isin(host.group, (OP, RUNTIME))
    if "python" in recording.tables or any(recording.recorded.stacks) or not acts.any():
        return EMPTY
    threads = np.append(
        distinct(host.thread[recording.work.launch[recording.work.launch >= 0]]), host.launching_thread()
    )
    torchs = np.array([name.startswith(RANGES) for name in recording.names], np.bool_)
    steps = np.array([name.startswith(STEP) for name in recording.names], np.bool_)
    told = (acts & ~steps[host.name]) | torchs[host.name]
    nodes = np.flatnonzero(told & np.isin(host.thread, threads))
    if not len(nodes):
        return EMPTY
    start, end = host.start[nodes], np.maximum(host.end[nodes], host.start[nodes] + 1)
    holes = complement(union(start, end), int(start.min()), int(end.max()))
    long = holes.end - holes.start >= SILENCE_NS
    return Spans(holes.start[long], holes.end[long])


def last_event(recording: Recording) -> int:
    """End of the last event of the host, but for the steps: these go on whether anything is recorded or not."""
    host = recording.host
    steps = np.array([name.startswith(STEP) for name in recording.names], np.bool_)
    ends = host.end[~steps[host.name]]
    return int(ends.max()) if len(ends) else int(host.end.max())


def host_extent(recording: Recording) -> tuple[int, int]:
    """First and last moment of the host's recording: idle time beyond it has no explanation."""
    host = recording.host
    span = recording.tables.get("span")
    low, high = int(host.start.min()), int(host.end.max())
    if span is not None:
        low = min(low, int(span["ts"].min()) - recording.zero_ns)
        high = max(high, int((span["ts"] + span["dur"]).max()) - recording.zero_ns)
    return low, high
