"""Division of the time in which the GPU waits for the CPU: phases, functions, ranges, operators of the thread that launches."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

import numpy as np

from advisor.intervals import Bools, Ints, alike, covered, distinct, fetch, summed, union
from advisor.results.host_time import HostTime
from advisor.timeline.calls import ANNOTATION, BACKWARD, OP, OPTIMIZER, PHASES, PYTHON, ZERO_GRAD
from advisor.timeline.context import Context
from advisor.timeline.launch_origin import thread_behind
from advisor.timeline.source import Place, parse_frame

_LEAST = 0.05
"""Of steady work: less idle time for the host is not divided."""
_SMALL = 0.005
"""Of that idle time: parts of less are summed up."""
_MOST = 0.9
"""Of that idle time: what is around so much of it holds all of it, for what a reader wants to know."""
_MARK = "ProfilerStep#"
_RANGES = ("Optimizer.", "enumerate(")
"""Ranges that torch marks, which traces of 2021 hold as operators."""
_KINDS: tuple[Literal["phase", "function", "range", "operator", "between"], ...] = (
    "phase", "function", "range", "operator", "between",
)  # fmt: skip
_PHASE, _FUNCTION, _RANGE, _OPERATOR, _BETWEEN = range(len(_KINDS))


def host_time(context: Context) -> list[HostTime]:
    """Divide the steady time in which the busiest device idles for Python, operators and launches, the longest part first.

    Each moment belongs to the innermost event of the thread that launches what ends the idle stretch. Empty without a device,
    where idle time is not what the recording shows, and where it is less than a twentieth of the step.
    """
    ledger = context.ledger
    rows = np.flatnonzero(ledger.counted & ledger.through("host", "operator"))
    total = int(ledger.dur_ns[rows].sum())
    if not len(context.kernel_rows) or not context.idle_trusted or not total or total < _LEAST * ledger.counted_ns:
        return []
    start, end = ledger.start_ns[rows], ledger.end_ns[rows]
    node, own = _self_times(context, start, end)
    if not len(node):
        return []
    kind, code = _parts(context, node, own)
    first, part = alike(kind, code)
    sums = summed(part, own, len(first))
    found = {(int(kind[at]), int(code[at])): int(ns) for at, ns in zip(first.tolist(), sums.tolist(), strict=True)}
    # What is in no event at all is between what was recorded.
    found[_BETWEEN, -1] = found.get((_BETWEEN, -1), 0) + total - int(own.sum())
    large = {key: ns for key, ns in found.items() if ns >= _SMALL * total}
    ms = context.step_ns / 1e6 / max(ledger.counted_ns, 1)
    parts = [
        HostTime(where=_text(context, *key), kind=_KINDS[key[0]], ms=ns * ms, share=ns / total)
        for key, ns in sorted(large.items(), key=lambda item: -item[1])
    ]
    if rest := total - sum(large.values()):
        parts.append(HostTime(where="", kind="others", ms=rest * ms, share=rest / total))
    return parts


def _self_times(context: Context, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Forest nodes of the launching threads, and ns of the idle stretches that each has to itself; those that have any."""
    host = context.recording.host
    threads = thread_behind(context, end)
    nodes, times = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for thread in distinct(threads).tolist():
        waiting = threads == thread
        spans = union(start[waiting], end[waiting])
        mine = np.flatnonzero(host.thread == thread)
        inside = covered(spans, host.start[mine], host.end[mine])
        at = np.flatnonzero(inside > 0)
        mine, inside = mine[at], inside[at]
        # A node's children lie inside it: what none of them takes is its own. What has no parent is summed up at the last place.
        parent = np.searchsorted(mine, host.parent[mine])
        children = summed(np.where(host.parent[mine] >= 0, parent, len(mine)), inside, len(mine) + 1)[:-1]
        own = inside - children
        nodes.append(mine[own > 0])
        times.append(own[own > 0])
    return np.concatenate(nodes), np.concatenate(times)


@dataclass
class _Names:
    """Kinds of events, by name code."""

    functions: Bools
    marks: Bools
    ranges: Bools


def _names(context: Context) -> _Names:
    libraries = context.recording.host.libraries
    frames = [parse_frame(name, libraries) for name in context.names]
    return _Names(
        np.array([frame is not None and _tells(frame) for frame in frames], np.bool_),
        np.array([name.startswith(_MARK) for name in context.names], np.bool_),
        np.array([name.startswith(_RANGES) for name in context.names], np.bool_),
    )


def _tells(frame: Place) -> bool:
    """Tell whether a frame says where a program is: neither torch's nor the standard library's."""
    top = frame.file.split("/", 1)[0].removesuffix(".py")
    return frame.user or (top != "torch" and top not in sys.stdlib_module_names)


def _parts(context: Context, node: Ints, own: Ints) -> tuple[Ints, Ints]:
    """Kind of the part that each node is of, and its code: of a phase, else of a name; -1 between all.

    A range or an operator around nearly all tells nothing: what it holds is named, and it for the rest.
    """
    host = context.recording.host
    names = context.once(_names)
    kind, code = np.full(len(node), _BETWEEN, np.int64), np.full(len(node), -1, np.int64)
    other, named = kind.copy(), code.copy()
    phase = context.phases(node)
    mark, ranged = names.marks[host.name], names.ranges[host.name]
    groups = (
        (_FUNCTION, (host.group == PYTHON) & names.functions[host.name], False),
        (_RANGE, ((host.group == ANNOTATION) & ~mark) | ((host.group == OP) & ranged), True),
        (_OPERATOR, (host.group == OP) & ~mark & ~ranged, True),
    )
    training = np.isin(phase, (BACKWARD, OPTIMIZER, ZERO_GRAD))
    kind[training], code[training] = _PHASE, phase[training]
    for of, chosen, outermost in groups:
        left = np.flatnonzero(kind == _BETWEEN)
        around = _around(context, node[left], chosen, outermost)
        while outermost and (all_in := _holds_most(fetch(host.name, around), own[left], own.sum())) >= 0:
            inside = left[fetch(host.name, around) == all_in]
            other[inside], named[inside] = of, all_in
            chosen = chosen & (host.name != all_in)
            around = _around(context, node[left], chosen, outermost)
        known = around >= 0
        kind[left[known]], code[left[known]] = of, fetch(host.name, around[known])
    alone = kind == _BETWEEN
    kind[alone], code[alone] = other[alone], named[alone]
    return kind, code


def _holds_most(name: Ints, own: Ints, total: int) -> int:
    """The name, -1 for none, in which nearly all of the time lies."""
    times = summed(name + 1, own, int(name.max(initial=-1)) + 2)[1:]
    most = int(times.argmax()) if len(times) else -1
    return most if most >= 0 and times[most] >= _MOST * total else -1


def _around(context: Context, node: Ints, chosen: Bools, outermost: bool) -> Ints:
    """The innermost chosen node that is or holds each of some nodes, or the outermost; -1 for none."""
    host = context.recording.host
    at = np.where(chosen[node], node, host.above(node, chosen))
    while outermost:
        above = np.where(at >= 0, host.above(np.maximum(at, 0), chosen), -1)
        if not (above >= 0).any():
            break
        at = np.where(above >= 0, above, at)
    return at


def _text(context: Context, kind: int, code: int) -> str:
    if kind == _PHASE:
        return PHASES[code]
    if code < 0:
        return ""
    frame = parse_frame(context.names[code], context.recording.host.libraries) if kind == _FUNCTION else None
    return frame.text if frame else context.names[code]
