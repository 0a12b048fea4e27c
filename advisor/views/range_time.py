"""Division of the main thread's time among the outermost ranges that the program marks, where no device was recorded.

By its cause a range's time falls into pieces (Python, a value that is read back, a blocking copy), of which none is the whole.
"""

from __future__ import annotations

import numpy as np

from advisor.intervals import covered, summed, union
from advisor.results.range_time import RangeTime
from advisor.timeline.context import Context
from advisor.timeline.marked import outermost_ranges
from advisor.views.kernel_time import mean_step_ns

_LEAST, _MOST = 0.02, 0.9
"""Of steady work: a range of less is not named; and one of more says nothing."""
_SEVERAL = 2


def range_time(context: Context) -> list[RangeTime]:
    """Divide steady time among ranges, the longest first; empty with a device, in a program on the CPU, and without several."""
    host, ledger, recording = context.recording.host, context.ledger, context.recording
    if recording.devices or context.cpu_program or not host.size or not ledger.counted_ns:
        return []
    nodes = context.once(outermost_ranges)
    counted = union(ledger.start_ns[ledger.counted], ledger.end_ns[ledger.counted])
    total = summed(host.name[nodes], covered(counted, host.start[nodes], host.end[nodes]), len(context.names))
    order = [at for at in np.argsort(-total, kind="stable").tolist() if total[at] >= _LEAST * ledger.counted_ns]
    if len(order) < _SEVERAL or total[order[0]] > _MOST * ledger.counted_ns:
        return []
    ms = mean_step_ns(context) / 1e6 / ledger.counted_ns
    return [RangeTime(name=context.names[at], ms=float(total[at]) * ms) for at in order]
