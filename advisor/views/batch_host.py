"""Division of the host's time in a serving engine's batch, or in the capture of its graphs, by what it calls."""

from __future__ import annotations

from typing import Literal

import numpy as np

from advisor.intervals import Bools, Ints, Spans, coded, covered, union
from advisor.regex import regex
from advisor.results.host_time import HostTime
from advisor.timeline.calls import ANNOTATION, OP, PYTHON, RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.engines import iterations
from advisor.timeline.parts import FUNCTION, RANGE, tells, text
from advisor.timeline.source import is_frame, parse_frame
from advisor.timeline.startup_table import CAPTURE

_OPEN, _TOLD, _SMALL, _TINY = 0.5, 0.02, 0.01, 0.002
"""Of the time: a call of so much is opened; one of torch's or the standard library's from less on; calls of less are summed up,
and none of so little is opened."""
_INSIDE = 0.5
"""Of a call's time: so much of it lies in the calls that it makes where these are named in its place."""
_CAPTURES = 0.5
"""Of the thread's time: so much of it is captures where these are what the recording is."""
_MOST = 2000
"""Calls that are opened at most."""
_NUMBER = regex(r"(?<=\w)_\d+$")


def batch_host(context: Context) -> list[HostTime]:
    """Divide the host's time of a batch by the calls that it is made of, the longest first.

    Calls are opened from the batch on, as long as one takes half of it; time in which they wait for the device is left out.
    Empty without an engine's batches, or captures.
    """
    host = context.recording.host
    roots = np.array([one.node for one in iterations(context)], np.int64)
    count = max(len(roots), 1)
    roots = roots if len(roots) else _captured(context)
    total = int(_worked(context, roots).sum()) if len(roots) else 0
    if not total:
        return []
    found = _opened(context, roots, total)
    ms, rest = 1e-6 / count, total
    told: list[HostTime] = []
    for name, nodes in sorted(found.items(), key=lambda one: -_sum(context, one[1])):
        ns = _sum(context, nodes)
        # Of wrappers that say nothing only those are named that are opened, and whose time is their own.
        if ns >= (_TOLD if is_frame(name) else _SMALL) * total:
            kind: Literal["function", "range", "operator"] = _KINDS[int(host.group[nodes[0]])]
            told.append(HostTime(where=name, kind=kind, ms=ns * ms, share=ns / total))
            rest -= ns
    if len(told) < 2:
        return []
    return [*told, HostTime(where="", kind="others", ms=rest * ms, share=rest / total)] if rest > 0 else told


_KINDS: dict[int, Literal["function", "range", "operator"]] = {
    PYTHON: "function", ANNOTATION: "range", OP: "operator", RUNTIME: "operator",
}  # fmt: skip


def _opened(context: Context, roots: Ints, total: int) -> dict[str, Ints]:
    """Open calls from *roots* on: names of what they are made of, with the nodes of each."""
    host = context.recording.host
    order = np.argsort(host.parent, kind="stable")
    parents = host.parent[order]
    waiting, found = {"": roots}, dict[str, Ints]()
    for _ in range(_MOST):
        if not waiting:
            break
        name, nodes = waiting.popitem()
        ns = _sum(context, nodes)
        first, last = np.searchsorted(parents, nodes, "left"), np.searchsorted(parents, nodes, "right")
        inside = np.concatenate([order[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)])
        large = ns >= (_OPEN if context.once(_telling)[host.name[nodes[0]]] else _TOLD) * total
        if name and (not large or _sum(context, inside) < _INSIDE * ns):
            _add(found, name, nodes)
            continue
        codes, back = coded(host.name[inside])
        for at, code in enumerate(codes.tolist()):
            of = inside[back == at]
            called = _text(context, int(code), of)
            _add(waiting if _sum(context, of) >= _TINY * total else found, called, of)
    for name, nodes in waiting.items():
        _add(found, name, nodes)
    return found


def _add(to: dict[str, Ints], name: str, nodes: Ints) -> None:
    to[name] = np.concatenate([to[name], nodes]) if name in to else nodes


def _telling(context: Context) -> Bools:
    """Flag names that tell a reader what is done: all but functions of torch's and of the standard library's."""
    libraries = context.recording.host.libraries
    frames = [parse_frame(name, libraries) for name in context.names]
    return np.array(
        [
            (tells(frame) if frame is not None else not is_frame(name)) and not name.startswith("<built-in")
            for name, frame in zip(context.names, frames, strict=True)
        ],
        np.bool_,
    )


def _sum(context: Context, nodes: Ints) -> int:
    return int(_worked(context, nodes).sum()) if len(nodes) else 0


def _captured(context: Context) -> Ints:
    """Outermost calls of the thread that captures graphs, where that is most of its time."""
    host, startup = context.recording.host, context.waits.startup
    rows = np.flatnonzero((startup.kind == CAPTURE) & (startup.node >= 0))
    if not len(rows):
        return np.zeros(0, np.int64)
    thread = int(host.thread[startup.node[rows[0]]])
    roots = np.flatnonzero((host.thread == thread) & (host.parent < 0))
    spans = union(startup.start[rows], startup.end[rows])
    whole = union(host.start[roots], host.end[roots])
    return roots if spans.length >= _CAPTURES * whole.length else np.zeros(0, np.int64)


def _worked(context: Context, nodes: Ints) -> Ints:
    """Return the time of each call without what its thread waits for the device in it, in ns."""
    host, syncs = context.recording.host, context.waits.syncs
    out = (host.end[nodes] - host.start[nodes]).astype(np.int64)
    if not len(syncs.start):
        return out
    thread = host.thread[syncs.node]
    for which in np.unique(host.thread[nodes]).tolist():
        mine, waits = np.flatnonzero(host.thread[nodes] == which), np.flatnonzero(thread == which)
        spans: Spans = union(syncs.start[waits], syncs.end[waits])
        out[mine] -= covered(spans, host.start[nodes[mine]], host.end[nodes[mine]])
    return out


def _text(context: Context, name: int, nodes: Ints) -> str:
    """Return a call's name; layers of one class have one."""
    host = context.recording.host
    told = text(context, FUNCTION if host.group[nodes[0]] == PYTHON else RANGE, name)
    return _NUMBER.sub("", told) if told.startswith("nn.Module: ") else told
