"""Predictions against the truth: the same built program once more, with the fix in it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import advisor
from advisor.errors import UsageError
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder
from advisor.trace import Trace

PRECISION = "precision/no-tensor-cores"
LOADER = "data-loading/single-process-loader"
READBACK = "sync/scalar-readback"
LARGE = "transfer/large-copy"
FASTER = 15.7 / 125
"""Part of a product's time that the rule on Tensor Cores leaves at best: a V100's TFLOP/s in fp32 over those of 16 bits."""
CAREFUL = 0.595
"""And cautiously: 125 / 15.7 is 7.96, of which the fourth root is 1.68 times as fast."""


def trace_of(b: TraceBuilder, change: Callable[[dict[str, Any]], None] | None = None) -> Trace:
    root = json.loads(b.to_json())
    if change is not None:
        change(root)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        path.write_text(json.dumps(root))
        return advisor.read(str(path))


def step(b: TraceBuilder) -> float:
    found = trace_of(b).step_ms
    assert found is not None
    return found


def best(trace: Trace, *rules: str) -> float:
    return advisor.what_if(trace, list(rules)).step.step_ms_after["low"]


def reduced(*, product_us: float = 1000, load_ms: float = 0) -> TraceBuilder:
    """A rank whose all-reduces overlap its backward pass on a stream of their own, with a readback a step."""
    b = TraceBuilder(rank=0, world_size=8)
    for _ in range(6):
        with b.step():
            if load_ms:
                with b.loader(ms=load_ms):
                    pass
            for _ in range(10):
                with b.op("aten::mm"):
                    last = b.kernel("volta_sgemm_128x64_nn", us=product_us)
            for _ in range(4):
                for _ in range(10):
                    with b.op("autograd::engine::evaluate_function: MmBackward0"), b.op("aten::mm"):
                        last = b.kernel("volta_sgemm_128x64_nn", us=product_us)
                reduction = b.collective("all_reduce", 100_000_000, 4000, after=[last])
            with b.op("Optimizer.step#SGD.step"):
                b.kernel("multi_tensor_apply_kernel", us=300, after=[reduction])
            b.item()
            b.idle(us=50)
    return b


@pytest.mark.parametrize("load_ms", [0, 10])
def test_a_collective_that_waits_for_an_event_is_no_launch_latency(load_ms: float) -> None:
    trace = trace_of(reduced(load_ms=load_ms))
    assert best(trace, PRECISION) == pytest.approx(step(reduced(product_us=1000 * FASTER, load_ms=load_ms)), rel=0.01)
    if load_ms:
        assert best(trace, LOADER) == pytest.approx(step(reduced()), rel=0.01)
        assert best(trace, LOADER, PRECISION) == pytest.approx(step(reduced(product_us=1000 * FASTER)), rel=0.01)


def read_back(steps: int, *, item: bool = True) -> TraceBuilder:
    """Steps of 13 ms: 5 of work, a readback, 3 of Python that the readback keeps from overlapping, 5 of work."""
    b = TraceBuilder()
    for _ in range(steps):
        with b.step():
            with b.op("aten::add"):
                b.kernel("vectorized_elementwise_kernel<add>", us=5000)
            if item:
                b.item()
            b.idle(us=3000)
            with b.op("aten::add"):
                b.kernel("vectorized_elementwise_kernel<add>", us=5000)
            b.sync()
    return b


@pytest.mark.parametrize("steps", [1, 2, 6])
def test_a_readback_is_worth_the_same_however_many_steps_were_recorded(steps: int) -> None:
    (found,) = [f for f in advisor.analyze(trace_of(read_back(steps))).findings if f.rule == READBACK]
    assert found.saving is not None
    # Half of each wait of 5 ms is 2.5: too little for the 3 ms of Python, of which 0.5 are hidden.
    assert found.saving.low_ms == pytest.approx(0.5, abs=0.06)
    assert found.saving.high_ms == pytest.approx(step(read_back(6)) - step(read_back(6, item=False)), rel=0.01)


def fed(beside: str = "", *, product_us: float = 1000, load_ms: float = 10, devices: int = 1) -> TraceBuilder:
    """Steps of 20.5 ms: the loader, then products and a readback; and a thread *beside* that has nothing to do with it."""
    b = TraceBuilder(devices=devices)
    for _ in range(6):
        with b.step():
            if beside == "copies":
                with b.thread(88, join=False):
                    for _ in range(6):
                        b.copy("HtoD", 4_000_000, 2500, pinned=True, blocking=False, stream=55, op=None)
                        b.sync(stream=55)
            if beside == "another GPU":
                with b.thread(88, join=False):
                    for _ in range(8):
                        b.kernel("volta_sgemm_128x64_nn", us=1500, stream=7, device=1)
                    b.sync(stream=7, device=1)
            if load_ms:
                with b.loader(ms=load_ms):
                    pass
            for _ in range(10):
                with b.op("aten::mm"):
                    b.kernel("volta_sgemm_128x64_nn", us=product_us)
            b.item()
            b.idle(us=500)
            b.sync()
    return b


def test_copies_on_a_thread_beside_are_worth_nothing_to_the_step() -> None:
    found = {finding.rule: finding.saving for finding in advisor.analyze(trace_of(fed("copies"))).findings}
    copies, products = found[LARGE], found[PRECISION]
    assert copies is not None
    assert copies.low_ms == 0
    assert products is not None
    assert advisor.what_if(trace_of(fed("copies")), [PRECISION]).step.step_ms_after["high"] == pytest.approx(
        step(fed("copies", product_us=1000 * CAREFUL)), rel=0.01
    )


def test_a_thread_that_drives_another_gpu_is_a_line_of_its_own() -> None:
    trace = trace_of(fed("another GPU", devices=2))
    assert best(trace, PRECISION) == pytest.approx(
        step(fed("another GPU", devices=2, product_us=1000 * FASTER)), rel=0.01
    )


@pytest.mark.parametrize("skew_us", [1, 2, 5, 10])
def test_clocks_a_few_microseconds_apart_leave_the_prices_as_they_are(skew_us: int) -> None:
    def later(root: dict[str, Any]) -> None:
        for event in root["traceEvents"]:
            if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
                event["ts"] = float(event["ts"]) + skew_us

    both = best(trace_of(fed(), later), LOADER, PRECISION)
    assert both == pytest.approx(step(fed(product_us=1000 * FASTER, load_ms=0)), rel=0.01)


# ---- first things first


def analysis() -> Analysis:
    return advisor.analyze(trace_of(fed()))


def test_findings_stand_in_the_order_of_the_plan() -> None:
    found = analysis()
    planned = [rule for rung in found.plan for rule in rung.rules]
    assert planned == [finding.rule for finding in found.findings if finding.rule in planned]
    # Behind the loader's 10 ms the products return what they return alone, and the loader 10 of 20.5 for sure.
    assert planned[:2] == [LOADER, PRECISION]


def test_rules_that_a_prediction_leaves_out_are_said(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from advisor.cli import main

    path = fed().write(tmp_path / "t.json")
    run = CliRunner().invoke(main, ["analyze", "-q", str(path), "--what-if", f"{LOADER},memory/growth"])
    assert run.exit_code == 0
    assert f"What if: {LOADER}: step 20.5 → " in run.stdout
    assert "--what-if memory/growth: does not fire" in run.stderr
    nothing = CliRunner().invoke(main, ["analyze", str(path), "--what-if", ","])
    assert nothing.exit_code == UsageError.exit_code
    assert "--what-if names no rule" in nothing.stderr
