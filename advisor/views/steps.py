"""Steps as bars, and the step that the timeline shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from advisor.results.views import StepBar
from advisor.timeline.ledger import OF_STEPS

if TYPE_CHECKING:
    from advisor.columns import Columns
    from advisor.trace import Trace

MOST_STEPS = 500
_MEDIAN = "nearest to the median"


class Extent(NamedTuple):
    """A step to be shown: its index in `steps`, its name, its bounds in ns since the first event, and which of the steps it is."""

    step: int
    name: str
    low: int
    high: int
    role: str = ""


def bars(trace: Trace) -> list[StepBar]:
    """The frame `steps` as bars: the first 500. Without steps, one bar for the window."""
    frame = trace.columns("steps").rows(slice(MOST_STEPS))
    names = frame["name"].tolist()
    lengths = (frame["dur_ns"].to_numpy() / 1e6).tolist()
    sampled = frame["sampled"].to_numpy().tolist()
    owned = np.stack([frame[f"{cause}_ns"].to_numpy() for cause in OF_STEPS], axis=1) / 1e6
    return [
        StepBar(
            name=name if isinstance(name, str) else "window",
            ms=ms,
            causes={cause: share for cause, share in zip(OF_STEPS, shares, strict=True) if share},
            sampled=bool(counts),
        )
        for name, ms, shares, counts in zip(names, lengths, owned.tolist(), sampled, strict=True)
    ]


def representative(trace: Trace) -> Extent:
    """The sampled step whose duration is nearest the median; the window where there are no steps."""
    frame = trace.columns("steps")
    length = frame["dur_ns"].to_numpy()
    chosen = np.flatnonzero(frame["sampled"].to_numpy())
    if not len(chosen):
        low, high = (int(edge) for edge in trace.context.recording.bounds[[0, -1]])
        return Extent(0, "window", low, high)
    off = np.abs(length[chosen] - np.median(length[chosen]))
    return _extent(frame, int(chosen[np.argmin(off)]), _MEDIAN if trace.step_count > 1 else "")


def others(trace: Trace, shown: Extent) -> list[Extent]:
    """The first step, the slowest and the last, in order of time, without the one that is *shown*."""
    frame = trace.columns("steps")
    if trace.step_count < 2 or not shown.role:
        return []
    length = frame["dur_ns"].to_numpy()
    roles: dict[int, list[str]] = {}
    for step, role in ((0, "first"), (int(np.argmax(length)), "slowest"), (len(frame) - 1, "last")):
        roles.setdefault(step, []).append(role)
    return [
        _extent(frame, step, " and ".join(names))
        for step, names in sorted(roles.items())
        if step != shown.step and length[step] > 0
    ]


def _extent(frame: Columns, step: int, role: str) -> Extent:
    low, name = int(frame["start_ns"].at(step)), frame["name"].at(step)
    high = low + int(frame["dur_ns"].at(step))
    return Extent(step, name if isinstance(name, str) else "window", low, high, role)
