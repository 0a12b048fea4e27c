"""Functions that hold the host, in words: name and place, calls, time, and what took most of it."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from advisor.columns import Series
from advisor.intervals import Ints, coded, summed
from advisor.timeline.calls import PYTHON
from advisor.timeline.context import Context
from advisor.timeline.source import parse_frame

# So many functions are taken apart: those that hold most of the time.
_MOST = 16
# A child that takes so much of a function's time stands for it, and its own children are looked at.
_NEARLY_ALL = 0.9
_PARTS, _LEAST = 3, 0.05
_DEEPEST = 12


class Holders(Struct):
    """One entry for each stretch of idle; ``calls`` and ``dur_ns`` are -1 where no function is known."""

    name: Series
    function: Series
    calls: Ints
    dur_ns: Ints
    parts: Series


def describe(context: Context, node: Ints) -> Holders:
    """Describe functions by a forest node of each, -1 for none."""
    host, names = context.recording.host, context.names
    calls, dur = np.full(len(node), -1, np.int64), np.full(len(node), -1, np.int64)
    text, parts = np.full(len(node), -1, np.int64), np.full(len(node), -1, np.int64)
    known = np.flatnonzero(node >= 0)
    places: list[str] = []
    functions: list[str] = []
    shares: list[str] = []
    if len(known):
        code = host.name[node[known]]
        used, index = coded(code)
        every = np.flatnonzero((host.group == PYTHON) & np.isin(host.name, used))
        row = np.searchsorted(used, host.name[every])
        length = host.ns(every)
        # A function that calls itself lasts as long as the outermost call.
        flags = np.zeros(max(len(names), 1), np.bool_)
        flags[used] = True
        above = host.above(every, flags[host.name] & (host.group == PYTHON))
        outer = (above < 0) | (host.name[np.maximum(above, 0)] != host.name[every])
        total = summed(row[outer], length[outer], len(used))
        count = summed(row, 1, len(used))
        calls[known], dur[known] = count[index], total[index]
        for at, name in enumerate(used.tolist()):
            place = parse_frame(names[name], host.libraries)
            places.append(place.text if place is not None else names[name])
            functions.append(place.function if place is not None and place.function else _short(names[name]))
            heavy = at in np.argsort(-total, kind="stable")[:_MOST].tolist()
            shares.append(_parts(context, every[(row == at) & outer]) if heavy else "")
        text[known] = parts[known] = index
    return Holders(
        context.labels(text, places), context.labels(text, functions), calls, dur, context.labels(parts, shares)
    )


def _parts(context: Context, nodes: Ints) -> str:
    """``normalize 49 %, rescale 15 %``: the functions in which calls spend most of their time, as shares of it.

    Where nearly all of it lies in one function, that one's children are named: the last that does not say it all.
    """
    host = context.recording.host
    whole = int(host.ns(nodes).sum())
    for _ in range(_DEEPEST):
        children = _children(context, nodes)
        if not len(children) or not whole:
            return ""
        used, row = coded(host.name[children])
        total = summed(row, host.ns(children), len(used))
        best = int(np.argmax(total))
        if total[best] < _NEARLY_ALL * whole:
            order = np.argsort(-total, kind="stable")[:_PARTS].tolist()
            named = [(_short(context.names[used[at]]), int(total[at]) / whole) for at in order]
            return ", ".join(f"{name} {100 * share:.0f} %" for name, share in named if share >= _LEAST)
        nodes = children[row == best]
    return ""


def _children(context: Context, nodes: Ints) -> Ints:
    """Python calls right below some calls."""
    host = context.recording.host
    chosen = np.zeros(host.size, np.bool_)
    chosen[nodes] = True
    below: Ints = np.flatnonzero((host.group == PYTHON) & (host.parent >= 0) & chosen[np.maximum(host.parent, 0)])
    return below


def _short(name: str) -> str:
    """Name of a function without its file; of a built-in without its address."""
    if name.startswith("<"):
        return name.removeprefix("<built-in ").partition(" of ")[0].partition(" at 0x")[0].rstrip(">")
    return name.rpartition("): ")[2]
