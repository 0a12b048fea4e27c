"""`syncs`: one row per call in which the host waits for the device."""

from __future__ import annotations

import numpy as np

from advisor.columns import Columns
from advisor.frames.frame import COUNT, TIME, Frame, Rows, nothing, owns_waits
from advisor.frames.schema import COMMON, Schema, flag, integer, text
from advisor.intervals import Bools, Ints, distinct, fetch
from advisor.regex import regex
from advisor.timeline.batches import batch_of_nodes, batches
from advisor.timeline.calls import ANNOTATION, OP
from advisor.timeline.context import Context
from advisor.timeline.waits import SCALAR, SYNC_KINDS, nodes_by_name

_LOOKS = regex(r"^aten::_amp_foreach_non_finite_check_and_unscale_$")
_STEP = regex(r"^Optimizer\.step#")

SCHEMA = Schema(
    "syncs",
    "a call in which the host waits for the device",
    (
        *COMMON,
        text("name", "the runtime call", "name"),
        text("kind", "scalar (a value read back), copy (a blocking copy), explicit, event, allocator, or profiler (its "
             "own stop)"),
        integer("call_ns", "ns", "host time from issuing what is waited for to the end of the wait"),
        integer("bubble_ns", "ns", "idle of the device that follows, until its next work"),
        integer("copy_bytes", "bytes", "size of the copy waited for; NULL where there is none"),
        flag("of_scaler", "it reads the flag by which a GradScaler decides whether the optimizer steps"),
        flag("pending", "it had something to wait for: work launched before it had not ended when it began"),
        flag("of_engine", "it lies behind a batch of a serving engine and in none: the engine reads the batch's tokens"),
    ),
)  # fmt: skip


def build(context: Context) -> Columns:
    """The frame."""
    syncs = context.waits.syncs
    cost = context.ledger.cost(len(syncs.start), "sync", "blocking_copy")
    frame = context.common(
        start=syncs.start, dur=syncs.end - syncs.start, cost=cost, node=syncs.node, device=context.device
    )
    size = np.full(len(syncs.start), -1, np.int64)
    waited = syncs.copy >= 0
    size[waited] = context.work_column("copy", "bytes", syncs.copy[waited])
    frame |= {
        "name": context.labels(context.recording.host.name[syncs.node], context.names),
        "kind": context.labels(syncs.kind, SYNC_KINDS),
        "call_ns": syncs.end - syncs.begin,
        "bubble_ns": context.waits.bubble,
        "copy_bytes": context.known(size),
        "of_scaler": of_scaler(context),
        "pending": pending(context),
        "of_engine": of_engine(context),
    }
    return Columns(frame)


def pending(context: Context) -> Bools:
    """Flag the synchronizations with work launched before that had not ended when the wait for it began."""
    syncs, work, host = context.waits.syncs, context.recording.work, context.recording.host
    if not len(work) or not len(syncs.start):
        return np.zeros(len(syncs.start), np.bool_)
    # Work without a launch in the trace was launched before it.
    launched = fetch(host.start, work.launch)
    order = np.argsort(launched, kind="stable")
    latest = np.maximum.accumulate(work.end[order])
    before = np.searchsorted(launched[order], syncs.start, side="right") - 1
    pending: Bools = (before >= 0) & (latest[np.maximum(before, 0)] > syncs.begin)
    return pending


def of_engine(context: Context) -> Bools:
    """Flag the synchronizations on an engine's own thread that lie behind its first batch, and in none."""
    found, host, node = context.once(batches), context.recording.host, context.waits.syncs.node
    if not len(found.node):
        return np.zeros(len(node), np.bool_)
    thread, start = host.thread[found.node], host.start[found.node]
    first = {which: int(start[thread == which].min()) for which in distinct(thread).tolist()}
    never = int(np.iinfo(np.int64).max)
    begun = np.array([first.get(which, never) for which in host.thread[node].tolist()], np.int64)
    flags: Bools = (batch_of_nodes(context, node) < 0) & (host.start[node] > begun)
    return flags


def of_scaler(context: Context) -> Bools:
    """Flag the last value read before each optimizer's step, behind the operator that looks for gradients out of range."""
    syncs, host = context.waits.syncs, context.recording.host
    flags = np.zeros(len(syncs.start), np.bool_)
    looks = nodes_by_name(context.recording, _LOOKS, (OP,))
    steps = nodes_by_name(context.recording, _STEP, (OP, ANNOTATION)) if len(looks) else looks
    for step in steps.tolist():
        same = host.thread[syncs.node] == host.thread[step]
        looked = host.start[looks[(host.thread[looks] == host.thread[step]) & (host.start[looks] < host.start[step])]]
        if not len(looked):
            continue
        reads = np.flatnonzero(same & (syncs.start >= looked.max()) & (syncs.end <= host.start[step]))
        reads = reads[syncs.kind[reads] == SCALAR]
        flags[reads[-1:]] = True
    return flags


def _waits_to_free(context: Context, mask: Bools) -> Ints:
    """The waits, and the calls that issue the copies waited for: these hold the host, too, where the memory is pageable."""
    syncs = context.waits.syncs
    copies = syncs.copy[mask]
    return np.concatenate([syncs.node[mask], context.recording.work.launch[copies[copies >= 0]]])


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("kind", "op", COUNT, *TIME, "round(sum(bubble_ns) / 1e6, 3) AS idle_after_ms"),
    rows=Rows(nodes=lambda context: context.waits.syncs.node),
    owns=owns_waits("sync", "blocking_copy"),
    shortens=nothing,
    frees=_waits_to_free,
)
