"""Pictures and tables of a report, as data: part of an :class:`~advisor.results.analysis.Analysis` with ``--views``.

``advisor.views`` makes them from a trace; renderers only read them. Times are milliseconds where a name says ``ms``; the
timeline's are whole ns since the start of its step, as its columns are long. Text is the trace's own: data.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.results.field import Cells, CodeLine, EventName, Name, Text, Wording, doc
from advisor.results.roofline import Roofline

FlameKind = Literal["host", "gpu"]
TrackKind = Literal["thread", "stream", "cause"]


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a table."""

    name: Annotated[Wording, doc("Its name.")]
    unit: Annotated[Wording, doc("count, ms, MB, GB/s, or share (in percent); empty for text.")] = ""
    meaning: Annotated[Wording, doc("What it holds; empty where the name says it.")] = ""


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """A table, heaviest rows first."""

    columns: Annotated[list[Heading], doc("Its columns.")]
    rows: Annotated[Cells, doc("The heaviest rows, a value a column; None for what is unknown.")]
    total: Annotated[int, doc("Rows before the cut to `rows`.")]
    note: Annotated[Wording, doc("What the table is over, or why it is empty; may be empty.")] = ""
    parents: Annotated[list[int], doc("Of a tree: the index of each row's parent, -1 at the root.")] = []


class StepBar(msgspec.Struct, frozen=True, kw_only=True):
    """One step, and what its time goes to."""

    name: Annotated[Text, doc("ProfilerStep#N, or window where there are no steps.")]
    ms: Annotated[float, doc("How long it took.")]
    causes: Annotated[dict[Name, float], doc("ms of each cause in it; they add up to it. Causes of 0 ms are left out.")]
    sampled: Annotated[bool, doc("Whether the median speaks of it.")]


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """One lane of the timeline."""

    label: Annotated[Text, doc("Its name, and how many calls are left out of it.")]
    kind: Annotated[TrackKind, doc("A host thread, a stream, or the causes of the device's time.")]
    depth: Annotated[int, doc("Its rows, one below the other.")]


class Origins(msgspec.Struct, frozen=True, kw_only=True):
    """Origins of events of the timeline, of GPU work those of the calls which launched it: columns of one table, -1 for unknown."""

    operator: Annotated[list[int], doc("Of each origin: index into `texts`, the innermost operator around it.")] = []
    shapes: Annotated[list[int], doc("Of each origin: index into `texts`, shapes of that operator's inputs.")] = []
    module: Annotated[
        list[int], doc("Of each origin: index into `texts`, the nn.Module around it, below its parent.")
    ] = []
    stack: Annotated[
        list[list[int]],
        doc("Of each origin: indices into `lines`, the user's own lines around it, innermost first, at most 4."),
    ] = []
    texts: Annotated[list[Text], doc("Operators, shapes and modules.")] = []
    lines: Annotated[list[CodeLine], doc("Lines of the source.")] = []


class Launches(msgspec.Struct, frozen=True, kw_only=True):
    """Launches of items on streams, where the call that launched them was recorded: columns of one table.

    Of an item of several events it is the launch of the longest.
    """

    item: Annotated[list[int], doc("Of each launch: index of the item.")] = []
    start: Annotated[
        list[int], doc("Of each launch: start of the call since the start of the step, in ns; below 0 before it.")
    ] = []
    track: Annotated[
        list[int], doc("Of each launch: track of the call, or of the nearest around it that is shown; -1 for none.")
    ] = []
    row: Annotated[list[int], doc("Of each launch: row of that call in its track; -1 for none.")] = []


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A step, event by event: in `timeline` the one nearest to the median, in `others` further ones, in less detail.

    Spans too short to draw are merged with their neighbours of the same row and category: such an item lasts as long as
    they do together, so no time is lost, and bears the name of the longest. The lists of items (``track`` to ``finding``)
    are columns of one table, sorted by track and start. Items of the track of kind "cause", always the first, cover the
    step without holes.
    """

    title: Annotated[Text, doc("Which step it is, and what is left out.")]
    step: Annotated[int, doc("Index of the step, as in the frames; 0 for the window.")]
    role: Annotated[
        Wording, doc("Place of the step among all: nearest to the median, first, slowest or last; empty for one.")
    ] = ""
    start_ms: Annotated[float, doc("Start of the step since the first event of the trace.")]
    dur_ns: Annotated[int, doc("Length of the step, in ns.")]
    events: Annotated[int, doc("Events of threads and streams that the items stand for.")]
    merged: Annotated[int, doc("How many of those stand in items of more than one.")]
    tracks: Annotated[list[Track], doc("The lanes, from top to bottom.")]
    names: Annotated[list[EventName], doc("Names that `name` points into.")]
    categories: Annotated[list[Name], doc("What `category` points into: a cause, or a kind of call.")]
    rules: Annotated[list[Name], doc("What `finding` points into: ids of rules, in the order of the findings.")]
    track: Annotated[list[int], doc("Of each item: the index of its track.")]
    row: Annotated[list[int], doc("Of each item: its row in the track, from 0.")]
    start: Annotated[list[int], doc("Of each item: its start since the start of the step, in ns.")]
    dur: Annotated[list[int], doc("Of each item: its length, in ns.")]
    name: Annotated[list[int], doc("Of each item: index into `names`.")]
    category: Annotated[list[int], doc("Of each item: index into `categories`.")]
    count: Annotated[list[int], doc("Of each item: how many events it stands for.")]
    finding: Annotated[list[int], doc("Of each item: index into `rules`, whose evidence it is; -1 for none.")]
    origins: Annotated[Origins, doc("Origins that `origin` points into.")] = Origins()
    origin: Annotated[
        list[int], doc("Of each item of one event: index into `origins`; -1 where nothing is known of it.")
    ] = []
    launches: Annotated[Launches, doc("Launches of items on streams.")] = Launches()


class MemoryCurve(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of a device over time, thinned where it is dense (the peak is kept)."""

    device: Annotated[int, doc("Number of the GPU; below 0 for the host.")]
    capacity_bytes: Annotated[int | None, doc("What the device has; None where the trace does not describe it.")]
    ms: Annotated[list[float], doc("Of each point: when, since the first event of the trace.")]
    allocated_bytes: Annotated[list[int], doc("Of each point: what is allocated.")]
    reserved_bytes: Annotated[list[int], doc("Of each point: what the allocator has reserved.")]
    peak_ms: Annotated[float, doc("When most was allocated, since the first event of the trace.")]
    peak_bytes: Annotated[int, doc("The most that was allocated.")]
    holders: Annotated[Grid, doc("What was allocated at the peak, by owner.")]


class Flame(msgspec.Struct, frozen=True, kw_only=True):
    """A flame graph: paths of calls, each inside the one around it. The lists are columns of one table, parents before children."""

    kind: Annotated[FlameKind, doc("Time of the host, summed over its threads, or of the busiest GPU's work.")]
    note: Annotated[Wording, doc("By what time is divided, over which part of the trace, and what is merged.")]
    total_ms: Annotated[float, doc("Time of all paths that have no parent.")]
    names: Annotated[list[EventName], doc("Of each path: the last call of it.")]
    categories: Annotated[list[Name], doc("Of each path: a kind of call, as in the timeline, or other.")]
    parents: Annotated[list[int], doc("Of each path: index of the one around it; -1 at the root.")]
    ms: Annotated[list[float], doc("Of each path: its time, with all inside it.")]
    calls: Annotated[list[int], doc("Of each path: how many calls, or pieces of GPU work; of a thread its operators.")]


class QueueCurve(msgspec.Struct, frozen=True, kw_only=True):
    """GPU work that was launched and had not ended, over the timeline's step: where it is 0 the GPU waits for the host."""

    ms: Annotated[list[float], doc("Of each point: when, since the start of the step.")]
    depth: Annotated[list[int], doc("Of each point: kernels, copies and memsets, from then to the next point.")]
    median: Annotated[float, doc("Median of the depth over time.")]
    empty_share: Annotated[float, doc("Share of the step in which the depth is 0.")]


class Views(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a report shows beside its findings. What the trace does not hold is None, or has no rows."""

    steps: Annotated[list[StepBar], doc('The first 500; without steps, one bar named "window".')]
    timeline: Annotated[Timeline | None, doc("One step, event by event; None where it has no length.")]
    others: Annotated[
        list[Timeline],
        doc("The first step, the slowest and the last, in order of time, in less detail than that of `timeline`."),
    ] = []
    flames: Annotated[
        list[Flame], doc("Flame graphs of the host's time and of the GPU's, as far as they were recorded.")
    ] = []
    memory: Annotated[list[MemoryCurve], doc("A curve a GPU, the busiest first; else the host's.")]
    queue: Annotated[QueueCurve | None, doc("Launched work over the step; None where launches are not known.")]
    classes: Annotated[Grid, doc("Kernels by class.")]
    operators: Annotated[Grid, doc("Host operators, and their shapes below them.")]
    kernels: Annotated[Grid, doc("Kernels by name.")]
    modules: Annotated[Grid, doc("nn.Modules, as a tree.")]
    copies: Annotated[Grid, doc("Copies by direction and memory.")]
    syncs: Annotated[Grid, doc("What the host waits for the device in.")]
    roofline: Annotated[
        Roofline | None,
        doc("Operators under what the device can do; None where no work or no rate is known, and in older analyses."),
    ] = None
