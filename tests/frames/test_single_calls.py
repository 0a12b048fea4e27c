"""Calls of a module with one sample each: what one call for all spares of an operator's time, by its kind and length."""

from __future__ import annotations

from pathlib import Path

import pytest

import advisor
from advisor.frames import single_calls
from advisor.testing import TraceBuilder


def spared(name: str, us: float, dims: list[list[int]], tmp_path: Path, *, share: float = 1.0) -> float:
    entry = {"module": "Net", "calls": 10, "loops": 1, "share": share, "file": "read.py", "line": 20}
    b = TraceBuilder(None, host_us=0).ran_with(singles=[entry])
    with b.step():
        for call in range(10):
            stack = "read.py(30): forward;read.py(20): read"
            # One of them is interrupted: it is no other operator.
            with b.op(name, us=us if call else 50 * us, args={"Call stack": stack, "Input Dims": dims}):
                pass
    rows = advisor.read(b.write(tmp_path / "trace.json")).frame("single_calls")
    assert set(zip(rows["called"], rows["calls"], rows["line"], strict=True)) == {("Net", 10, 20)}
    (value,) = set(rows["spared"].round(4))
    return float(value)


@pytest.mark.parametrize(
    ("name", "us", "dims", "part"),
    [
        ("aten::relu", 8, [[1, 64]], 1.0),
        ("aten::relu", 80, [[1, 64]], 0.1 + 0.2 * 0.9),
        ("aten::relu", 800, [[1, 64]], 0.01),
        ("aten::mkldnn_convolution", 80, [[1, 8, 16, 16]], 0.1),
        ("aten::addmm", 80, [[64], [1, 512], [512, 64]], 0.1 + 0.9 * 0.9),
        ("aten::addmm", 80, [[64], [40, 512], [512, 64]], 0.1 + 0.4 * 0.9),
        ("aten::mkldnn_rnn_layer", 80, [[20, 1, 8]], 0.1 + 0.9 * 0.9),
    ],
)
def test_the_part_that_is_spared(name: str, us: float, dims: list[list[int]], part: float, tmp_path: Path) -> None:
    """Of ten calls one is left: nine tenths of the first 8 us, and of what lies beyond a part by the operator's kind."""
    assert spared(name, us, dims, tmp_path) == pytest.approx(0.9 * part)
    assert spared(name, us, dims, tmp_path, share=0.5) == pytest.approx(0.45 * part)


def test_the_frame_is_built_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Frames of repeated calls ask what one call for all would spare."""
    built, run = [], single_calls._spared
    monkeypatch.setattr(single_calls, "_spared", lambda *of: (built.append(of), run(*of))[1])
    entry = {"module": "Net", "calls": 10, "loops": 1, "share": 1.0, "file": "read.py", "line": 20}
    b = TraceBuilder(None, host_us=0).ran_with(singles=[entry])
    with b.step():
        for _ in range(10):
            with b.op("aten::relu", us=8, args={"Call stack": "read.py(20): read", "Input Dims": [[1, 64]]}):
                pass
    trace = advisor.read(b.write(tmp_path / "trace.json"))
    assert single_calls.batched(trace.context) == {("read.py", 20): pytest.approx(0.9)}
    assert len(trace.frame("single_calls")) == 10
    assert len(built) == 1


@pytest.mark.parametrize(
    ("blocks", "part"),
    [
        # Of 80 multiprocessors: ten times 8 blocks take one round in place of ten, ten times 40 five, ten times 800 as many.
        (8, 0.9),
        (40, 0.5),
        (800, 0.0),
    ],
)
def test_the_part_that_is_spared_beside_a_gpu(blocks: int, part: float, tmp_path: Path) -> None:
    """A call idles the GPU for 30 us in its operator, takes it for 10, 2 of them to start; 2 us lie between launch and kernel."""
    entry = {"module": "Net", "calls": 10, "loops": 1, "share": 1.0, "file": "read.py", "line": 20}
    b = TraceBuilder("Tesla V100-SXM2-16GB", host_us=1, latency_us=1).ran_with(singles=[entry])
    with b.step():
        for _ in range(10):
            with b.op("aten::addmm", args={"Call stack": "read.py(30): forward;read.py(20): read"}):
                b.idle(us=30)
                b.kernel("gemm", us=10, grid=(blocks, 1, 1))
            b.sync()
        b.idle(us=500)
        with b.op("aten::sort", args={"Call stack": "read.py(22): read"}):
            b.kernel("radixSort", us=100)
        b.sync()
    rows = advisor.read(b.write(tmp_path / "trace.json")).frame("single_calls")
    assert rows["line"].tolist() == [20] * 10
    assert rows["cost_ns"].sum() == 10 * 42_000
    assert float((rows["spared"] * rows["cost_ns"]).sum()) == pytest.approx(10 * (34_000 * 0.9 + 8_000 * part))


@pytest.mark.parametrize(("calls", "sums"), [(10, 10), (20, 0)])
def test_what_each_turn_does_behind_the_call(calls: int, sums: int, tmp_path: Path) -> None:
    """Ten turns that sum up what a call made: of ten calls each, of twenty not all, and then it is no part of the turn."""
    entry = {"module": "Net", "calls": calls, "loops": 1, "share": 1.0, "file": "read.py", "line": 20}
    b = TraceBuilder("Tesla V100-SXM2-16GB", host_us=1).ran_with(singles=[entry])
    with b.step():
        for _ in range(10):
            for _ in range(calls // 10):
                with b.op("aten::addmm", shapes=[[64]], args={"Call stack": "read.py(30): forward;read.py(20): read"}):
                    b.kernel("gemm", us=10)
            with b.op("aten::sum", shapes=[[64]], args={"Call stack": "read.py(21): read"}), b.op("aten::add"):
                b.kernel("reduce", us=10)
        with b.op("aten::sort", shapes=[[64]], args={"Call stack": "read.py(22): read"}):
            b.kernel("radixSort", us=100)
        b.sync()
    names = advisor.read(b.write(tmp_path / "trace.json")).frame("single_calls")["name"].tolist()
    assert [names.count(name) for name in ("aten::addmm", "aten::sum", "aten::add", "aten::sort")] == [
        calls,
        sums,
        sums,
        0,
    ]
