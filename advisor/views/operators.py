"""The table of operators: host and GPU time, own and with what is inside, by shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.intervals import Bools, Ints, summed
from advisor.results.field import Cell
from advisor.results.views import Grid, Heading
from advisor.timeline.calls import OP
from advisor.timeline.marked import marks
from advisor.views.grid import MOST_ROWS, Groups, Labels, counted_rows, extent_note, ms

if TYPE_CHECKING:
    from advisor.timeline.context import Context
    from advisor.trace import Trace

_MOST_SHAPES = 4
_HEADINGS = (
    Heading(name="operator", meaning="its name; below it the shapes of its inputs, where they were recorded"),
    Heading(name="calls", unit="count"),
    Heading(name="host self", unit="ms", meaning="time on the host without operators inside it"),
    Heading(name="host total", unit="ms", meaning="time on the host; one inside another of its name counts once"),
    Heading(name="GPU self", unit="ms", meaning="GPU work that it launched itself, summed"),
    Heading(name="GPU total", unit="ms", meaning="GPU work launched by it and what is inside it, each piece once"),
    Heading(name="shapes", unit="count", meaning="different lists of input shapes; 0 where they were not recorded"),
    Heading(name="module", meaning="the nn.Module with most of its time"),
)


def operators(trace: Trace) -> Grid:
    """Operators by name, those with most GPU time of their own first (host time without a GPU); shapes below each."""
    frame, context = trace.columns("ops"), trace.context
    keep = counted_rows(trace, frame)
    # Before torch 1.12 torch's own marks were written as operators.
    keep &= ~context.once(marks)[context.recording.host.name[context.op_rows]]
    nodes = context.op_rows[keep]
    name, shapes = Labels(frame["name"]).where(keep), Labels(frame["shapes"]).where(keep)
    module = Labels(frame["module"]).where(keep)
    own = frame["self_ns"].to_numpy()[keep]
    dur = frame["dur_ns"].to_numpy()[keep]
    host = context.recording.host
    kind = host.name.astype(np.int64)
    shaped = kind.copy()
    shaped[context.op_rows] += len(context.names) * (Labels(frame["shapes"]).codes + 1)
    outermost, outermost_shaped = (~_inside_its_like(context, key)[nodes] for key in (kind, shaped))
    gpu_own, gpu_all = _gpu_time(trace)
    gpu_own, gpu_all = gpu_own[nodes], gpu_all[nodes]
    weight = gpu_own if gpu_own.any() else own

    def columns(groups: Groups, texts: list[str], once: Bools) -> list[list[Any]]:
        return [
            texts,
            groups.sizes().tolist(),
            ms(groups.sum(own)),
            ms(groups.sum(np.where(once, dur, 0))),
            ms(groups.sum(gpu_own)),
            ms(groups.sum(np.where(once, gpu_all, 0))),
            groups.distinct(shapes.codes).tolist(),
            [module.text(code) for code in groups.heaviest(module.codes, weight + own).tolist()],
        ]

    by_name = Groups(name.codes)
    texts = [name.text(code) or "(no name)" for code in name.codes[by_name.first].tolist()]
    outer = columns(by_name, texts, outermost)
    order = np.lexsort((-by_name.sum(own), -by_name.sum(weight)))[:MOST_ROWS]
    by_shape = Groups(by_name.codes, shapes.codes)
    inner = columns(
        by_shape,
        [shapes.text(code) or "(no shapes)" for code in shapes.codes[by_shape.first].tolist()],
        outermost_shaped,
    )
    parent = by_name.codes[by_shape.first]
    varied = by_name.distinct(shapes.codes)
    below = np.lexsort((-by_shape.sum(own), -by_shape.sum(weight), parent))
    starts = np.searchsorted(parent[below], np.arange(by_name.count + 1))
    rows: list[list[Cell]] = []
    parents: list[int] = []
    for group in order.tolist():
        if len(rows) >= MOST_ROWS:
            break
        head = len(rows)
        rows.append([column[group] for column in outer])
        parents.append(-1)
        if varied[group]:
            for at in below[starts[group] : starts[group + 1]][:_MOST_SHAPES].tolist():
                rows.append([column[at] for column in inner])
                parents.append(head)
    return Grid(
        columns=list(_HEADINGS),
        rows=rows[:MOST_ROWS],
        total=by_name.count + int(np.isin(parent, np.flatnonzero(varied)).sum()),
        note=f"{extent_note(trace)} Below an operator, up to {_MOST_SHAPES} of its shapes."
        if shapes.texts
        else extent_note(trace),
        parents=parents[:MOST_ROWS] if any(at >= 0 for at in parents) else [],
    )


def _inside_its_like(context: Context, key: Ints) -> Bools:
    """Nodes inside an operator with the same key: their time is already in that one's."""
    host = context.recording.host
    out = np.zeros(host.size, np.bool_)
    if not host.size:
        return out
    act = host.attributes.op
    node = context.op_rows
    above = host.parent[node]
    while len(node):
        up = np.where(above >= 0, act[np.maximum(above, 0)], -1)
        open_ = up >= 0
        node, up = node[open_], up[open_]
        same = (host.group[up] == OP) & (key[up] == key[node])
        out[node[same]] = True
        node, above = node[~same], host.parent[up[~same]]
    return out


def _gpu_time(trace: Trace) -> tuple[Ints, Ints]:
    """Per forest node: ns of GPU work launched by the operator itself, and at or below it; work in steps only."""
    recording = trace.context.recording
    host, work = recording.host, recording.work
    pieces = work.launch >= 0
    if trace.step_count:
        pieces &= recording.step_of(work.start) >= 0
    launch, time = work.launch[pieces], (work.end - work.start)[pieces]
    op = host.attributes.op[launch]
    own, total = summed(op[op >= 0], time[op >= 0], host.size), summed(launch, time, host.size)
    for level in reversed(host.levels[1:]):
        np.add.at(total, host.parent[level], total[level])
    return own, total
