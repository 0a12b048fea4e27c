"""Families of operators in a step of a program on the CPU, by the time that each owns."""

from __future__ import annotations

import numpy as np

from advisor.frames.families import operator_family
from advisor.intervals import alike, summed
from advisor.results.kernel_time import KernelTime
from advisor.timeline.calls import OPTIMIZER
from advisor.timeline.context import Context
from advisor.timeline.launch_origin import outermost_ops


def operator_time(context: Context) -> list[KernelTime]:
    """Divide the steady time of a program's operators on the CPU by family, the longest first. Empty with a device.

    Each moment is the innermost operator's.
    """
    ledger, host, names = context.ledger, context.recording.host, context.names
    if not context.cpu_program or not ledger.counted_ns:
        return []
    rows = np.flatnonzero(ledger.counted & ledger.through("compute") & (ledger.row >= 0))
    own = summed(ledger.row[rows], ledger.dur_ns[rows], len(context.op_rows))
    chosen = np.flatnonzero(own)
    node = context.op_rows[chosen]
    keys = (
        host.name[node].astype(np.int64),
        outermost_ops(context, node),
        (context.phases(node) == OPTIMIZER).astype(np.int64),
    )
    first, back = alike(*keys)
    sums = summed(back, own[chosen], len(first))
    found: dict[str, int] = {}
    for at, ns in zip(first.tolist(), sums.tolist(), strict=True):
        operator, outer, optimizing = (int(key[at]) for key in keys)
        family = operator_family(names[operator], names[outer] if outer >= 0 else "", optimizing=bool(optimizing))
        found[family] = found.get(family, 0) + ns
    total, ms = sum(found.values()), context.step_ns / 1e6 / ledger.counted_ns
    ordered = sorted(found.items(), key=lambda one: -one[1])
    return [KernelTime(family=family, ms=ns * ms, share=ns / total) for family, ns in ordered]
