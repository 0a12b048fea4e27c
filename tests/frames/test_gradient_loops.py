"""Loops that reduce one gradient after the other: the idle time in them, and what lies behind a compiled backward pass."""

from __future__ import annotations

from pathlib import Path

import pytest

import advisor
from advisor.testing import TraceBuilder

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def program(graphs: int) -> TraceBuilder:
    """Two steps: a backward pass of so many compiled graphs, then 50 times an all-reduce and a division, of 100 us each."""
    b = TraceBuilder(rank=0, world_size=2, host_us=0, latency_us=0)
    for _ in range(2):
        with b.step():
            for _ in range(graphs):
                with b.op("CompiledFunctionBackward", us=50):
                    b.kernel("triton_poi_fused_mul_0", us=50)
            b.idle(us=500)
            for _ in range(50):
                with b.op("c10d::allreduce_", us=100):
                    b.kernel(REDUCE, us=10, stream=20)
                with b.op("aten::div_", us=100):
                    b.kernel("vectorized_elementwise_kernel", us=10)
            with b.op("aten::add_", us=100):
                b.kernel("vectorized_elementwise_kernel", us=10)
            b.sync()
    return b


@pytest.mark.parametrize(("graphs", "behind"), [(1, True), (2, False)])
def test_what_lies_behind_a_backward_pass_of_one_graph(tmp_path: Path, graphs: int, behind: bool) -> None:
    trace = advisor.read(program(graphs).write(tmp_path / "trace.json"))
    rows = trace.frame("collectives")
    assert len(rows) == 100
    assert rows["per_parameter"].all()
    assert set(rows["behind_backward"]) == {behind}
    # From the first all-reduce to the last one 98 times 90 us a step: neither what is idle before it, nor behind it.
    gaps = trace.frame("gaps")
    loop = gaps[gaps["reduces_gradients"] == True]  # noqa: E712
    assert loop["cost_ns"].sum() == 2 * 98 * 90_000
    assert set(loop["next_op"]) == {"c10d::allreduce_", "aten::div_"}
