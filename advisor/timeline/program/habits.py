"""Habits of a program: launches that wait for their kernels, gradients checked for NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.intervals import Ints
from advisor.timeline.calls import OP
from advisor.timeline.context import Context

# A kernel as short as its own launch call may end before the call returns, blocking or not.
_LONG_NS = 20_000
_ENOUGH = 10
_ENGINE = "autograd::engine::evaluate_function: "


def habits(context: Context) -> dict[str, Any]:
    """Headline facts, by column of `trace`."""
    checks, nodes = _nan_checks(context)
    return {
        "blocking_launch_share": blocking_launch_share(context),
        "anomaly_checks": checks,
        "anomaly_mode": checks > 0 and 2 * checks >= nodes,
    }


def blocking_launch_share(context: Context) -> float | None:
    """Share of kernels of 20 us or more that had ended when their launch call returned; None for fewer than ten.

    A launch returns at once, unless CUDA_LAUNCH_BLOCKING makes it wait for its kernel.
    """
    work, host, rows = context.recording.work, context.recording.host, context.kernel_rows
    launch = work.launch[rows]
    keep = (launch >= 0) & (work.end[rows] - work.start[rows] >= _LONG_NS) & ~np.isin(launch, context.graph_nodes)
    if int(keep.sum()) < _ENOUGH:
        return None
    return float((host.end[launch[keep]] >= work.end[rows[keep]]).mean())


def _nan_checks(context: Context) -> tuple[int, int]:
    """Nodes of the autograd graph whose gradients are checked for NaN as they run, and all that have gradients to check.

    Anomaly mode checks inside the engine, so ``aten::isnan`` lies right below the engine's own operator.
    """
    host, names = context.recording.host, context.names
    if not host.size or "aten::isnan" not in names:
        return 0, 0
    checking = np.array([name == "aten::isnan" for name in names], np.bool_)
    engine = np.array([name.startswith(_ENGINE) and "AccumulateGrad" not in name for name in names], np.bool_)
    nodes: Ints = np.flatnonzero(engine[host.name] & (host.group == OP))
    checks = np.flatnonzero(checking[host.name] & (host.group == OP))
    checked = np.unique(host.parent[checks])
    return int(np.isin(checked, nodes).sum()), len(nodes)
