"""Time of the launching threads in calls that block: synchronizations, copies that hold the host, allocations by the driver.

Most of it lies beside work of the device and costs nothing where it lies: it is lead over the device that the host does not get.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from advisor.frames.copies import parse
from advisor.intervals import Ints, Spans, alike, covered, distinct, exclusive, fetch, intersect, subtract, union
from advisor.regex import regex
from advisor.results.host_blocked import Blocking, HostBlocked
from advisor.timeline.calls import OP, RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.parts import FUNCTION, OPERATOR, PHASE, RANGE, first_known, text
from advisor.timeline.waits import ALLOCATOR_CALL, PROFILER, SCALAR_OPS, nodes_by_name

_COPY = regex(r"^(?:cuda|hip|cu)Memcpy\w*Async")
_HELD_NS = 50_000
"""A call that only issues a copy takes a few microseconds: one that takes so long holds the host."""
_LAUNCHES = 0.1
"""Of the device's work: a thread that launches less of it is no thread that the device waits for."""
_LEAST = 0.05
"""Of steady work: less is not told."""
_ITEM = "aten::_local_scalar_dense"
_TO = {"HtoD": "copies to the GPU", "DtoH": "copies to the host"}
_KINDS: dict[int, Literal["function", "range", "phase", "operator", "between"]] = {
    FUNCTION: "function", RANGE: "range", PHASE: "phase", OPERATOR: "operator",
}  # fmt: skip


def host_blocked(context: Context) -> HostBlocked | None:
    """Sum up steady time in calls that block, by call and place; None where it is under a twentieth of the step."""
    host, ledger = context.recording.host, context.ledger
    if context.device < 0 or not ledger.counted_ns:
        return None
    node, copy = _calls(context)
    own = exclusive(host.start[node], host.end[node], np.zeros(len(node), np.int64))
    steady = _steady(context)
    ns = covered(steady, own.start, own.end)
    idle = covered(intersect(steady, context.idle), own.start, own.end)
    rows = np.flatnonzero(ns > 0)
    node, copy, ns, idle = node[rows], copy[rows], ns[rows], idle[rows]
    if not len(rows):
        return None
    steps = max(len(ledger.counted_steps()), 1) if context.recording.steps else 1
    names, (kind, code) = _names(context, node, copy), first_known(context, node)
    known = {name: at for at, name in enumerate(names)}
    first, of = alike(np.array([known[name] for name in names], np.int64), kind, code)
    # A copy and the wait for it are one call.
    one = np.where(copy >= 0, copy, -1 - np.arange(len(copy)))
    early = host.start[node] < _last_launch(context)
    parts = [
        Blocking(
            call=names[row],
            where=text(context, int(kind[row]), int(code[row])),
            kind=_KINDS.get(int(kind[row]), "between"),
            ms=float(ns[here].sum()) / steps / 1e6,
            idle_ms=float(idle[here].sum()) / steps / 1e6 if context.idle_trusted else None,
            count=len(distinct(one[here])) / steps,
        )
        for row, here in ((row, of == number) for number, row in enumerate(first.tolist()))
        # What is waited for but once, with nothing left to launch, keeps the host from nothing.
        if early[here].any()
    ]
    blocked = math.fsum(part.ms for part in parts)
    step_ms = steady.length / steps / 1e6
    if blocked < _LEAST * step_ms:
        return None
    return HostBlocked(
        ms=blocked,
        step_ms=step_ms,
        idle_ms=math.fsum(part.idle_ms or 0.0 for part in parts) if context.idle_trusted else None,
        parts=sorted(parts, key=lambda part: -part.ms),
    )


def _steady(context: Context) -> Spans:
    """Return the host's steady time: of a host that runs ahead of the device its own steps, as the device's last one ends later."""
    ledger, recording = context.ledger, context.recording
    counted = union(ledger.start_ns[ledger.counted], ledger.end_ns[ledger.counted])
    if not recording.runs_ahead or not recording.marked:
        return counted
    steps = [recording.steps[at] for at in ledger.counted_steps().tolist()]
    own = union(np.array([step.start for step in steps]), np.array([step.end for step in steps]))
    startup = ledger.through("startup")
    return subtract(own, union(ledger.start_ns[startup], ledger.end_ns[startup]))


def _last_launch(context: Context) -> int:
    """Return when the last kernel is launched; without kernels, when the recording ends."""
    launch = context.recording.work.launch[context.kernel_rows]
    starts = context.recording.host.start[launch[launch >= 0]]
    return int(starts.max()) if len(starts) else int(context.recording.extent[1])


def _calls(context: Context) -> tuple[Ints, Ints]:
    """Return the calls that block on threads that launch the device's work, with the copy that each makes or waits for, or -1.

    Copies within the device, and of pinned memory, hold the host where the queue is full: no more does a launch count that does.
    """
    recording, waits = context.recording, context.waits
    host, work = recording.host, recording.work
    copies = nodes_by_name(recording, _COPY, (RUNTIME,))
    copies = copies[host.end[copies] - host.start[copies] >= _HELD_NS]
    made = np.full(host.size, -1, np.int64)
    launched = np.flatnonzero(work.launch >= 0)
    made[work.launch[launched]] = launched
    copies = copies[[_holds(context, int(at)) for at in made[copies]]] if len(copies) else copies
    syncs = np.flatnonzero(waits.syncs.kind != PROFILER)
    allocated = waits.allocator.node
    node = np.concatenate([waits.syncs.node[syncs], copies, allocated])
    copy = np.concatenate([waits.syncs.copy[syncs], made[copies], np.full(len(allocated), -1, np.int64)])
    mine = work.launch[launched[work.device[launched] == context.device]]
    threads, counts = np.unique(host.thread[mine], return_counts=True)
    chosen = np.isin(host.thread[node], threads[counts >= _LAUNCHES * counts.sum()])
    return node[chosen], copy[chosen]


def _holds(context: Context, copy: int) -> bool:
    """Tell whether a copy is one between the host's pageable memory, or memory of no known kind, and the device."""
    direction, _, _, memory = parse(context.names[context.recording.work.name[copy]]) if copy >= 0 else ("",) * 4
    return copy < 0 or (direction in ("HtoD", "DtoH") and memory != "pinned")


def _names(context: Context, node: Ints, copy: Ints) -> list[str]:
    """Name each call: by the operator that reads a value back, else by the copy, else as the runtime does."""
    host, names, work = context.recording.host, context.names, context.recording.work
    inside = fetch(host.attributes.op, node)
    operator = np.where(fetch(host.group, inside) == OP, fetch(host.name, inside), -1)
    told = []
    for op, call, made in zip(
        operator.tolist(), host.name[node].tolist(), fetch(work.name, copy).tolist(), strict=True
    ):
        name = names[op] if op >= 0 else ""
        direction = parse(names[made])[0] if made >= 0 else ""
        if name in SCALAR_OPS and not ALLOCATOR_CALL.match(names[call]):
            told.append(".item()" if name == _ITEM else name)
        else:
            told.append(_TO.get(direction, names[call]))
    return told
