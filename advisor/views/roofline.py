"""Roofline of the busiest device, and a point for each operator whose kernels' arithmetic is known."""

from __future__ import annotations

import numpy as np

from advisor.intervals import coded, distinct
from advisor.results.roofline import Roof, Roofline, RoofPoint
from advisor.roofline.limits import FORMATS, limits, rates_of
from advisor.timeline.context import Context
from advisor.views.limits import owned

MOST = 16
_LEAST = 0.005
"""Of the time of all points: less is not seen, and would stretch the axes."""


def roofline(context: Context) -> Roofline | None:
    """Place the operators of steady work by their arithmetic a byte and a second; None where no work or no rate is known."""
    found, rates = context.once(limits), rates_of(context, context.device) if context.device >= 0 else None
    memory = rates.limits.get("memory") if rates is not None else None
    if rates is None or memory is None or not found.known.any():
        return None
    own, dur = owned(context)
    rows = np.flatnonzero(found.known & (own > 0))
    computes = rows[(np.nan_to_num(found.flops[rows]) > 0) & (np.nan_to_num(found.bytes[rows]) > 0)]
    ms = context.step_ns / 1e6 / max(context.ledger.counted_ns, 1)
    if not len(computes):
        return None
    format_ = np.where(found.matrix[computes], found.format[computes], -1)
    key = context.recording.host.name[found.owner[computes]].astype(np.int64) * (len(FORMATS) + 1) + format_ + 1
    groups, back = coded(key)
    time, lasts, flops, moved, reached = (
        np.bincount(back, values[computes])
        for values in (own, dur, found.flops, found.bytes, np.fmax(found.reachable_ns, found.limit_ns))
    )
    order = np.argsort(-time, kind="stable")
    shown = order[: min(MOST, max(int((time >= _LEAST * time.sum()).sum()), 1))]
    points = [
        RoofPoint(
            op=context.names[int(groups[at]) // (len(FORMATS) + 1)],
            format=FORMATS[number - 1] if (number := int(groups[at]) % (len(FORMATS) + 1)) else None,
            ms=float(time[at]) * ms,
            tflops=float(flops[at] / lasts[at]) / 1e3,
            intensity=float(flops[at] / moved[at]),
            reachable_share=float(min(reached[at] / lasts[at], 1.0)),
        )
        for at in shown.tolist()
    ]
    ran = {FORMATS[code] for code in distinct(format_[format_ >= 0]).tolist()}
    roofs = [
        Roof(format=name, tflops=limit.peak, reachable_tflops=limit.reachable)
        for name in ran
        if (limit := rates.products(name)) is not None
    ]
    return Roofline(
        device=rates.name,
        memory_gbps=memory.peak,
        reachable_gbps=memory.reachable,
        roofs=sorted(roofs, key=lambda roof: (-roof.tflops, roof.format)),
        points=points,
        moving_ms=float(own[rows].sum() - own[computes].sum()) * ms,
        left_ms=float(time.sum() - time[shown].sum()) * ms,
    )
