"""All-reduces on the CPU by what they reduce: gradients that a later pass reduces again, or parameters that are equal already."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from advisor.frames.collectives import NAMES, kind
from advisor.frames.cpu_messages import elements, nodes, runs
from advisor.frames.optimizers import accumulating, backward_calls, behind_step, ddp_forwards, storing_passes_each
from advisor.intervals import Bools, Ints, distinct, fetch
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD, OP
from advisor.timeline.context import Context
from advisor.timeline.waits import nodes_by_name

_ENGINE, _STORE = "autograd::engine::evaluate_function: ", "torch::autograd::AccumulateGrad"
_STORED = regex(rf"^{_STORE}$")
_ONE = regex(r"^\[\[\d{1,12}(?:,\d{1,12}){0,15}\]\]$")
_ALIKE = 0.9
"""Least part of a run whose tensors have the shapes of parameters: a buffer or a scalar may be among them."""
_COVERED = 0.4
"""Elements of gradients that are reduced, for each that is averaged: a network and a copy of it may be averaged both."""
_WHOLE = 0.9
"""Elements of gradients that are reduced, for each that a parameter got: a part that ranks train by themselves needs averaging."""
_SUM = NAMES.index("all_reduce")


def reduced_again(context: Context) -> Bools:
    """Flag rows of a backward pass that accumulates, of which the next pass before the optimizer's step reduces the like.

    Two networks that are trained in turns, with their optimizers' steps at the end, reduce messages of other sizes each.
    """
    host, rows = context.recording.host, context.once(nodes)
    calls = context.once(runs).calls
    asked = np.where(calls >= 0, calls, rows)
    gradients = _of_backward(context)
    found: Bools = gradients & accumulating(context, host.start[asked])
    sizes = context.op_column(asked, "dims").tolist()
    of = np.searchsorted(ddp_forwards(context), host.start[asked], side="right")
    passes = distinct(of[gradients]).tolist()
    following = dict(pairwise(passes))
    known = set(zip(of[gradients].tolist(), np.array(sizes, np.int64)[gradients].tolist(), strict=True))
    for row in np.flatnonzero(found).tolist():
        after = following.get(int(of[row]), -1)
        found[row] = sizes[row] < 0 or (after, sizes[row]) in known
    return found


def _of_backward(context: Context) -> Bools:
    """Flag rows whose calls a gradient's arrival made; where calls are not known, those that begin behind a backward pass."""
    host, rows = context.recording.host, context.once(nodes)
    calls = context.once(runs).calls
    engine = np.array([name.startswith(_ENGINE) for name in context.names], np.bool_)
    stores = np.array([name.endswith(_STORE) for name in context.names], np.bool_)
    own = np.where(engine[host.name] & (host.group == OP), np.arange(host.size), -1) if host.size else rows
    over = fetch(host.flow(own), calls) if host.size else calls
    asked = (context.phases(calls) == BACKWARD) & ((over < 0) | stores[host.name[np.maximum(over, 0)]])
    backward = context.once(backward_calls)
    last = fetch(backward, np.searchsorted(backward, host.start[rows], side="right") - 1)
    forwards = ddp_forwards(context)
    begun = fetch(forwards, np.searchsorted(forwards, host.start[rows], side="right") - 1)
    found: Bools = np.where(calls >= 0, asked, last > begun)
    return found


def reduced_parameters(context: Context) -> Bools:
    """Flag the rows of runs that average parameters, or copies of them, behind the optimizer's step.

    Ranks whose gradients are reduced apply the same update to the same parameters: these are equal without it. Where nothing is
    reduced between a backward pass and the step, or less than all gradients, averaging is what keeps ranks together.
    """
    host, rows, told = context.recording.host, context.once(nodes), context.once(runs)
    found = np.zeros(len(rows), np.bool_)
    stores = nodes_by_name(context.recording, _STORED, (OP,))
    if not len(stores) or not (told.calls >= 0).any():
        return found
    texts = context.shape_texts
    weights = {texts[code][1:-1] for code in set(context.op_column(stores, "dims").tolist()) if code >= 0}
    sent = [_shape(texts[code]) if code >= 0 else "" for code in context.op_column(told.calls, "dims").tolist()]
    sums = np.isin(host.name[rows], [code for code, name in enumerate(context.names) if kind(name) == _SUM])
    behind = sums & behind_step(context, host.start[told.calls])
    for one in range(int(told.run.max()) + 1):
        members = np.flatnonzero(behind & (told.run == one))
        like = [sent[row] for row in members.tolist() if sent[row] in weights]
        found[members] = len(like) >= _ALIKE * len(members) and any("," in shape for shape in like)
    many = elements(context, told.calls)
    gradients = sums & ~behind & _behind_backward(context, host.start[told.calls])
    reduced, passes = np.nansum(many[gradients]), max(storing_passes_each(context) or 1.0, 1.0)
    whole = reduced >= _WHOLE * _stored(context, stores) / passes
    return found & bool(whole and reduced >= _COVERED * np.nansum(many[found]))


def _stored(context: Context, stores: Ints) -> int:
    """Elements of the gradients that were stored; those of unknown shape are none."""
    codes, counts = np.unique(context.op_column(stores, "dims"), return_counts=True)
    texts = [context.shape_texts[code] if code >= 0 else "" for code in codes.tolist()]
    sizes = [math.prod(map(int, text[2:-2].split(","))) if _ONE.match(text) else 0 for text in texts]
    return sum(count * size for count, size in zip(counts.tolist(), sizes, strict=True))


def _shape(text: str) -> str:
    """The one tensor of a call, as `[32,3]` of `[[[32,3]],[],[]`."""
    return text.partition("]]")[0][2:] + "]"


def _behind_backward(context: Context, at: Ints) -> Bools:
    """Flag the moments in or behind a backward pass and before the optimizer's next step."""
    found: Bools = (np.searchsorted(context.once(backward_calls), at, side="right") > 0) & ~behind_step(context, at)
    return found
