"""`batches`: one row per batch of a serving engine, as it annotates them; and the columns on batches of other frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.columns import Columns, Series
from advisor.frames.frame import COUNT, Frame, Rows
from advisor.frames.schema import Schema, flag, integer, real, text
from advisor.intervals import Bools, Ints, covered, fetch, union
from advisor.timeline.batches import PHASES, Batches, annotated, batch_of_nodes, batches
from advisor.timeline.context import Context
from advisor.timeline.engines import DECODE, PREFILL
from advisor.timeline.speculation import speculation

SCHEMA = Schema(
    "batches",
    "a batch of a serving engine, as its annotations mark it",
    (
        integer("start_ns", "ns", "start of the annotation on the host, since the first event of the trace", "ts"),
        integer("dur_ns", "ns", "its duration there", "dur"),
        integer("thread", "", "the host thread that it is on", "tid"),
        text("name", "the annotation", "name"),
        text("engine", "engine whose form the annotation has"),
        text("phase", "prefill, decode, mixed (both in one batch), or diffusion: a whole pipeline"),
        integer("sequences", "", "sequences (of a diffusion: images) in it; NULL where not annotated"),
        integer("tokens", "", "tokens that it computes; NULL where not annotated"),
        integer("launches", "", "calls in it that launched work, a replay of a graph as one"),
        integer("replays", "", "of these: replays of graphs"),
        flag("eager", "launches its kernels one by one: twenty launches or more, and no replay"),
        integer("gpu_ns", "ns", "from the start of its first GPU work to the end of its last; NULL where none is linked"),
        integer("usual_ns", "ns", "the median of that over the decoding batches; NULL without one"),
        integer("waiting", "", "of a prefill between two decoding batches: sequences of the first that are in the second as well, "
                "and got no token meanwhile; 0 for other batches; NULL where sequences are not annotated"),
    ),
)  # fmt: skip

OF_WORK = (
    text("batch_phase", "phase of the engine's batch that launched it: prefill, decode, mixed, diffusion; NULL without one"),
    integer("batch_tokens", "", "tokens of that batch, which are the rows of its dense products; NULL where not annotated"),
    real("draft_loss", "", "of work that drafts tokens (speculative decoding): the part of drafting that the drafts which are kept "
         "do not return, over all batches; NULL for other work, and where neither is known"),
    real("kept_tokens", "", "of such work: tokens that a sequence keeps of a batch, by how long the engine says that they are; "
         "else the most that it can, which is what it computes"),
    flag("kept_told", "and the engine says so"),
    real("worth_tokens", "", "of such work: the tokens that a sequence must keep of a batch for drafts to be worth it, at least"),
)  # fmt: skip
OF_GAPS = (
    text("batch_phase", "phase of the engine's batch that launched the work which ends the stretch: prefill, decode, mixed, "
         "diffusion; NULL without one"),
    integer("batch_sequences", "", "sequences of that batch; NULL where not annotated"),
    flag("batch_eager", "that batch launches its kernels one by one: twenty launches or more, and no replay of a graph"),
    integer("replayed_sequences", "", "most sequences of a decoding batch that replayed a graph; NULL without one"),
    integer("between_ns", "ns", "what of it the host is busy between two batches: behind the annotation of the one whose work "
            "ends before it, before that of the next, and in no call that waits for the device"),
)  # fmt: skip
FACTS = (
    integer("decode_batches", "", "batches that an engine annotated as decoding"),
    integer("eager_decodes", "", "of these: that launched their kernels one by one"),
    integer("replayed_decodes", "", "of these: that replayed a graph"),
)


def facts(context: Context) -> dict[str, Any]:
    """Columns of `trace` on the batches."""
    found = context.once(batches)
    decodes = found.is_in(DECODE)
    return {
        "decode_batches": int(decodes.sum()),
        "eager_decodes": int((decodes & found.eager).sum()),
        "replayed_decodes": int((decodes & (found.replays > 0)).sum()),
    }


def of_work(context: Context, rows: Ints) -> dict[str, object]:
    """Columns ``OF_WORK`` of pieces of GPU work."""
    found = context.once(batches)
    batch = found.of_work[rows]
    return {
        "batch_phase": context.labels(fetch(found.phase, batch), PHASES),
        "batch_tokens": context.known(fetch(found.tokens, batch)),
        **_of_drafts(context, found.drafts[rows] & (batch >= 0)),
    }


def _of_drafts(context: Context, drafts: Bools) -> dict[str, object]:
    """Columns on what drafting is worth, of the work that drafts."""
    weighed = context.once(speculation)

    def column(value: float) -> Series:
        values = np.where(drafts, value, np.nan)
        return Series(values, np.isnan(values))

    if weighed is None:
        nothing = column(np.nan)
        return dict.fromkeys(("draft_loss", "kept_tokens", "worth_tokens"), nothing) | {"kept_told": drafts & False}
    return {
        "draft_loss": column(weighed.lost),
        "kept_tokens": column(weighed.kept),
        "kept_told": drafts & weighed.told,
        "worth_tokens": column(weighed.worth),
    }


def of_gaps(context: Context, start: Ints, dur: Ints, following: Ints) -> dict[str, object]:
    """Columns ``OF_GAPS`` of stretches of idle time that end with work launched by the *following* nodes."""
    found = context.once(batches)
    batch = batch_of_nodes(context, following)
    replayed = found.sequences[found.is_in(DECODE) & (found.replays > 0)]
    most = int(replayed.max()) if len(replayed) else -1
    return {
        "batch_phase": context.labels(fetch(found.phase, batch), PHASES),
        "batch_sequences": context.known(fetch(found.sequences, batch)),
        "batch_eager": fetch(found.eager.astype(np.int64), batch, 0) > 0,
        "replayed_sequences": context.known(np.full(len(start), most)),
        "between_ns": _between(context, found, batch, start, dur),
    }


def _between(context: Context, found: Batches, batch: Ints, start: Ints, dur: Ints) -> Ints:
    """ns of each stretch in which the host is in no batch and in no wait, where the work around it is of different ones."""
    out = np.zeros(len(start), np.int64)
    rows = np.flatnonzero(batch >= 0)
    if not len(rows):
        return out
    work = context.recording.work
    here = np.flatnonzero(work.device == context.ledger.device)
    at = np.searchsorted(work.start[here], start[rows], side="left") - 1
    before = np.where(at >= 0, found.of_work[here[np.maximum(at, 0)]], -1)
    rows = rows[(before >= 0) & (before != batch[rows])]
    inside, syncs = annotated(context), context.waits.syncs
    taken = union(np.append(inside.start, syncs.start), np.append(inside.end, syncs.end))
    out[rows] = dur[rows] - covered(taken, start[rows], (start + dur)[rows])
    return out


def build(context: Context) -> Columns:
    """The frame."""
    found, host = context.once(batches), context.recording.host
    node, gpu = found.node, _on_gpu(context, found)
    decodes = gpu[found.is_in(DECODE) & (gpu > 0)]
    usual = int(np.median(decodes)) if len(decodes) else -1
    engines = sorted(set(found.engine))
    frame: dict[str, object] = {
        "start_ns": host.start[node],
        "dur_ns": host.ns(node),
        "thread": host.thread[node].astype(np.int64),
        "name": context.labels(host.name[node], context.names),
        "engine": context.labels(np.array([engines.index(name) for name in found.engine], np.int64), engines),
        "phase": context.labels(found.phase, PHASES),
        "sequences": context.known(found.sequences),
        "tokens": context.known(found.tokens),
        "launches": found.launches,
        "replays": found.replays,
        "eager": found.eager,
        "gpu_ns": context.known(gpu),
        "usual_ns": context.known(np.full(len(node), usual)),
        "waiting": context.known(_waiting(found)),
    }
    return Columns(frame)


def _on_gpu(context: Context, found: Batches) -> Ints:
    """From the start of each batch's first work to the end of its last; -1 without any.

    Its time before the device was free of what was queued before the recording is no batch's.
    """
    work, size = context.recording.work, len(found.node)
    low, high = context.recording.ends
    linked = np.flatnonzero(found.of_work >= 0)
    first, last = np.full(size, np.iinfo(np.int64).max), np.full(size, -1, np.int64)
    np.minimum.at(first, found.of_work[linked], np.clip(work.start[linked], low, high))
    np.maximum.at(last, found.of_work[linked], np.clip(work.end[linked], low, high))
    return np.where(last >= 0, last - first, -1)


def _waiting(found: Batches) -> Ints:
    """For each prefill, the sequences that decoded before it and go on behind it; 0 for others, -1 where unknown.

    Of prefills in a row the new sequences of all of them are in the next decoding batch.
    """
    prefill, decode, sequences = found.is_in(PREFILL), found.is_in(DECODE), found.sequences
    size, place = len(prefill), np.arange(len(prefill))
    # The batches of another phase before and behind it, and what is annotated from there to there.
    low = np.maximum.accumulate(np.where(prefill, -1, place))
    high = np.minimum.accumulate(np.where(prefill, size, place)[::-1])[::-1]
    rows = np.flatnonzero(prefill & (low >= 0) & (high < size))
    rows = rows[decode[low[rows]] & decode[high[rows]]]
    low, high = low[rows], high[rows]
    unknown = np.append(0, np.cumsum(sequences < 0))
    total = np.append(0, np.cumsum(np.maximum(sequences, 0)))
    new = total[high] - total[low + 1]
    waiting = np.clip(np.minimum(sequences[low], sequences[high] - new), 0, None)
    out = np.zeros(size, np.int64)
    out[rows] = np.where(unknown[high + 1] > unknown[low], -1, waiting)
    return out


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("phase", "sequences", "tokens", COUNT, "round(sum(gpu_ns) / 1e6, 3) AS gpu_ms"),
    rows=Rows(nodes=lambda context: context.once(batches).node),
    timeless=True,
)
