"""Pace at which the host launches kernels, where a trace holds its calls and not the kernels."""

from __future__ import annotations

import numpy as np

from advisor.frames.launches import KERNEL_CALL
from advisor.intervals import covered, union
from advisor.results.launch_rate import LaunchRate
from advisor.timeline.calls import RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.recording import KERNEL
from advisor.timeline.waits import nodes_by_name

_FEWEST = 10
"""Launches that have a pace."""


def launch_rate(context: Context) -> LaunchRate | None:
    """Count the launches in steady time; None where there are few, or where kernels were recorded: those tell more.

    None as well where hardware counters were read: each launch runs its kernel several times for them.
    """
    recording, ledger = context.recording, context.ledger
    if not recording.host.size or not ledger.counted_ns or recording.recorded.counter_ranges:
        return None
    if (recording.work.kind == KERNEL).any():
        return None
    calls, host = nodes_by_name(recording, KERNEL_CALL, (RUNTIME,)), recording.host
    steady = union(ledger.start_ns[ledger.counted], ledger.end_ns[ledger.counted])
    calls = calls[covered(steady, host.start[calls], host.start[calls] + 1) > 0]
    if len(calls) < _FEWEST:
        return None
    steps = max(len(ledger.counted_steps()), 1) if recording.steps else 1
    return LaunchRate(
        count=len(calls) / steps,
        ms=ledger.counted_ns / steps / 1e6,
        call_us=float(np.mean(host.end[calls] - host.start[calls])) / 1e3,
    )
