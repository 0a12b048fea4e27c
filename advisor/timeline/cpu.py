"""Programs that run on the CPU: how to tell one, and who owns each ns of the thread that sets its pace.

A step on the CPU is as long as one thread takes for it: the one that holds the steps, else the one with most time in
operators. Its time is divided, and no other's. Autograd runs backward passes of the CPU on the thread that asks for
them, and the threads inside an operator (OpenMP) leave no events, so that thread is where nearly all time passes. What
other threads do beside it (pinning, prefetching, a second model) costs nothing while it works, and where it waits for
them its own operators stop, which reads as ``host``. Collectives are the exception: their backends run them on threads of
their own, and one in flight while the main thread is in no operator is what that thread waits for.
"""

from __future__ import annotations

import re

import numpy as np

from advisor.intervals import Bools, Ints, distinct, fetch, union
from advisor.regex import regex
from advisor.timeline.calls import ANNOTATION, OP, RUNTIME
from advisor.timeline.ledger import CODE, HostWaits, Layer, Ledger, layer_of, partition
from advisor.timeline.recording import HOST_DEVICES, NO_DEVICE, Recording
from advisor.timeline.startup_table import COMPILATION
from advisor.timeline.unexplained import host_extent
from advisor.timeline.waits import Waits

# Operators and annotations that only a program on a GPU or another accelerator has, for traces that hold nothing of the
# device itself. On Apple's GPUs alone aten::linear is one operator, with nothing inside it and a backward of its own.
_ON_DEVICE = regex(
    r"(?<!_use_)cudnn(?!_is)|cublas|\bcuda|nccl|miopen|\bmps|_mps|\b(?:xpu|hpu|npu|xla|tpu)\b|record_stream|pin_memory"
    r"|_fused_dropout"
    r"|thnn_fused|aten::linear_backward|flash_attention(?!\w*for_cpu)|efficient_attention",
    re.IGNORECASE,
)
_TORCHS_OWN = regex(r"^(?:nccl|gloo|mpi|ucc|c10d):|^Optimizer\.|^DistributedDataParallel\.|^ProfilerStep#")
_OPERATOR = regex(r"^[\w.]+::|^(?:nccl|gloo|mpi|ucc|c10d):|^(?:record_param_comms|\w+Backward\w*)$|^cpp_fused")
_ON_CPU = regex(r"mkldnn|mkl_linear|_for_cpu|nnpack|^cpp_fused")
_DEVICE_CALL = regex(r"Launch|Memcpy|Memset|Malloc|MemAlloc")
_COLLECTIVE_OP = regex(r"^(?:c10d|_?c10d_functional)::|^record_param_comms$")
_COLLECTIVE = regex(r"^(?:gloo|mpi|ucc):")


def shows_device(recording: Recording) -> bool:
    """Tell whether the host's side speaks of work on a GPU: its calls, its memory, or operators that run nowhere else."""
    names = recording.names
    if recording.metadata.accelerator is not None:
        return True
    calls = recording.tables.get("runtime")
    if calls is not None and any(_DEVICE_CALL.search(names[code]) for code in distinct(calls["name"]).tolist()):
        return True
    instants = recording.tables.get("instant")
    if instants is not None and bool((~np.isin(instants["device_type"], (*HOST_DEVICES, NO_DEVICE))).any()):
        return True
    return any(_ON_DEVICE.search(name) for name in _names(recording)) or _is_linear_whole(recording)


def _is_linear_whole(recording: Recording) -> bool:
    host = recording.host
    if "aten::linear" not in recording.names:
        return False
    nodes = np.flatnonzero((host.group == OP) & (host.name == recording.names.index("aten::linear")))
    return len(nodes) > 0 and not np.isin(host.parent[host.group == OP], nodes).any()


def is_cpu_program(recording: Recording) -> bool:
    """Tell whether the program is known to have run on the CPU alone: not only that no GPU was recorded.

    Known it is by operators that only the CPU has, by memory of the host alone, by a recording of the GPU's calls that
    holds no work, or by a torch that lists no GPU. Traces older than torch 2.4 do not tell the last from silence.
    """
    if "op" not in recording.tables or len(recording.work) or recording.recorded.truncated or shows_device(recording):
        return False
    if "runtime" in recording.tables or "instant" in recording.tables:
        return True
    if any(_ON_CPU.search(name) for name in _names(recording)):
        return True
    return bool(recording.metadata.base_ns) and not recording.metadata.devices


def _names(recording: Recording) -> list[str]:
    """Distinct names of operators, and of annotations that torch itself makes.

    Not of compiled graphs, whose hashes may spell anything, nor what a user calls a block of code.
    """
    tables = [(group, recording.tables[group]) for group in ("op", "annotation") if group in recording.tables]
    used = {(group, code) for group, table in tables for code in distinct(table["name"]).tolist()}
    names = ((group, recording.names[code]) for group, code in used)
    return [name for group, name in names if (_TORCHS_OWN if group == "annotation" else _OPERATOR).match(name)]


def main_thread(recording: Recording) -> int:
    """The thread whose time is divided: the one with most time in operators, of those that hold steps if any of them has some."""
    host = recording.host
    ops = np.flatnonzero(host.group == OP)
    if not len(ops):
        return host.launching_thread()
    time: dict[int, int] = {}
    for thread in distinct(host.thread[ops]).tolist():
        here = ops[host.thread[ops] == thread]
        time[thread] = union(host.start[here], host.end[here]).length
    steps = np.array([name.startswith("ProfilerStep#") for name in recording.names], np.bool_)
    holding = set(distinct(host.thread[steps[host.name] & np.isin(host.group, (OP, ANNOTATION))]).tolist())
    chosen = [thread for thread in time if thread in holding] or list(time)
    return max(chosen, key=lambda thread: (time[thread], -thread))


def ledger(recording: Recording, waits: HostWaits) -> Ledger:
    """The ledger of a CPU program. ``row`` of what operators own is the row of `ops`; of collectives on other threads, -1.

    First what the main thread waits for (profiler, compilation, which is start-up where it ends by itself, collector, loader,
    whatever runs inside), then its
    operators, each moment the innermost one's, then collectives in flight, then what is left: Python, where the thread
    recorded anything at all.
    """
    host, thread = recording.host, main_thread(recording)
    layers = [_waiting("profiler", waits.profiler, host.thread, thread)]
    layers.append(_waiting("startup", waits.startup, host.thread, thread, waits.startup.kind == COMPILATION))
    layers += [
        _waiting(cause, table, host.thread, thread)
        for cause, table in (("compile", waits.compile), ("gc", waits.gc), ("loader", waits.loader))
    ]
    layers += _operators(recording, thread)
    nodes = flying(recording)
    layers.append(layer_of("communication", host.start[nodes], host.end[nodes]))
    low, high = host_extent(recording)
    # Of a thread that recorded nothing in the whole extent, nobody knows that it was in Python.
    rest = "host" if _records(recording, thread) else "unknown"
    layers.append(layer_of(rest, np.array([low], np.int64), np.array([high], np.int64)))
    return partition(recording, -1, layers)


def flying(recording: Recording) -> Ints:
    """Forest nodes of the collectives that a backend runs on the CPU, on a thread of its own."""
    host = recording.host
    named = np.array([_COLLECTIVE.match(name) is not None for name in recording.names], np.bool_)
    return np.flatnonzero(named[host.name] & (host.group != RUNTIME)) if host.size else np.zeros(0, np.int64)


def _records(recording: Recording, thread: int) -> bool:
    """Tell whether a thread has any event but its steps inside the extent."""
    host, (low, high) = recording.host, recording.extent
    steps = np.array([name.startswith("ProfilerStep#") for name in recording.names], np.bool_)
    nodes = (host.thread == thread) & ~steps[host.name] & (host.start < high) & (host.end > low)
    return bool(nodes.any())


def _waiting(cause: str, table: Waits, threads: Ints, thread: int, some: Bools | None = None) -> Layer:
    """Waits of the main thread, or *some* of them; the profiler's own time is of no thread."""
    rows = np.arange(len(table.start)) if some is None else np.flatnonzero(some)
    if len(rows):
        node = table.node[rows]
        rows = rows[(node < 0) | (threads[np.maximum(node, 0)] == thread)]
    return layer_of(cause, table.start[rows], table.end[rows], rows)


def _operators(recording: Recording, thread: int) -> list[Layer]:
    """The main thread's time in operators, each moment the innermost one's: collectives apart from all others."""
    host, rows = recording.host, recording.host.nodes_of(OP)
    names = np.array([_COLLECTIVE_OP.match(name) is not None for name in recording.names], np.bool_)
    nodes, is_op = np.arange(host.size), host.group == OP
    inner = host.flow(np.where(is_op, nodes, -1))
    # What runs inside a collective's operator is part of it.
    collective = host.flow(np.where(is_op & names[host.name], nodes, -1)) >= 0
    row_of = np.full(host.size, -1, np.int64)
    row_of[rows] = np.arange(len(rows))
    here = rows[host.thread[rows] == thread]
    edges = distinct(np.concatenate([host.start[here], host.end[here]]))
    open_now = host.innermost(thread, edges[:-1])
    owner = fetch(inner, open_now)
    layers = []
    for cause, mask in (("communication", collective), ("compute", ~collective)):
        keep = (owner >= 0) & mask[np.maximum(owner, 0)]
        layers.append(Layer(CODE[cause], edges[:-1][keep], edges[1:][keep], row_of[owner[keep]]))
    return layers
