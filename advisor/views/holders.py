"""Holders of the peak of a device's memory: allocations of a memory snapshot that live then, by their place in the source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from advisor.intervals import distinct, fetch
from advisor.reading.held import Held, Snapshot
from advisor.results.memory import Holder, MemoryPeak
from advisor.timeline.context import Context
from advisor.timeline.source import LIBRARIES, Place, parse_frame

MOST = 20
_UNKNOWN = -(1 << 62)


class _Origin(NamedTuple):
    """A stack's innermost frame of the user's, and its innermost frame of a library."""

    user: Place | None
    library: Place | None


def build(context: Context, snapshot: Snapshot | None, device: int, libraries: Iterable[str] = ()) -> MemoryPeak | None:
    """Return the peak of the device that works, else of the one with most memory; None without a snapshot."""
    if snapshot is None or not snapshot.peaks:
        return None
    peak = next((peak for peak in snapshot.peaks if peak.device == device), snapshot.peaks[0])
    places = LIBRARIES | frozenset(libraries)
    origins = [*(_origin(stack, places) for stack in snapshot.stacks), _Origin(None, None)]  # the last of no stack
    groups: dict[Any, list[Held]] = {}
    for held in peak.held:
        where = origins[held.stack].user or origins[held.stack].library
        key = (where.file, where.line, where.function) if where else held.time_ns is None
        groups.setdefault(key, []).append(held)
    shown = sorted(groups.values(), key=lambda group: -sum(held.bytes for held in group))[:MOST]
    zero = context.recording.zero_ns + context.recording.metadata.base_ns
    known = peak.time_ns > 0
    largest = [max(group, key=lambda held: held.bytes).time_ns for group in shown]
    times = [_UNKNOWN if time is None or not known else time - zero for time in [*largest, peak.time_ns]]
    around = _around(context, np.array(times, np.int64))
    holders = [
        _holder(group, origins[group[0].stack], peak.bytes, *here) for group, here in zip(shown, around, strict=False)
    ]
    step, op, _ = around[-1]
    return MemoryPeak(
        device=peak.device,
        bytes=peak.bytes,
        at_ms=times[-1] / 1e6 if known else None,
        step=step,
        op=op,
        unknown_bytes=sum(held.bytes for held in peak.held if held.stack < 0),
        holders=holders,
    )


def _holder(
    group: list[Held], origin: _Origin, whole: int, step: int | None, op: str | None, module: str | None
) -> Holder:
    user, size = origin.user, sum(held.bytes for held in group)
    return Holder(
        file=user.file if user else None,
        line=user.line if user else None,
        function=user.function if user else None,
        library=origin.library.text if origin.library else None,
        op=op,
        module=module,
        step=step,
        bytes=size,
        share=size / whole if whole else 0.0,
        allocations=len(group),
        before=all(held.time_ns is None for held in group),
    )


def _origin(stack: str, libraries: frozenset[str]) -> _Origin:
    places = [place for line in stack.split("\n") if (place := parse_frame(line, libraries)) is not None]
    user = next((place for place in places if place.user), None)
    library = next((place for place in places if not place.user), None)
    return _Origin(user, library)


def _around(context: Context, when: Any) -> list[tuple[int | None, str | None, str | None]]:
    """Return step, operator and module at each time; None where it is outside, or several threads run an operator then."""
    host = context.recording.host
    node = np.full(len(when), -1, np.int64)
    running = np.zeros(len(when), np.int64)
    for thread in distinct(host.thread).tolist():
        found = host.innermost(thread, when)
        inside = (found >= 0) & (fetch(host.attributes.op, found) >= 0)
        node = np.where(inside, found, node)
        running += inside
    node = np.where(running == 1, node, -1)
    zeros = np.zeros(len(when), np.int64)
    common: dict[str, Any] = context.common(start=when, dur=zeros, cost=zeros.copy(), node=node)
    steps = common["step"].tolist() if context.recording.steps else [-1] * len(when)
    columns = zip(steps, when.tolist(), common["op"], common["module"], strict=True)
    return [
        (step if step >= 0 and at != _UNKNOWN else None, _text(op), _text(module)) for step, at, op, module in columns
    ]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
