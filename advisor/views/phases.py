"""Figures of the phases of a serving engine or a diffusion pipeline, by its annotations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from advisor.columns import Columns
from advisor.frames.collectives import NAMES as COLLECTIVES
from advisor.frames.collectives import communication, kinds
from advisor.frames.families import ATTENTION, OF_EXPERTS
from advisor.intervals import Bools, Ints, Spans, distinct, summed, union
from advisor.regex import regex
from advisor.results.phases import Phase
from advisor.timeline.batches import batches
from advisor.timeline.context import Context
from advisor.timeline.engines import DIFFUSION, Batch, iterations
from advisor.timeline.recording import KERNEL

if TYPE_CHECKING:
    from advisor.trace import Trace

_ORDER = ("prefill", "decode", "mixed", "diffusion")
# By the kernel's name, operator and module, as engines and their libraries call it.
_SAMPLING = regex(r"argmax|sampl|multinomial|top_?k_?top_?p|topp\b|gumbel", re.IGNORECASE)


def phases_of(trace: Trace) -> list[Phase]:
    """Collect the phases that engines annotated; none where nothing is."""
    context = trace.context
    found = context.once(iterations)
    if not found:
        return []
    work, of_work = context.recording.work, context.once(batches).of_work
    flags = _kinds(
        trace.columns("kernels", ("family", "name", "op", "module")), context.once(batches).samples[context.kernel_rows]
    )
    row_of = np.full(len(work), -1, np.int64)
    row_of[context.kernel_rows] = np.arange(len(context.kernel_rows))
    by_phase: dict[tuple[str, str], list[tuple[Batch, int, Ints]]] = {}
    order = np.argsort(of_work, kind="stable")
    bounds = np.searchsorted(of_work[order], np.arange(len(found) + 1))
    for iteration, low, high in zip(found, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        batch = iteration.batch
        by_phase.setdefault((batch.phase, batch.engine), []).append((batch, iteration.node, order[low:high]))
    whole = not context.graphs_underrecorded
    return [
        _phase(trace, members, flags, row_of, whole)
        for _, members in sorted(by_phase.items(), key=lambda item: (_ORDER.index(item[0][0]), item[0][1]))
    ]


def _kinds(kernels: Columns, samples: Bools) -> dict[str, Bools]:
    """Flag the kernels of experts, of attention and of sampling, all *samples* among these; each is of one kind at most.

    Experts and attention are families, so that what is said of a phase is what the line of the kernels' time says.
    """
    flags = {name: kernels["family"].equals(of) for name, of in (("experts", OF_EXPERTS), ("attention", ATTENTION))}
    seen = samples.copy()
    for column in ("name", "op", "module"):
        texts = kernels[column]
        seen |= texts.within(word for word in texts.words or () if _SAMPLING.search(word))
    flags["sampling"] = seen & ~flags["experts"] & ~flags["attention"]
    return flags


def _phase(
    trace: Trace, members: list[tuple[Batch, int, Ints]], flags: dict[str, Bools], row_of: Ints, whole: bool
) -> Phase:
    work, host = trace.context.recording.work, trace.context.recording.host
    spans = _busy(trace, members)
    total_ns = sum(int(busy.end.max() - busy.start.min()) for busy in spans)
    busy_ns = sum(busy.length for busy in spans)
    every = np.concatenate([rows for _, _, rows in members])
    kernels = row_of[every[work.kind[every] == KERNEL]]
    time = (work.end - work.start)[trace.context.kernel_rows[kernels]]
    count = len(members)
    sequences, tokens = (_sum([getattr(batch, field) for batch, _, _ in members]) for field in ("sequences", "tokens"))
    ms = total_ns / len(spans) / 1e6 if spans else None

    def share(kind: str) -> float | None:
        part = int(time[flags[kind][kernels]].sum())
        return part / int(time.sum()) if part else None

    # How many of the drafts are kept, a trace does not say.
    known = tokens if len(spans) == count and not any(batch.drafted for batch, _, _ in members) else None
    drafting = int(time[trace.context.once(batches).drafts[every[work.kind[every] == KERNEL]]].sum())
    found = Phase(
        phase=members[0][0].phase,
        engine=members[0][0].engine,
        iterations=count,
        sequences=sequences / count if sequences is not None else None,
        tokens=tokens / count if tokens is not None else None,
        ms=ms,
        token_ms=total_ns / 1e6 / known if known else None,
        host_ms=sum(int(host.end[node] - host.start[node]) for _, node, _ in members) / count / 1e6,
        launches=sum(len(distinct(work.launch[rows])) for _, _, rows in members) / count,
        kernels=len(kernels) / count,
        busy_share=busy_ns / total_ns if whole and total_ns else None,
        attention_share=share("attention"),
        experts_share=share("experts"),
        drafting_share=drafting / int(time.sum()) if drafting else None,
        # A pipeline of images chooses no token: what is named so samples something else.
        sampling_share=share("sampling") if members[0][0].phase != DIFFUSION else None,
    )
    return _with_collectives(trace.context, found, every, int(time.sum()))


def _with_collectives(context: Context, phase: Phase, rows: Ints, kernels_ns: int) -> Phase:
    """Add what collectives take among some pieces of work, whose kernels take *kernels_ns* together, where there are any."""
    work = context.recording.work
    at = np.flatnonzero(np.isin(communication(context), rows))
    mine = communication(context)[at]
    of_kind = summed(context.once(kinds)[at], (work.end - work.start)[mine], len(COLLECTIVES) + 1)
    if not of_kind.any():
        return phase
    return replace(
        phase,
        collectives_share=int(of_kind.sum()) / kernels_ns,
        collective=[*COLLECTIVES, "other"][int(of_kind.argmax())],
        collectives_ms=int(of_kind.sum()) / phase.iterations / 1e6,
    )


def _busy(trace: Trace, members: list[tuple[Batch, int, Ints]]) -> list[Spans]:
    """Time that the device works for each batch, where it does.

    Its time before it was free of what was queued before the recording is no batch's.
    """
    work = trace.context.recording.work
    recording = trace.context.recording
    low, high = recording.ends
    if recording.part is None and len(work):
        high = int(work.end.max())  # what the last batch samples and drafts runs behind the last step
    spans = [
        union(np.clip(work.start[rows], low, high), np.clip(work.end[rows], low, high))
        for _, _, rows in members
        if len(rows)
    ]
    return [busy for busy in spans if busy.length]


def _sum(counts: list[int | None]) -> int | None:
    """Sum counts; None where one is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
