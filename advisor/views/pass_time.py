"""Division of a training step's time by its passes: forward, backward, optimizer, zero_grad, metrics, the wait for batches."""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.metric_ranges import outermost
from advisor.intervals import EMPTY, Ints, Spans, covered, distinct, fetch, intersect, subtract, summed, union, without
from advisor.results.pass_time import Pass, PassTime
from advisor.timeline.calls import BACKWARD, FORWARD, OP, OPTIMIZER, PYTHON, RUNTIME, STEP, ZERO_GRAD
from advisor.timeline.context import Context
from advisor.timeline.launch_origin import in_line
from advisor.timeline.ledger import BUSY, CODE, OWN
from advisor.timeline.marked import marks
from advisor.views.limits import owned, recomputed

_ORDER: tuple[Pass, ...] = ("forward", "backward", "optimizer", "zero_grad", "metrics", "loader", "between")
_METRICS, _LOADER, _BETWEEN = 4, 5, 6
"""Codes behind those of the phases, which are the first."""
_BESIDE = 0.9
"""Part of the launches of steady work from which on they lie in its time, too."""


def pass_time(context: Context) -> list[PassTime]:
    """Divide steady time of the busiest device among the passes of a training step, in their order.

    Empty without a device or a host, where replays of graphs lack work, which would read as idle, and where neither a backward
    pass nor an optimizer was recorded: of inference there is one pass.
    """
    ledger, host = context.ledger, context.recording.host
    rows = np.flatnonzero(ledger.counted)
    if not len(context.kernel_rows) or not host.size or not len(rows) or not context.recording.has_host:
        return []
    if context.graphs_underrecorded:
        return []
    if not np.isin(context.phases(context.recording.work.launch), (BACKWARD, OPTIMIZER)).any():
        return []
    busy = (ledger.cause[rows] < len(OWN)) & (ledger.row[rows] >= 0)
    idle = rows[~busy & (ledger.cause[rows] >= len(BUSY))]
    total = np.zeros(len(_ORDER))
    total += _of_work(context, rows[busy])
    other = rows[~busy & (ledger.cause[rows] < len(BUSY))]
    total[_BETWEEN] += ledger.dur_ns[other].sum()
    waits = _of_idle(context, idle)
    total += waits
    again, on_host = _again(context), _on_host(context)
    ms = context.step_ns / 1e6 / max(ledger.counted_ns, 1)
    return [
        PassTime(
            name=name,
            ms=float(total[at]) * ms,
            idle_ms=float(waits[at]) * ms,
            host_ms=None if on_host is None else on_host.get(at, 0) * ms,
            again_ms=again * ms if at == BACKWARD else 0.0,
        )
        for at, name in enumerate(_ORDER)
        if total[at] or (on_host or {}).get(at)
    ]


def _phases(context: Context) -> Ints:
    """Pass that each forest node is of: forward where it is none of the others. Metrics are no part of the model's.

    Autograd's engine adds gradients that meet, and runs what hooks its end, in its thread and in none of its nodes.
    """
    host, table = context.recording.host, context.tables.get("op")
    phase = np.where(np.isin(host.attributes.phase, (BACKWARD, OPTIMIZER, ZERO_GRAD)), host.attributes.phase, FORWARD)
    nodes = np.flatnonzero(phase == BACKWARD)
    others = [host.thread[context.once(marks)[host.name] & (phase != BACKWARD)]]
    if table is not None:  # an operator that leaves a node to the backward pass is of the forward pass
        ops = host.node_of["op"]
        others.append(host.thread[ops[(table["sequence"] >= 0) & (phase[ops] == FORWARD)]])
    step = context.recording.step_of(host.start)
    for thread in without(host.thread[nodes], np.concatenate(others)).tolist():
        mine = nodes[host.thread[nodes] == thread]
        rest = np.flatnonzero((host.thread == thread) & (phase == FORWARD) & (host.group != PYTHON))
        for which in distinct(step[mine]).tolist():
            of = mine[step[mine] == which]
            inside = (step[rest] == which) & (host.start[rest] >= host.start[of].min())
            phase[rest[inside & (host.start[rest] <= host.end[of].max())]] = BACKWARD
    if len(ranges := context.once(outermost)):
        metrics = np.isin(np.arange(host.size), ranges)
        metrics |= host.above(np.arange(host.size), metrics) >= 0
        phase[metrics & (phase == FORWARD)] = _METRICS
    return phase


def _of_all_work(context: Context) -> Ints:
    """Pass of each piece of work: of its launch; of one without, that of the work around it, else between passes."""
    work = context.recording.work
    known = work.launch >= 0
    which = np.where(known, fetch(context.once(_phases), work.launch), _BETWEEN)
    for device in distinct(work.device).tolist():
        rows = np.flatnonzero(work.device == device)
        rows = rows[np.argsort(work.start[rows], kind="stable")]
        linked, unlinked = rows[known[rows]], rows[~known[rows]]
        at = np.searchsorted(work.start[linked], work.start[unlinked], side="right")
        ahead, behind = (np.append(which[linked], -1)[np.where(one < 0, len(linked), one)] for one in (at - 1, at))
        which[unlinked] = np.where((ahead == behind) & (ahead >= 0), ahead, _BETWEEN)
    return which


def _of_work(context: Context, rows: Ints) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Sum segments of work by its pass."""
    ledger = context.ledger
    which = context.once(_of_all_work)[ledger.row[rows]]
    return summed(which, ledger.dur_ns[rows], len(_ORDER)).astype(np.float64)


def _of_idle(context: Context, rows: Ints) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Sum idle segments by the pass that the host is in meanwhile: backward before the others, as its thread is another one.

    What lies in none is of the pass whose work surrounds it, and between passes where that differs.
    """
    ledger = context.ledger
    sums = np.zeros(len(_ORDER))
    loader = ledger.cause[rows] == CODE["loader"]
    sums[_LOADER] = ledger.dur_ns[rows[loader]].sum()
    rows = rows[~loader]
    start, end = ledger.start_ns[rows], ledger.end_ns[rows]
    left = (end - start).astype(np.int64)
    for phase, spans in context.once(_spans).items():
        if phase != _LOADER:
            inside = covered(spans, start, end)
            sums[phase] += inside.sum()
            left -= inside
    line, which = context.once(in_line), context.once(_of_all_work)
    begun = context.recording.work.start[line]
    order = np.append(which[line], _BETWEEN)
    behind = order[np.searchsorted(begun, end, side="left")]
    ahead = order[np.searchsorted(begun, start, side="left") - 1]
    sums += summed(np.where(behind == ahead, behind, _BETWEEN), left, len(_ORDER))
    return sums


def _spans(context: Context) -> dict[int, Spans]:
    """Time that the host is in each pass, none of it in two: the loader's, the backward pass's, then the others'."""
    host, names, launches = context.recording.host, context.names, context.recording.work.launch
    starts = (np.array([name.startswith(mark) for name in names], np.bool_) for mark in (STEP, "enumerate("))
    step, loads = (flags[host.name] for flags in starts)
    phase = np.where(loads, _LOADER, context.once(_phases))
    launches = launches[launches >= 0]
    ours = np.isin(host.thread, distinct(host.thread[launches]))
    # What begins behind the last launch waits for the device, at the end of the recording: it is of no pass.
    last = host.start[launches].max() if len(launches) else -1
    runs = np.isin(host.group, (OP, RUNTIME)) & (host.start <= last)
    found, taken = dict[int, Spans](), EMPTY
    for which in (_LOADER, BACKWARD, OPTIMIZER, ZERO_GRAD, _METRICS, FORWARD):
        chosen = (phase == which) & ~step & ((ours & runs) if which == FORWARD else True)
        # What lies in another of them is covered by it.
        nodes = np.flatnonzero(chosen & ~((host.parent >= 0) & chosen[np.maximum(host.parent, 0)]))
        spans = subtract(union(host.start[nodes], host.end[nodes]), taken)
        found[which] = spans
        taken = union(np.concatenate([taken.start, spans.start]), np.concatenate([taken.end, spans.end]))
    return _closed(found, context.recording.bounds)


def _closed(found: dict[int, Spans], bounds: Ints) -> dict[int, Spans]:
    """Close the gaps of each pass in which no other pass begins, and no step ends: Python between its operators."""
    which = np.repeat(list(found), [len(spans.start) for spans in found.values()])
    start, end = (np.concatenate(ends) for ends in zip(*found.values(), strict=True))
    order = np.argsort(start, kind="stable")
    which, start, end = which[order], start[order], end[order].copy()
    step = np.searchsorted(bounds, start, side="right")
    goes_on = np.flatnonzero((which[1:] == which[:-1]) & (step[1:] == step[:-1]))
    end[goes_on] = start[goes_on + 1]
    return {one: union(start[which == one], end[which == one]) for one in found}


def _on_host(context: Context) -> dict[int, int] | None:
    """Sum the host's time in each pass that lies in steady work, in ns.

    None where it lies elsewhere: of a host that is steps ahead of the device, most of what it did for them was before.
    """
    ledger, work = context.ledger, context.recording.work
    steady = union(ledger.start_ns[ledger.counted], ledger.end_ns[ledger.counted])
    rows = (work.launch >= 0) & (covered(steady, work.start, work.end) > 0)
    called = context.recording.host.start[work.launch[rows]]
    if len(called) and np.mean(covered(steady, called, called + 1) > 0) < _BESIDE:
        return None
    return {which: intersect(spans, steady).length for which, spans in context.once(_spans).items()}


def _again(context: Context) -> float:
    """Sum the kernels of forward work that the backward pass does again, in ns."""
    own, _ = owned(context)
    return float(own[recomputed(context, context.kernel_rows)].sum())
