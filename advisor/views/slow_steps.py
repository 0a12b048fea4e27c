"""Single steps that take much longer than the others, and what grew in the longest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from advisor.results.slow_steps import SlowSteps

if TYPE_CHECKING:
    from advisor.trace import Trace

_LONGER, _SPREADS, _FEWEST = 1.25, 3 * 1.4826, 3
"""Times the median, and median deviations of normal noise above it, from which on a step is long; and steps that have a median."""


def slow_steps(trace: Trace) -> SlowSteps | None:
    """Find the steps after the first that take much longer than the median; None where there are none, or no iterations.

    Batches of serving engines differ by what they are for, and what the profiler itself holds up is no step's.
    """
    facts, recording = trace.facts, trace.context.recording
    if not recording.steps or facts["steps_not_iterations"] or facts["decode_batches"]:
        return None
    frame = trace.columns("steps")
    rows = np.flatnonzero(recording.sampled)
    dur = frame["dur_ns"].to_numpy()[rows].astype(np.float64)
    if len(rows) < _FEWEST:
        return None
    median = float(np.median(dur))
    spread = float(np.median(np.abs(dur - median)))
    long = np.flatnonzero((dur >= _LONGER * median) & (dur > median + _SPREADS * spread))
    if not len(long):
        return None
    longest = int(rows[long[int(np.argmax(dur[long]))]])
    row = frame.rows(np.array([longest])).records()[0]
    cause = row["excess_cause"]
    if cause == "profiler":
        return None
    return SlowSteps(
        count=len(long),
        steps=len(rows),
        name=str(row["name"]),
        least_ms=float(dur[long].min()) / 1e6,
        most_ms=float(dur[long].max()) / 1e6,
        median_ms=median / 1e6,
        cause=cause,
        cause_ms=float(row["excess_cause_ns"]) / 1e6 if cause is not None else 0.0,
    )
