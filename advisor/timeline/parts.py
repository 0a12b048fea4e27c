"""Parts of a program that its host's time lies in: phases of training, functions, ranges, operators."""

from __future__ import annotations

import sys

import numpy as np
from msgspec import Struct

from advisor.intervals import Bools, Ints, distinct, fetch, summed
from advisor.regex import regex
from advisor.timeline.calls import ANNOTATION, BACKWARD, OP, OPTIMIZER, PHASES, PYTHON, RANGES, ZERO_GRAD
from advisor.timeline.context import Context
from advisor.timeline.marked import steps
from advisor.timeline.source import Place, parse_frame

PHASE, FUNCTION, RANGE, OPERATOR, BETWEEN = range(5)
"""Kinds of parts; what is in none of them lies between."""
_MOST = 0.9
"""Of the time that is divided: what is around so much of it holds all of it, for what a reader wants to know."""
_STANDARD = sys.stdlib_module_names
EXCHANGE = regex(r"(?:nccl|rccl|gloo|ucc|mpi|hccl|xccl):")
"""Ranges that a process group marks."""
NODE = "autograd::engine::evaluate_function: "
"""Prefix of the operator that autograd's engine is in while it runs a node of the graph."""


class _Names(Struct):
    """Kinds of events, by name code."""

    functions: Bools
    standard: Bools
    """Functions of the standard library."""
    marks: Bools
    ranges: Bools
    exchanges: Bools
    """Ranges that a process group marks: some last until an exchange is over, whatever the program does meanwhile."""


def _names(context: Context) -> _Names:
    libraries = context.recording.host.libraries
    frames = [parse_frame(name, libraries) for name in context.names]
    return _Names(
        np.array([frame is not None and tells(frame) for frame in frames], np.bool_),
        np.array([frame is not None and not frame.user and _module(frame) in _STANDARD for frame in frames], np.bool_),
        steps(context),
        np.array([name.startswith(RANGES) for name in context.names], np.bool_),
        np.array([EXCHANGE.match(name) is not None for name in context.names], np.bool_),
    )


def tells(frame: Place) -> bool:
    """Tell whether a frame says where a program is: neither torch's nor the standard library's."""
    return frame.user or (_module(frame) != "torch" and _module(frame) not in _STANDARD)


def _module(frame: Place) -> str:
    """Return the top of the package that a frame's file is of."""
    return frame.file.split("/", 1)[0].removesuffix(".py")


def _groups(context: Context) -> tuple[tuple[int, Bools, bool], ...]:
    """Kinds of parts in the order in which they are tried, the nodes that are such, and whether the outermost of them counts."""
    host, names = context.recording.host, context.once(_names)
    mark, ranged = names.marks[host.name], names.ranges[host.name]
    ranges = ((host.group == ANNOTATION) & ~mark & ~names.exchanges[host.name]) | ((host.group == OP) & ranged)
    return (
        (FUNCTION, (host.group == PYTHON) & names.functions[host.name], False),
        (RANGE, ranges, True),
        (OPERATOR, (host.group == OP) & ~mark & ~ranged, True),
    )


def parts(context: Context, node: Ints, weight: Ints) -> tuple[Ints, Ints]:
    """Kind of the part that each node is of, and its code: of a phase, else of a name; -1 between all.

    A range or an operator around nearly all of the *weight* tells nothing: what it holds is named, and it for the rest.
    """
    host = context.recording.host
    kind, code = np.full(len(node), BETWEEN, np.int64), np.full(len(node), -1, np.int64)
    other, named = kind.copy(), code.copy()
    phase = context.phases(node)
    training = np.isin(phase, (BACKWARD, OPTIMIZER, ZERO_GRAD))
    kind[training], code[training] = PHASE, phase[training]
    for of, chosen, outermost in context.once(_groups):
        left = np.flatnonzero(kind == BETWEEN)
        around = _around(context, node[left], chosen, outermost)
        while outermost and (all_in := _holds_most(fetch(host.name, around), weight[left], weight.sum())) >= 0:
            inside = left[fetch(host.name, around) == all_in]
            other[inside], named[inside] = of, all_in
            chosen = chosen & (host.name != all_in)
            around = _around(context, node[left], chosen, outermost)
        known = around >= 0
        kind[left[known]], code[left[known]] = of, fetch(host.name, around[known])
    alone = kind == BETWEEN
    kind[alone], code[alone] = other[alone], named[alone]
    return kind, code


def of_inner_ranges(context: Context, node: Ints, weight: Ints, kind: Ints, code: Ints) -> Ints:
    """Codes of the parts, but for each range that spends nearly all of its *weight* in one range within it: that one's."""
    host, inner = context.recording.host, code.copy()
    ranges = next(chosen for of, chosen, _ in context.once(_groups) if of == RANGE)
    rows = np.flatnonzero(kind == RANGE)
    within = fetch(host.name, host.nearest(node[rows], ranges))
    for name in distinct(code[rows]).tolist():
        of = code[rows] == name
        most = _holds_most(within[of], weight[rows[of]], weight[rows[of]].sum())
        if most >= 0:
            inner[rows[of]] = most
    return inner


def by_ranges(context: Context, node: Ints, weight: Ints, kind: Ints, code: Ints) -> tuple[Ints, Ints]:
    """Divide a function that holds three quarters of the weight by the innermost ranges in it, where these hold half of that.

    Takes and returns what :func:`parts` does: the rest of the function stays its own.
    """
    host = context.recording.host
    called = np.flatnonzero(kind == FUNCTION)
    times = summed(code[called], weight[called], len(context.names))
    most = int(times.argmax()) if len(called) else -1
    if most < 0 or times[most] < _ALONE * weight.sum():
        return kind, code
    functions, ranges = (
        next(group[1] for group in context.once(_groups) if group[0] == of) for of in (FUNCTION, RANGE)
    )
    at = called[code[called] == most]
    around = host.nearest(node[at], ranges)
    outer = host.above(np.flatnonzero(ranges), ranges)
    known = (around >= 0) & ~np.isin(around, outer)
    at, around = at[known], around[known]
    inside = fetch(host.name, host.above(around, functions)) == most
    at, around = at[inside], around[inside]
    held = int(weight[at].sum())
    if 2 * held < times[most] or _holds_most(host.name[around], weight[at], int(times[most])) >= 0:
        return kind, code
    kind, code = kind.copy(), code.copy()
    kind[at], code[at] = RANGE, host.name[around]
    return kind, code


_ALONE = 0.75
"""Of the time that is divided: a function with so much of it is as good as all of it."""


def first_known(context: Context, node: Ints) -> tuple[Ints, Ints]:
    """Kind of the part that tells most of where each single node is, and its code: its function, range, phase, or operator."""
    kind, code = np.full(len(node), BETWEEN, np.int64), np.full(len(node), -1, np.int64)
    host, phase = context.recording.host, context.phases(node)
    for of, chosen, outermost in context.once(_groups):
        if of == OPERATOR:
            left = np.flatnonzero((kind == BETWEEN) & np.isin(phase, (BACKWARD, OPTIMIZER, ZERO_GRAD)))
            kind[left], code[left] = PHASE, phase[left]
        left = np.flatnonzero(kind == BETWEEN)
        around = _around(context, node[left], chosen, outermost)
        known = left[around >= 0]
        kind[known], code[known] = of, host.name[around[around >= 0]]
    return kind, code


def _holds_most(name: Ints, weight: Ints, total: int) -> int:
    """The name, -1 for none, in which nearly all of the weight lies."""
    times = summed(name + 1, weight, int(name.max(initial=-1)) + 2)[1:]
    most = int(times.argmax()) if len(times) else -1
    return most if most >= 0 and times[most] >= _MOST * total else -1


def _around(context: Context, node: Ints, chosen: Bools, outermost: bool) -> Ints:
    """The innermost chosen node that is or holds each of some nodes, or the outermost; -1 for none."""
    host = context.recording.host
    return host.outermost(node, chosen) if outermost else host.nearest(node, chosen)


def standard_calls(context: Context, node: Ints) -> Ints:
    """Name code of the standard library's function that the innermost function of a part is in, as it called it; -1 for none.

    Of nodes in the parts that are functions: what these call, and not what is called behind that.
    """
    host, names = context.recording.host, context.once(_names)
    python = host.group == PYTHON
    standard = python & names.standard[host.name]
    chosen = standard | (python & names.functions[host.name])
    at = host.nearest(node, chosen)
    found = np.where((at >= 0) & standard[np.maximum(at, 0)], at, -1)
    rising = np.flatnonzero(found >= 0)
    while len(rising):
        above = host.above(found[rising], chosen)
        called = (above >= 0) & standard[np.maximum(above, 0)]
        rising, above = rising[called], above[called]
        found[rising] = above
    return fetch(host.name, found)


def function_name(context: Context, code: int) -> str:
    """Return ``inspect.signature`` of a function's name by its code."""
    frame = parse_frame(context.names[code], context.recording.host.libraries)
    if frame is None:
        return ""
    module = frame.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"{module}.{frame.function}"


def text(context: Context, kind: int, code: int) -> str:
    """Return the name of a part; nothing between all."""
    if kind == PHASE:
        return PHASES[code]
    if code < 0:
        return ""
    frame = parse_frame(context.names[code], context.recording.host.libraries) if kind == FUNCTION else None
    return frame.text if frame else context.names[code]
