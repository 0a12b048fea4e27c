"""Columns of limits, which `kernels` and `ops` share: what work there is, and the least time in which the device could do it."""

from __future__ import annotations

import re

import numpy as np

from advisor.frames.schema import integer, real, text
from advisor.intervals import Ints, distinct
from advisor.roofline.limits import BOUNDS, limits, spread
from advisor.roofline.reasons import REASONS, told
from advisor.timeline.context import Context

LIMITS = (
    real("flops", "", "arithmetic of the operator, a multiply-add as two, divided over its kernels by their time; NULL where its "
         "operands were not recorded or no formula is known", "args.Input Dims"),
    real("min_bytes", "bytes", "what it must move at the least: each input read once, each output written once; NULL likewise",
         "args.Input Dims"),
    text("bound", "compute or memory: which of the two takes longer at the device's peak rates; NULL where unknown"),
    real("limit_ns", "ns", "the longer of the two: no kernel of the same work is faster on this device; NULL where the work or "
         "the device is unknown"),
    real("reachable_ns", "ns", "the same with the rates that programs reach; NULL where those are unknown"),
)  # fmt: skip


REASON_COLUMNS = (
    real("efficiency", "share", "the reachable time over the operator's kernels' time: 1 is as fast as programs get; NULL where "
         "that time is unknown"),
    real("most_efficiency", "share", "the same if the last cache held nothing of what the operator moves: it is no nearer than "
         "that; NULL likewise"),
    text("reason", "what its sizes say of a kernel under 0.8 of that: misaligned, matrix-vector, tiny, few-tiles, thin, "
         "partial-wave; of convolutions depthwise, grouped, patches, few-channels, channels-first, odd-channels, transposed, "
         "dilated, uneven-window; of attention wide-numbers, mask, bias (of each head's own numbers), head-size, dropout, "
         "one-query; of others strided, mixed-types, narrow-rows, channels-first; '' for none of these; NULL near the limit and "
         "where that is unknown"),
    integer("narrow_side", "", "smaller side of a product's result: 1 for a matrix times a vector; NULL for other work"),
    real("remedied_ns", "ns", "the time that the same work takes without that reason: by its tiles, or as an H100 reached it; NULL "
         "without a reason"),
)  # fmt: skip


def reason_columns(context: Context) -> dict[str, object]:
    """The columns of reasons for each kernel."""
    found = context.once(told)
    return {
        "efficiency": found.efficiency,
        "most_efficiency": found.most,
        "reason": context.labels(found.reason, REASONS),
        "narrow_side": context.known(found.narrow_side),
        "remedied_ns": found.remedied_ns,
    }


def limit_columns(context: Context, nodes: Ints | None) -> dict[str, object]:
    """The columns for each kernel, or for each operator at *nodes* of the forest: the sums over the kernels that it owns."""
    found = context.once(limits)
    if nodes is None:
        flops, moved, limit, reachable, bound = (
            found.flops,
            found.bytes,
            found.limit_ns,
            found.reachable_ns,
            found.bound,
        )
    else:
        size = context.recording.host.size
        figures = (found.flops, found.bytes, found.limit_ns, found.reachable_ns)
        flops, moved, limit, reachable = (spread(context, values, size)[nodes] for values in figures)
        kinds = np.full(size, -1, np.int64)
        kinds[found.owner[found.owner >= 0]] = found.bound[found.owner >= 0]
        bound = kinds[nodes]
    return {
        "flops": flops,
        "min_bytes": moved,
        "bound": context.labels(bound, BOUNDS),
        "limit_ns": limit,
        "reachable_ns": reachable,
    }


FAR = 0.5
_LAST = re.compile(r"nhwc|ndhwc|channels_?last", re.IGNORECASE)
"""In names of kernels that read channels_last already."""
"""Part of the reachable rate under which a kernel is far from it, in most forms of most operators."""
_LONG_NS = 20_000
"""Shorter kernels are mostly start and end."""


def far_class(context: Context) -> str | None:
    """Sort of operator that most of the time of kernels far from the reachable rate is of; None without any."""
    work, rows, info = context.recording.work, context.kernel_rows, context.kernel_names
    if not len(rows):
        return None
    far = np.flatnonzero(context.once(told).most < FAR)
    dur = (work.end - work.start)[rows[far]]
    total = {"gemm": 0, "conv": 0, "attention": 0, "other": 0}
    for code in distinct(work.name[rows[far]]).tolist():
        kind = info[code].kind
        total[kind if kind in total else "other"] += int(dur[(work.name[rows[far]] == code) & (dur >= _LONG_NS)].sum())
    most = max(total, key=lambda kind: total[kind])
    if most == "conv" and total[most]:
        last = np.array(
            [info[code].kind == most and _LAST.search(context.names[code]) is not None for code in info], np.bool_
        )
        codes = np.fromiter(info, np.int64, len(info))[last]
        known = np.isin(work.name[rows[far]], codes) & (dur >= _LONG_NS)
        return "conv-nhwc" if 2 * int(dur[known].sum()) >= total[most] else most
    return most if total[most] else None


def mixed_share(context: Context) -> float | None:
    """Share of the kernel time in kernels whose reason is mixed types; None without kernels."""
    work, rows = context.recording.work, context.kernel_rows
    dur = (work.end - work.start)[rows]
    if not dur.sum():
        return None
    return float(dur[context.once(told).reason == REASONS.index("mixed-types")].sum() / dur.sum())
