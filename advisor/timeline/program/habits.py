"""Habits of a program: launches that wait for their kernels, gradients checked for NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.intervals import Bools, Ints, distinct, fetch
from advisor.regex import regex
from advisor.timeline.calls import FORWARD, OP, RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.waits import nodes_by_name

# A kernel as short as its own launch call may end before the call returns, blocking or not.
_LONG_NS = 20_000
_ENOUGH = 10
# A model, not a handful of copies or set-up calls.
_NUMBERED = 50
_GAP_NS = 100_000
_FREED_NS = 10_000
"""To free what autograd kept of an operator takes a few microseconds; Python of so much for each is no work of the program's."""
_PAUSE_NS = 1_000_000
_LEAST_STEPS = 3
_CELL = regex(r"^aten::(?:lstm|gru|rnn_\w+|quantized_\w+)_cell$")
_LAYER = regex(r"^aten::(?:linear|addmm|mm|bmm|baddbmm|matmul|conv\w+|_convolution|batch_norm|layer_norm|embedding)$")
_ENGINE = "autograd::engine::evaluate_function: "
_SELECTED = (
    ("attention", regex("attention")),
    ("recurrent", regex("rnn")),
    ("convolution", regex(r"conv")),
)
_CONVOLVES = regex(r"^aten::(?:cudnn|miopen)_convolution|^aten::convolution_backward$")
_TIMED = regex(r"^(?:cuda|hip)EventElapsedTime")
_TESTS = ("aten::isnan", "aten::_is_any_true", "aten::any", "aten::item", "aten::is_nonzero")


def habits(context: Context) -> dict[str, Any]:
    """Headline facts, by column of `trace`."""
    checks, nodes = _nan_checks(context)
    enabled = _grad_enabled(context)
    return {
        "blocking_launch_share": blocking_launch_share(context),
        "anomaly_checks": checks,
        "anomaly_mode": checks > 0 and 2 * checks >= nodes,
        "grad_enabled": enabled,
        "frees_graph": enabled and _frees_graph(context),
        "collects_each_step": _collects_each_step(context),
        "selects": _selects(context),
        "searched_convolutions": _searched_convolutions(context),
        "cells": any(_CELL.match(name) for name in context.names),
    }


def blocking_launch_share(context: Context) -> float | None:
    """Share of kernels of 20 us or more that were past their middle when their launch call returned; None for fewer than ten.

    A launch returns at once, unless CUDA_LAUNCH_BLOCKING, or a runtime that knows no queue, makes it wait for its kernel. The
    middle and not the end, as the clocks of host and device may be some microseconds apart.
    """
    work, host, rows = context.recording.work, context.recording.host, context.kernel_rows
    launch = work.launch[rows]
    keep = (launch >= 0) & (work.end[rows] - work.start[rows] >= _LONG_NS) & ~np.isin(launch, context.graph_nodes)
    if int(keep.sum()) < _ENOUGH:
        return None
    middle = (work.start[rows] + work.end[rows]) // 2
    return float((host.end[launch[keep]] >= middle[keep]).mean())


def _grad_enabled(context: Context) -> bool:
    """Tell whether layers carry autograd's numbers, which gradient mode hands out, though nothing runs backward.

    Operators around them do where a loop prepares or gathers in gradient mode what the model computes without.
    """
    table = context.tables.get("op")
    if table is None or context.training():
        return False
    layers = np.array([_LAYER.match(name) is not None for name in context.names], np.bool_)[table["name"]]
    numbered = table["sequence"] >= 0
    if not layers.any():
        return int(numbered.sum()) >= _NUMBERED
    return int(numbered.sum()) >= _NUMBERED and 2 * int((numbered & layers).sum()) >= int(layers.sum())


def _frees_graph(context: Context) -> bool:
    """Tell whether Python's longer stretches take no more than it takes to free the graph that gradient mode made.

    It is freed as one, where its last name gets another value: a stretch without operators, on a line that does nothing else.
    """
    if not context.cpu_program:
        return False
    ledger = context.ledger
    python = ledger.counted & ledger.through("host") & (ledger.dur_ns >= _GAP_NS)
    numbered = int((context.op_column(context.op_rows, "sequence") >= 0).sum())
    return 0 < int(ledger.dur_ns[python].sum()) <= _FREED_NS * numbered


def _collects_each_step(context: Context) -> bool:
    """Tell whether long pauses for garbage come in every step, as a call of ``gc.collect()`` in the loop makes them."""
    steps, pauses = context.recording.steps, context.waits.gc
    long = pauses.start[pauses.end - pauses.start >= _PAUSE_NS]
    if len(steps) < _LEAST_STEPS or len(long) < len(steps):
        return False
    starts = np.sort(np.array([step.start for step in steps], np.int64))
    return len(distinct(np.searchsorted(starts, long, side="right"))) >= len(steps)


def _selects(context: Context) -> str | None:
    """Tell what most of the selections of kernels that go on in the steady part are for; None where none go on."""
    selection, host = context.waits.selection, context.recording.host
    within = selection.node >= 0
    node, dur = selection.node[within], (selection.end - selection.start)[within]
    time: dict[str, int] = {}
    for code in distinct(host.name[node]).tolist():
        name = context.names[code]
        kind = next((kind for kind, known in _SELECTED if known.search(name)), "product")
        time[kind] = time.get(kind, 0) + int(dur[host.name[node] == code].sum())
    return max(time, key=lambda kind: time[kind]) if time else None


def _searched_convolutions(context: Context) -> bool:
    """Tell whether convolutions time their kernels with events: so a search for the fastest algorithm does, and nothing else."""
    host = context.recording.host
    timed = nodes_by_name(context.recording, _TIMED, (RUNTIME,))
    if not len(timed):
        return False
    above = fetch(host.attributes.op, timed)
    codes = distinct(host.name[above[above >= 0]])
    return any(_CONVOLVES.match(context.names[code]) for code in codes.tolist())


def _nan_checks(context: Context) -> tuple[int, int]:
    """Nodes of the autograd graph whose gradients are checked for NaN as they run, and all that have gradients to check.

    Anomaly mode checks inside the engine, so ``aten::isnan`` lies right below the engine's own operator.
    """
    host, names = context.recording.host, context.names
    if not host.size or "aten::isnan" not in names:
        return 0, 0
    nodes = _engine_nodes(context)
    checks = _of_names(context, "aten::isnan")
    checked = distinct(host.parent[checks])
    return int(np.isin(checked, nodes).sum()), len(nodes)


def _engine_nodes(context: Context) -> Ints:
    host, names = context.recording.host, context.names
    engine = np.array([name.startswith(_ENGINE) and "AccumulateGrad" not in name for name in names], np.bool_)
    return np.flatnonzero(engine[host.name] & (host.group == OP))


def _of_names(context: Context, *wanted: str) -> Ints:
    host = context.recording.host
    named = np.array([name in wanted for name in context.names], np.bool_)
    return np.flatnonzero(named[host.name] & (host.group == OP))


def anomalous(context: Context) -> Bools:
    """Flag the nodes of the forest that are what anomaly mode costs; none where it is off.

    Each test is an isnan, what asks whether any element is, and the readback of the answer, all right below the engine's
    operator; what they call is part of them. Of an operator that makes an autograd node it is the time in no inner operator,
    which the traceback takes that it stores: 200 to 370 us an operator were measured.
    """
    host = context.recording.host
    flags = np.zeros(host.size, np.bool_)
    checks, nodes = _nan_checks(context)
    if not checks or 2 * checks < nodes:
        return flags
    tests = _of_names(context, *_TESTS)
    tests = tests[np.isin(host.parent[tests], _engine_nodes(context))]
    # Of other nodes' own work, only what follows their isnan.
    tested = host.parent[_of_names(context, "aten::isnan")]
    tests = tests[np.isin(host.parent[tests], tested)]
    own = np.full(host.size, -1, np.int64)
    own[tests] = 1
    flags = host.flow(own) > 0
    ops = host.node_of["op"]
    numbered = ops[context.tables["op"]["sequence"] >= 0]
    flags[numbered[host.attributes.phase[numbered] == FORWARD]] = True
    return flags
