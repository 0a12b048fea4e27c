"""Per-step samples of a trace: what the gate compares, one figure a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from advisor.results.samples import Samples
from advisor.views.parts import host_steps, parts

if TYPE_CHECKING:
    from advisor.intervals import Bools
    from advisor.trace import Trace

Floats = npt.NDArray[np.float64]
_MS = 1e6
_MB = 1e6


def collect(trace: Trace, rows: Mapping[str, tuple[str, Bools]]) -> Samples:
    """The samples of a trace, and of the rules: *rows* are the engine's, of every rule that found some.

    What a rule costs is told whether it fired or not: one that stands just under its limit must not look like 0.
    """
    steps = trace.frame("steps")
    sampled = steps["sampled"].to_numpy(np.bool_)
    count = len(steps)
    figures = {**_times(trace, steps), **_counts(trace, steps), **_memory(trace, count)}
    book = trace.ledger
    rules = {}
    for rule, (frame, mask) in rows.items():
        segments = np.unique(np.asarray(trace.claims(frame, mask), np.int64))
        mine = segments[book.step[segments] >= 0]
        if len(mine):
            owned = np.zeros(count)
            np.add.at(owned, book.step[mine], book.dur_ns[mine] / _MS)
            rules[rule] = _listed(owned[sampled])
    return Samples(
        steps=int(sampled.sum()) if trace.step_count else 0,
        metrics={name: _listed(values[sampled]) for name, values in figures.items()},
        rules=dict(sorted(rules.items())),
        parts={name: made for name, made in parts(trace, sampled, list(figures)) if made},
    )


def _listed(values: Floats) -> list[float]:
    return [round(float(value), 6) for value in values]


def _times(trace: Trace, steps: pd.DataFrame) -> dict[str, Floats]:
    dur = steps["dur_ns"].to_numpy(np.float64)
    times = {"step_ms": dur / _MS}
    if "gpu" not in trace.features:
        return times
    busy = sum((steps[f"{cause}_ns"] for cause in ("compute", "communication", "copy", "memset")), steps["dur_ns"] * 0)
    times["gpu_busy_share"] = np.divide(busy.to_numpy(np.float64), dur, out=np.zeros(len(dur)), where=dur > 0)
    kernels = trace.frame("kernels")
    mine = kernels[(kernels["device"] == trace.device) & (kernels["class"] != "communication")]
    times["kernel_ms"] = _summed(mine, mine["dur_ns"].to_numpy(np.float64) / _MS, len(dur))
    if "distributed" in trace.features:
        times["exposed_communication_ms"] = steps["communication_ns"].to_numpy(np.float64) / _MS
    if "idle" in trace.features:
        times["loader_ms"] = steps["loader_ns"].to_numpy(np.float64) / _MS
        times["sync_ms"] = (steps["sync_ns"] + steps["blocking_copy_ns"]).to_numpy(np.float64) / _MS
        times["host_ms"] = steps["host_ns"].to_numpy(np.float64) / _MS
    return times


def _counts(trace: Trace, steps: pd.DataFrame) -> dict[str, Floats]:
    """How often, and how many bytes; a row counts for the step in which the host asked for it.

    By the device's clock a kernel that runs late would count for the step behind, and counts that repeat would not.
    """
    found: dict[str, Floats] = {}

    def by_step(frame: pd.DataFrame, values: Floats | None = None) -> Floats:
        step = host_steps(trace, frame)
        inside = step >= 0
        weights = None if values is None else values[inside]
        return np.bincount(step[inside], weights=weights, minlength=len(steps)).astype(np.float64)

    launches = trace.frame("launches") if "host" in trace.features else None
    if launches is not None and len(launches):
        launching = np.asarray(launches["kind"].isin(["kernel", "copy", "memset", "graph"]), np.float64)
        found["launch_count"] = by_step(launches, launching)
        found["sync_count"] = by_step(trace.frame("syncs"))
    if "host" in trace.features:
        found["operator_count"] = by_step(trace.frame("ops"))
    if "gpu" in trace.features:
        copies = trace.frame("copies")
        between = copies[copies["direction"].isin(["HtoD", "DtoH"])]
        if not between["bytes"].isna().any():
            megabytes = between["bytes"].to_numpy(np.float64) / _MB
            found["copied_mb"] = by_step(between, megabytes)
            pageable = np.asarray(between["host_memory"] == "pageable", np.float64)
            if not (between["host_memory"] == "unknown").any():
                found["pageable_mb"] = by_step(between, megabytes * pageable)
    return found


def _memory(trace: Trace, count: int) -> dict[str, Floats]:
    if "memory" not in trace.features or trace.device < 0:
        return {}
    points = trace.frame("memory")
    points = points[(points["device"] == trace.device) & (points["step"] >= 0)]
    peak = np.zeros(count)
    np.maximum.at(peak, points["step"].to_numpy(), points["allocated_bytes"].to_numpy(np.float64) / _MB)
    return {"peak_memory_mb": peak} if (peak > 0).all() else {}


def _summed(frame: pd.DataFrame, values: Floats, count: int) -> Floats:
    """Sums of *values* by the step of each row."""
    step = frame["step"].to_numpy()
    inside = (step >= 0) & (step < count)
    return np.bincount(step[inside], weights=values[inside], minlength=count).astype(np.float64)
