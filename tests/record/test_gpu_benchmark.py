"""benchmarks/gpu.py without a GPU: every part leaves figures, and its formulas agree with torch's own counter."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT
from support.recording import needs_torch

sys.path.append(str(ROOT / "benchmarks"))
from gpu_parts import formulas
from gpu_parts.formulas import Conv, Work

pytestmark = needs_torch


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Output of one run on the CPU."""
    made = tmp_path_factory.mktemp("gpu")
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "gpu.py"),
        "--out",
        str(made),
        "--device",
        "cpu",
        "--budget",
        "240",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def test_all_parts_leave_figures(folder: Path) -> None:
    found = json.loads((folder / "gpu.json").read_text())
    for part, least in (("rates", 15), ("traces", 15), ("operators", 50), ("settings", 15)):
        assert len(found[part]) >= least, part
        assert {name: row for name, row in found[part].items() if "error" in row or "skipped" in row} == {}
    bad = [
        (name, each) for name, row in found["settings"].items() for each in row["variants"].values() if "error" in each
    ]
    assert bad == []
    assert {"fp32", "bf16", "memory"} <= set(found["reachable"])
    square = found["operators"]["mm/square/fp32"]
    assert square["flops"] == 2 * 64**3
    # The limit at the rate that was measured, over the time that it took.
    compute_ms = 2 * 64**3 / found["reachable"]["fp32"] / 1e9
    memory_ms = 3 * 64 * 64 * 4 / found["reachable"]["memory"] / 1e6
    assert square["share"] == pytest.approx(max(compute_ms, memory_ms) / square["ms"])
    assert "| mm/square/fp32 |" in (folder / "gpu.md").read_text()


def test_a_trace_stands_beside_what_is_known_of_it(folder: Path) -> None:
    truth = json.loads((folder / "traces" / "idle_sleep.json").read_text())
    assert truth["slept_ms_a_step"] == 5.0
    file, _, number = truth["line"].partition(":")
    assert "time.sleep(0.005)" in (ROOT / "benchmarks" / "gpu_parts" / file).read_text().splitlines()[int(number) - 1]
    # Longer than the sleep with it.
    assert truth["without_profiler_ms"] > 5.0
    with gzip.open(folder / "traces" / truth["trace"]) as trace:
        events = json.load(trace)["traceEvents"]
    assert sum(str(event.get("name", "")).startswith("ProfilerStep#") and event["ph"] == "X" for event in events) == 3


def counted(call: Any) -> int:
    """FLOPs by torch's counter."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


def test_products_agree_with_torchs_counter() -> None:
    import torch

    a, b = torch.randn(5, 7), torch.randn(7, 11)
    assert formulas.mm(5, 7, 11, 4).flops == counted(lambda: torch.mm(a, b)) == 770
    assert formulas.addmm(5, 7, 11, 4).flops == counted(lambda: torch.addmm(torch.randn(11), a, b))
    x, y = torch.randn(3, 5, 7), torch.randn(3, 7, 11)
    assert formulas.mm(5, 7, 11, 4, batch=3).flops == counted(lambda: torch.bmm(x, y))
    assert formulas.baddbmm(3, 5, 7, 11, 4).flops == counted(lambda: torch.baddbmm(torch.randn(3, 5, 11), x, y))
    w = torch.randn(11, 7, requires_grad=True)
    g = torch.randn(5, 7, requires_grad=True)
    out = torch.nn.functional.linear(g, w)
    backward = counted(lambda: torch.autograd.grad(out, [g, w], torch.ones_like(out)))
    assert formulas.linear_backward(5, 7, 11, 4).flops == backward


@pytest.mark.parametrize(
    "conv",
    [
        Conv(2, 3, 8, 14, 3, 1, 1),
        Conv(2, 6, 8, 15, 5, 2, 2),
        Conv(1, 4, 4, 16, 3, 1, 2, 2),
        Conv(2, 8, 12, 14, 3, 1, 1, 1, 4),
        Conv(2, 8, 8, 14, 3, 1, 1, 1, 8),
        Conv(2, 4, 6, 20, 3, 2, 1, dims=1),
        Conv(1, 2, 3, 6, 3, 1, 1, dims=3),
    ],
)
def test_convolutions_agree_with_torchs_counter(conv: Conv) -> None:
    import torch

    x = torch.randn(conv.n, conv.c, *[conv.side] * conv.dims)
    w = torch.randn(conv.k, conv.c // conv.groups, *[conv.kernel] * conv.dims)
    apply = getattr(torch.nn.functional, f"conv{conv.dims}d")

    def forward() -> Any:
        return apply(x, w, None, conv.stride, conv.padding, conv.dilation, conv.groups)

    assert conv.work(4).flops == counted(forward)
    assert conv.work(4).bytes == 4 * (x.numel() + w.numel() + forward().numel())


def test_what_the_counter_leaves_out_by_hand() -> None:
    # Two heads, four queries on four keys, size 3: 16 pairs, causal 10; a pair is 3 multiply-adds in each of two products.
    assert formulas.attention(1, 2, 1, 4, 4, 3, 2, causal=False).flops == 2 * 2 * (2 * 16 * 3)
    # Queries and output 24 elements each, keys and values of one head 12 each, of two bytes; eight sums of four bytes.
    assert formulas.attention(1, 2, 1, 4, 4, 3, 2, causal=True) == Work(
        2 * 2 * 2 * 10 * 3, 2 * (24 + 24 + 12 + 12) + 32
    )
    # Each of 2·2 inputs to 3·3 taps; 4 in, 9 weights, a side of (2 - 1)·3 + 3 = 6 out.
    assert formulas.conv_transpose(1, 1, 1, 2, 3, 3, 4) == Work(2 * 4 * 9, 4 * (4 + 9 + 36))
    assert formulas.adamw(10).bytes == 280
