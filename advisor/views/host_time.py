"""Division of the time in which the GPU waits for the CPU: phases, functions, ranges, operators of the thread that launches."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from advisor.intervals import Bools, Ints, alike, covered, distinct, summed, union
from advisor.regex import regex
from advisor.results.host_time import HostSplit, HostTime
from advisor.timeline.calls import BACKWARD, OP, PYTHON, RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.launch_origin import thread_behind
from advisor.timeline.marked import marks
from advisor.timeline.parts import (
    BETWEEN,
    FUNCTION,
    by_ranges,
    function_name,
    of_inner_ranges,
    parts,
    standard_calls,
    text,
)

_LEAST = 0.05
"""Of steady work: less idle time for the host is not divided."""
_SMALL = 0.005
"""Of that idle time: parts of less are summed up."""
_HOLDS = 0.5
"""Of a function's part: a call of the standard library with so much of it is named."""
_NODE = regex(r"Backward\d*$")
"""End of the name of an operator's node in autograd's graph."""
_KINDS: tuple[Literal["phase", "function", "range", "operator", "between"], ...] = (
    "phase", "function", "range", "operator", "between",
)  # fmt: skip
"""By the kinds of :mod:`advisor.timeline.parts`."""


def host_time(context: Context) -> list[HostTime]:
    """Divide the steady time in which the busiest device idles for Python, operators and launches, the longest part first.

    Each moment belongs to the innermost event of the thread that launches what ends the idle stretch. Empty without a device,
    where idle time is not what the recording shows, and where it is less than a twentieth of the step.
    """
    waits = context.once(_waits)
    if waits is None:
        return []
    node, own, total = waits
    kind, code = by_ranges(context, node, own, *parts(context, node, own))
    code = of_inner_ranges(context, node, own, kind, code)
    first, part = alike(kind, code)
    sums = summed(part, own, len(first))
    found = {(int(kind[at]), int(code[at])): int(ns) for at, ns in zip(first.tolist(), sums.tolist(), strict=True)}
    # What is in no event at all is between what was recorded.
    found[BETWEEN, -1] = found.get((BETWEEN, -1), 0) + total - int(own.sum())
    large = {key: ns for key, ns in found.items() if ns >= _SMALL * total}
    ms = _ms(context)
    inside = _inside(context, node, own, kind, code)
    divided = [
        HostTime(
            where=text(context, *key),
            kind=_KINDS[key[0]],
            ms=ns * ms,
            share=ns / total,
            inside=inside.get(key[1]) if key[0] == FUNCTION else None,
        )
        for key, ns in sorted(large.items(), key=lambda item: -item[1])
    ]
    if rest := total - sum(large.values()):
        divided.append(HostTime(where="", kind="others", ms=rest * ms, share=rest / total))
    return divided


def host_split(context: Context) -> HostSplit | None:
    """Divide the same time by what the launching thread is in; None where that is not divided."""
    waits = context.once(_waits)
    if waits is None:
        return None
    host, ms = context.recording.host, _ms(context)
    group, name = host.group[waits.node], host.name[waits.node]
    called, op = group == RUNTIME, group == OP
    mark = op & context.once(marks)[name]
    operator = op & ~mark & (context.once(_native)[name] | _nodes_of_operators(context, waits.node))
    # A range or a step is Python that does not call: without stacks nobody knows whether it is.
    inside = host.nearest(waits.node, host.group == PYTHON) >= 0
    python = inside & ~called & ~operator | (op & ~mark & ~operator)
    ns = [int(waits.own[chosen].sum()) for chosen in (python, operator, called)]
    return HostSplit(
        python_ms=ns[0] * ms, operator_ms=ns[1] * ms, launch_ms=ns[2] * ms, between_ms=(waits.total - sum(ns)) * ms
    )


def _native(context: Context) -> Bools:
    """Flag names of operators with a namespace: compiled regions, and functions of autograd's in Python, have none."""
    return np.array(["::" in name for name in context.names], np.bool_)


def _nodes_of_operators(context: Context, node: Ints) -> Bools:
    """Flag nodes of the backward pass that are operators' own: that of a function written in Python has its name in the forward."""
    names = context.names
    known = set(names)
    own = np.array([(base := _NODE.sub("", name)) != name and base not in known for name in names], np.bool_)
    flags: Bools = (context.phases(node) == BACKWARD) & own[context.recording.host.name[node]]
    return flags


class _Waits(NamedTuple):
    """Forest nodes of the launching threads, the ns of idle time that each has to itself, and all of that idle time."""

    node: Ints
    own: Ints
    total: int


def _waits(context: Context) -> _Waits | None:
    """Find the steady time in which the device idles for the CPU; None where it is little, or no idle time is what it seems."""
    ledger = context.ledger
    rows = np.flatnonzero(ledger.counted & ledger.through("host", "operator"))
    total = int(ledger.dur_ns[rows].sum())
    if not len(context.kernel_rows) or not context.idle_trusted or not total or total < _LEAST * ledger.counted_ns:
        return None
    node, own = _self_times(context, ledger.start_ns[rows], ledger.end_ns[rows])
    return _Waits(node, own, total) if len(node) else None


def _ms(context: Context) -> float:
    return context.step_ns / 1e6 / max(context.ledger.counted_ns, 1)


def _inside(context: Context, node: Ints, own: Ints, kind: Ints, code: Ints) -> dict[int, str]:
    """Return the standard library's function that a function of a part, by its code, spends most of the part's time in."""
    chosen = np.flatnonzero(kind == FUNCTION)
    called = standard_calls(context, node[chosen])
    pairs, part = alike(code[chosen], called)
    sums, whole = summed(part, own[chosen], len(pairs)), summed(code[chosen], own[chosen], len(context.names))
    told: dict[int, str] = {}
    for at, ns in zip(chosen[pairs].tolist(), sums.tolist(), strict=True):
        function = int(called[np.searchsorted(chosen, at)])
        if function >= 0 and ns >= _HOLDS * whole[code[at]]:
            told[int(code[at])] = function_name(context, function)
    return told


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
