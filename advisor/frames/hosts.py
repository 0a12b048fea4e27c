"""`ops`, `launches` and `python`: what the host does."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.intervals import Bools, Ints, covered
from advisor.timeline import cpu, retention
from advisor.timeline.calls import ANNOTATION, BACKWARD, OP, PYTHON, RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.waits import ALLOCATOR_CALL, GRAPH, SYNC_CALL

OPS = Schema(
    "ops",
    "a host operator",
    (
        *COMMON,
        text("name", "the operator", "name"),
        integer("self_ns", "ns", "its time without that of operators inside it"),
        integer("gpu_ns", "ns", "GPU time launched inside it, summed"),
        integer("kernel_count", "", "pieces of GPU work launched inside it"),
        integer("sequence", "", "autograd's sequence number; -1", "args.Sequence number"),
        flag("backward", "runs in a backward pass"),
        text("phase", "forward, backward, optimizer or zero_grad"),
        integer("depth", "", "operators around it"),
        text("dtype", "C++ type of its first tensor", "args.Input type"),
        text("dtypes", "types of all inputs", "args.Input type"),
        text("shapes", "shapes of all inputs", "args.Input Dims"),
        flag("top", "no operator around it"),
        text("kind", "matmul, convolution, recurrent, attention, normalization, pooling, indexing; else its own name"),
        real(
            "kind_share",
            "share",
            "of the counted time: what all operators of its kind own; 0 unless the program ran on the CPU",
        ),
    ),
)
LAUNCHES = Schema(
    "launches",
    "a runtime or driver call",
    (
        *COMMON,
        text("name", "the call", "name"),
        text("kind", "kernel, copy, memset, graph, sync, malloc, free, event, query or other"),
        integer("correlation", "", "ties it to GPU work", "args.correlation"),
        flag("linked", "whether the trace holds work that it launched"),
        integer("gpu_start_ns", "ns", "start of the first work it launched; -1"),
        integer("gpu_dur_ns", "ns", "duration of that work, summed"),
        integer("gpu_count", "", "pieces of work launched"),
        integer("delay_ns", "ns", "from the call's end to the work's start, negative where it began before; 0 without work"),
        integer("emptied", "", "frees that emptied the cache which a malloc or free fills again or empties; 0 where none did"),
        flag("empty_cache", "whether the stack names torch.cuda.empty_cache() as what did"),
    ),
)  # fmt: skip
PYTHON_CALLS = Schema(
    "python",
    "a Python call",
    (
        *COMMON,
        text("name", "as the profiler writes it: file(line): function; the line is where the function begins", "name"),
        text("kind", "function, builtin, module or gc"),
        integer("self_ns", "ns", "its time without what it called"),
        integer("depth", "", "calls around it"),
    ),
)
PYTHON_KINDS = ("function", "builtin", "module", "gc")
_KINDS = (
    ("graph", GRAPH),
    ("sync", SYNC_CALL),
    ("free", re.compile(r"^(?:cuda|hip)Free|^cuMem(?:Free|Release|Unmap)|^(?:cuda|hip)HostUnregister")),
    ("malloc", ALLOCATOR_CALL),
    ("kernel", re.compile(r"Launch(?!HostFunc)|^hipExtModuleLaunch")),
    ("copy", re.compile(r"Memcpy")),
    ("memset", re.compile(r"Memset")),
    ("event", re.compile(r"Event|WaitEvent")),
    ("query", re.compile(r"Get|Query|Is[A-Z]|Peek|Occupancy|Set[A-Z]")),
)

_ALLOCATING = [code for code, (kind, _) in enumerate(_KINDS) if kind in ("malloc", "free")]


def build_ops(context: Context) -> pd.DataFrame:
    """The frame `ops`."""
    host = context.recording.host
    nodes = context.op_rows
    table = context.tables.get("op", {})
    row = host.row[nodes]
    dur = host.end[nodes] - host.start[nodes]
    acts = (host.group == OP) | (host.group == ANNOTATION)
    inner = np.zeros(host.size, np.int64)
    children = np.flatnonzero(acts & (host.parent >= 0))
    np.add.at(inner, host.parent[children], (host.end - host.start)[children])
    time, count = _launched_inside(context)
    is_op = host.group == OP
    around = host.parent[nodes]
    up = np.where(around >= 0, host.attributes.op[np.maximum(around, 0)], -1)
    above_op = (up >= 0) & is_op[np.maximum(up, 0)]
    cost = np.zeros(len(nodes), np.int64)
    if context.idle_trusted and context.device >= 0 and len(nodes):
        spans = context.ledger.spans("host")
        own = np.zeros(host.size, np.int64)
        own[nodes] = covered(spans, host.start[nodes], host.end[nodes])
        for level in reversed(host.levels[1:]):
            mine = level[is_op[level] & (host.parent[level] >= 0)]
            np.subtract.at(own, host.parent[mine], covered(spans, host.start[mine], host.end[mine]))
        cost = np.maximum(own[nodes], 0)
    if context.cpu_program:
        cost = cpu.op_cost(context)
    frame = context.common(start=host.start[nodes], dur=dur, cost=cost, node=nodes)
    kinds, kind = cpu.op_kinds(context.names, host.name[nodes])
    types = table["types"][row] if len(nodes) else np.zeros(0, np.int64)
    dims = table["dims"][row] if len(nodes) else np.zeros(0, np.int64)
    frame |= {
        "name": context.labels(host.name[nodes], context.names),
        "self_ns": dur - inner[nodes],
        "gpu_ns": time[nodes],
        "kernel_count": count[nodes],
        "sequence": table["sequence"][row] if len(nodes) else np.zeros(0, np.int64),
        "backward": host.attributes.phase[nodes] == BACKWARD,
        "phase": context.labels(context.phases(nodes), context.phase_names),
        "depth": _depth(context, acts)[nodes],
        "dtype": context.labels(types, context.raw_dtypes),
        "dtypes": context.labels(types, context.shape_texts),
        "shapes": context.labels(dims, context.shape_texts),
        "top": ~above_op,
        "kind": context.labels(kind, kinds),
        "kind_share": cpu.kind_share(context, kind) if context.cpu_program else np.zeros(len(nodes)),
    }
    return pd.DataFrame(frame)


def _depth(context: Context, acts: Bools) -> Ints:
    """Operators and annotations around each node."""
    host = context.recording.host
    depth = np.zeros(host.size, np.int64)
    for level in host.levels[1:]:
        parent = host.parent[level]
        depth[level] = depth[parent] + acts[parent]
    return depth


def _launched_inside(context: Context) -> tuple[Ints, Ints]:
    """Per forest node: GPU ns and pieces of work launched at or below it."""
    host, work = context.recording.host, context.recording.work
    time, count = np.zeros(host.size, np.int64), np.zeros(host.size, np.int64)
    linked = work.launch >= 0
    np.add.at(time, work.launch[linked], (work.end - work.start)[linked])
    np.add.at(count, work.launch[linked], 1)
    for level in reversed(host.levels[1:]):
        parent = host.parent[level]
        np.add.at(time, parent, time[level])
        np.add.at(count, parent, count[level])
    return time, count


def build_launches(context: Context) -> pd.DataFrame:
    """The frame `launches`."""
    host, work = context.recording.host, context.recording.work
    nodes = np.flatnonzero(host.group == RUNTIME)
    nodes = nodes[np.argsort(host.start[nodes], kind="stable")]
    first = np.full(host.size, -1, np.int64)
    linked = np.flatnonzero(work.launch >= 0)[::-1]
    first[work.launch[linked]] = work.start[linked]
    time, count = np.zeros(host.size, np.int64), np.zeros(host.size, np.int64)
    np.add.at(time, work.launch[linked], (work.end - work.start)[linked])
    np.add.at(count, work.launch[linked], 1)
    kinds = np.array([_kind(name) for name in context.names], np.int64)
    row = host.row[nodes]
    calls = context.waits.allocator
    cost = np.zeros(host.size, np.int64)
    cost[calls.node] = context.wait_cost(["allocator"], len(calls.start))
    frame = context.common(
        start=host.start[nodes], dur=host.end[nodes] - host.start[nodes], cost=cost[nodes], node=nodes
    )
    has = count[nodes] > 0
    kind = kinds[host.name[nodes]] if len(nodes) else nodes
    emptied, named = retention.emptied(context, nodes, np.isin(kind, _ALLOCATING))
    frame |= {
        "name": context.labels(host.name[nodes], context.names),
        "kind": context.labels(kind, [kind for kind, _ in _KINDS] + ["other"]),
        "correlation": context.tables["runtime"]["correlation"][row] if len(nodes) else nodes,
        "linked": has,
        "gpu_start_ns": first[nodes],
        "gpu_dur_ns": time[nodes],
        "gpu_count": count[nodes],
        "delay_ns": np.where(has, first[nodes] - host.end[nodes], 0),
        "emptied": emptied,
        "empty_cache": named,
    }
    return pd.DataFrame(frame)


def _kind(name: str) -> int:
    for code, (_, pattern) in enumerate(_KINDS):
        if pattern.search(name):
            return code
    return len(_KINDS)


def build_python(context: Context) -> pd.DataFrame:
    """The frame `python`."""
    host = context.recording.host
    nodes = np.flatnonzero(host.group == PYTHON)
    nodes = nodes[np.argsort(host.start[nodes], kind="stable")]
    dur = host.end - host.start
    own = dur - host.children_ns()
    kinds = np.array([python_kind(name) for name in context.names], np.int64)
    gc = context.waits.gc
    cost = np.zeros(host.size, np.int64)
    cost[gc.node] = context.wait_cost(["gc"], len(gc.start))
    calls = (host.group == PYTHON).astype(np.bool_)
    frame = context.common(start=host.start[nodes], dur=dur[nodes], cost=cost[nodes], node=nodes)
    frame |= {
        "name": context.labels(host.name[nodes], context.names),
        "kind": context.labels(kinds[host.name[nodes]] if len(nodes) else nodes, PYTHON_KINDS),
        "self_ns": own[nodes],
        "depth": _depth(context, calls)[nodes],
    }
    return pd.DataFrame(frame)


def python_kind(name: str) -> int:
    """Index into ``PYTHON_KINDS`` of a call by its name."""
    if name.startswith("nn.Module: "):
        return 2
    if name.startswith("Python GC"):
        return 3
    return 1 if name.startswith("<built-in") else 0
