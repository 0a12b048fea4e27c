"""Facts of a trace that tell whether a fix was applied: settings where they were recorded, else what ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from advisor.trace import Trace

Fact = bool | int | float | str | None
_COLUMNS = (
    "loader_workers", "loader_pin_memory", "loader_persistent", "loader_batch_size", "optimizer_fused", "autocast",
    "tf32_matmul", "tf32_cudnn", "cudnn_benchmark", "threads", "optimizer_form", "precision", "compiler", "graph_launches",
    "grad_enabled", "anomaly_mode", "train_mode", "half_gemm_time_share", "tf32_gemm_time_share", "training",
)  # fmt: skip
"""Columns of the frame `trace`."""


def facts_of(trace: Trace) -> dict[str, Fact]:
    """Collect the facts; None for what is unknown."""
    row = trace.facts
    facts: dict[str, Fact] = {name: _plain(row.get(name)) for name in _COLUMNS}
    copied = row.get("bytes_copied")
    facts["copied_mb"] = float(copied) / 1e6 / max(1, trace.step_count) if copied is not None else None
    facts["iterators"] = ", ".join(sorted(trace.columns("loader")["iterator"].used().words or ())) or None
    copies = trace.columns("copies")
    memory = copies["host_memory"][copies["direction"].equals("HtoD")]
    known = memory.within(("pageable", "pinned"))
    facts["pageable_copies"] = float(memory.equals("pageable").mean()) if known.any() else None
    kernels = trace.columns("kernels", ("dur_ns", "kind", "dtype"))
    time = kernels["dur_ns"].to_numpy(np.float64)
    total = float(time.sum())
    facts["fused_attention"] = float(time[kernels["kind"].equals("attention")].sum()) / total if total else None
    facts["layout_kernels"] = float(kernels["kind"].equals("layout").sum()) if total else None
    facts["float64"] = float(kernels["dtype"].equals("fp64").mean()) if total else _float64_on_cpu(trace)
    return facts


def _float64_on_cpu(trace: Trace) -> float | None:
    types = trace.columns("ops", ("dtype",))["dtype"]
    types = types[types.notna()]
    return float(types.equals("double").mean()) if len(types) else None


def _plain(value: object) -> Fact:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
