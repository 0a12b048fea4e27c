"""Steps without the profiler: how long they took before the recording, and what of the recorded idle time is the profiler's.

`advisor record` keeps the times of the steps that it does not profile. The profiler slows the host down, not the device: where
recorded steps are longer, the time that the device waits for the host shrinks to what the others leave for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.intervals import Ints
from advisor.timeline.context import Context

_ENOUGH = 3
"""Fewer steps than these have no median worth the name."""
_ALIKE = 0.97
"""Steps as long as this share of the recorded ones were not slowed down."""
_SPREAD = 0.05
"""Medians of a few steps differ by so much of a step. Beyond that, and the host's idle time, nothing is the profiler's."""
_SLOWED = ("host", "operator", "profiler", "sync")
_DRIVER = ("allocator", "blocking_copy")
"""Time of the driver and of the link, which the profiler hardly slows: the host's own gives way before it."""


@dataclass(frozen=True)
class Unprofiled:
    """The median step without the profiler, and the ledger's segments as they would be in it."""

    step_ns: float
    steps: int
    dur_ns: Ints
    counted_ns: int

    @property
    def step_ms(self) -> float:
        """The same in ms."""
        return self.step_ns / 1e6


def unprofiled(context: Context) -> Unprofiled | None:
    """The steps without the profiler; None where none were kept, and where they explain nothing.

    Nothing is explained where they are no shorter than the recorded ones, and where they are shorter by more than the host's
    part: then they did something else, such as finding their batches ready.
    """
    recorded, recording = context.metadata.recorded, context.recording
    if recorded is None or not recording.steps or len(recorded.unprofiled_step_ms) < _ENOUGH:
        return None
    step_ns, before_ns = float(np.median(recorded.unprofiled_step_ms)) * 1e6, context.step_ns
    if not 0 < step_ns < _ALIKE * before_ns:
        return None
    ledger = context.ledger
    slowed = ledger.counted if context.cpu_program else ledger.counted & ledger.through(*_SLOWED)
    if context.cpu_program:
        slowed = slowed & ~ledger.through("loader")
    driver = ledger.counted & ledger.through(*_DRIVER) & ~slowed
    per_ns = before_ns / max(ledger.counted_ns, 1)
    held, beside = (float(ledger.dur_ns[part].sum()) * per_ns for part in (slowed, driver))
    shorter = before_ns - step_ns
    if shorter > held + beside + _SPREAD * before_ns:
        return None
    left = max(1 - shorter / held, 0.0) if held else 1.0
    left_beside = max(1 - max(shorter - held, 0.0) / beside, 0.0) if beside else 1.0
    kept = np.where(slowed, left, np.where(driver, left_beside, 1.0))
    dur_ns = np.rint(ledger.dur_ns * kept).astype(np.int64)
    return Unprofiled(step_ns, len(recorded.unprofiled_step_ms), dur_ns, int(dur_ns[ledger.counted].sum()))
