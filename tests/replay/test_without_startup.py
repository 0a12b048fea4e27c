"""Prices speak of steady work: the same program costs the same whether its recording holds start-up or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.traces import rules

from advisor.pipeline import analyze
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder
from advisor.trace import read

GEMM = "volta_sgemm_128x64_nn"
Part = Callable[[TraceBuilder], None]


def loading(b: TraceBuilder) -> None:
    """300 ms in the first launches of three kernels that the program runs at its beginning."""
    for name, ms in (("fill_kernel", 200), ("arange_kernel", 60), ("cat_kernel", 40)):
        with b.op("aten::fill_"):
            b.kernel(name, us=1, host_us=ms * 1000)


def specializing(b: TraceBuilder) -> None:
    """300 ms in which TorchScript specializes, twice 150."""
    for _ in range(2):
        with b.op("delta"):
            b.idle(ms=150)
            with b.op("fused_neg_pow"):
                b.kernel("fused_neg_pow", us=1)


def searching(b: TraceBuilder) -> None:
    """300 ms of trials by cuDNN: the GPU works through all of them."""
    with b.op("aten::cudnn_convolution", shapes=[[8, 3, 224, 224]]):
        for trial in range(30):
            b.kernel(f"candidate_{trial}", us=9_990)
            b.sync()
    for _ in range(4):
        with b.op("aten::cudnn_convolution", shapes=[[8, 3, 224, 224]], us=100):
            b.kernel("candidate_3", us=100)


def capturing(b: TraceBuilder) -> None:
    """300 ms in which a graph is captured."""
    b.call("cudaStreamBeginCapture", 10)
    b.idle(ms=300)
    b.call("cudaStreamEndCapture", 10)


def nothing(b: TraceBuilder) -> None:
    """Nothing."""


def training(device: str, start: Part) -> TraceBuilder:
    """Six steps that wait for their batch, read a scalar back, and compute in fp32."""
    b = TraceBuilder(device)
    with b.op("aten::zeros"):
        b.kernel("zero_kernel", us=5)
    start(b)
    for _ in range(6):
        with b.loader(ms=12):
            pass
        b.copy("HtoD", nbytes=19_267_584, us=1650)
        for layer in range(12):
            with b.op("aten::mm", shapes=[[1024, 1024], [1024, 1024]], seq=layer):
                b.kernel(GEMM, us=900)
        for layer in range(12):
            with b.backward("MmBackward0", layer), b.op("aten::mm"):
                b.kernel(GEMM, us=900)
        with b.annotation("Optimizer.step#SGD.step"), b.op("aten::_foreach_add_"):
            b.kernel("multi_tensor_apply_kernel", us=200)
            b.item()  # so that each step is like the others, and the wait for the next batch hidden by none
    b.sync()
    return b


def inference(device: str, start: Part) -> TraceBuilder:
    """One forward pass without steps, bound by its launches."""
    b = TraceBuilder(device)
    with b.op("aten::zeros"):
        b.kernel("zero_kernel", us=5)
    start(b)
    for _ in range(300):
        with b.op("aten::linear", us=100):
            b.kernel(GEMM, us=12)
    b.sync()
    return b


def analysis(b: TraceBuilder, folder: Path) -> Analysis:
    return analyze(read(str(b.write(folder / "trace.json"))), rules())


def prices(found: Analysis) -> dict[str, tuple[float, float]]:
    return {f.rule: (f.saving.low_ms, f.saving.high_ms) for f in found.findings if f.saving is not None}


@pytest.mark.parametrize("device", ["Tesla V100-SXM2-16GB", "AMD Instinct MI300X"])
@pytest.mark.parametrize("start", [loading, specializing, capturing], ids=lambda part: str(part.__name__))
@pytest.mark.parametrize("program", [training, inference], ids=lambda program: str(program.__name__))
def test_300_ms_of_start_up_change_no_price(
    program: Callable[[str, Part], TraceBuilder], start: Part, device: str, tmp_path: Path
) -> None:
    with_it, without = (analysis(program(device, part), tmp_path) for part in (start, nothing))
    assert with_it.summary.causes.get("startup", 0) * with_it.summary.extent_ms == pytest.approx(300, abs=0.1)
    assert "startup" not in without.summary.causes
    assert with_it.summary.steady_ms == pytest.approx(without.summary.steady_ms, rel=0.01)
    plain = prices(without)
    assert plain
    found = prices(with_it)
    assert list(found) == list(plain)
    for rule, (low, high) in plain.items():
        assert found[rule] == pytest.approx((low, high), rel=0.01, abs=0.01), rule


def test_300_ms_of_a_search_change_no_price(tmp_path: Path) -> None:
    device = "Tesla V100-SXM2-16GB"
    with_it, without = (analysis(training(device, part), tmp_path) for part in (searching, nothing))
    # The GPU worked: it is compute, and no steady work.
    assert with_it.summary.steady_ms == pytest.approx(without.summary.steady_ms, rel=0.01)
    plain, found = prices(without), prices(with_it)
    assert plain
    for rule, (low, high) in plain.items():
        assert found[rule] == pytest.approx((low, high), rel=0.01, abs=0.01), rule
