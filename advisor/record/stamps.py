"""Stamps of the steps that are watched before a recording: when each began, and what was allocated then."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from advisor.record import memory

_LEAST = 3
"""Stamps from which a growth is told."""


class Stamp(NamedTuple):
    """A moment of the program: a CUDA event or the host's clock in s, and the bytes that are allocated then, if known."""

    time: Any
    held: int | None


def clock() -> Stamp:
    """Take a stamp: with a CUDA event where this process uses a GPU, so that nothing waits for it."""
    if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return Stamp(event, torch.cuda.memory_allocated())
    return Stamp(time.perf_counter(), memory.resident())


def growth(stamps: Sequence[Stamp]) -> int | None:
    """Return by how much what is allocated grows from stamp to stamp, in bytes, the first step left out; None: not known."""
    held = [stamp.held for stamp in stamps[1:] if stamp.held is not None]
    if len(held) < _LEAST or len(held) < len(stamps) - 1:
        return None
    return max(held[-1] - held[0], 0) // (len(held) - 1)


def milliseconds(stamps: Sequence[Stamp]) -> tuple[float, ...]:
    """Return the times between stamps of :func:`clock`, in ms; waits for the GPU where they are events."""
    out = []
    for before, after in pairwise(stamp.time for stamp in stamps):
        if isinstance(before, float) and isinstance(after, float):
            out.append(round((after - before) * 1e3, 4))
        elif not isinstance(before, float) and not isinstance(after, float):
            after.synchronize()
            out.append(round(before.elapsed_time(after), 4))
    return tuple(out)
