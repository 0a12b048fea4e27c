"""Distance of kernels from what the device can do: figures of a report, weighed by the time that each owns on the ledger."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.results.analysis import Distance
from advisor.roofline.limits import MEMORY, Floats, limits
from advisor.timeline.context import Context

LISTED = 8


class Figures(NamedTuple):
    """Shares of the kernels' time, and the classes of kernels with what lies between them and the limit; None where unknown."""

    modelled_share: float | None
    mfu: float | None
    bandwidth_share: float | None
    distance: list[Distance]


def figures(context: Context) -> Figures:
    """Work out the figures of steady work on the busiest device."""
    found, rows = context.once(limits), context.kernel_rows
    work = context.recording.work
    dur = (work.end[rows] - work.start[rows]).astype(np.float64)
    own = (context.work_cost[rows] * ~work.communication[rows]).astype(np.float64)
    total = float(own.sum())
    known = found.known & (own > 0)
    if not total or not known.any():
        return Figures(0.0 if total else None, None, None, [])
    part = np.where(dur > 0, own / np.maximum(dur, 1.0), 0.0)
    ms = context.step_ns / 1e6 / max(context.ledger.counted_ns, 1)
    products = float(np.nansum(found.peak_ns[known] * part[known]))
    memory = known & (found.bound == MEMORY)
    moved = float((found.limit_ns[memory] * part[memory]).sum()), float(own[memory].sum())
    return Figures(
        modelled_share=float(own[known].sum()) / total,
        mfu=products / max(context.ledger.counted_ns, 1) if found.matrix[known].any() else None,
        bandwidth_share=min(moved[0] / moved[1], 1.0) if moved[1] else None,
        distance=_classes(context, own, part, ms),
    )


def _classes(context: Context, own: Floats, part: Floats, ms: float) -> list[Distance]:
    """Sum time, limit and reachable time by the operator's name, those first that could return most."""
    found = context.once(limits)
    rows = np.flatnonzero(found.known & (own > 0))
    names = context.recording.host.name[found.owner[rows]]
    codes, back = np.unique(names, return_inverse=True)
    times, limit = np.bincount(back, own[rows]), np.bincount(back, (found.limit_ns * part)[rows])
    reachable = np.bincount(back, np.fmax(found.reachable_ns, found.limit_ns)[rows] * part[rows])
    order = np.argsort(-(times - np.minimum(reachable, times)), kind="stable")[:LISTED]
    return [
        Distance(
            op=context.names[codes[at]],
            ms=float(times[at]) * ms,
            limit_ms=float(limit[at]) * ms,
            reachable_ms=float(reachable[at]) * ms,
        )
        for at in order.tolist()
    ]
