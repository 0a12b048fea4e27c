"""`stalls`: one row per stretch in which a thread was stopped, whether the device had work meanwhile or not."""

from __future__ import annotations

import numpy as np

from advisor.columns import Columns
from advisor.frames.frame import COUNT, Frame, Rows
from advisor.frames.schema import COMMON, Schema, integer
from advisor.intervals import Ints, Spans, covered, distinct, fetch, union
from advisor.timeline.context import Context
from advisor.timeline.owners import found_stalls, stopped, stopped_anywhere

SCHEMA = Schema(
    "stalls",
    "a stretch in which a thread that launches work was stopped: a call that takes milliseconds where its like take microseconds",
    (
        *COMMON,
        integer("idle_ns", "ns", "what of it the device idles"),
        integer("communication_ns", "ns", "what of it the device only communicates, or waits for other ranks to"),
        integer("usual_ns", "ns", "median length of calls of its name"),
        integer("between_ns", "ns", "stops between operators, of all threads together: as long on each row"),
        integer("queued", "", "pieces of GPU work that were launched, and had not begun when it began"),
    ),
)


def build(context: Context) -> Columns:
    """The frame. Its rows own nothing: where the device idles meanwhile, `gaps` does."""
    found, host, ledger = context.once(found_stalls), context.recording.host, context.ledger
    frame = context.common(
        start=found.start,
        dur=found.end - found.start,
        cost=np.zeros(len(found.start), np.int64),
        node=found.node,
        device=context.device,
    )
    idle = union(ledger.start_ns[ledger.idle], ledger.end_ns[ledger.idle])
    frame |= {
        "idle_ns": covered(idle, found.start, found.end),
        "communication_ns": covered(ledger.spans("communication"), found.start, found.end),
        "usual_ns": _usual(context, host.name[found.node]),
        "between_ns": np.full(len(found.start), _length(context.once(stopped_anywhere)) - _length(stopped(context))),
        "queued": _queued(context, found.start),
    }
    return Columns(frame)


def _length(spans: Spans) -> int:
    return int((spans.end - spans.start).sum())


def _usual(context: Context, names: Ints) -> Ints:
    """Median length of all calls of each name."""
    host, out = context.recording.host, np.zeros(len(names), np.int64)
    for code in distinct(names).tolist():
        calls = host.name == code
        out[names == code] = int(np.median(host.ns(calls)))
    return out


def _queued(context: Context, at: Ints) -> Ints:
    """Pieces of the device's work launched before each moment that begin behind it."""
    work, host = context.recording.work, context.recording.host
    here = work.device == context.device
    launched = fetch(host.start, work.launch[here], np.iinfo(np.int64).min)
    before = np.searchsorted(np.sort(launched), at)
    begun = np.searchsorted(np.sort(work.start[here]), at)
    ahead: Ints = np.maximum(before - begun, 0)
    return ahead


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("op", COUNT, "round(sum(dur_ns) / 1e6, 3) AS stopped_ms"),
    rows=Rows(nodes=lambda context: context.once(found_stalls).node),
    timeless=True,
)
