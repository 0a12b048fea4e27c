"""Stamps of the steps that are watched before a recording: when each began, and what was allocated then."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from advisor.record import memory

_LEAST = 3
"""Stamps from which a growth is told."""


class Stamp(NamedTuple):
    """A moment of the program, as :func:`clock` tells it, the bytes that the process holds then, and the seconds that its main
    thread has waited for batches so far.

    ``held`` is None where a GPU is used: to ask what is allocated there takes as long as a small step's launches.
    """

    time: Any
    held: int | None
    waited: float = 0.0


def take(waited: float = 0.0) -> Stamp:
    """Take a stamp, *waited* seconds of waiting for batches into the program."""
    now = clock()
    return Stamp(now, memory.resident() if isinstance(now, float) else None, waited)


def clock() -> Any:
    """Tell the time: by a CUDA event where this process uses a GPU, so that nothing waits for it, else by the host's clock in s."""
    if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event
    return time.perf_counter()


def growth(stamps: Sequence[Stamp]) -> int | None:
    """Return by how much what is held grows in a step, in bytes, the first left out; None: not known.

    The median: an allocator that keeps what was freed grows once.
    """
    held = [stamp.held for stamp in stamps[1:] if stamp.held is not None]
    if len(held) < _LEAST or len(held) < len(stamps) - 1:
        return None
    return max(int(statistics.median(after - before for before, after in pairwise(held))), 0)


def milliseconds(times: Sequence[Any]) -> tuple[float, ...]:
    """Return the ms between times of :func:`clock`; waits for the GPU where they are events."""
    out = []
    for before, after in pairwise(times):
        if isinstance(before, float) and isinstance(after, float):
            out.append(round((after - before) * 1e3, 4))
        elif not isinstance(before, float) and not isinstance(after, float):
            after.synchronize()
            out.append(round(before.elapsed_time(after), 4))
    return tuple(out)


def waits(stamps: Sequence[Stamp]) -> tuple[float, ...]:
    """Return the ms of waiting for batches in each of the steps that :func:`milliseconds` gives for the same stamps."""
    return tuple(
        round((after.waited - before.waited) * 1e3, 4)
        for before, after in pairwise(stamps)
        if isinstance(before.time, float) == isinstance(after.time, float)
    )
