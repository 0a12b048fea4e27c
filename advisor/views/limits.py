"""Distance of kernels from what the device can do: figures of a report, weighed by the time that each owns on the ledger."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.frames.patterns.find import find
from advisor.intervals import Bools, Ints, summed
from advisor.results.analysis import Distance
from advisor.roofline.limits import MEMORY, Floats, limits
from advisor.timeline.context import Context
from advisor.timeline.ledger import BUSY

LISTED = 8


class Figures(NamedTuple):
    """Shares of the kernels' time, and the classes of kernels with what lies between them and the limit; None where unknown."""

    modelled_share: float | None
    efficiency: float | None
    mfu: float | None
    hfu: float | None
    bandwidth_share: float | None
    distance: list[Distance]


def figures(context: Context) -> Figures:
    """Work out the figures of steady work on the busiest device."""
    found, rows = context.once(limits), context.kernel_rows
    work = context.recording.work
    dur = (work.end[rows] - work.start[rows]).astype(np.float64)
    if not len(rows):
        return Figures(None, None, None, None, None, [])
    ledger = context.ledger
    steady = ledger.counted & ledger.through(*BUSY) & (ledger.row >= 0)
    owned = summed(ledger.row[steady], ledger.dur_ns[steady], len(work))[rows]
    own = (owned * ~work.communication[rows]).astype(np.float64)
    total = float(own.sum())
    known = found.known & (own > 0)
    if not total or not known.any():
        return Figures(0.0 if total else None, None, None, None, None, [])
    part = np.where(dur > 0, own / np.maximum(dur, 1.0), 0.0)
    ms = context.step_ns / 1e6 / max(context.ledger.counted_ns, 1)
    products = np.nan_to_num(found.peak_ns * part) * known
    again = products[_recomputed(context, rows)].sum()
    counted, matrix = max(ledger.counted_ns, 1), bool(found.matrix[known].any())
    reachable = np.fmin(np.fmax(found.reachable_ns, found.limit_ns) * part, own)[known]
    memory = known & (found.bound == MEMORY)
    moved = float((found.limit_ns[memory] * part[memory]).sum()), float(own[memory].sum())
    return Figures(
        modelled_share=float(own[known].sum()) / total,
        efficiency=float(reachable.sum() / own[known].sum()),
        mfu=float(products.sum() - again) / counted if matrix else None,
        hfu=float(products.sum()) / counted if matrix else None,
        bandwidth_share=min(moved[0] / moved[1], 1.0) if moved[1] else None,
        distance=_classes(context, own, part, ms),
    )


def _recomputed(context: Context, rows: Ints) -> Bools:
    """Flag the kernels of forward work that the backward pass does again."""
    patterns = context.once(find)
    kinds = np.array([found.kind == "recompute" for found in patterns.kinds for _ in range(len(found))], np.bool_)
    if not kinds.any():
        return np.zeros(len(rows), np.bool_)
    flags: Bools = np.isin(rows, patterns.inside.index[kinds[patterns.inside.row]])
    return flags


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
