"""Selection of a part of a recording: ProfilerSteps by their numbers, or a stretch of the window in ms."""

from __future__ import annotations

import math

import numpy as np
from msgspec.structs import replace

from advisor.errors import UsageError
from advisor.reading.cut import Part, cut
from advisor.reading.stream import Recorded
from advisor.timeline.recording import WORK, Recording
from advisor.timeline.steps import Step

_MS = 1_000_000
_SHOWN = 8

Ends = tuple[float | None, float | None]


def take(recorded: Recorded, path: str, *, steps: Ends | None = None, window_ms: Ends | None = None) -> Recorded:
    """The part of *recorded* that holds some steps, or a stretch of the window.

    *steps* are numbers as in ProfilerStep#N, from the first to before the second; a negative one counts from the end, None
    leaves that end open. *window_ms* counts from the window's start. Raises ``UsageError`` where the trace holds no such part.
    """
    if steps is not None and window_ms is not None:
        raise UsageError("steps and a window ask for different parts; give one of them")
    outline, shift = _outline(recorded)
    part = _of_steps(outline, shift, path, steps) if steps is not None else _of_window(outline, shift, path, window_ms)
    tables = cut(recorded.tables, part)
    if not tables:
        raise UsageError(f"{path}: nothing happens in that part")
    return replace(recorded, tables=tables, part=part, notes=[*recorded.notes, ("part", part.note)])


def _outline(recorded: Recorded) -> tuple[Recording, int]:
    """Return a recording of what decides steps and window (GPU work, its launches, marks of steps), and its clock's shift."""
    recording = Recording(recorded)
    marked = np.array([name.startswith("ProfilerStep#") for name in recording.names], np.bool_)
    tables = {group: recorded.tables[group] for group in (*WORK, "runtime") if group in recorded.tables}
    telling = any(group in tables for group in WORK)
    for group in ("annotation", "op"):
        if group in recorded.tables and (is_step := marked[recorded.tables[group]["name"]]).any():
            tables[group] = {key: column[is_step] for key, column in recorded.tables[group].items()}
            telling = True
    if not telling:
        return recording, 0
    outline = Recording(replace(recorded, tables=tables))
    return outline, outline.zero_ns - recording.zero_ns


def _of_steps(outline: Recording, shift: int, path: str, wanted: Ends) -> Part:
    steps, edges = outline.marked[: outline.whole_steps], outline.bounds.tolist()
    low, high = wanted
    chosen = [
        at
        for at, step in enumerate(steps)
        if _from(step, at, len(steps), low) and not _from(step, at, len(steps), high, above=True)
    ]
    if not chosen:
        request = f"{'' if low is None else f'{low:.0f}'}:{'' if high is None else f'{high:.0f}'}"
        holding = (
            f"it holds {_in_words(steps)}"
            if steps
            else "it holds no ProfilerStep at all: call prof.step() after every iteration"
        )
        raise UsageError(f"{path}: no step {request}; {holding}")
    first, last = chosen[0], chosen[-1] + 1
    part = steps[first:last]
    ahead = steps[last].start if last < len(steps) else max(step.end for step in steps)
    host = min(part[0].start, edges[first]), max(ahead, edges[last])
    ms = (edges[last] - edges[first]) / _MS
    total_ms = (edges[-1] - edges[0]) / _MS
    return Part(
        zero_ns=outline.zero_ns - shift,
        edges=tuple(edge + shift for edge in edges[first : last + 1]),
        host=(host[0] + shift, host[1] + shift),
        steps=tuple((step.name, step.number, step.start + shift, step.end + shift) for step in part),
        later=tuple(step.start + shift for step in steps[last:]),
        goes_on=_goes_on(outline, edges[last]),
        note=f"only a part was read: {_in_words(part)}, {len(part):,} of {len(steps):,} steps, {ms:,.1f} of {total_ms:,.1f} ms",
    )


def _goes_on(outline: Recording, until: int) -> bool:
    return bool((outline.work.start >= until).any())


def _from(step: Step, at: int, count: int, end: float | None, *, above: bool = False) -> bool:
    """Tell whether a step lies at or behind an *end*; an open one is before all, or *above* them."""
    if end is None:
        return not above
    return at >= count + end if end < 0 else step.number >= end


def _in_words(steps: list[Step]) -> str:
    if len(steps) == 1:
        return steps[0].name
    numbers = [step.number for step in steps]
    if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return f"ProfilerStep#{numbers[0]} to #{numbers[-1]}"
    shown = ", ".join(f"#{number}" for number in numbers[:_SHOWN])
    return f"ProfilerStep{shown}" + (f" and {len(numbers) - _SHOWN:,} more" if len(numbers) > _SHOWN else "")


def _of_window(outline: Recording, shift: int, path: str, wanted: Ends | None) -> Part:
    begin, end = (edge + shift for edge in outline.window)
    low_ms, high_ms = wanted or (None, None)
    low_ms, high_ms = low_ms or 0.0, math.inf if high_ms is None else high_ms
    length = (end - begin) / _MS
    if not 0 <= low_ms < high_ms or low_ms >= length:
        raise UsageError(f"{path}: no {low_ms:g}:{high_ms:g} ms in the window; it is {length:,.3f} ms long")
    low = begin + round(low_ms * _MS)
    high = min(begin + round(min(high_ms, length) * _MS), end)
    note = f"only a part was read: {(low - begin) / _MS:,.3f} to {(high - begin) / _MS:,.3f} ms of a window of {length:,.1f} ms"
    return Part(
        zero_ns=outline.zero_ns - shift,
        edges=(low, high),
        host=(low, high),
        goes_on=_goes_on(outline, high - shift),
        note=note + ", as one stretch without steps",
    )
