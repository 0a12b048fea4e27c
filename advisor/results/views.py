"""What the pictures and tables of a report show, as data: part of an :class:`~advisor.results.analysis.Analysis` with ``--views``.

Everything here is made by ``advisor.views`` from a trace and only read by the renderers. Times are milliseconds where a
name says ``ms``; the timeline's are whole ns since its start, as its columns are long. Text is the trace's own: data.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Cell = str | int | float | bool | None
TrackKind = Literal["thread", "stream", "cause"]


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a table. ``unit`` is "" for text and yes or no, else count, ms, MB, GB/s, or share (shown in percent)."""

    name: str
    unit: str = ""
    meaning: str = ""


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """A table, heaviest rows first. ``total`` is how many rows there are before the cut to ``rows``.

    ``parents`` gives each row of a tree its parent's index, -1 at the root; empty for a flat table.
    """

    columns: list[Heading]
    rows: list[list[Cell]]
    total: int
    note: str = ""
    parents: list[int] = []


class StepBar(msgspec.Struct, frozen=True, kw_only=True):
    """One step: how long it took, and the ms of each cause in it, which add up to it. Causes of 0 ms are left out."""

    name: str
    ms: float
    causes: dict[str, float]
    sampled: bool
    """Whether the median speaks of it."""


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """One lane of the timeline: a host thread, a stream, or the causes of the device's time. ``depth`` counts its rows."""

    label: str
    kind: TrackKind
    depth: int


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A representative step, event by event: the one nearest to the median. The title and the labels of tracks say what
    is left out. The lists of items are columns of one table, sorted by track and start.

    Spans too short to draw are merged with their neighbours of the same row and category: ``count`` says how many events
    an item stands for; it lasts as long as they do together, so no time is lost, and bears the name of the longest.
    ``events`` says how many events of threads and streams there are, ``merged`` how many of those stand in items of more
    than one. Items of the track of kind "cause", always the first, cover the step without holes. ``finding`` of an item
    is an index into ``rules`` (ids, in the order of the findings), -1 for none.
    """

    title: str
    step: int
    start_ms: float
    """Since the first event of the trace."""
    dur_ns: int
    events: int
    merged: int
    tracks: list[Track]
    names: list[str]
    categories: list[str]
    rules: list[str]
    track: list[int]
    row: list[int]
    start: list[int]
    dur: list[int]
    name: list[int]
    category: list[int]
    count: list[int]
    finding: list[int]


class MemoryCurve(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of a device over time, thinned where it is dense (the peak is kept); what was allocated at the peak, by owner."""

    device: int
    capacity_bytes: int | None
    ms: list[float]
    allocated_bytes: list[int]
    reserved_bytes: list[int]
    peak_ms: float
    peak_bytes: int
    holders: Grid


class QueueCurve(msgspec.Struct, frozen=True, kw_only=True):
    """GPU work that was launched and had not ended, over time: where it is 0 the GPU waits for the host.

    A staircase over the timeline's step: ``depth`` holds from its ``ms``, since the start of that step, to the next.
    """

    ms: list[float]
    depth: list[int]
    median: float
    empty_share: float


class Views(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a report shows beside its findings. What the trace does not hold is None, or has no rows."""

    steps: list[StepBar]
    """The first 500; without steps, one bar named "window"."""
    timeline: Timeline | None
    memory: list[MemoryCurve]
    queue: QueueCurve | None
    classes: Grid
    operators: Grid
    kernels: Grid
    modules: Grid
    copies: Grid
    syncs: Grid
