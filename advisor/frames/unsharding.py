"""Gathers of sharded parameters: FSDP's all-gathers, unit by unit, and what of them the computation before could hide.

A unit's parameters are known when the optimizer has stepped, so its gather can begin as soon as the unit before it has its own, and
run beside that unit's computation. One that begins only when this has ended leaves the device to wait for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.intervals import Bools, Ints, Spans, covered, distinct, fetch, subtract, union
from advisor.regex import regex
from advisor.timeline.context import Context

# torch's own names of both versions: FSDP::all_gather (layers.3), FullyShardedDataParallel._pre_forward.
_UNSHARDS = regex(
    r"^FSDP::(?:all_gather(?: |$)|pre_forward|pre_backward|(?:forward|backward)_prefetch)"
    r"|^FullyShardedDataParallel\._(?:pre_forward|pre_backward_hook|pre_backward_prefetch|pre_forward_prefetch|pre_unshard)"
)
_UNIT = regex(r"^FSDP::all_gather \(([^)]{1,200})\)")
_ROOT = regex(r"^FSDP::all_gather(?: \[|$)")
ROOT = "(root)"


class Units(NamedTuple):
    """Of each piece of GPU work: whether it gathers a unit's parameters, and which (an index into ``names``, -1 unknown)."""

    gathers: Bools
    unit: Ints
    names: list[str]


def units(context: Context, rows: Ints, gathers: Bools) -> Units:
    """Tell which of some *rows* of communication, of which all-gathers are flagged, gather parameters that FSDP sharded."""
    host, launch = context.recording.host, context.recording.work.launch[rows]
    named = np.array([_UNSHARDS.match(name) is not None for name in context.names], np.bool_)
    out, unit = np.zeros(len(rows), np.bool_), np.full(len(rows), -1, np.int64)
    known = np.flatnonzero(gathers & (launch >= 0))
    if not named.any() or not len(known):
        return Units(out, unit, [])
    around = host.above(launch[known], named[host.name])
    out[known] = around >= 0
    called = fetch(host.name, around)
    names: dict[str, int] = {}
    for code in distinct(called[called >= 0]).tolist():
        text = context.names[code]
        match = _UNIT.match(text)
        name = match[1] if match else ROOT if _ROOT.match(text) else None
        if name is not None:
            unit[known[called == code]] = names.setdefault(name, len(names))
    return Units(out, unit, list(names))


def ahead_ns(context: Context, rows: Ints, gathers: Bools, step: Ints, phase: Ints, exposed_ns: Ints) -> Ints:
    """Return the ns of what is exposed of each gather that the computation since the gather before it could hide.

    That gather is of the same step and pass, on the same device, and beside that computation nothing communicates.
    """
    work, ledger = context.recording.work, context.ledger
    out = np.zeros(len(rows), np.int64)
    chosen = np.flatnonzero(gathers & (work.device[rows] == ledger.device))
    if len(chosen) < 2:
        return out
    chosen = chosen[np.argsort(work.start[rows[chosen]], kind="stable")]
    talks = work.communication & (work.device == ledger.device)
    computes = ledger.through("compute")
    alone: Spans = subtract(
        union(ledger.start_ns[computes], ledger.end_ns[computes]), union(work.start[talks], work.end[talks])
    )
    before, after = chosen[:-1], chosen[1:]
    same = (step[before] == step[after]) & (phase[before] == phase[after])
    since, until = work.end[rows[before]], work.start[rows[after]]
    hidden = covered(alone, np.minimum(since, until), until)
    out[after] = np.where(same, np.minimum(hidden, exposed_ns[after]), 0)
    return out
