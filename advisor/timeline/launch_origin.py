"""Origin of a launch: the outermost operator around its launch, attention's fallback, sizes that do not fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from advisor.intervals import Bools, Ints, Spans, alike, covered, distinct, fetch, union, without
from advisor.timeline.calls import ANNOTATION, BACKWARD, GROUPS, OP
from advisor.timeline.context import Context
from advisor.timeline.marked import marks

MATH_ATTENTION = "_scaled_dot_product_attention_math"
# Tensor Cores take operands of 2 bytes in loads of 16: 8 elements.
_FULL = 8
# Operator to the positions of the two factors among its operands.
_PRODUCTS = {
    "aten::mm": (0, 1),
    "aten::bmm": (0, 1),
    "aten::addmm": (1, 2),
    "aten::addmm_": (1, 2),
    "aten::baddbmm": (1, 2),
    "aten::baddbmm_": (1, 2),
    "aten::_addmm_activation": (1, 2),
}


def places(context: Context, node: Ints) -> tuple[Ints, Ints]:
    """Name code of the innermost operator around each forest node, and code of the user's frame; -1 where unknown."""
    host = context.recording.host
    return fetch(host.name, fetch(host.attributes.op, node)), fetch(host.attributes.user, node)


def outermost_ops(context: Context, node: Ints) -> Ints:
    """Name code of the outermost operator around each forest node, -1 where there is none. Annotations are none."""
    return fetch(context.recording.host.name, outermost(context, node))


def outermost(context: Context, node: Ints) -> Ints:
    """The outermost operator around each forest node, itself counted; -1 where there is none. Annotations are none.

    It is that of the innermost operator or annotation around the node: kept are only theirs.
    """
    host, found = context.recording.host, context.once(_outermost)
    inside = fetch(host.attributes.op, node)
    kinds, out = fetch(host.group, inside), np.full(len(node), -1, np.int64)
    for group, outer in found.items():
        rows = np.flatnonzero(kinds == group)
        out[rows] = outer[host.row[inside[rows]]]
    return out


def _outermost(context: Context) -> dict[int, Ints]:
    """The outermost operator around each operator and each annotation, by row of their tables."""
    host = context.recording.host
    outer = np.full(host.size, -1, np.int32)
    ops = np.flatnonzero(host.group == OP)
    ops = ops[~context.once(marks)[host.name[ops]]]
    outer[ops] = ops
    for level in host.levels[1:]:
        above = outer[host.parent[level]]
        inside = above >= 0
        outer[level[inside]] = above[inside]
    return {group: outer[host.node_of[GROUPS[group]]] for group in (OP, ANNOTATION) if GROUPS[group] in host.node_of}


def called_below(context: Context, node: Ints) -> Ints:
    """The operator that the outermost one around each launch called for it, as aten::to inside aten::linear.

    That is the one right below the outermost; the outermost itself where none is between, -1 without an operator.
    """
    host, marked = context.recording.host, context.once(marks)
    outer = outermost(context, node)
    called, at = outer.copy(), np.array(node, np.int64)
    climbing = np.flatnonzero(at != outer) if host.size else at[:0]
    climbing = climbing[outer[climbing] >= 0]
    while len(climbing):
        here = at[climbing]
        is_op = (host.group[here] == OP) & ~marked[host.name[here]]
        called[climbing[is_op]] = here[is_op]
        at[climbing] = host.parent[here]
        climbing = climbing[at[climbing] != outer[climbing]]
    return called


def host_time(context: Context, node: Ints) -> Ints:
    """The host's ns in what :func:`called_below` gives for each launch, divided among its launches; 0 without an operator."""
    host, called = context.recording.host, called_below(context, node)
    known = called >= 0
    calls, back, launches = np.unique(called[known], return_inverse=True, return_counts=True)
    time = np.zeros(len(node), np.int64)
    time[known] = ((host.end[calls] - host.start[calls]) // launches)[back]
    return time


def in_math_attention(context: Context, node: Ints) -> Bools:
    """Flag the forest nodes inside the unfused form of scaled_dot_product_attention, or in the backward of it."""
    host, table = context.recording.host, context.tables.get("op")
    fallback = np.array([MATH_ATTENTION in name for name in context.names], np.bool_)
    nothing = np.zeros(len(node), np.bool_)
    if table is None or not host.size or not fallback.any():
        return nothing
    ops = host.node_of["op"]
    inside = host.flow(np.where(fallback[host.name] & (host.group == OP), 1, -1))
    sequence, backward = table["sequence"], host.attributes.phase[ops] == BACKWARD
    forward = np.flatnonzero((sequence >= 0) & ~backward)
    # An operator is given the number that the next autograd node will get: the latest one with a number made the node.
    forward = forward[np.lexsort((host.start[ops[forward]], sequence[forward]))]
    numbers = sequence[forward]
    latest = np.append(numbers[1:] != numbers[:-1], True) if len(numbers) else np.zeros(0, np.bool_)
    numbers = numbers[latest & (inside[ops[forward]] > 0)]
    inside[ops[backward & np.isin(sequence, numbers)]] = 1
    return fetch(host.flow(inside), node) > 0


def odd_sizes(context: Context, node: Ints, products: Bools) -> tuple[Bools, Bools]:
    """Flag those of *products* that have an operand whose rows are no multiple of 8 long, and those of which that is known.

    Judged by shapes: the width of the result, and the shared dimension where it surely is the contiguous one: in the
    forward pass, or where the other dimension of the first factor is odd as well.
    """
    odd, known = np.zeros(len(node), np.bool_), np.zeros(len(node), np.bool_)
    host = context.recording.host
    rows = np.flatnonzero(products & (node >= 0))
    if not len(rows) or not host.size:
        return odd, known
    inside = host.attributes.op[node[rows]]
    rows, inside = rows[inside >= 0], inside[inside >= 0]
    dims = context.op_column(node[rows], "dims")
    forward = host.attributes.phase[node[rows]] != BACKWARD
    keys, back = np.unique(np.stack([host.name[inside], dims, forward]), axis=1, return_inverse=True)
    texts, names = context.shape_texts, context.names
    answers = [
        _odd(names[name], texts[shape], bool(way)) if shape >= 0 else None for name, shape, way in keys.T.tolist()
    ]
    odd[rows] = np.array([answer is True for answer in answers], np.bool_)[back.ravel()]
    known[rows] = np.array([answer is not None for answer in answers], np.bool_)[back.ravel()]
    return odd, known


@lru_cache(maxsize=4096)
def _odd(name: str, shapes: str, forward: bool) -> bool | None:
    """Tell whether the product of these shapes has rows of odd length; None where that cannot be told."""
    places = _PRODUCTS.get(name)
    if places is None:
        return None
    try:
        operands = json.loads(shapes)
        (rows, shared), (_, width) = (operands[place][-2:] for place in places)
        return bool(width % _FULL or (shared % _FULL and (forward or rows % _FULL)))
    except (ValueError, TypeError, IndexError, KeyError, RecursionError):
        return None


def alone_ns(device: Ints, start: Ints, end: Ints) -> Ints:
    """ns of each kernel in which no other kernel runs on its device."""
    out = end - start
    for number in distinct(device).tolist():
        rows = device == number
        out[rows] -= covered(_overlap(start[rows], end[rows]), start[rows], end[rows])
    return out


def _overlap(start: Ints, end: Ints) -> Spans:
    """Time in which two or more of the spans run at once."""
    time = np.concatenate([start, end])
    change = np.concatenate([np.ones(len(start), np.int64), np.full(len(end), -1, np.int64)])
    # Ends before starts: spans that touch do not run at once.
    order = np.lexsort((change, time))
    running = np.cumsum(change[order])
    time = time[order]
    crowded = running[:-1] >= 2
    return union(time[:-1][crowded], time[1:][crowded])


def place_shares(groups: Sequence[Ints], dur: Ints) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Of all the durations, the share of those that are alike in every one of *groups*, for each row."""
    if not len(dur):
        return np.zeros(0, np.float64)
    group = alike(*groups)[1]
    time = np.bincount(group, weights=dur)
    total = float(time.sum())
    return time[group] / total if total else np.zeros(len(dur), np.float64)


def in_line(context: Context) -> Ints:
    """Indices of the work of the ledger's device, and of that on others which it waits for, in order of start."""
    ledger, work = context.ledger, context.recording.work
    own = work.device == ledger.device
    elsewhere = ledger.through("other_device") & (ledger.row >= 0)
    own[ledger.row[elsewhere]] = True
    return np.flatnonzero(own)


def launch_behind(context: Context, end: Ints) -> Ints:
    """Forest node that launched the work which ends each stretch of idle of the ledger's device, -1 where there is none."""
    if not context.recording.has_host:
        return np.full(len(end), -1, np.int64)
    work, rows = context.recording.work, context.once(in_line)
    return np.append(work.launch[rows], -1)[np.searchsorted(work.start[rows], end, side="left")]


def thread_behind(context: Context, end: Ints) -> Ints:
    """Thread that was to launch that work: what it does meanwhile explains the idle."""
    return thread_of(context, launch_behind(context, end), end - 1)


def thread_of(context: Context, launch: Ints, moment: Ints) -> Ints:
    """Thread of each *launch*; where the trace has none, the busiest thread, or one that launches and that was, at that
    *moment*, in an operator while the busiest was in none, as autograd's is in a backward pass."""
    host = context.recording.host
    main = host.launching_thread()
    threads: Ints = fetch(host.thread, launch, main)
    lost = np.flatnonzero(launch < 0)
    launches = context.recording.work.launch
    others = without(host.thread[launches[launches >= 0]], np.array([main])).tolist()
    if not len(lost) or not others:
        return threads
    # A range of the user's that torch records as an operator has no namespace in its name.
    real = np.array(["::" in name for name in context.names], np.bool_)
    op = _operators(context, main, moment[lost])
    lost = lost[(op < 0) | ~real[fetch(host.name, op, 0)]]
    for thread in others:
        here = _operators(context, thread, moment[lost]) >= 0
        threads[lost[here]] = thread
        lost = lost[~here]
    return threads


def _operators(context: Context, thread: int, moment: Ints) -> Ints:
    """Operator that *thread* is in at each moment, -1 for none."""
    host = context.recording.host
    return fetch(host.attributes.op, host.innermost(thread, moment))
