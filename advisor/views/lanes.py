"""Host threads as rows of nested calls, few and shallow enough to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from advisor.counting import counted
from advisor.intervals import Bools, Ints, coded, distinct, fetch
from advisor.results.views import Track
from advisor.timeline.calls import ANNOTATION, BACKWARD, OP, PYTHON, RUNTIME
from advisor.timeline.ledger import CAUSES
from advisor.timeline.source import parse_frame
from advisor.views.marks import Marks, within
from advisor.views.steps import Extent
from advisor.views.thinning import Spans

if TYPE_CHECKING:
    from advisor.timeline.calls import Host
    from advisor.timeline.context import Context
    from advisor.trace import Trace

HOST_CATEGORIES = ("python", "module", "annotation", "operator", "runtime")
_FIRST = len(CAUSES)  # they follow on the causes
_MOST_ROWS = 12
_MOST_THREADS = 8
_MOST_OVERLAPS = 4
# Index into HOST_CATEGORIES by kind of depth, and how many levels of it give way, in this order, where not all fit.
_KINDS = ((0, 1), (2,), (3,), (4,))
_GIVE_WAY = ((2, 3), (1, 2), (0, 6), (3, 1), (2, 2), (0, 3), (1, 1), (2, 1), (0, 1))
# In traces of 2021 annotations are operators.
_ANNOTATIONS = ("ProfilerStep#", "enumerate(DataLoader)#", "Optimizer.")


class Lanes(Struct):
    """Part of the host that is shown; ``labels`` names the source's frames by their name's code."""

    parts: list[Spans] = field(default_factory=list)
    tracks: list[Track] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)
    track: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Of each forest node its track, -1 where it is not shown; ``row`` is its row there."""
    row: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def shown(self, node: Ints, parent: Ints) -> Ints:
        """The nearest call around each forest node that is shown, or itself; -1 where there is none."""
        node = node.copy()
        while len(hidden := np.flatnonzero((node >= 0) & (fetch(self.track, node) < 0))):
            node[hidden] = parent[node[hidden]]
        return node


def host_lanes(trace: Trace, extent: Extent, marks: Marks, first_track: int) -> Lanes:
    """The threads that do most, those with evidence before all."""
    context = trace.context
    host = context.recording.host
    lanes = Lanes()
    lanes.track, lanes.row = (np.full(host.size, -1, np.int64) for _ in range(2))
    low, high = extent.low, extent.high
    inside = within(host.start, host.end, low, high)
    if not inside.any():
        return lanes
    category, lanes.labels = host_categories(context, inside)
    evidence = np.flatnonzero(inside & (host.group == PYTHON) & (marks.node >= 0))
    category[evidence] = np.maximum(category[evidence], 0)
    shown = inside & (category >= 0)
    if not shown.any():
        return lanes
    depths = _depths(context, category, inside, shown)
    around = np.zeros(host.size, np.bool_)
    if int(np.sum(depths, axis=0)[shown].max()) >= _MOST_ROWS:
        # What goes on all through the step says nothing of it.
        around = shown & (category <= 2) & (host.start <= low) & (host.end >= high) & (marks.node < 0)
        shown &= ~around
        depths = _depths(context, category, inside, shown)
    if not shown.any():
        return lanes
    threads, at = coded(host.thread[shown])
    nodes = np.flatnonzero(shown)
    does = np.bincount(at, np.isin(category[nodes], (3, 4)), len(threads))
    calls = np.bincount(at, minlength=len(threads))
    marked = np.bincount(at, marks.node[nodes] >= 0, len(threads)) > 0
    order = np.lexsort((threads, -calls, -does, ~marked))
    drawn = sorted(order[:_MOST_THREADS].tolist(), key=lambda index: (-does[index], -calls[index], index))
    if len(order) > len(drawn):
        count = int(calls[order[_MOST_THREADS:]].sum())
        lanes.left_out.append(f"{counted(len(order) - len(drawn), 'thread')} with {counted(count, 'call')}")
    for index in drawn:
        here = nodes[at == index]
        row, fits = _rows([depth[here] for depth in depths], category[here])
        _pass_on(host, here, fits, marks)
        visible, row = here[fits], row[fits]
        lanes.track[visible], lanes.row[visible] = first_track + len(lanes.tracks), row
        start, end = np.clip(host.start[visible], low, high), np.clip(host.end[visible], low, high)
        lanes.parts.append(
            Spans(
                track=np.full(len(visible), first_track + len(lanes.tracks), np.int64),
                row=row,
                start=start - low,
                dur=end - start,
                name=host.name[visible].astype(np.int64),
                category=category[visible] + _FIRST,
                finding=marks.node[visible],
                count=np.ones(len(visible), np.int64),
                event=visible,
            )
        )
        outer = int((around & (host.thread == threads[index])).sum())
        label = _label(context, int(threads[index]), here, outer, len(here) - len(visible))
        lanes.tracks.append(Track(label=label, kind="thread", depth=int(row.max()) + 1))
    return lanes


def rows_of(start: Ints, end: Ints) -> Ints:
    """A row for each of some spans, in order of start, so that those of a row do not overlap; at most four rows."""
    row = np.zeros(len(start), np.int64)
    rest = np.arange(len(start))
    for _ in range(_MOST_OVERLAPS - 1):
        reach = np.maximum.accumulate(end[rest])
        over = np.zeros(len(rest), np.bool_)
        over[1:] = start[rest][1:] < reach[:-1]
        if not over.any():
            break
        rest = rest[over]
        row[rest] += 1
    return row


def host_categories(context: Context, inside: Bools) -> tuple[Ints, dict[int, str]]:
    """Index into HOST_CATEGORIES of every node, -1 for what is not shown; and names of the source's frames.

    Of Python, the user's own frames, nn.Module calls and collections of garbage are shown.
    """
    host, names = context.recording.host, context.names
    category = np.full(host.size, -1, np.int64)
    for group, code in ((ANNOTATION, 2), (OP, 3), (RUNTIME, 4)):
        category[inside & (host.group == group)] = code
    annotation = np.array([name.startswith(_ANNOTATIONS) for name in names], np.bool_)
    category[(category == 3) & annotation[host.name]] = 2
    python = np.flatnonzero(inside & (host.group == PYTHON))
    labels: dict[int, str] = {}
    kind = np.full(len(names), -1, np.int64)
    for code in distinct(host.name[python]).tolist():
        name = names[code]
        if name.startswith("nn.Module: "):
            kind[code], labels[code] = 1, name[11:]
            continue
        if name.startswith("Python GC"):
            kind[code] = 0
            continue
        place = parse_frame(name, host.libraries)
        if place is not None:
            labels[code] = f"{place.function} ({place.file}:{place.line})"
            kind[code] = 0 if place.user else -1
    category[python] = kind[host.name[python]]
    return category, labels


def _depths(context: Context, category: Ints, inside: Bools, shown: Bools) -> list[Ints]:
    """For each kind, how many calls of it that are shown are around each node of the step, in which all around it lie, too."""
    host = context.recording.host
    counted = np.stack([shown & np.isin(category, kinds) for kinds in _KINDS])
    depth = np.zeros((len(_KINDS), host.size), np.int64)
    for level in host.levels[1:]:
        level = level[inside[level] & (host.parent[level] >= 0)]
        above = host.parent[level]
        depth[:, level] = depth[:, above] + counted[:, above]
    return list(depth)


def _rows(depths: list[Ints], category: Ints) -> tuple[Ints, Bools]:
    """The row of each call, and which are shown where not all fit: inner operators give way first."""
    kind = np.array([0, 0, 1, 2, 3])[category]
    own = np.choose(kind, depths)
    limits = [int(depth.max()) + 1 for depth in depths]
    giving = iter(_GIVE_WAY)
    which, least = next(giving)
    while (
        int((row := np.sum([np.minimum(*pair) for pair in zip(depths, limits, strict=True)], axis=0)).max())
        >= _MOST_ROWS
    ):
        while limits[which] <= least:
            following = next(giving, None)
            if following is None:
                return row, (own < np.array(limits)[kind]) & (row < _MOST_ROWS)
            which, least = following
        limits[which] -= 1
    return row, own < np.array(limits)[kind]


def _pass_on(host: Host, here: Ints, fits: Bools, marks: Marks) -> None:
    """Evidence that is left out marks the nearest call around it that is shown."""
    shown = np.zeros(host.size, np.bool_)
    shown[here[fits]] = True
    node = here[~fits & (marks.node[here] >= 0)]
    finding, above = marks.node[node], host.parent[node]
    while (open_ := above >= 0).any():
        finding, above = finding[open_], above[open_]
        free = shown[above] & (marks.node[above] < 0)
        marks.node[above[free]] = finding[free]
        finding, above = finding[~shown[above]], host.parent[above[~shown[above]]]


def _label(context: Context, thread: int, nodes: Ints, outer: int, inner: int) -> str:
    host = context.recording.host
    ops = nodes[host.group[nodes] == OP]
    backward = len(ops) and 2 * int((host.attributes.phase[ops] == BACKWARD).sum()) > len(ops)
    label = f"{'autograd' if backward else 'host'} thread {thread}" if thread >= 0 else "host thread"
    left_out = [f"{outer:,} around the whole step"] if outer else []
    left_out += [f"{inner:,} too deep to show"] if inner else []
    return f"{label} (calls left out: {', '.join(left_out)})" if left_out else label
