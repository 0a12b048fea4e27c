"""Specialization by TorchScript: it profiles the first runs of a function, then compiles it for what it saw.

That is time in which the function calls nothing, or in which its thread is in nothing at all right before it: the
function's own event may begin behind that.
"""

from __future__ import annotations

import numpy as np

from advisor.intervals import Bools, Ints, distinct
from advisor.regex import regex
from advisor.timeline.calls import OP
from advisor.timeline.firsts import first_of, shapes, still
from advisor.timeline.recording import Recording
from advisor.timeline.startup_table import LONG_NS, SPECIALIZATION, TIMES, Rows

# What TorchScript generates, and what it runs while that is not to be had.
_GENERATED = regex(r"^(?:fused_|fallback_function$|prim::|TensorExpr|CudaFusionGroup)")
_RANGES = regex(r"^(?:ProfilerStep#|Optimizer\.|enumerate\()|::")
_RUNS = 2
# With nothing to compare with, no program's own Python takes so long in the middle of its operators.
_SURELY_NS = 20_000_000


def find(recording: Recording, rows: Rows) -> Ints:
    """Add the specializations. Return the forest nodes of all TorchScript functions."""
    host, names = recording.host, recording.names
    generated = np.array([_GENERATED.match(name) is not None for name in names], np.bool_)
    if not generated.any():
        return np.zeros(0, np.int64)
    inner = np.flatnonzero((host.group == OP) & generated[host.name])
    around = distinct(host.parent[inner]).astype(np.int64)
    around = around[around >= 0]
    ranges = np.array([_RANGES.search(name) is not None for name in names], np.bool_)
    codes = distinct(host.name[around[(host.group[around] == OP) & ~generated[host.name[around]]]])
    codes = codes[~ranges[codes]]
    functions = np.flatnonzero(np.isin(host.name, codes) & (host.group == OP))
    functions = functions[np.argsort(host.start[functions], kind="stable")]
    kinds = shapes(recording)
    for code in codes.tolist():
        calls = functions[host.name[functions] == code]
        # It may specialize again for shapes of another kind.
        early = (np.arange(len(calls)) < _RUNS) | first_of(kinds[calls])
        _add(calls, early, [still(recording, node, LONG_NS) for node in calls.tolist()], rows)
        before = [_nothing_before(recording, node) for node in calls.tolist()]
        _add(calls, np.arange(len(calls)) < _RUNS, before, rows)
    return functions


def _add(calls: Ints, early: Bools, stretches: list[tuple[Ints, Ints]], rows: Rows) -> None:
    """Add the stretches of early calls that are far above those of the others; of calls without others, only very long ones."""
    length = np.array([int((end - start).sum()) for start, end in stretches], np.int64)
    least = max(LONG_NS, TIMES * int(np.median(length[~early]))) if not early.all() else _SURELY_NS
    for at in np.flatnonzero(early & (length >= least)).tolist():
        start, end = stretches[at]
        rows.add(SPECIALIZATION, np.full(len(start), calls[at]), start, end)


def _nothing_before(recording: Recording, node: int) -> tuple[Ints, Ints]:
    """The stretch right before a call in which its thread is in nothing that began and ended, nor in anything that just began."""
    host = recording.host
    outer = node
    while (above := int(host.parent[outer])) >= 0 and host.group[above] == OP:
        outer = above
    first = int(np.searchsorted(host.thread, host.thread[node]))
    start = int(host.start[outer])
    ends = host.end[first:outer]
    ends = ends[ends <= start]
    begins = [int(ends.max())] if len(ends) else []
    if above >= 0:
        begins.append(int(host.start[above]))
    begin = max(begins, default=start)
    return np.array([begin], np.int64), np.array([start], np.int64)
