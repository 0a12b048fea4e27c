"""`gaps`, `syncs` and `loader`: why the device idles, and what the host waits for."""

from __future__ import annotations

import numpy as np
import pandas as pd

from advisor.frames.schema import COMMON, Schema, flag, integer, text
from advisor.intervals import Bools, Ints, covered
from advisor.timeline import waits as w
from advisor.timeline.context import Context
from advisor.timeline.cpuwork import computing_on_cpu
from advisor.timeline.ledger import CAUSES, IDLE, Ledger
from advisor.timeline.pythontime import python_outside_operators

GAPS = Schema(
    "gaps",
    "a stretch inside one step where the whole device idles for one cause",
    (
        *COMMON,
        text("cause", "why: " + ", ".join(IDLE)),
        integer("gap_id", "", "the idle stretch of the device that it is part of"),
        integer("gap_ns", "ns", "length of that whole stretch"),
        text("position", "first (before any work of the window), last, or inner"),
        text("next_op", "operator that launched the work which ends the stretch"),
        text("phase", "phase that the launching thread was in: forward, backward, optimizer, zero_grad or other"),
        flag("startup", "most of it lies under what only first calls take so long for: lazy loading, algorithm search"),
        integer(
            "call_ns",
            "ns",
            "length of the one runtime call that the launching thread was in at its middle; 0 if in none",
        ),
        integer(
            "python_ns",
            "ns",
            "what of it the launching thread spent in Python outside any operator; NULL without its calls",
        ),
        integer(
            "cpu_work_ns",
            "ns",
            "what of it the launching thread spent in operators that compute on the CPU: of 100 us or more, launching nothing",
        ),
    ),
)
SYNCS = Schema(
    "syncs",
    "a call in which the host waits for the device",
    (
        *COMMON,
        text("name", "the runtime call", "name"),
        text(
            "kind",
            "scalar (a value read back), copy (a blocking copy), explicit, event, allocator, or profiler (its own stop)",
        ),
        integer("call_ns", "ns", "host time from issuing what is waited for to the end of the wait"),
        integer("bubble_ns", "ns", "idle of the device that follows, until its next work"),
        integer("copy_bytes", "bytes", "size of the copy waited for; NULL where there is none"),
        flag("pending", "it had something to wait for: work launched before it had not ended when it began"),
    ),
)
LOADER = Schema(
    "loader",
    "a wait of the training loop for its next batch",
    (
        *COMMON,
        text("name", "the annotation", "name"),
        text("iterator", "single-process (the main process loads), multi-process (workers load) or other"),
        text("iterator_class", "class of the DataLoader's iterator"),
        integer("idle_ns", "ns", "what of it the device idles"),
        flag("on_launching_thread", "whether the waiting thread also launches the device's work"),
        flag(
            "restart",
            "at the end of an epoch, where workers end and new ones start: the last wait, and the first of the next",
        ),
    ),
)


def gap_segments(book: Ledger) -> tuple[Ints, Ints]:
    """Segments that are idle, and the row of `gaps` that each belongs to."""
    segments = np.flatnonzero(book.cause >= 4)
    if not len(segments):
        return segments, segments
    fresh = np.ones(len(segments), np.bool_)
    previous, current = segments[:-1], segments[1:]
    fresh[1:] = ~(
        (current == previous + 1)
        & (book.cause[current] == book.cause[previous])
        & (book.step[current] == book.step[previous])
        & (book.row[current] == book.row[previous])
    )
    return segments, np.cumsum(fresh) - 1


def build_gaps(context: Context) -> pd.DataFrame:
    """The frame `gaps` of the busiest device; without a device, of the host's window."""
    recording, book = context.recording, context.ledger
    segments, row = gap_segments(book)
    count = int(row[-1]) + 1 if len(row) else 0
    first = np.searchsorted(row, np.arange(count))
    head = segments[first]
    start = book.start_ns[head]
    dur = np.bincount(row, book.dur_ns[segments], count).astype(np.int64) if count else np.zeros(0, np.int64)
    gap = book.gap[head]
    whole = np.bincount(book.gap[segments], book.dur_ns[segments]).astype(np.int64) if count else np.zeros(0, np.int64)
    middle = start + dur // 2
    node = np.full(count, -1, np.int64)
    following = np.full(count, -1, np.int64)
    call = np.zeros(count, np.int64)
    python = np.full(count, -1, np.int64)
    computing = np.zeros(count, np.int64)
    low, high = recording.window
    begins = np.zeros(count, np.bool_)
    ends = np.zeros(count, np.bool_)
    if count and recording.has_host:
        host, work = recording.host, recording.work
        default = host.launching_thread()
        thread = np.full(count, default, np.int64)
        if len(work):
            mine = np.flatnonzero(work.device == book.device)
            at = np.searchsorted(work.start[mine], start + dur, side="left")
            has = at < len(mine)
            launch = np.where(has, work.launch[mine[np.minimum(at, len(mine) - 1)]], -1)
            following = launch
            thread = np.where(launch >= 0, host.thread[np.maximum(launch, 0)], default)
        for one in np.unique(thread).tolist():
            here = thread == one
            node[here] = host.innermost(one, middle[here])
            python[here] = python_outside_operators(context, one, start[here], start[here] + dur[here])
            computing[here] = computing_on_cpu(context, one, start[here], start[here] + dur[here])
        in_call = (node >= 0) & (host.group[np.maximum(node, 0)] == 3)
        call = np.where(in_call, (host.end - host.start)[np.maximum(node, 0)], 0)
    if count:
        bounds_start = np.full(int(gap.max()) + 1, high, np.int64)
        np.minimum.at(bounds_start, gap, start)
        bounds_end = np.full(int(gap.max()) + 1, low, np.int64)
        np.maximum.at(bounds_end, gap, start + dur)
        begins = bounds_start[gap] == low
        ends = bounds_end[gap] == high
    frame = context.common(start=start, dur=dur, cost=dur.copy(), node=node, device=book.device)
    position = np.where(begins, 0, np.where(ends, 1, 2))
    host_names = recording.host.name if following.size and recording.has_host else np.zeros(0, np.int64)
    inside = np.full(count, -1, np.int64)
    if len(host_names):
        op = recording.host.attributes.op
        nodes = np.where(following >= 0, op[np.maximum(following, 0)], -1)
        inside = np.where(nodes >= 0, host_names[np.maximum(nodes, 0)], -1)
    frame |= {
        "cause": context.labels(book.cause[head], CAUSES),
        "gap_id": gap,
        "gap_ns": whole[gap] if count else whole,
        "position": context.labels(position, ["first", "last", "inner"]),
        "next_op": context.labels(inside, context.names),
        "phase": context.labels(context.phases(node), context.phase_names),
        "startup": 2 * covered(context.startup, start, start + dur) > dur,
        "call_ns": call,
        "python_ns": context.known(python),
        "cpu_work_ns": computing,
    }
    return pd.DataFrame(frame)


def build_syncs(context: Context) -> pd.DataFrame:
    """The frame `syncs`."""
    syncs = context.waits.syncs
    work = context.recording.work
    cost = context.wait_cost(["sync", "blocking_copy"], len(syncs.start))
    frame = context.common(
        start=syncs.start, dur=syncs.end - syncs.start, cost=cost, node=syncs.node, device=context.device
    )
    size = np.full(len(syncs.start), -1, np.int64)
    waited = syncs.copy >= 0
    if waited.any():
        size[waited] = context.tables["copy"]["bytes"][work.row[syncs.copy[waited]]]
    host_names = context.recording.host.name if len(syncs.node) else np.zeros(0, np.int64)
    frame |= {
        "name": context.labels(host_names[syncs.node] if len(syncs.node) else host_names, context.names),
        "kind": context.labels(syncs.kind, w.SYNC_KINDS),
        "call_ns": syncs.end - syncs.begin,
        "bubble_ns": context.waits.bubble,
        "copy_bytes": context.known(size),
        "pending": _pending(context),
    }
    return pd.DataFrame(frame)


def _pending(context: Context) -> Bools:
    """Whether work launched before each synchronization had not ended when the wait for it began."""
    syncs, work, host = context.waits.syncs, context.recording.work, context.recording.host
    if not len(work) or not len(syncs.start):
        return np.zeros(len(syncs.start), np.bool_)
    # Work without a launch in the trace was launched before it.
    launched = np.where(work.launch >= 0, host.start[np.maximum(work.launch, 0)], -1)
    order = np.argsort(launched, kind="stable")
    latest = np.maximum.accumulate(work.end[order])
    before = np.searchsorted(launched[order], syncs.start, side="right") - 1
    found: Bools = (before >= 0) & (latest[np.maximum(before, 0)] > syncs.begin)
    return found


def build_loader(context: Context) -> pd.DataFrame:
    """The frame `loader`."""
    waits = context.waits.loader
    cost = context.wait_cost(["loader"], len(waits.start))
    frame = context.common(start=waits.start, dur=waits.end - waits.start, cost=cost, node=waits.node)
    names = context.recording.host.name[waits.node] if len(waits.node) else np.zeros(0, np.int64)
    codes, inverse = np.unique(names, return_inverse=True)
    classes = [found[1] if (found := w.LOADER.match(context.names[code])) else "" for code in codes.tolist()]
    kinds = [
        "single-process" if "SingleProcess" in c else "multi-process" if "MultiProcessing" in c else "other"
        for c in classes
    ]
    launching = context.recording.host.launching_thread() if len(waits.node) else -1
    thread = context.recording.host.thread[waits.node] if len(waits.node) else np.zeros(0, np.int64)
    idle = context.idle_during(waits.start, waits.end) if context.device >= 0 else np.zeros(len(waits.start), np.int64)
    frame |= {
        "name": context.labels(names, context.names),
        "iterator": context.labels(inverse, kinds),
        "iterator_class": context.labels(inverse, classes),
        "idle_ns": idle,
        "on_launching_thread": thread == launching,
        "restart": waits.restart,
    }
    return pd.DataFrame(frame)
