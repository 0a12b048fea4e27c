"""Products that took longer for a time: columns of `trace` on a device that did the same work faster before or behind.

A matrix product or convolution of one kernel, grid and operator on the same shapes does the same arithmetic each time. Where
several of these take half as long again as they do otherwise, all in one stretch, and with nothing beside them on the device, the
device was slower there: its clocks fell (power, heat), or another process had part of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.intervals import Bools, Ints, alike, distinct, fetch
from advisor.timeline import launch_origin as origin
from advisor.timeline.calls import OP
from advisor.timeline.context import Context
from advisor.timeline.kernel_names import EXPERTS

_LEAST_NS = 20_000
"""Shorter kernels vary by as much as a half for many reasons."""
_TIMES = 6
"""Calls of the same product that have a usual time."""
_SLOWER = 1.5
_STRETCH, _BETWEEN = 4, 2
"""Slow products of two sorts that are a stretch, and those at their usual time that do not divide it."""
_SPANS = 3
_UNKNOWN: dict[str, Any] = {"slowed_ns": None, "slowed_share": None, "slowed_spans": None}


def facts(context: Context) -> dict[str, Any]:
    """Columns of the trace; NULL where no product of known shapes repeats."""
    rows = _products(context)
    usual, sort = _usual(context, rows)
    known = usual > 0
    if not known.any():
        return dict(_UNKNOWN)
    rows, usual, sort = rows[known], usual[known], sort[known]
    work = context.recording.work
    dur, start = work.end[rows] - work.start[rows], work.start[rows]
    slow = dur > _SLOWER * usual
    if slow.any():
        slow &= _alone(context, rows)
    lost, spans = np.zeros(len(rows), np.bool_), []
    for device in distinct(work.device[rows]).tolist():
        own = np.flatnonzero(work.device[rows] == device)
        own = own[np.argsort(start[own], kind="stable")]
        for chosen in _stretches(own[slow[own]], np.flatnonzero(slow[own]), sort):
            lost[chosen] = True
            spans.append((int(start[chosen].min()), int(work.end[rows[chosen]].max())))
    steps = context.recording.step_of(start)
    if _in_every_step(steps, lost):
        lost[:] = False
    counted_ns, took = context.ledger.counted_ns, int((dur - usual)[lost].sum())
    return {
        "slowed_ns": took,
        "slowed_share": took / counted_ns if counted_ns else 0.0,
        "slowed_spans": _said(spans) if lost.any() else None,
    }


def _products(context: Context) -> Ints:
    """Rows of `kernels` of the window that are products of known shapes, of work that data does not change."""
    work, rows, host = context.recording.work, context.kernel_rows, context.recording.host
    if not len(rows) or not host.size:
        return rows[:0]
    same = np.zeros(len(context.names), np.bool_)
    for code, name in context.kernel_names.items():
        text = context.names[code]
        same[code] = name.kind in ("gemm", "conv") and not EXPERTS.search(text) and "roup" not in text
    low, high = context.recording.window
    rows = rows[same[work.name[rows]] & (work.end[rows] - work.start[rows] >= _LEAST_NS)]
    rows = rows[(work.start[rows] >= low) & (work.end[rows] <= high)]
    rows = rows[context.op_column(work.launch[rows], "dims") >= 0]
    operator = fetch(host.attributes.op, work.launch[rows])
    torch = np.array([name.startswith("aten::") and "group" not in name for name in context.names], np.bool_)
    chosen: Ints = rows[(operator >= 0) & (host.group[operator] == OP) & torch[host.name[operator]]]
    return chosen


def _usual(context: Context, rows: Ints) -> tuple[Ints, Ints]:
    """Return the usual time of the product that each row is, in ns, and its sort; 0 where there are too few of it.

    It is the lower quartile: what is slow for most of a recording is slow still.
    """
    work, host = context.recording.work, context.recording.host
    usual = np.zeros(len(rows), np.int64)
    if not len(rows):
        return usual, usual
    launch = work.launch[rows]
    key = (
        work.device[rows],
        work.name[rows],
        host.name[fetch(host.attributes.op, launch)],
        context.op_column(launch, "dims"),
        context.op_column(launch, "types"),
        context.work_column("kernel", "grid", rows),
        context.work_column("kernel", "block", rows),
    )
    sort = alike(*key)[1]
    dur = work.end[rows] - work.start[rows]
    order = np.lexsort((dur, sort))
    first = np.flatnonzero(np.append(True, np.diff(sort[order]) > 0))
    count = np.diff(np.append(first, len(order)))
    quarter = dur[order][first + (count - 1) // 4]
    usual = np.where(count >= _TIMES, quarter, 0)[sort]
    return usual, sort


def _alone(context: Context, rows: Ints) -> Bools:
    """Flag the kernels with nothing else on their device meanwhile."""
    work = context.recording.work
    alone = origin.alone_ns(work.device, work.start, work.end)[rows]
    flags: Bools = alone == work.end[rows] - work.start[rows]
    return flags


def _stretches(slow: Ints, place: Ints, sort: Ints) -> list[Ints]:
    """Part the *slow* rows, at some places in the order of time, into stretches; those too short, or of one sort, are left out."""
    if not len(slow):
        return []
    parts = np.split(slow, np.flatnonzero(np.diff(place) > _BETWEEN + 1) + 1)
    return [part for part in parts if len(part) >= _STRETCH and len(distinct(sort[part])) > 1]


def _in_every_step(steps: Ints, lost: Bools) -> bool:
    """Tell whether each of several steps has its slow products: then it is the program that makes them so."""
    every = distinct(steps[steps >= 0])
    return len(every) > 1 and len(distinct(steps[lost & (steps >= 0)])) == len(every)


def _said(spans: list[tuple[int, int]]) -> str:
    """Name the longest stretches, in ms since the first event, in the order of time."""
    longest = sorted(sorted(spans, key=lambda span: span[0] - span[1])[:_SPANS])
    return " and ".join(f"{start / 1e6:.0f}–{end / 1e6:.0f}" for start, end in longest) + " ms"
