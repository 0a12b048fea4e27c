"""Text that is generated token by token: the time in Python between the model's run for one token and that for the next.

A run begins with the lookup of its tokens and ends with its last product, which scores the vocabulary. It is a token's where few
are looked up, and attention compares few queries with more keys. Between two runs the program chooses a token, turns it into
text, and looks whether to go on.
"""

from __future__ import annotations

import numpy as np

from advisor.intervals import EMPTY, Ints, Spans, alike, distinct, subtract, union
from advisor.regex import regex
from advisor.timeline.calls import OP, RUNTIME
from advisor.timeline.context import Context

# How many tokens of a sequence are looked up, or compared with how many, by the shapes of the operands.
_LOOKUP = {"aten::embedding": regex(rb"\[\[\d+,\d+\],\[(?:\d+,)?(\d+)\]")}
_SCORES = regex(rb"\[\[\d+,\d+,(\d+),(\d+)\]")
_ATTENDS = {
    "aten::scaled_dot_product_attention": regex(rb"\[\[(?:\d+,)+(\d+),\d+\],\[(?:\d+,)+(\d+),\d+\]"),
    **dict.fromkeys(("aten::softmax", "aten::_softmax", "aten::_safe_softmax"), _SCORES),
}
_PRODUCTS = frozenset(("aten::linear", "aten::addmm", "aten::mm", "aten::matmul"))
_MOST = 8
"""Tokens of a sequence in one run: the next one, or some that were guessed. A prompt has more, or as many as keys."""
_BEFORE_NS, _BEHIND_NS = 400_000, 100_000
"""Time of the profiler itself where it begins a step, on two cores: 0.2 to 0.5 ms before the mark and 0.1 ms behind it."""


def between_tokens(context: Context) -> Spans:
    """Time of Python between two runs of which the second is a token's, less what the profiler takes around its steps.

    Operators and calls of whatever thread are left out: small ones that choose the token, and waits for the device.
    """
    host, found = context.recording.host, union(*context.once(token_runs))
    if not len(found.start):
        return EMPTY
    busy = np.flatnonzero((host.group == OP) | (host.group == RUNTIME))
    busy = busy[host.start[busy] >= found.start[0]]
    found = subtract(found, union(host.start[busy], host.end[busy]))
    if context.recording.steps_by != "ProfilerStep":
        return found
    bounds = np.array([step.start for step in context.recording.steps], np.int64)
    return subtract(found, union(bounds - _BEFORE_NS, bounds + _BEHIND_NS))


def token_runs(context: Context) -> tuple[Ints, Ints]:
    """Runs of the model for a token each: the end of the run before it on its thread, and its own start."""
    host, nodes = context.recording.host, context.op_rows
    wanted = np.array([name in _PRODUCTS or name in _LOOKUP or name in _ATTENDS for name in context.names], np.bool_)
    nodes = nodes[wanted[host.name[nodes]]] if wanted.any() else nodes[:0]
    if not len(nodes):
        return EMPTY
    threads = distinct(host.thread[nodes]).tolist()
    runs = [_in_thread(context, nodes[host.thread[nodes] == thread]) for thread in threads]
    ends, starts = (np.concatenate(parts) for parts in zip(*runs, strict=True))
    return ends, starts


def _in_thread(context: Context, nodes: Ints) -> tuple[Ints, Ints]:
    """These of a thread, out of a thread's lookups, products and attention in order of start."""
    host = context.recording.host
    kinds, back = alike(host.name[nodes], context.op_column(nodes, "dims"))
    facts = np.array([_kind(context, node) for node in nodes[kinds].tolist()], np.bool_)[back]
    lookups, attention, few = facts.T
    product = ~lookups & ~attention
    # The first lookup of each run: between it and those of positions and the like there is no product.
    first = np.flatnonzero(lookups & few)
    first = first[np.diff(np.cumsum(product)[first], prepend=0) > 0]
    places = np.append(np.flatnonzero(attention), len(nodes))
    following = places[np.searchsorted(places, first)]
    first = first[(following < np.append(first[1:], len(nodes))[: len(first)]) & np.append(few, False)[following]]
    reach = np.maximum.accumulate(np.where(product, host.end[nodes], 0))
    return reach[first], host.start[nodes[first]]


def _kind(context: Context, node: int) -> tuple[bool, bool, bool]:
    """Tell whether an operator looks up rows of a table, whether it attends, and whether it does so for a few tokens."""
    name = context.names[context.recording.host.name[node]]
    shapes = _shapes(context, node)
    if name in _LOOKUP:
        found = _LOOKUP[name].match(shapes)
        return True, False, found is not None and int(found[1]) <= _MOST
    if name not in _ATTENDS:
        return False, False, False
    found = _ATTENDS[name].match(shapes)
    return False, True, found is not None and int(found[1]) <= min(_MOST, int(found[2]) - 1)


def _shapes(context: Context, node: int) -> bytes:
    """Shapes of an operator's operands, as the trace has them; nothing where they were not recorded."""
    code = int(context.op_column(np.array([node]), "dims")[0])
    return context.recording.recorded.raws[code].replace(b" ", b"") if code >= 0 else b""
