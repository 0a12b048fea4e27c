"""Time that the profiler takes for each operator it records, measured on the same machine: an event's price differs by machine.

A loop of an operator that does next to nothing is timed with and without the profiler, by the processor time of its thread,
so that other programs do not count. It takes some tens of milliseconds, once, behind the recording.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

_CALLS = 400
_ROUNDS = 5
_OPERATORS = 2
"""Operators that a call of the loop is: ``select`` and the ``as_strided`` inside it."""


def event_ns(torch: Any) -> float | None:
    """Return the ns that recording an operator takes; None where the loop was not slower for it."""
    tensor = torch.zeros(4, 4)

    def loop() -> None:
        for _ in range(_CALLS):
            tensor.select(0, 1)

    loop()
    bare = min(_taken(loop) for _ in range(_ROUNDS))
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True, profile_memory=True):
        loop()
        recorded = min(_taken(loop) for _ in range(_ROUNDS))
    each = (recorded - bare) / (_CALLS * _OPERATORS)
    return round(each, 1) if each > 0 else None


def _taken(action: Callable[[], None]) -> int:
    begin = time.thread_time_ns()
    action()
    return time.thread_time_ns() - begin
