"""Start-up as the summary tells it: by kind, with the operator or call that most of each lies in."""

from __future__ import annotations

import numpy as np

from advisor.intervals import Ints, coded, distinct, exclusive, fetch, summed
from advisor.results.analysis import StartupPart
from advisor.timeline.calls import OP, RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.startup_table import CAPTURE, INITIALIZATION, KINDS

_MARKED = (INITIALIZATION, CAPTURE)
_SPREAD, _MOST = 0.1, 3
"""Of start-up of one kind: what lies in an operator that is named beside others; and how many are."""


def startup_parts(context: Context) -> list[StartupPart]:
    """Start-up by kind, the longest first: what of it the device idles."""
    ledger, table = context.ledger, context.waits.startup
    segments = np.flatnonzero(ledger.through("startup") & (ledger.row >= 0))
    if not len(segments):
        return []
    cost = summed(ledger.row[segments], ledger.dur_ns[segments], len(table.start))
    parts = []
    for kind in distinct(table.kind[cost > 0]).tolist():
        rows = np.flatnonzero((table.kind == kind) & (cost > 0))
        parts.append(_part(context, kind, rows, cost[rows]))
    return sorted(parts, key=lambda part: -part.ms)


def lead(context: Context) -> tuple[float | None, list[StartupPart]]:
    """Return the ms of the host's recorded work before the window, and what of it is start-up, by kind, the longest first.

    Without steps the window begins with the device's first work: what the host did for it is no part of the window. None where
    steps begin it, or where the host's span is what is judged.
    """
    recording, table, host = context.recording, context.waits.startup, context.recording.host
    low = int(recording.window[0])
    if recording.part is not None or recording.marked or recording.extent != recording.window or not host.size:
        return None, []
    acts = np.flatnonzero(((host.group == OP) | (host.group == RUNTIME)) & (host.start < low))
    if not len(acts) or not len(recording.work):
        return None, []
    first = int(host.start[acts].min())
    inner = np.flatnonzero((table.start < low) & (table.end > first))
    # Of spans that overlap each moment is the earlier one's.
    own = exclusive(
        np.clip(table.start[inner], first, low), np.clip(table.end[inner], first, low), np.arange(len(inner))
    )
    cost = own.end - own.start
    parts = []
    for kind in distinct(table.kind[inner]).tolist():
        rows = table.kind[inner] == kind
        if cost[rows].any():
            parts.append(_part(context, kind, inner[rows], cost[rows]))
    return (low - first) / 1e6, sorted(parts, key=lambda part: -part.ms)


def _part(context: Context, kind: int, rows: Ints, cost: Ints) -> StartupPart:
    """Sum up start-up of one kind, with the operator that over half of it lies in. *cost* is the ns of each of *rows*."""
    host, table = context.recording.host, context.waits.startup
    nodes = table.node[rows]
    # A call stands for the operator that it was made in.
    operator = fetch(host.attributes.op, nodes) if host.size else nodes
    named = np.where(operator >= 0, operator, nodes)
    codes = fetch(host.name, named) if host.size else nodes
    # The first copy of a model, or the end of a capture, only marks a span: what its time went to are the operators inside.
    marks = (nodes >= 0) & (kind in _MARKED) & (2 * (fetch(host.end, named) - fetch(host.start, named)) < cost)
    shown = np.flatnonzero((codes >= 0) & ~marks)
    heavy = {code: int(cost[shown][codes[shown] == code].sum()) for code in distinct(codes[shown]).tolist()}
    for at in np.flatnonzero(marks).tolist():
        for code, ns in _inside(context, int(rows[at])).items():
            heavy[code] = heavy.get(code, 0) + min(ns, int(cost[at]))
    where = max(heavy, key=lambda code: heavy[code]) if heavy else -1
    named_ns = heavy.get(where, 0)
    spread: dict[int, int] = {}
    if 2 * named_ns < int(cost.sum()):
        where, spread = -1, _of_operators(codes[operator >= 0], cost[operator >= 0], int(cost.sum()))
    if where < 0 and kind not in _MARKED:
        # Of many operators the call may be the same that most of it passes in.
        where, named_ns = _call(context, nodes, cost)
    call, length = _longest_call(context, rows[marks])
    if 2 * length >= int(cost.sum()) > 0:
        where, named_ns = int(host.name[call]), length
    return StartupPart(
        kind=KINDS[kind],
        ms=float(cost.sum()) / 1e6,
        where=context.names[where] if where >= 0 else None,
        where_ms=named_ns / 1e6 if where >= 0 else None,
        operators={context.names[code]: ns / 1e6 for code, ns in spread.items()},
    )


def _of_operators(codes: Ints, cost: Ints, whole: int) -> dict[int, int]:
    """Return the ns of the operators that a tenth of *whole* or more lies in each, those with most first; *codes* name them."""
    total = {code: int(cost[codes == code].sum()) for code in distinct(codes).tolist()}
    large = sorted((code for code, ns in total.items() if ns >= _SPREAD * whole), key=lambda code: -total[code])
    return {code: total[code] for code in large[:_MOST]}


def _call(context: Context, nodes: Ints, cost: Ints) -> tuple[int, int]:
    """Return the name code of the runtime call that half of start-up or more lies in, and its ns; -1 and 0 where none does."""
    host = context.recording.host
    called = np.flatnonzero(fetch(host.group, nodes) == RUNTIME) if host.size else np.zeros(0, np.int64)
    total = summed(host.name[nodes[called]], cost[called], len(context.names)) if len(called) else np.zeros(1, np.int64)
    most = int(np.argmax(total))
    return (most, int(total[most])) if 2 * int(total[most]) >= int(cost.sum()) > 0 else (-1, 0)


def _longest_call(context: Context, rows: Ints) -> tuple[int, int]:
    """Return the runtime call that takes longest within some spans of start-up, on their threads, and its ns; -1 where none is."""
    host, table = context.recording.host, context.waits.startup
    best, most = -1, 0
    for row in rows.tolist():
        low, high, thread = int(table.start[row]), int(table.end[row]), host.thread[table.node[row]]
        nodes = np.flatnonzero(
            (host.thread == thread) & (host.group == RUNTIME) & (host.start < high) & (host.end > low)
        )
        within = np.minimum(host.end[nodes], high) - np.maximum(host.start[nodes], low)
        if len(nodes) and within.max() > most:
            best, most = int(nodes[np.argmax(within)]), int(within.max())
    return best, most


def _inside(context: Context, row: int) -> dict[int, int]:
    """ns that each operator or range takes itself within a span of start-up, by name code; calls outside them by their own."""
    host, table = context.recording.host, context.waits.startup
    low, high, thread = int(table.start[row]), int(table.end[row]), host.thread[table.node[row]]
    near = (host.thread == thread) & (host.start < high) & (host.end > low)
    operator = host.attributes.op  # of an operator (or range) itself
    nodes = np.flatnonzero(near & ((operator == np.arange(host.size)) | ((host.group == RUNTIME) & (operator < 0))))
    own = np.minimum(host.end[nodes], high) - np.maximum(host.start[nodes], low)
    # What an operator calls is not its own time.
    above = fetch(operator, host.parent[nodes])
    inner = np.flatnonzero(above >= 0)
    own = own - summed(np.searchsorted(nodes, above[inner]), own[inner], len(nodes))
    names, place = coded(host.name[nodes])
    return dict(zip(names.tolist(), summed(place, own, len(names)).tolist(), strict=True))
