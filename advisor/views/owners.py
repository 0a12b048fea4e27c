"""Owners of time that no finding speaks of: the operator, function or call that most of it lies in, by time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from advisor.intervals import Bools, Ints, Spans, coded, covered, fetch, intersect, summed, union
from advisor.timeline import ledger as ledgers
from advisor.timeline.calls import ANNOTATION, OP, RUNTIME, STEP
from advisor.timeline.communication_names import without_anonymous
from advisor.timeline.context import Context
from advisor.timeline.harness import harness, named
from advisor.timeline.kernel_names import EXPERTS, MOST
from advisor.timeline.marked import steps
from advisor.timeline.memory import freeing_ns
from advisor.timeline.surroundings import around
from advisor.timeline.unexplained import unexplained_idle

_PYTHON, _UNRECORDED = "Python outside any operator", "no recorded operator"
_QUEUED, _FREED = "front of queued work", "the freeing of large tensors"
# Of a device's time: an operator with less of it is one of many, and the kind of kernel says more.
_MOST = 1 / 3
# Of idle time that nothing explains: a call that holds the host for less of it is beside the point.
_HOLDS = 1 / 2
KINDS = {
    "gemm": "matrix products",
    "experts": "matrix products of experts (MoE)",
    "conv": "convolutions",
    "attention": "attention",
    "normalization": "normalizations",
    "elementwise": "elementwise kernels",
    "reduction": "reductions",
    "copy": "copying kernels",
    "layout": "changes of layout",
    "optimizer": "the optimizer's kernels",
    "triton": "Triton's kernels",
    "softmax": "softmax",
    "pooling": "pooling",
    "sort": "sorting",
    "random": "random numbers",
}


NO_ROWS = np.zeros(0, np.int64)


class Owner(NamedTuple):
    """The operator, function or call that most of a cause's time lies in, with that time in ns."""

    name: str
    ns: int
    rows: Ints = NO_ROWS
    """Of work on a device: its rows in the recording's work, one a segment of the ledger; empty where they were not kept."""
    dur_ns: Ints = NO_ROWS
    """Durations of these segments."""
    held_ns: int = 0
    """Of a call that the device idles beside: what it holds the host for, whatever the device does; 0 for all else."""


def kind_of(context: Context, code: int) -> str:
    """Return the kind of a kernel by its name, the products of experts apart from others; an empty text for what is no kernel."""
    name = context.kernel_names.get(code)
    if name is None:
        return ""
    return "experts" if name.kind == "gemm" and EXPERTS.search(context.names[code][:MOST]) else name.kind


def unclaimed(ledger: ledgers.Ledger, claims: Iterable[Ints]) -> Bools:
    """Flag the segments of steady work that no finding claims; *claims* holds the segments of each finding."""
    free = ledger.counted.copy()
    for segments in claims:
        free[segments] = False
    return free


def by_cause(ledger: ledgers.Ledger, segments: Bools) -> dict[str, int]:
    """Sum the ns of some segments by cause."""
    total = summed(ledger.cause[segments], ledger.dur_ns[segments], len(ledgers.CAUSES))
    return {cause: ns for cause, ns in zip(ledgers.CAUSES, total.tolist(), strict=True) if ns}


def owner(context: Context, cause: str, segments: Bools) -> Owner | None:
    """Return the owner of most of a cause's time among *segments*; None where the trace names none."""
    ledger = context.ledger
    chosen = np.flatnonzero(segments & ledger.through(cause))
    if not len(chosen) or not context.recording.host.size:
        return _of_work(context, ledger.row[chosen], ledger.dur_ns[chosen]) if len(chosen) else None
    if (mine := of_harness(context, chosen)) is not None:
        return mine
    if cause == "host":
        return _of_host(context, chosen)
    if cause == "unknown":
        return _meanwhile(context, chosen)
    row, dur = ledger.row[chosen], ledger.dur_ns[chosen]
    row, dur = row[row >= 0], dur[row >= 0]
    if cause in ledgers.BUSY:
        return _of_ops(context, row, dur) if context.cpu_program else _of_work(context, row, dur)
    waits = context.waits
    if cause == "operator":
        return _heaviest(context, waits.computing()[row], dur)
    nodes = _waiting(context, cause, row)
    return (
        None
        if nodes is None
        else _heaviest(context, nodes if cause in ("compile", "profiler") else _operator(context, nodes), dur)
    )


def _waiting(context: Context, cause: str, row: Ints) -> Ints | None:
    """Return the nodes of the host's waits of some rows of the ledger; None for a cause that is no such wait."""
    waits = context.waits
    if cause in ("sync", "blocking_copy"):
        return waits.syncs.node[row]
    tables = {
        "loader": waits.loader, "allocator": waits.allocator, "compile": waits.compile, "gc": waits.gc,
        "profiler": waits.profiler,
    }  # fmt: skip
    return tables[cause].node[row] if cause in tables else None


def surrounded(context: Context, cause: str, segments: Bools, found: Owner) -> Owner:
    """Return the owner of a wait with the operator and the range of the program around all that lies in it, as far as known."""
    ledger = context.ledger
    chosen = np.flatnonzero(segments & ledger.through(cause) & (ledger.row >= 0))
    nodes = _waiting(context, cause, ledger.row[chosen]) if cause in ("sync", "blocking_copy") else None
    if nodes is None:
        return found
    code = context.names.index(found.name) if found.name in context.names else -1
    inside = context.recording.host.name[_operator(context, nodes)] == code
    text = around(context, nodes[inside], ledger.dur_ns[chosen[inside]], found.name)
    return found._replace(name=f"{found.name} in {text}") if text else found


def of_harness(context: Context, segments: Ints) -> Owner | None:
    """Return the benchmark whose own work most of some time is; None where it is the program's."""
    spans = union(context.ledger.start_ns[segments], context.ledger.end_ns[segments])
    own = intersect(spans, context.once(harness))
    if own.length < _HOLDS * spans.length or not own.length:
        return None
    name = named(context, own)
    return Owner(f"the benchmark's own {name}" if name else "what the benchmark does around its runs", own.length)


def harness_shares(context: Context) -> dict[str, float]:
    """Shares of steady work that a benchmark takes around its runs, by cause; empty for what is no benchmark."""
    spans, ledger = context.once(harness), context.ledger
    if not spans.length or not ledger.counted_ns:
        return {}
    own = covered(spans, ledger.start_ns[ledger.counted], ledger.end_ns[ledger.counted])
    total = summed(ledger.cause[ledger.counted], own, len(ledgers.CAUSES))
    return {cause: ns / ledger.counted_ns for cause, ns in zip(ledgers.CAUSES, total.tolist(), strict=True) if ns}


def _operator(context: Context, nodes: Ints) -> Ints:
    """Replace nodes by the operator that each is in, where it is in one."""
    operator = fetch(context.recording.host.attributes.op, nodes)
    return np.where(operator >= 0, operator, nodes)


def _heaviest(context: Context, nodes: Ints, dur: Ints) -> Owner | None:
    known = nodes >= 0
    codes = context.recording.host.name[nodes[known]]
    return _named(context, codes, dur[known])


def _named(context: Context, codes: Ints, dur: Ints) -> Owner | None:
    """Return the name that holds most time."""
    total = summed(codes, dur, len(context.names))
    for code in np.argsort(-total)[:2].tolist() if len(total) else ():
        if total[code] and not context.names[code].startswith(STEP):
            return Owner(context.names[code], int(total[code]))
    return None


def _of_ops(context: Context, row: Ints, dur: Ints) -> Owner | None:
    """Return the operator that computes most in a program on the CPU."""
    return _heaviest(context, context.op_rows[row], dur)


def _of_work(context: Context, row: Ints, dur: Ints) -> Owner | None:
    """Return the operator that launched most of the device's work; the kernel where no operator is known."""
    work, host = context.recording.work, context.recording.host
    row, dur = row[row >= 0], dur[row >= 0]
    if not len(work) or not len(row):
        return None
    operator = fetch(host.attributes.op, work.launch[row]) if host.size else np.full(len(row), -1, np.int64)
    is_op = (operator >= 0) & (host.group[np.maximum(operator, 0)] == OP) if host.size else operator >= 0
    found = _named(context, host.name[operator[is_op]], dur[is_op]) if is_op.any() else None
    if found is not None and found.ns >= _MOST * dur.sum():
        return found
    kinds: dict[str, int] = {}
    total = summed(work.name[row], dur, len(context.names))
    for code in context.kernel_names:
        kind = kind_of(context, code)
        kinds[kind] = kinds.get(kind, 0) + int(total[code])
    kind = max(kinds, key=lambda kind: kinds[kind], default="")
    if kind in KINDS and kinds[kind] >= _MOST * dur.sum():
        return Owner(KINDS[kind], kinds[kind])
    return found or _named(context, work.name[row], dur)


def _meanwhile(context: Context, segments: Ints) -> Owner | None:
    """Return the call that holds the launching thread for most of some idle time, with the operator and range around it.

    Where none does: that the device had work queued.
    """
    ledger, host = context.ledger, context.recording.host
    spans = union(ledger.start_ns[segments], ledger.end_ns[segments])
    node = np.flatnonzero((host.thread == host.launching_thread()) & (host.group == RUNTIME))
    within = covered(spans, host.start[node], host.end[node])
    operator = fetch(host.attributes.op, node)
    kind = fetch(host.name, operator) * (len(context.names) + 1) + host.name[node]
    _, sort = coded(kind)
    total = summed(sort.reshape(-1), within, len(node))
    if not total.any() or total.max() < _HOLDS * spans.length:
        return _without_call(context, spans)
    chosen = np.flatnonzero((sort.reshape(-1) == int(np.argmax(total))) & (within > 0))
    first = node[chosen[np.argmax(within[chosen])]]
    name = context.names[host.name[first]]
    op = int(fetch(host.attributes.op, np.array([first]))[0])
    if op >= 0 and host.group[op] == OP:
        name += f" in {context.names[host.name[op]]}"
    around = int(host.above(np.array([first]), (host.group == ANNOTATION) & ~steps(context)[host.name])[0])
    name = f"{name} under {context.names[host.name[around]]}" if around >= 0 else name
    counted = union(ledger.start_ns[ledger.counted], ledger.end_ns[ledger.counted])
    held = covered(counted, host.start[node], host.end[node])[sort.reshape(-1) == int(np.argmax(total))]
    return Owner(name, int(total.max()), held_ns=int(held.sum()))


def _without_call(context: Context, spans: Spans) -> Owner | None:
    ns = intersect(spans, unexplained_idle(context.recording, context.ledger.device)).length
    return Owner(_QUEUED, ns) if ns >= _HOLDS * spans.length else None


def _of_host(context: Context, segments: Ints) -> Owner | None:
    """Return what the launching thread was in for most of some idle time: the user's function, a library's, an operator."""
    ledger, host = context.ledger, context.recording.host
    thread = host.launching_thread()
    spans = union(ledger.start_ns[segments], ledger.end_ns[segments])
    node = np.flatnonzero(host.thread == thread)
    within = covered(spans, host.start[node], host.end[node])
    node, within = node[within > 0], within[within > 0]
    # What a call spends outside the calls in it is its own.
    nested = host.parent[node] >= 0
    children = summed(host.parent[node[nested]], within[nested], host.size)
    outside = spans.length - int(within[~nested].sum())
    time = within - children[node]
    if "python" in context.tables:
        place = fetch(host.attributes.user, node)
        place = np.where(place >= 0, place, fetch(host.attributes.library, node))
        total = summed(place[place >= 0], time[place >= 0], len(host.places) + 1)
        if total.any():
            best = host.places[int(np.argmax(total))]
            return Owner(best.function, int(total.max()))
    operator = fetch(host.attributes.op, node)
    outside += int(time[operator < 0].sum())
    inner = _heaviest(context, operator, time)
    if inner is not None and inner.ns > outside:
        return inner
    if (freed := int(freeing_ns(context, spans.start, spans.end).sum())) >= _HOLDS * spans.length:
        return Owner(_FREED, freed)
    # Without Python functions nobody knows that it was in Python.
    return Owner(_PYTHON if "python" in context.tables else _UNRECORDED, outside) if outside else None


def short_kernel(name: str) -> str:
    """Cut a kernel's name before its template and its parameters."""
    return without_anonymous(name.removeprefix("void ")).partition("<")[0].partition("(")[0].strip() or name
