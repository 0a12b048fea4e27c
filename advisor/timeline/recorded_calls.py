"""The cost of recording to the host: every operator and call that the profiler writes down takes some microseconds more.

Measured on an H100 with torch 2.11, where the GPU waited for the host and no stacks were recorded: (the step with the profiler
less the step without) over the operators and calls in it came to 2.8 us (an ODE solver), 3.5 us (a language model's
``generate``) and 5.1 us (fine-tuning with shapes and memory). Where the GPU sets the pace, or the loader, it costs nothing.
"""

from __future__ import annotations

import numpy as np

from advisor.timeline.calls import OP, RUNTIME
from advisor.timeline.context import Context

LEAST_NS, MOST_NS = 2_000, 5_000
"""ns that a recorded operator or call takes longer."""
_BOUND = 0.5
"""Share of steady time in which the GPU waits for the host from which on the host's pace is the program's."""
_WORTH = 0.1
"""Share of the step from which on it is worth a word."""


def recording_ns(context: Context) -> tuple[float, float] | None:
    """The least and the most that recording may have cost a step (the window without steps), in ns; None where little or unknown.

    With stacks it costs more, by how much nobody has measured: None.
    """
    ledger, host = context.ledger, context.recording.host
    if not context.recording.devices or {"op", "python"} & set(context.tables) != {"op"} or not ledger.counted_ns:
        return None
    waiting = ledger.by_cause().get("host", 0) / ledger.counted_ns
    if waiting < _BOUND:
        return None
    steady = np.flatnonzero(ledger.counted)
    low, high = int(ledger.start_ns[steady[0]]), int(ledger.end_ns[steady[-1]])
    calls = int(((host.group == OP) | (host.group == RUNTIME))[(host.start >= low) & (host.start < high)].sum())
    each = calls * context.step_ns / ledger.counted_ns
    most = min(each * MOST_NS, waiting * context.step_ns)
    return (min(each * LEAST_NS, most), most) if most >= _WORTH * context.step_ns else None
