"""Collectives against the link: bus bandwidth, the run's own latency and rate, and which of late ranks, latency and link it is."""

from __future__ import annotations

import numpy as np

from advisor.frames.collectives import NAMES, beyond, communication, kinds, on_the_bus, told, told_sizes
from advisor.intervals import Ints, coded
from advisor.results.links import Exchange, LimitedBy
from advisor.roofline.limits import Floats, rates_of
from advisor.timeline.context import Context

_SIZES, _APART = 3, 8
_WAITS, _SLOW = 0.5, 0.3
_MOSTLY = 0.5
"""Of their time: what is to be told of it all is known of so much."""
_LARGE = 1 << 20
_MACHINE = 8
"""GPUs that direct links join, but for racks of GB200 and GB300; larger groups go over a network."""
MOST = 8


def exchanges(context: Context) -> list[Exchange]:
    """Sum up the collectives of known size of each kind and group size, those with most time first."""
    work, rows = context.recording.work, communication(context)
    if not len(rows):
        return []
    _, sent, _ = context.once(told)
    sizes, codes = context.once(told_sizes), context.once(kinds)
    dur = (work.end - work.start)[rows]
    moved = on_the_bus(codes, sent, sizes)
    known = np.flatnonzero((moved > 0) & (dur > 0) & (work.device[rows] == context.device))
    keys, back = np.unique(np.stack([codes[known], sizes[known]]), axis=1, return_inverse=True)
    back = back.ravel()
    rates = rates_of(context, context.device)
    link = (rates.peak("gpu_link") if rates is not None else None) or None
    rack = rates is not None and rates.name.startswith("GB")
    waited = context.once(beyond)[rows]
    time = np.bincount(back, dur[known], keys.shape[1])
    out = []
    for at in np.argsort(-time, kind="stable")[:MOST].tolist():
        mine = known[back == at]
        kind, size = NAMES[int(keys[0, at])], int(keys[1, at])
        inside = link if rack or size <= _MACHINE else None
        out.append(_exchange(kind, size, sent[mine], moved[mine], dur[mine], waited[mine], inside))
    return out


def _exchange(
    kind: str, size: int, sent: Ints, moved: Floats, dur: Ints, waited_ns: Ints, link: float | None
) -> Exchange:
    """Sum up some collectives; *waited_ns* is what each lasts beyond the exchange itself, -1 where nothing tells."""
    levels, back = coded(sent)
    back = back.ravel()
    fastest = np.array([dur[back == at].min() for at in range(len(levels))], np.float64)
    bus = np.array([moved[back == at][0] for at in range(len(levels))])
    fit = _fitted(bus, fastest)
    # Without a fit: by the fastest of each size, as wherever waiting is told from exchanging.
    beside: Floats = waited_ns.astype(np.float64) if fit is None else np.maximum(dur - fit[0] - fit[1] * moved, 0)
    known = beside >= 0
    waited = None
    bus_gbps = float(moved.sum() / dur.sum())
    if dur[known].sum() >= _MOSTLY * dur.sum():
        waited = float(beside[known].sum() / dur[known].sum())
        bus_gbps = float(moved[known].sum() / max((dur - beside)[known].sum(), 1))
    best = float((moved / dur).max())
    return Exchange(
        kind=kind,
        group_size=size,
        count=len(sent),
        median_bytes=int(np.median(sent)),
        bus_gbps=bus_gbps,
        best_gbps=best,
        latency_us=None if fit is None else fit[0] / 1e3,
        fitted_gbps=None if fit is None else 1 / fit[1],
        link_gbps=link,
        waited_share=waited,
        limited_by=_limit(moved, fit, waited, max(best, 1 / fit[1]) if fit else best, link, int(sent.max())),
    )


def _limit(
    moved: Floats, fit: tuple[float, float] | None, waited: float | None, best: float, link: float | None, largest: int
) -> LimitedBy | None:
    """Tell what takes most of the time; None where neither a fit nor a large message says it."""
    if waited is not None and waited >= _WAITS:
        return "late ranks"
    if fit is not None and fit[0] * len(moved) > fit[1] * float(moved.sum()):
        return "latency"
    if link is None or (fit is None and largest < _LARGE):
        return None
    return "slow link" if best < _SLOW * link else "link"


def _fitted(moved: Floats, dur: Floats) -> tuple[float, float] | None:
    """Fit ns = fixed + rate · bytes by the least relative errors; None where too few sizes tell it."""
    if len(moved) < _SIZES or moved.max() < _APART * moved.min():
        return None
    weights = 1 / dur
    matrix = np.stack([weights, moved * weights], axis=1)
    (fixed, rate), *_ = np.linalg.lstsq(matrix, np.ones(len(dur)), rcond=None)
    if fixed < 0:
        fixed, rate = 0.0, float((moved * weights).sum() / ((moved * weights) ** 2).sum())
    return (float(fixed), float(rate)) if rate > 0 else None
