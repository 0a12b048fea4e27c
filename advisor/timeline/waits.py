"""Waits that keep a host from launching: for data, the device, the allocator, the collector, the compiler, the profiler.

Each kind is a table of spans. The ledger asks them, in order of precedence, who owns an idle device.
"""

from __future__ import annotations

import re

import numpy as np
from msgspec import Struct

from advisor.intervals import Bools, Ints, Spans, covered, distinct, union
from advisor.regex import regex
from advisor.timeline import own_copies, unrecorded
from advisor.timeline.calls import ANNOTATION, OP, PYTHON, RUNTIME
from advisor.timeline.recording import COPY, Recording

LOADER = regex(r"^enumerate\(DataLoader\)#(\w+)\.__next__")
SYNC_CALL = regex(
    r"^(?:cuda|hip)(?:Device|Stream|Event|Ctx)Synchronize|^cu(?:Stream|Event|Ctx)Synchronize"
    r"|^(?:cuda|hip)Memcpy(?!\w*Async)(?!\w*Symbol)|^hipMemcpyWithStream|^cudaThreadSynchronize"
)
ALLOCATOR_CALL = regex(
    r"^(?:cuda|hip)(?:Malloc(?!Async|FromPool)|Free(?!Async)|HostAlloc|HostMalloc|HostFree|HostRegister|HostUnregister|ExtMalloc)"
    r"|^cuMem(?:Alloc|Free|Create|Map|Unmap|Release|SetAccess|AddressReserve|AddressFree|HostAlloc)"
)
_COMPILE = regex(
    r"^(?:_compile\.|entire_frame_compile|entire_backward_compile|backend_compile|inductor_compile|compile_fx|compile_file"
    r"|create_aot_dispatcher_function|OutputGraph\.call_user_compiler|CachingAutotuner\.(?:benchmark|precompile)|GraphLowering\."
    r"|AsyncCompile|async_compile|fx_codegen|pad_mm_benchmark|TritonBundler|dynamo$)"
    r"|torch/_dynamo/convert_frame\.py\(\d+\): _compile\b|\(dynamo_timed\)$"
)
_LOADS = regex(r"^<built-in function loads>$")
_ITERATOR = regex(r"torch/utils/data/dataloader\.py\(\d+\): __iter__$")
# Seeding a new iterator and its sampler takes a few operators; a training step takes more.
_RESTART_OPS = 20
# What it takes is these, besides: the more, the more often the sampler draws.
_DRAWING = frozenset(
    f"aten::{name}"
    for name in (
        "empty", "random_", "item", "_local_scalar_dense", "randperm", "scalar_tensor", "resize_", "resolve_conj", "resolve_neg",
        "set_",
    )
)  # fmt: skip
GRAPH = regex(r"^(?:cuda|hip|cu)GraphLaunch")
SCALAR_OPS = frozenset(
    f"aten::{name}"
    for name in (
        "item", "_local_scalar_dense", "is_nonzero", "nonzero", "equal", "masked_select", "_unique2", "unique_dim",
        "unique_consecutive", "bincount", "repeat_interleave", "index", "__bool__", "allclose",
    )
)  # fmt: skip
_READBACK = regex(r"^aten::_local_scalar_dense$")
SCALAR, COPY_SYNC, EXPLICIT, EVENT, ALLOCATOR, PROFILER = range(6)
SYNC_KINDS = ("scalar", "copy", "explicit", "event", "allocator", "profiler")


class Waits(Struct):
    """Spans of one kind: forest node (or -1), start and end in ns."""

    node: Ints
    start: Ints
    end: Ints

    def spans(self) -> Spans:
        """Their union."""
        return union(self.start, self.end)


class Syncs(Waits):
    """Host waits on the device. ``copy`` is the index in ``Recording.work`` of the copy waited for, or -1; ``begin`` is
    where the wait begins counted from: the call that issued that copy."""

    kind: Ints
    copy: Ints
    begin: Ints


class Batches(Waits):
    """Waits for a batch. ``restart`` marks the two around the end of an epoch, when workers are started anew: the one
    that finds the iterator exhausted, and the first of the next, which begins with the making of it where that is recorded."""

    restart: Bools


def _empty() -> Ints:
    return np.zeros(0, np.int64)


def nodes_by_name(recording: Recording, pattern: re.Pattern[str], groups: tuple[int, ...]) -> Ints:
    """Forest nodes of some groups whose names match, in forest order."""
    host = recording.host
    if not host.size:
        return _empty()
    hit = np.array([pattern.search(name) is not None for name in recording.names], np.bool_)
    if not hit.any():
        return _empty()
    nodes = np.flatnonzero(hit[host.name])
    return nodes[np.isin(host.group[nodes], groups)]


def _waits(recording: Recording, nodes: Ints) -> Waits:
    host = recording.host
    return Waits(nodes, host.start[nodes], host.end[nodes])


def loader_waits(recording: Recording) -> Batches:
    """Waits for the next batch. Only on threads that launch work or hold the steps: elsewhere they hold nobody up."""
    nodes = nodes_by_name(recording, LOADER, (ANNOTATION, OP))
    host = recording.host
    # A wait inside another (a DataLoader wrapped by a DataLoader) counts once.
    if len(nodes):
        inner = np.isin(host.parent[nodes], nodes)
        nodes = nodes[~inner]
    threads = set(distinct(host.thread[host.group == RUNTIME]).tolist())
    if threads:
        main = host.launching_thread()
        threads |= {main}
        keep = np.isin(host.thread[nodes], sorted(threads))
        nodes = nodes[keep] if keep.any() else nodes
    waits = _waits(recording, nodes)
    first = _first_of_new_workers(recording, waits)
    restart = first.copy()
    restart[:-1] |= first[1:]
    start = waits.start
    if first.any():
        iterators = nodes_by_name(recording, _ITERATOR, (PYTHON,))
        start = start.copy()
        for at in np.flatnonzero(first).tolist():
            between = iterators[
                (host.thread[iterators] == host.thread[nodes[at]]) & (host.start[iterators] >= waits.end[at - 1])
            ]
            start[at] = min([int(start[at]), *host.start[between].tolist()])
            if not len(between) and _makes_iterator(recording, int(nodes[at - 1]), int(nodes[at])):
                start[at] = waits.end[at - 1]
    return Batches(nodes, start, waits.end, restart)


def _makes_iterator(recording: Recording, last: int, first: int) -> bool:
    """Tell whether between two waits nothing runs but what the loop's own line calls: the seeding of a new iterator.

    Code of the program's at the end of an epoch (a checkpoint, a print) shows by another line, of an operator or of the Python
    before it. Without lines nothing is known.
    """
    host = recording.host
    line = host.attributes.user
    nodes = np.arange(last + 1, first)
    ops = nodes[
        (host.group[nodes] == OP) & (host.thread[nodes] == host.thread[first]) & (host.start[nodes] >= host.end[last])
    ]
    seen = line[ops] if host.user_before is None else np.concatenate([line[ops], host.user_before[ops]])
    seen = seen[seen >= 0]
    return bool(line[last] >= 0 and line[last] == line[first] and len(seen) and (seen == line[first]).all())


def _first_of_new_workers(recording: Recording, waits: Waits) -> Bools:
    """Waits of worker processes that follow another with no training between: the other found the iterator exhausted."""
    host, nodes = recording.host, waits.node
    first = np.zeros(len(nodes), np.bool_)
    if len(nodes) < 2:
        return first
    workers = np.array(["MultiProcessing" in name for name in recording.names], np.bool_)[host.name[nodes]]
    step = recording.host_step_of(waits.start)
    pair = workers[1:] & workers[:-1] & (step[1:] == step[:-1]) & (host.thread[nodes[1:]] == host.thread[nodes[:-1]])
    linked = recording.work.launch
    launched = np.sort(host.start[linked[linked >= 0]])
    pair &= np.searchsorted(launched, waits.end[:-1]) == np.searchsorted(launched, waits.start[1:])
    draws = np.array([name in _DRAWING for name in recording.names], np.bool_) if pair.any() else first
    for at in np.flatnonzero(pair).tolist():
        between = slice(nodes[at] + 1, nodes[at + 1])
        ops = (host.group[between] == OP) & (host.start[between] >= waits.end[at])
        first[at + 1] = (ops & ~draws[host.name[between]]).sum() <= _RESTART_OPS
    return first


def unpickling(recording: Recording, waits: Waits) -> Ints:
    """Return the ns of each wait in which what a worker sent is unpickled; -1 where no Python was recorded."""
    host = recording.host
    if not (host.group == PYTHON).any():
        return np.full(len(waits.start), -1, np.int64)
    loads = nodes_by_name(recording, _LOADS, (PYTHON,))
    out = np.zeros(len(waits.start), np.int64)
    for thread in distinct(host.thread[waits.node]).tolist() if len(loads) else ():
        here, own = host.thread[waits.node] == thread, loads[host.thread[loads] == thread]
        spans = union(host.start[own], host.end[own])
        out[here] = covered(spans, waits.start[here], waits.end[here])
    return out


def allocator_calls(recording: Recording) -> Waits:
    """Device and pinned-host allocations and frees that reach the driver."""
    return _waits(recording, nodes_by_name(recording, ALLOCATOR_CALL, (RUNTIME,)))


def compiles(recording: Recording) -> Waits:
    """Compilation by torch.compile, outermost spans."""
    host, nodes = recording.host, nodes_by_name(recording, _COMPILE, (ANNOTATION, OP, PYTHON))
    # In the forest's order what lies inside another span follows it, and ends no later.
    outermost = np.ones(len(nodes), np.bool_)
    for thread in distinct(host.thread[nodes]).tolist() if len(nodes) else ():
        here = np.flatnonzero(host.thread[nodes] == thread)
        reach = np.maximum.accumulate(host.end[nodes[here]])
        outermost[here[1:]] = host.start[nodes[here[1:]]] >= reach[:-1]
    return _waits(recording, nodes[outermost])


def collections(recording: Recording) -> Waits:
    """Pauses of Python's garbage collector."""
    return _waits(recording, nodes_by_name(recording, re.compile(r"^Python GC"), (PYTHON, ANNOTATION, OP)))


def syncs(recording: Recording) -> Syncs:
    """Calls in which the host waits for the device, with what they wait for."""
    host, work = recording.host, recording.work
    nodes = nodes_by_name(recording, SYNC_CALL, (RUNTIME,))
    if not len(nodes):
        return _of_operators(recording) or _unrecorded_waits(recording)
    calls = np.flatnonzero(host.group == RUNTIME)
    copy_of = np.full(host.size, -1, np.int64)
    copies = np.flatnonzero((work.kind == COPY) & (work.launch >= 0))
    copy_of[work.launch[copies]] = copies
    copy = copy_of[nodes]
    begin = host.start[nodes].copy()
    at = np.searchsorted(calls, nodes)
    operator = host.attributes.op
    streamwise = np.array([name.endswith("StreamSynchronize") for name in recording.names], np.bool_)[host.name[nodes]]
    for back in (1, 2, 3):
        before = calls[np.maximum(at - back, 0)]
        pair = (
            (copy < 0)
            & streamwise
            & (at >= back)
            & (copy_of[before] >= 0)
            & (operator[before] == operator[nodes])
            & (host.thread[before] == host.thread[nodes])
        )
        copy = np.where(pair, copy_of[before], copy)
        begin = np.where(pair, host.start[before], begin)
    names = recording.names
    scalar_name = np.array([name in SCALAR_OPS for name in names], np.bool_)
    event_name = np.array(["EventSynchronize" in name for name in names], np.bool_)
    inside = operator[nodes]
    scalar = (inside >= 0) & scalar_name[host.name[np.maximum(inside, 0)]]
    kind = np.full(len(nodes), EXPLICIT, np.int64)
    kind[event_name[host.name[nodes]]] = EVENT
    kind[copy >= 0] = COPY_SYNC
    kind[scalar] = SCALAR
    kind[_by_profiler(recording, nodes)] = PROFILER
    order = np.argsort(host.start[nodes], kind="stable")
    nodes, copy, begin, kind = nodes[order], copy[order], begin[order], kind[order]
    return Syncs(nodes, host.start[nodes], host.end[nodes], kind, copy, begin)


def _of_operators(recording: Recording) -> Syncs | None:
    """Waits for copies that operators make by themselves, where the runtime has no call for copies; None without one."""
    found, host = own_copies.find(recording), recording.host
    if not len(found.node):
        return None
    reads = np.array([name in SCALAR_OPS for name in recording.names], np.bool_)[host.name]
    value = np.array([_READBACK.search(name) is not None for name in recording.names], np.bool_)[host.name]
    scalar = reads[found.node] | (host.above(found.node, value) >= 0)
    kind = np.where(scalar, SCALAR, COPY_SYNC)
    return Syncs(found.node, found.begin, found.end, kind, found.copy, found.begin)


def _unrecorded_waits(recording: Recording) -> Syncs:
    """Waits for a device of which nothing was recorded: Apple's GPU, say. All that shows of it is how long an operator takes."""
    host, read, copied = recording.host, unrecorded.readbacks(recording), unrecorded.copies(recording)
    nodes = np.concatenate([read, copied])
    kind = np.repeat([SCALAR, COPY_SYNC], [len(read), len(copied)])
    order = np.argsort(host.start[nodes], kind="stable") if len(nodes) else nodes
    nodes, start = nodes[order], host.start[nodes[order]] if len(nodes) else nodes
    return Syncs(nodes, start, host.end[nodes] if len(nodes) else nodes, kind[order], np.full(len(nodes), -1), start)


def _by_profiler(recording: Recording, nodes: Ints) -> Bools:
    """Device-wide waits that the profiler makes: outside the steps, with no launch before or none after them.

    torch.profiler synchronizes when it starts and when it stops; such a wait is not the program's, however long it is.
    """
    host, work = recording.host, recording.work
    device = np.array(["DeviceSynchronize" in name or "CtxSynchronize" in name for name in recording.names], np.bool_)
    device_wide: Bools = device[host.name[nodes]] & (host.attributes.user[nodes] < 0)
    linked = work.launch[work.launch >= 0]
    start = host.start[nodes]
    if not len(linked):
        return device_wide
    launches = host.start[linked]
    idle_side = (start >= launches.max()) | (start < launches.min())
    in_step = np.zeros(len(nodes), np.bool_)
    for step in recording.marked:
        in_step |= (start >= step.start) & (start < step.end)
    flags: Bools = device_wide & idle_side & ~in_step
    return flags
