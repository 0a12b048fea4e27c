"""Places of idle stretches: the function that is named covers half of the stretch."""

from __future__ import annotations

from pathlib import Path

from advisor.testing import TraceBuilder
from advisor.trace import read


def test_a_moment_at_the_middle_of_a_stretch_is_not_its_place(tmp_path: Path) -> None:
    """400 us of the user's `apply`, at whose middle a cache is asked for 10 us: the stretch is `apply`'s."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(3):
        with b.step(), b.python("model.py(7): forward"):
            b.kernel("relu_kernel", us=20)
            with b.python("layer.py(30): apply"):
                b.idle(us=195)
                with b.python("tuner.py(90): search"):
                    b.idle(us=10)
                b.idle(us=195)
            b.kernel("relu_kernel", us=20)
    gaps = read(str(b.write(tmp_path / "trace.json"))).frame("gaps")
    longest = gaps[gaps["dur_ns"] > 300_000]
    assert len(longest) >= 3
    assert set(longest["file"].astype(str)) == {"layer.py"}
    assert set(longest["function"].astype(str)) == {"apply"}


def test_an_operator_at_the_middle_of_a_stretch_has_half_of_it_or_none(tmp_path: Path) -> None:
    """A stretch of 100 us in a backward node, 20 us of it a view at its middle; one of 100 us, 60 of them a cast."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(3):
        with b.step():
            b.kernel("relu_kernel", us=20)
            with b.op("AddmmBackward0"):
                b.idle(us=60)
                with b.op("aten::as_strided"):
                    b.idle(us=20)
                b.idle(us=40)
                b.kernel("relu_kernel", us=20)
            with b.op("aten::mm"):
                b.idle(us=60)
                with b.op("aten::_to_copy"):
                    b.idle(us=60)
                b.kernel("relu_kernel", us=20)
    gaps = read(str(b.write(tmp_path / "trace.json"))).frame("gaps")
    longest = gaps[(gaps["dur_ns"] > 70_000) & (gaps["cause"] == "host") & (gaps["step"] == 1)].sort_values("start_ns")
    assert longest["op"].astype(str).tolist() == ["AddmmBackward0", "aten::_to_copy"]


def test_a_function_named_like_a_node_of_the_graph_in_a_trace_without_operators(tmp_path: Path) -> None:
    """No operator carries the name, so no gradient is accumulated."""
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.step(), b.python("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"):
        b.kernel("relu_kernel", us=20)
        b.idle(us=400)
        b.kernel("relu_kernel", us=20)
    gaps = read(str(b.write(tmp_path / "trace.json"))).frame("gaps")
    assert len(gaps)
    assert not gaps["accumulates"].any()
