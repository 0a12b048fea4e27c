"""Columns of limits, which `kernels` and `ops` share: what work there is, and the least time in which the device could do it."""

from __future__ import annotations

import numpy as np

from advisor.frames.schema import integer, real, text
from advisor.intervals import Ints
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


FAR = 0.5
"""Part of the reachable rate under which a kernel is far from it, in most forms of most operators."""

REASON_COLUMNS = (
    real("efficiency", "share", "the reachable time over the operator's kernels' time: 1 is as fast as programs get; NULL where "
         "that time is unknown"),
    real("most_efficiency", "share", "the same if the last cache held nothing of what the operator moves: it is no nearer than "
         "that; NULL likewise"),
    text("reason", "what its sizes say of a kernel under 0.8 of that: misaligned, matrix-vector, tiny, few-tiles, thin, "
         "partial-wave; of convolutions depthwise, grouped, patches, few-channels, channels-first, odd-channels, transposed, "
         "dilated, uneven-window; of attention wide-numbers, mask, bias (of each head's own numbers), head-size, dropout, "
         "one-query; of others strided, mixed-types, narrow-rows, narrow-sums (of a few neighbours in memory), channels-first; '' "
         "for none of these; NULL near the limit and where that is unknown"),
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
