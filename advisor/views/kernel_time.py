"""Families of kernels in a step, by the time that each owns; and how much of it is in short ones."""

from __future__ import annotations

import numpy as np

from advisor.frames.families import CASTS, UNFUSED, Families, families, of_attention
from advisor.intervals import Bools
from advisor.results.kernel_time import KernelTime, ShortKernels
from advisor.timeline.context import Context
from advisor.views.limits import owned


def kernel_time(context: Context) -> list[KernelTime]:
    """Divide steady kernel time of the busiest device by family, the longest first; what communicates is left out.

    It is the time of all steps over their number: of a step in the mean.

    Empty where replays lack kernels: what is not in the trace has no family.
    """
    if not len(context.kernel_rows) or context.graphs_underrecorded:
        return []
    own, _ = owned(context)
    found, total = context.once(families), float(own.sum())
    of_each = np.bincount(found.code, own, len(found.names))
    ms = mean_step_ns(context) / 1e6 / max(context.ledger.counted_ns, 1)
    casts = {UNFUSED: float(own[of_attention(context, context.kernel_rows) & _of(found, CASTS)].sum())}
    return [
        KernelTime(
            family=found.names[at],
            ms=float(of_each[at]) * ms,
            share=float(of_each[at]) / total,
            casts_ms=casts.get(found.names[at], 0.0) * ms,
        )
        for at in np.argsort(-of_each, kind="stable").tolist()
        if of_each[at]
    ]


def short_kernels(context: Context) -> ShortKernels | None:
    """Count the kernels of less than 10 µs each; None where they own under a fifth of the kernels' time, or some are missing."""
    if not len(context.kernel_rows) or context.graphs_underrecorded:
        return None
    own, dur = owned(context)
    short = (own > 0) & (dur < _SHORT_NS)
    if own[short].sum() < _MUCH * own.sum() or not short.any():
        return None
    steps = max(len(context.ledger.counted_steps()), 1) if context.recording.steps else 1
    ms = mean_step_ns(context) / 1e6 / max(context.ledger.counted_ns, 1)
    return ShortKernels(
        count=float(short.sum()) / steps, kernels=float((own > 0).sum()) / steps, ms=float(own[short].sum()) * ms
    )


_SHORT_NS, _MUCH = 10_000, 0.2
"""A kernel of less is mostly start and end; of the kernels' time, what such ones own that is worth a word."""


def _of(found: Families, family: str) -> Bools:
    flags: Bools = found.code == (found.names.index(family) if family in found.names else -1)
    return flags


def mean_step_ns(context: Context) -> float:
    """Return the steady work of all steps over their number, in ns; of the window without steps."""
    count = max(len(context.ledger.counted_steps()), 1) if context.recording.steps else 1
    return context.ledger.counted_ns / count
