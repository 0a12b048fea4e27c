"""Builds the eight states of the article's ladder from its published figures. No recording: see README.md here.

    python sample_traces/article/build.py          writes rung*.json.gz and the table in README.md

The article is Chaim Rand, "PyTorch Model Performance Analysis and Optimization" (2023). It publishes the step time or
the samples a second of each state, and here and there the GPU utilization, the peak of memory and the Tensor Core
share. A ResNet-18 training step that comes to those figures is walked layer by layer, and written call by call.
"""

from __future__ import annotations

import gzip
import json
import statistics
from bisect import bisect
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from compiled import Compiled
from eager import Eager

from advisor.testing import TraceBuilder

HERE = Path(__file__).resolve().parent
SOURCE = "https://towardsdatascience.com/pytorch-model-performance-analysis-and-optimization-10c3c5822869"
LABEL = "by sample_traces/article/build.py from the article's published figures; not a recording"
STEPS = 3  # as the article's schedule: wait=1, warmup=4, active=3, so the steps are numbered from 5


@dataclass(frozen=True)
class Rung:
    """One state: what it is, what the article says of it, and the settings that make the trace say the same."""

    number: int
    slug: str
    change: str
    batch: int
    samples_s: float  # published, or from the published ms a step
    utilization: float | None = None  # published, in %
    peak: str = ""  # published
    tensor_cores: float | None = None  # published, in % of kernel time
    workers: int = 8
    pinned: bool = True
    uint8: bool = True
    keep_grads: bool = False  # zero_grad(set_to_none=False): zeroed by memsets, accumulated into
    half: bool = False
    compiled: bool = False
    kernel_ms: float = 0.0  # kernels of a step that grow with the batch
    loader_ms: float = 1.0
    pace: float = 2.1  # the host's time for an operator, relative
    gbps: float = 11.2  # what a host-to-device copy reaches

    @property
    def file(self) -> str:
        """The trace's name."""
        return f"rung{self.number}_{self.slug}.json.gz"


# kernel_ms, loader_ms, pace and gbps were found by trial: with them the figures measured on the trace meet the published
# ones. The copies of rungs 0 and 1 are as slow as the article's "10 of 37 ms" has them.
RUNGS = (
    Rung(0, "baseline", "as written: batch 32, one process", 32, 400, 31.65, workers=0, pinned=False, uint8=False,
         keep_grads=True, kernel_ms=24.144, loader_ms=44.032, gbps=2.115),
    Rung(1, "workers", "`num_workers=8`", 32, 32 / 0.037, 72.81, pinned=False, uint8=False, keep_grads=True,
         kernel_ms=25.52, loader_ms=0.15, gbps=2.115),
    Rung(2, "pinned", "`pin_memory=True`, `non_blocking=True`", 32, 1200, 92.37, "under 1 GB", uint8=False, keep_grads=True,
         kernel_ms=23.64, loader_ms=0.15, pace=2.108, gbps=12.4),
    Rung(3, "batch512", "batch 32 → 512", 512, 1584, None, "11.3 GB", uint8=False, keep_grads=True, kernel_ms=294.134),
    Rung(4, "uint8", "images copied as uint8", 512, 1670, 97.51, keep_grads=True, kernel_ms=298.126),
    Rung(5, "set_to_none", "`zero_grad(set_to_none=True)`", 512, 1670, tensor_cores=0, kernel_ms=298.126),
    Rung(6, "amp", "autocast to fp16, batch 1024", 1024, 2477, tensor_cores=26.3, half=True, kernel_ms=398.48),
    Rung(7, "compile", "`torch.compile(model)`", 1024, 3268, half=True, compiled=True, kernel_ms=298.66),
)  # fmt: skip
BEGIN, END = "<!-- written by build.py -->", "<!-- end -->"

# What part of the kernel time that grows with the batch each kind of kernel has; within a kind it goes by arithmetic
# (convolutions) or by bytes (the rest). Compiled, the convolutions keep their times, and Triton's kernels take the place
# of batch norm, pointwise work and pooling.
SHARES = {
    "fp32": {"conv": 0.655, "norm": 0.19, "pointwise": 0.118, "pool": 0.027, "gemm": 0.01},
    "fp16": {
        "tensor": 0.2538, "conv": 0.1062, "norm": 0.2912, "pointwise": 0.2325, "cast": 0.0303, "layout": 0.0263, "pool": 0.05,
        "gemm": 0.0097,
    },
    "compiled": {
        "tensor": 0.339, "conv": 0.1417, "triton": 0.4532, "pointwise": 0.018, "layout": 0.0351, "gemm": 0.013,
    },
}  # fmt: skip


def main() -> None:
    """Write all traces, and the table of what they measure."""
    rows = []
    for rung in RUNGS:
        b = build(rung)
        data = b.to_bytes()
        path = HERE / rung.file
        # Another zlib packs the same text differently: a file that holds it already is left alone.
        if not path.exists() or gzip.decompress(path.read_bytes()) != data:
            b.write(path)
        rows.append((rung, measure(json.loads(data))))
        print(f"{rung.file}: {rows[-1][1]['step']:.2f} ms a step, {path.stat().st_size:,} bytes")
    readme = HERE / "README.md"
    before, rest = readme.read_text(encoding="utf-8").split(BEGIN)
    readme.write_text(before + BEGIN + "\n" + table(rows) + END + rest.split(END)[1], encoding="utf-8")


def build(rung: Rung) -> TraceBuilder:
    """The trace of one state."""
    shares = SHARES["compiled" if rung.compiled else "fp16" if rung.half else "fp32"]
    steps = Compiled if rung.compiled else Eager
    trial = steps(rung, dict.fromkeys(shares, 0.0))
    trial.run(_builder())  # adds up the weights of a step, to scale them by
    step = steps(rung, {kind: rung.kernel_ms * 1000 * share / trial.weights[kind] for kind, share in shares.items()})
    b = _builder()
    b.pool(step.resident_bytes, step.resident_bytes)
    with b.python("train.py(87): <module>"):
        for _ in range(STEPS):
            with b.step(gpu=True):
                step.run(b)
    with b.python("torch/profiler/profiler.py(649): step"):
        b.sync("cudaDeviceSynchronize")
    return b


def _builder() -> TraceBuilder:
    metadata = {"built": LABEL, "source": SOURCE}
    return TraceBuilder("Tesla V100-SXM2-16GB", first_step=5, host_us=5, latency_us=3, gap_us=0.3, metadata=metadata)


def measure(root: dict[str, Any]) -> dict[str, float]:
    """What a trace shows, from its events alone: times in ms, shares in %, memory in GiB.

    Steps are bounded as the advisor bounds them: by the starts of ProfilerStep on the host, or, where over a tenth of
    the GPU's time runs in a later step than its launch, by the ends of what each step launched; median of the steps
    after the first. GPU utilization is the TensorBoard plugin's: kernels, copies left out, over the window.
    """
    events = [event for event in root["traceEvents"] if event["ph"] == "X"]
    annotations = [event for event in events if event["cat"] == "user_annotation"]
    steps = [_span(event) for event in annotations if event["name"].startswith("ProfilerStep#")]
    waits = [_span(event) for event in annotations if event["name"].startswith("enumerate(DataLoader)")]
    by_kind = {
        kind: [event for event in events if event["cat"] == kind] for kind in ("kernel", "gpu_memcpy", "gpu_memset")
    }
    work = [event for events in by_kind.values() for event in events]
    called = {
        event["args"]["correlation"]: _span(event)[0]
        for event in events
        if event["cat"] in ("cuda_runtime", "cuda_driver")
    }
    launched = [(called[event["args"]["correlation"]], *_span(event)) for event in work]
    ends = [max(end for call, _, end in launched if low <= call < high) for low, high in steps]
    low, high = steps[0][0], max(steps[-1][1], *ends)
    edges = [*(start for start, _ in steps), high]
    late = sum(end - start for call, start, end in launched if bisect(edges, start) > bisect(edges, call))
    if late > 0.1 * sum(end - start for _, start, end in launched):
        edges = [low, *ends[:-1], high]
    works = [_span(event) for event in work]
    kernels = [_span(event) for event in by_kind["kernel"]]
    tensor = [_span(event) for event in by_kind["kernel"] if "884" in event["name"]]
    return {
        "step": statistics.median(end - start for start, end in pairwise(edges[1:])) / 1e6,
        "utilization": 100 * _union(kernels) / (high - low),
        "idle": 100 * (1 - _union(works) / (high - low)),
        "loader": (_union(waits + works) - _union(works)) / STEPS / 1e6,
        "copy": _union([_span(event) for event in by_kind["gpu_memcpy"]]) / STEPS / 1e6,
        "zeroing": _union([_span(event) for event in by_kind["gpu_memset"]]) / STEPS / 1e6,
        "peak": max(event["args"]["Total Allocated"] for event in root["traceEvents"] if event["name"] == "[memory]")
        / 2**30,
        "tensor_cores": 100 * sum(b - a for a, b in tensor) / sum(b - a for a, b in kernels),
        "kernels": len(kernels) / STEPS,
    }


def table(rows: list[tuple[Rung, dict[str, float]]]) -> str:
    """The published figures beside the measured ones, as Markdown."""
    lines = [
        "| state | change | batch | samples/s, published | measured | ms a step | GPU utilization, published | measured "
        "| peak memory, published | measured | Tensor Cores, published | measured |",
        "|---|---|" + "---:|" * 10,
    ]
    more = [
        "| state | copies, ms a step | loader waits with an idle GPU, ms a step | zeroing, ms a step | GPU idle | kernels a step |",
        "|---|" + "---:|" * 5,
    ]
    for rung, found in rows:
        used = "" if rung.utilization is None else f"{rung.utilization:.2f} %"
        tensor = "" if rung.tensor_cores is None else f"{rung.tensor_cores:g} %"
        cells: list[object] = [f"`{rung.file}`", rung.change, rung.batch, f"{rung.samples_s:,.0f}"]
        cells += [
            f"{rung.batch / found['step'] * 1000:,.0f}",
            f"{found['step']:.2f}",
            used,
            f"{found['utilization']:.2f} %",
        ]
        cells += [rung.peak, f"{found['peak']:.2f} GiB", tensor, f"{found['tensor_cores']:.1f} %"]
        lines.append(_row(cells))
        cells = [f"`{rung.file}`", *(f"{found[key]:.2f}" for key in ("copy", "loader", "zeroing"))]
        more.append(_row([*cells, f"{found['idle']:.1f} %", f"{found['kernels']:.0f}"]))
    return "\n".join([*lines, "", *more, ""])


def _row(cells: list[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _span(event: dict[str, Any]) -> tuple[int, int]:
    start = round(event["ts"] * 1000)
    return start, start + round(event["dur"] * 1000)


def _union(spans: list[tuple[int, int]]) -> int:
    """Length of the union, in ns."""
    length = reached = 0
    for start, end in sorted(spans):
        length += max(0, end - max(start, reached))
        reached = max(reached, end)
    return length


if __name__ == "__main__":
    main()
