"""Flame graphs: the host's time by what calls what, and the GPU's by module and operator, each path once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from advisor.intervals import Bools, Ints, coded, fetch, summed
from advisor.results.views import Flame, FlameKind
from advisor.timeline.calls import BACKWARD, OP
from advisor.timeline.launch_origin import outermost_ops
from advisor.timeline.recording import COPY, MEMSET
from advisor.views.grid import Groups, extent_note, short
from advisor.views.lanes import HOST_CATEGORIES, host_categories
from advisor.views.marks import within

if TYPE_CHECKING:
    from advisor.timeline.context import Context
    from advisor.trace import Trace

MOST = 56
LEAST = 0.002
_DEEPEST = 24
_LONGEST = 100
_STEP = "ProfilerStep#"


class _Path(NamedTuple):
    """A path of calls: its last name, the index of the path around it (-1 for none), the time and the calls of all of it."""

    name: str
    category: str
    above: int
    ns: int
    calls: int


def flames(trace: Trace) -> list[Flame]:
    """The host's flame graph and the GPU's; of each what was recorded."""
    return [flame for flame in (_host(trace), _gpu(trace)) if flame is not None]


def _flame(trace: Trace, kind: FlameKind, by: str, paths: list[_Path]) -> Flame | None:
    """The heaviest of some paths as a picture; those too small to draw stand together beside their like."""
    total = sum(path.ns for path in paths if path.above < 0)
    if total <= 0:
        return None
    heaviest = sorted(range(len(paths)), key=lambda at: (-paths[at].ns, at))
    kept = {at for at in heaviest[:MOST] if paths[at].ns >= LEAST * total}
    below: dict[int, list[int]] = {}
    for at in heaviest:
        if paths[at].above < 0 or paths[at].above in kept:
            below.setdefault(paths[at].above, []).append(at)
    rows: list[tuple[str, str, int, float, int]] = []
    waiting = [(-1, -1)]
    while waiting:
        at, place = waiting.pop(0)
        here = below.get(at, [])
        for child in here:
            if child in kept:
                waiting.append((child, len(rows)))
                path = paths[child]
                rows.append((short(path.name, _LONGEST), path.category, place, path.ns / 1e6, path.calls))
        rest = [paths[child] for child in here if child not in kept]
        if (ns := sum(path.ns for path in rest)) >= LEAST * total:
            name, category = (rest[0].name, rest[0].category) if len(rest) == 1 else (f"{len(rest):,} smaller", "other")
            rows.append((short(name, _LONGEST), category, place, ns / 1e6, sum(path.calls for path in rest)))
    names, categories, parents, ms, calls = (list(column) for column in zip(*rows, strict=True))
    note = f"{extent_note(trace)} {by}; what is too small to draw stands together."
    return Flame(
        kind=kind,
        note=note,
        total_ms=total / 1e6,
        names=names,
        categories=categories,
        parents=parents,
        ms=ms,
        calls=calls,
    )


# ---- the host


def _host(trace: Trace) -> Flame | None:
    context = trace.context
    host = context.recording.host
    low, high = (int(edge) for edge in context.recording.bounds[[0, -1]])
    inside = within(host.start, host.end, low, high)
    if not inside.any():
        return None
    category, labels = host_categories(context, inside)
    step = np.array([name.startswith(_STEP) for name in context.names], np.bool_)
    shown = inside & (category >= 0) & ~step[host.name]
    if not shown.any():
        return None
    time = np.clip(host.end, low, high) - np.clip(host.start, low, high)
    paths = _host_paths(context, category, shown, time, labels)
    stacks = bool((category[shown] <= 1).any())
    by = (
        "By the Python functions, modules and operators that call each other"
        if stacks
        else "By operators inside operators"
    )
    return _flame(trace, "host", by, paths)


def _host_paths(context: Context, category: Ints, shown: Bools, time: Ints, labels: dict[int, str]) -> list[_Path]:
    """Paths of calls, by thread; the time of one holds that of all below it. Those too small to draw have none below them."""
    host = context.recording.host
    around, depth = _nearest(context, shown)
    nodes = np.flatnonzero(shown)
    threads, thread = coded(host.thread[nodes])
    root = depth[nodes] == 0
    lasts = summed(thread[root], time[nodes[root]], len(threads))
    backward = np.bincount(thread, (host.group[nodes] == OP) & (host.attributes.phase[nodes] == BACKWARD), len(threads))
    acts = np.bincount(thread, host.group[nodes] == OP, len(threads))
    paths = [
        _Path(f"{'autograd' if late > all_ / 2 else 'host'} thread {number}", "other", -1, int(ns), int(all_))
        for number, ns, late, all_ in zip(
            threads.tolist(), lasts.tolist(), backward.tolist(), acts.tolist(), strict=True
        )
    ]
    least = LEAST * int(lasts.sum())
    path = np.full(host.size, -1, np.int64)
    for level in range(min(_DEEPEST, int(depth[nodes].max()) + 1)):
        here = depth[nodes] == level
        node = nodes[here]
        above = thread[here].astype(np.int64) if level == 0 else path[around[node]]
        node, above = node[above >= 0], above[above >= 0]
        if not len(node):
            break
        groups = Groups(above, host.name[node].astype(np.int64))
        ns, calls = groups.sum(time[node]), groups.sizes()
        number = np.full(groups.count, -1, np.int64)
        for group, at in enumerate(groups.first.tolist()):
            code = int(host.name[node[at]])
            if ns[group] >= least:
                number[group] = len(paths)
            name = labels.get(code) or context.names[code]
            paths.append(
                _Path(name, HOST_CATEGORIES[category[node[at]]], int(above[at]), int(ns[group]), int(calls[group]))
            )
        path[node] = number[groups.codes]
    return paths


def _nearest(context: Context, shown: Bools) -> tuple[Ints, Ints]:
    """For each forest node the nearest shown one around it, -1 for none; and how many shown ones are around it."""
    host = context.recording.host
    around, depth = np.full(host.size, -1, np.int64), np.zeros(host.size, np.int64)
    for level in host.levels[1:]:
        parent = host.parent[level]
        around[level] = np.where(shown[parent], parent, around[parent])
        depth[level] = depth[parent] + shown[parent]
    return around, depth


# ---- the GPU


def _gpu(trace: Trace) -> Flame | None:
    context = trace.context
    recording = context.recording
    host, work = recording.host, recording.work
    rows = np.flatnonzero((work.device == trace.device) & (work.end > work.start))
    if trace.step_count:
        rows = rows[recording.step_of(work.start[rows]) >= 0]
    if not len(rows):
        return None
    launch = work.launch[rows]
    module = fetch(host.attributes.module, launch)
    op = fetch(host.attributes.op, launch)
    inner = fetch(host.name, np.where((op >= 0) & (host.group[np.maximum(op, 0)] == OP), op, -1)) if host.size else op
    outer = np.where(module >= 0, -1, outermost_ops(context, launch))
    kernel = np.where(module >= 0, -1, work.name[rows])
    kind = np.select([work.communication[rows], work.kind[rows] == COPY, work.kind[rows] == MEMSET], [1, 2, 3], 0)
    groups = Groups(module, outer, inner, kernel, np.where(module >= 0, 0, kind))
    ns, calls = groups.sum(work.end[rows] - work.start[rows]), groups.sizes()
    found: dict[tuple[int, str, str], int] = {}
    totals: list[list[int]] = []
    for group, at in enumerate(groups.first.tolist()):
        above = -1
        for name, category in _parts(
            context, int(module[at]), int(outer[at]), int(inner[at]), int(kernel[at]), int(kind[at])
        ):
            above = found.setdefault((above, name, category), len(found))
            if above == len(totals):
                totals.append([0, 0])
            totals[above][0] += int(ns[group])
            totals[above][1] += int(calls[group])
    paths = [_Path(name, category, above, *totals[at]) for (above, name, category), at in found.items()]
    by = (
        "By modules, and the operators inside them"
        if (module >= 0).any()
        else "By operators, and the kernels that they launch"
    )
    return _flame(trace, "gpu", by, paths)


def _parts(context: Context, module: int, outer: int, inner: int, kernel: int, kind: int) -> list[tuple[str, str]]:
    """Names and categories on the way to a piece of GPU work, outermost first."""
    names = context.names
    parts: list[tuple[str, str]] = []
    if module >= 0:
        parts += [(part, "module") for part in context.recording.host.module_paths[module].split("/")]
    if outer >= 0 and outer != inner:
        parts.append((names[outer], "operator"))
    if inner >= 0:
        parts.append((names[inner], "operator"))
    if kernel >= 0:
        parts.append((names[kernel], ("compute", "communication", "copy", "memset")[kind]))
    return parts[:_DEEPEST] or [("(launch not recorded)", "other")]
