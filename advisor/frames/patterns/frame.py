"""`patterns`: one row per occurrence of a sequence of operators that is known to cost more than it must."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from advisor.frames.patterns.attention import attention
from advisor.frames.patterns.convolution import biased_convolutions
from advisor.frames.patterns.loop import loops
from advisor.frames.patterns.recompute import recompute
from advisor.frames.patterns.transfer import created_on_host, sent_back_and_forth
from advisor.frames.patterns.tree import NOTHING, Found, Pairs, Tree, joined, spread
from advisor.frames.schema import COMMON, Schema, integer, text
from advisor.intervals import Bools, Ints
from advisor.timeline.calls import BACKWARD
from advisor.timeline.context import Context
from advisor.timeline.ledger import CODE

SCHEMA = Schema(
    "patterns",
    "a sequence of operators that is known to cost more than it must; two of different kinds may share work",
    (
        *COMMON,
        text("kind", "attention (computed in steps), loop (over an index), conv-bias (before a batch norm), recompute (of forward "
             "work in backward), cpu-created (and then copied), pingpong (to the host and back)"),
        integer("kernel_count", "", "pieces of GPU work in it: kernels, copies, memsets; with those of its backward"),
        integer("gpu_ns", "ns", "their durations, summed"),
        integer("own_count", "", "those of them that the fix would spare"),
        integer("own_ns", "ns", "the durations of those, summed"),
        integer("backward_ns", "ns", "what of own_ns runs in the backward pass"),
        integer("idle_ns", "ns", "idle time of the GPU that it owns: the host was busy with it, or waited in it"),
        integer("repeats", "", "turns of a loop; NULL for other kinds"),
        integer("length", "", "operators in one turn of a loop, or that ran again; NULL for other kinds"),
        integer("bytes", "bytes", "of what is copied, one way; NULL for other kinds"),
        integer("seq_len", "", "length of the rows that an attention's softmax runs over; NULL where unknown"),
        integer("head_dim", "", "length of an attention's queries and keys; NULL where unknown"),
        text("shapes", "operand shapes of the operator that tells it", "args.Input Dims"),
        text("detail", "loop: the operators of one turn; recompute: the backward node it runs in; cpu-created: what made it; "
             "pingpong: what ran on the host between"),
    ),
)  # fmt: skip

_FINDERS: tuple[Callable[[Tree], Found | None], ...] = (
    attention,
    loops,
    biased_convolutions,
    recompute,
    created_on_host,
    sent_back_and_forth,
)


@dataclass
class Patterns:
    """What the finders found, as one table: *own* pairs rows with GPU work, *idle* with segments of the ledger."""

    found: list[Found]
    own: Pairs
    inside: Pairs
    idle: Pairs
    size: int


def find(context: Context) -> Patterns:
    """All patterns of a recording, in the order of the finders."""
    tree = Tree(context)
    found = [one for finder in _FINDERS if (one := finder(tree)) is not None] if tree.host.size else []
    offsets = np.cumsum([0, *(len(one) for one in found)])

    def moved(parts: list[Pairs]) -> Pairs:
        shifted = [Pairs(part.row + offset, part.index) for part, offset in zip(parts, offsets, strict=False)]
        return joined(*shifted) if shifted else NOTHING

    own = moved([one.own for one in found])
    idle = moved([_idle(tree, one) for one in found])
    return Patterns(found, own, moved([one.inside for one in found]), idle, int(offsets[-1]))


def _idle(tree: Tree, found: Found) -> Pairs:
    """Segments of idle time that rows own: those that the launching host thread spends in them, and the waits for their copies."""
    context, book = tree.context, tree.context.ledger
    if not found.idle or not context.idle_trusted or context.device < 0:
        return NOTHING
    # The idle time before its last work is still its own, though the call that launched it has returned.
    end, work = found.end.copy(), tree.work
    forward = found.own.where(context.phases(work.launch[found.own.index]) != BACKWARD)
    np.maximum.at(end, forward.row, work.start[forward.index])
    first = np.searchsorted(book.start_ns, found.begin, side="left")
    last = np.searchsorted(book.end_ns, end, side="right")
    first = np.where(tree.host.thread[found.node] == tree.host.launching_thread(), first, last)
    meanwhile = spread(first, last)
    meanwhile = meanwhile.where(book.cause[meanwhile.index] == CODE["host"])
    waits = np.flatnonzero(book.cause == CODE["blocking_copy"])
    copy = context.waits.syncs.copy[book.row[waits]]
    order = np.argsort(copy, kind="stable")
    hits = spread(
        np.searchsorted(copy[order], found.own.index, side="left"),
        np.searchsorted(copy[order], found.own.index, side="right"),
    )
    return joined(meanwhile, Pairs(found.own.row[hits.row], waits[order[hits.index]]))


def segments(context: Context, mask: Bools) -> Ints:
    """Segments of the ledger that the chosen rows own."""
    patterns, book = context.patterns, context.ledger
    work = np.unique(patterns.own.index[mask[patterns.own.row]])
    busy = np.flatnonzero((book.cause < CODE["loader"]) & np.isin(book.row, work))
    return np.union1d(busy, patterns.idle.index[mask[patterns.idle.row]])


def build(context: Context) -> pd.DataFrame:
    """The frame."""
    patterns = context.patterns
    work, size, found = context.recording.work, patterns.size, patterns.found
    time = work.end - work.start
    own, inside, idle = patterns.own, patterns.inside, patterns.idle
    phase = context.phases(work.launch)
    idle_ns = idle.total(context.ledger.dur_ns, size) if size else np.zeros(0, np.int64)

    def told(name: str) -> Ints:
        none = [np.full(len(one), -1, np.int64) for one in found]
        parts = [one.figures.get(name, empty) for one, empty in zip(found, none, strict=True)]
        return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)

    def gathered(values: list[Ints]) -> Ints:
        return np.concatenate(values).astype(np.int64) if values else np.zeros(0, np.int64)

    kind = gathered([np.full(len(one), number) for number, one in enumerate(found)])
    details = sorted({text for one in found for text in one.details})
    codes = {text: code for code, text in enumerate(details)}
    detail = gathered([np.array([codes[text] for text in one.details] or [-1] * len(one), np.int64) for one in found])
    # On the GPU from the first to the last piece of work that it began with; on the host where it launched none.
    start, end = gathered([one.begin for one in found]), gathered([one.end for one in found])
    forward = inside.where(phase[inside.index] != BACKWARD) if size else inside
    for part in (inside, forward):
        first = np.full(size, np.iinfo(np.int64).max)
        last = np.full(size, -1, np.int64)
        np.minimum.at(first, part.row, work.start[part.index])
        np.maximum.at(last, part.row, work.end[part.index])
        start, end = np.where(last >= 0, first, start), np.where(last >= 0, last, end)
    frame = context.common(
        start=start,
        dur=np.maximum(end - start, 0),
        cost=own.total(context.work_cost, size) + idle_ns,
        node=gathered([one.node for one in found]),
        device=_of_first(inside, work.device, size),
        stream=_of_first(inside, work.stream, size),
    )
    frame |= {
        "kind": context.labels(kind, [one.kind for one in found]),
        "kernel_count": np.bincount(inside.row, minlength=size),
        "gpu_ns": inside.total(time, size),
        "own_count": np.bincount(own.row, minlength=size),
        "own_ns": own.total(time, size),
        "backward_ns": own.total(np.where(phase == BACKWARD, time, 0), size),
        "idle_ns": idle_ns,
        "repeats": context.known(told("repeats")),
        "length": context.known(told("length")),
        "bytes": context.known(told("bytes")),
        "seq_len": context.known(told("seq_len")),
        "head_dim": context.known(told("head_dim")),
        "shapes": context.labels(told("dims"), context.shape_texts),
        "detail": context.labels(detail, details),
    }
    return pd.DataFrame(frame)


def _of_first(inside: Pairs, values: Ints, size: int) -> Ints:
    """A fact of the first work of each row; -1 where it has none."""
    out = np.full(size, -1, np.int64)
    out[inside.row[::-1]] = values[inside.index[::-1]]
    return out
