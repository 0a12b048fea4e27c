"""The table of modules: a tree of nn.Module calls, with the GPU work of their forward and backward."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from advisor.intervals import Ints, summed
from advisor.results.field import Cell
from advisor.results.views import Grid, Heading
from advisor.timeline.calls import BACKWARD, PYTHON
from advisor.views.grid import MOST_ROWS, extent_note, short

if TYPE_CHECKING:
    from advisor.trace import Trace

_HEADINGS = (
    Heading(name="module", meaning="as the profiler numbers it within its parent"),
    Heading(name="calls", unit="count"),
    Heading(name="host", unit="ms", meaning="durations of its calls, with those inside, summed"),
    Heading(name="GPU self", unit="ms", meaning="GPU work launched in it and in no module inside it, summed"),
    Heading(name="GPU total", unit="ms", meaning="with the modules inside it; backward included where it is known"),
    Heading(name="of it backward", unit="ms", meaning="GPU work of its backward pass"),
    Heading(
        name="share", unit="share", meaning="GPU total, of all GPU work; without a GPU host time, of the outermost"
    ),
)
_OUTSIDE = "(outside of modules)"


def modules(trace: Trace) -> Grid:
    """Modules as a tree, siblings heaviest first."""
    context = trace.context
    recording = context.recording
    host, work = recording.host, recording.work
    paths = host.module_paths if host.size else []
    if not paths:
        note = "Module calls are recorded with with_stack=True."
        return Grid(columns=list(_HEADINGS), rows=[], total=0, note=note)
    size = len(paths)
    is_module = np.array([name.startswith("nn.Module: ") for name in context.names], np.bool_)
    nodes = np.flatnonzero((host.group == PYTHON) & is_module[host.name])
    code = host.attributes.module[nodes]
    parent = np.full(size, -1, np.int64)
    above = host.parent[nodes]
    parent[code] = np.where(above >= 0, host.attributes.module[np.maximum(above, 0)], -1)
    # A path is made after the one it begins with; what a damaged trace makes of that must not run in circles.
    parent[parent >= np.arange(size)] = -1
    inside = recording.step_of(host.start[nodes]) >= 0 if trace.step_count else np.ones(len(nodes), np.bool_)
    calls = np.bincount(code[inside], minlength=size)
    time = summed(code[inside], host.ns(nodes[inside]), size)

    dur = work.end - work.start
    counted = recording.step_of(work.start) >= 0 if trace.step_count else np.ones(len(work), np.bool_)
    launch = np.maximum(work.launch, 0)
    module = np.where(work.launch >= 0, host.attributes.module[launch], -1)
    own = summed(module[counted], dur[counted], size + 1)  # -1 lands in the spare last place
    backward = counted & (work.launch >= 0) & (host.attributes.phase[launch] == BACKWARD)
    late = summed(module[backward], dur[backward], size + 1)
    total, late_total = own[:-1].copy(), late[:-1].copy()
    for at in range(size - 1, -1, -1):
        if parent[at] >= 0:
            total[parent[at]] += total[at]
            late_total[parent[at]] += late_total[at]

    whole_ns = int(own.sum()) or int(time[parent < 0].sum())
    weight = total if own.any() else time
    present = (calls > 0) | (total > 0)
    chosen = [at for at in np.argsort(-weight, kind="stable").tolist() if present[at]]
    order, parents = _tree(chosen[: MOST_ROWS - bool(own[-1])], parent)
    has_gpu = bool(len(work))

    def row(at: int) -> list[Cell]:
        gpu: list[Cell] = [own[at] / 1e6, total[at] / 1e6, late_total[at] / 1e6] if has_gpu else [None] * 3
        share = float(weight[at] / whole_ns) if whole_ns else None
        return [short(paths[at].rpartition("/")[2]), int(calls[at]), time[at] / 1e6, *gpu, share]

    rows = [row(at) for at in order]
    if own[-1]:
        rest = float(own[-1] / 1e6)
        rows.append([_OUTSIDE, None, None, rest, rest, float(late[-1] / 1e6), float(own[-1] / whole_ns)])
        parents.append(-1)
    return Grid(
        columns=list(_HEADINGS),
        rows=[[float(cell) if isinstance(cell, np.floating) else cell for cell in line] for line in rows],
        total=len(chosen) + bool(own[-1]),
        note=extent_note(trace),
        parents=parents,
    )


def _tree(chosen: list[int], parent: Ints) -> tuple[list[int], list[int]]:
    """*chosen*, each below its parent and otherwise in their order; and the place of each one's parent."""
    below: dict[int, list[int]] = {}
    known = set(chosen)
    for at in chosen:
        above = int(parent[at])
        below.setdefault(above if above in known else -1, []).append(at)
    order: list[int] = []
    parents: list[int] = []
    waiting = [(at, -1) for at in reversed(below.get(-1, []))]
    while waiting:
        at, above = waiting.pop()
        waiting += [(child, len(order)) for child in reversed(below.get(at, []))]
        order.append(at)
        parents.append(above)
    return order, parents
