"""Cases: a call that is slow for one nameable reason, its remedy, and how both are timed and the call is recorded.

Of each: device time of the call and of its remedy without a profiler, and a small trace of the call with shapes. The remedy
computes the same, or the same per row: ``rows`` are the work of both, where sizes differ.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gpu_parts.bench import Bench, Call, gz_size, precision

HALF = torch.bfloat16
LARGEST = 60_000  # bytes of a compressed trace
TENSORS = 8  # of one operator, whose shapes are written
KERNELS = {"kernel", "gpu_memcpy", "gpu_memset"}
Build = Callable[["Maker", bool], Call]


class Maker(NamedTuple):
    """Tensors on the device; sizes are those of the GPU, or small ones without one."""

    bench: Bench

    def size(self, gpu: int, cpu: int = 16) -> int:
        return int(self.bench.pick(gpu, cpu))

    def rand(self, *shape: int, dtype: torch.dtype = HALF) -> torch.Tensor:
        return torch.randn(*shape, device=self.bench.device).to(dtype)

    def grad(self, *shape: int, dtype: torch.dtype = HALF) -> torch.Tensor:
        return self.rand(*shape, dtype=dtype).requires_grad_()

    def like(self, other: torch.Tensor) -> torch.Tensor:
        """Random numbers of the shape, type and layout of *other*, the same for each layout."""
        return torch.empty_like(other).copy_(self.rand(*other.shape, dtype=other.dtype))

    def integers(self, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, high, shape, device=self.bench.device)


class Case(NamedTuple):
    """One call and its remedy. ``rows``: work of the call and of its remedy, where the remedy does more of it at once.

    ``tf32``: TF32 in the call and in its remedy; None for none in both, True for in the remedy only.
    """

    reason: str
    build: Build
    fix: str = ""
    rows: tuple[int, int] = (1, 1)
    tf32: bool | None = None


def shaped(found: Any) -> list[torch.Tensor]:
    """Tensors among arguments."""
    return [leaf for leaf in tree_leaves(found) if isinstance(leaf, torch.Tensor)]


class Operators(TorchDispatchMode):
    """Operators that a call dispatches, those of its backward pass included, each with shapes and its time alone."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench, self.rows = bench, list[dict[str, Any]]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kept: list[Any] = []
        given = shaped((args, kwargs))[:TENSORS]
        row = {
            "op": func._schema.name,
            "shapes": [list(tensor.shape) for tensor in given],
            "strides": [list(tensor.stride()) for tensor in given],
            "dtypes": [str(tensor.dtype).removeprefix("torch.") for tensor in given],
        }
        self.bench.sync()
        begun = time.perf_counter()
        apply = lambda: kept.append(func(*args, **(kwargs or {})))  # noqa: E731
        if self.bench.gpu:
            row["ms"] = self.bench.between(apply)
        else:
            apply()
            row["ms"] = (time.perf_counter() - begun) * 1e3
        self.rows.append(row)
        return kept[0]


def operators(bench: Bench, call: Call) -> dict[str, Any]:
    """The operators of a call by time, and the first of them: its name, shapes and type."""
    try:
        with Operators(bench) as mode:
            call()
    except Exception as error:  # noqa: BLE001
        return {"operators_error": f"{type(error).__name__}: {error}"[:300]}
    rows = sorted(mode.rows, key=lambda row: -float(row["ms"]))
    if not rows:
        return {"operators_error": "none was dispatched"}
    first = rows[0]
    return {
        "op": first["op"],
        "shapes": first["shapes"],
        "dtype": first["dtypes"][0] if first["dtypes"] else "",
        "operators": rows[:8],
        "operators_a_call": len(rows),
    }


def record(bench: Bench, call: Call, path: Path, target_ms: float = 2.0) -> dict[str, Any]:
    """Record three marked steps of some calls each, with shapes: of fewer calls where the file would be too large."""
    once = max(bench.between(call), 0.01) if bench.gpu else target_ms
    repeats = max(2, min(10, round(target_ms / once)))
    kinds = torch.profiler.ProfilerActivity
    while True:
        with torch.profiler.profile(
            activities=[kinds.CPU, kinds.CUDA] if bench.gpu else [kinds.CPU],
            schedule=torch.profiler.schedule(wait=0, warmup=1, active=3, repeat=1),
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
            record_shapes=True,
        ) as profiler:
            for _ in range(4):
                for _ in range(repeats):
                    call()
                bench.sync()
                profiler.step()
        packed, _ = gz_size(path)
        if packed <= LARGEST or repeats == 1:
            kernels = recorded_kernels(bench, path, 3 * repeats)
            return {"steps": 3, "calls_a_step": repeats, "bytes_gz": packed, "kernels": kernels}
        repeats = max(1, min(repeats - 1, int(repeats * LARGEST / packed * 0.9)))


def recorded_kernels(bench: Bench, path: Path, calls: int) -> list[list[Any]]:
    """Kernels of a trace by time: name, number and µs per call."""
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    names: dict[str, list[float]] = {}
    for event in events:
        if event.get("ph") == "X" and event.get("cat") in (KERNELS if bench.gpu else {"cpu_op"}):
            names.setdefault(event["name"], []).append(float(event["dur"]))
    rows = [[name[:240], len(each) / calls, sum(each) / calls] for name, each in names.items()]
    return sorted(rows, key=lambda row: -float(row[2]))[:4]


def take(bench: Bench, name: str, case: Case, folder: Path) -> dict[str, Any]:
    """Times of one case and of its remedy, and the case's trace beside its truth."""
    found: dict[str, Any] = {"reason": case.reason, "fix": case.fix, "rows": list(case.rows)}
    for repaired in (False, True) if case.fix else (False,):
        allowed = "tf32" if case.tf32 and repaired else "fp32"
        precision(allowed)
        torch.manual_seed(0)
        if bench.gpu:
            torch.cuda.reset_peak_memory_stats()
        call = case.build(Maker(bench), repaired)
        prefix = "fixed_" if repaired else ""
        timed = bench.timed(call, 30.0)
        found |= {f"{prefix}{key}": timed[key] for key in ("ms", "min_ms", "max_ms")}
        found[f"{prefix}precision"] = allowed
        if bench.gpu:
            found[f"{prefix}peak_bytes"] = torch.cuda.max_memory_allocated()
        if repaired:
            found["fixed_kernels"] = bench.profiled(call)["kernels"][:4]
        else:
            found |= record(bench, call, folder / f"{name}.json.gz")
            found |= operators(bench, call)
        del call
    if "fixed_ms" in found:
        found["gain"] = 1 - found["fixed_ms"] * case.rows[0] / case.rows[1] / found["ms"]
    truth = {"trace": f"{name}.json.gz", "device": str(bench.device), "torch": torch.__version__}
    if bench.gpu:
        truth["gpu"] = torch.cuda.get_device_name()
    (folder / f"{name}.json").write_text(json.dumps(truth | found, indent=1))
    return found
