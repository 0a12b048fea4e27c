"""Calls of ``torch._foreach_`` functions that fall back to one operator a tensor: what columns of `ops` and `trace` flag.

ATen launches a few kernels for a whole list only where all its tensors have one number format and device, are dense, and have the
strides of their partners in the other lists, and the scalar keeps their format (``can_use_fast_route`` in ``ForeachUtils.h``). Else
it calls the plain operator on each tensor. On the CPU it always does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.intervals import Bools, Ints, compact, fetch, narrow, summed
from advisor.regex import regex
from advisor.timeline.calls import OP
from advisor.timeline.context import Context

_FOREACH = regex(r"^aten::_foreach_(\w+?)_?$")
_DEEP = 3


class Fallbacks(NamedTuple):
    """Per forest node: operators of its own kind that a foreach call runs, one a tensor; and calls in such a fallback."""

    tensors: Ints
    inside: Bools


def fallbacks(context: Context) -> Fallbacks:
    """Find the calls whose own operators do the work: of their kind by name, two or more."""
    host = context.recording.host
    tensors, inside = np.zeros(host.size, np.int16), np.zeros(host.size, np.bool_)
    kinds = {code: match[1] for code, name in enumerate(context.names) if (match := _FOREACH.match(name))}
    named = np.zeros(len(context.names), np.bool_)
    named[list(kinds)] = True
    if not kinds or not host.size:
        return Fallbacks(narrow(tensors), narrow(inside))
    calls = named[host.name] & (host.group == OP)
    children = np.flatnonzero((host.group == OP) & calls[np.maximum(host.parent, 0)] & (host.parent >= 0))
    pairs, back = np.unique(
        np.stack([host.name[host.parent[children]], host.name[children]]), axis=1, return_inverse=True
    )
    same = [kinds[call] in context.names[child] for call, child in pairs.T.tolist()]
    if not any(same):
        return Fallbacks(narrow(tensors), narrow(inside))
    children = children[np.array(same, np.bool_)[back.ravel()]]
    tensors = compact(summed(host.parent[children], 1, host.size))
    slow = tensors >= 2
    ops = np.flatnonzero(host.group == OP)
    inside[ops] = slow[ops] | (host.above(ops, slow, _DEEP) >= 0)
    return Fallbacks(tensors, inside)


def in_steps(context: Context, steps: Ints) -> float | None:
    """Share of the time of some forest nodes, the steps of optimizers, that lies in calls that fall back; None without a step."""
    host = context.recording.host
    length = host.end - host.start
    if not len(steps) or not length[steps].sum():
        return None
    found = context.once(fallbacks)
    calls = np.flatnonzero(found.tensors >= 2)
    chosen = np.zeros(host.size, np.bool_)
    chosen[steps] = True
    calls = calls[fetch(chosen.astype(np.int64), host.above(calls, chosen), 0) > 0]
    return float(length[calls].sum() / length[steps].sum())
