"""The frame `optimizers`, worked out by hand. Times in us."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

GEMM = "volta_sgemm_128x64_nn"


def trace_of(builder: TraceBuilder, folder: Path) -> Trace:
    return read(str(builder.write(folder / "trace.json")))


def test_a_step_owns_what_it_launched_and_the_idle_time_in_it(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=10, latency_us=0)
    with b.step():
        with b.op("aten::mm"):
            b.kernel(GEMM, us=100)  # launched at 0, runs 10 to 110
        with b.annotation("Optimizer.step#Shampoo.step"):  # from 10 on
            b.idle(us=490)
            with b.op("aten::mul"):
                b.kernel("pointwise", us=200)  # launched at 500, runs 510 to 710
            b.seek(us=600)
        b.sync()
    optimizers = trace_of(b, tmp_path).optimizers
    row = optimizers.iloc[0]
    assert (len(optimizers), row["name"], row["dur_ns"]) == (1, "Shampoo", 590_000)
    assert (row["gpu_ns"], row["kernel_count"], row["op_count"], bool(row["fused"])) == (200_000, 1, 1, False)
    # Idle from 110 to 510, and its kernel: the product before it is the forward's.
    assert row["cost_ns"] == 600_000
    # The window is the step's: 0 to 710.
    assert row["host_share"] == pytest.approx(590 / 710, rel=0.05)


def test_idle_time_before_work_that_was_launched_earlier_is_not_the_steps(tmp_path: Path) -> None:
    """A product of the backward pass is late for another stream's copy, while the host is in the step already."""
    b = TraceBuilder(host_us=10, latency_us=0)
    with b.step():
        with b.op("aten::mm"):
            b.kernel(GEMM, us=100)  # launched at 0, runs 10 to 110
        with b.op("aten::mm"):
            b.kernel(GEMM, us=100, at_us=310)  # launched at 10, runs 310 to 410
        with b.annotation("Optimizer.step#Shampoo.step"):  # from 20 on
            b.idle(us=580)
            with b.op("aten::mul"):
                b.kernel("pointwise", us=200)  # launched at 600, runs 610 to 810
            b.seek(us=700)
        b.sync()
    row = trace_of(b, tmp_path).optimizers.iloc[0]
    # Idle from 410 to 610, and its kernel; not from 110 to 310.
    assert row["cost_ns"] == 400_000


def test_what_a_step_exchanges_with_other_ranks_is_not_its_own(tmp_path: Path) -> None:
    """An all_gather of 300 us between kernels of 200 and 100: only these two, and no idle time, are the step's."""
    b = TraceBuilder(host_us=10, latency_us=0)
    with b.step():
        with b.annotation("Optimizer.step#Shampoo.step"):
            with b.op("aten::mul"):
                b.kernel("pointwise", us=200)  # launched at 0, runs 10 to 210
            b.collective("all_gather", 1_000_000, us=300, stream=7)
            with b.op("aten::add"):
                b.kernel("pointwise", us=100)
        b.sync()
    row = trace_of(b, tmp_path).optimizers.iloc[0]
    assert row["gpu_ns"] == 300_000
    assert row["cost_ns"] == 300_000 + 10_000  # and the launch of the first


def test_an_optimizer_within_another_counts_once(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=10, latency_us=0)
    with b.step(), b.annotation("Optimizer.step#Wrapper.step"), b.annotation("Optimizer.step#AdamW.step"):
        with b.op("aten::_fused_adamw_"):
            b.kernel("multi_tensor_apply", us=100)
        b.sync()
    optimizers = trace_of(b, tmp_path).optimizers
    assert optimizers["name"].tolist() == ["Wrapper"]
    assert optimizers["fused"].tolist() == [True]


def test_without_launches_a_step_owns_all_of_the_gpus_time_during_it(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step():
        b.kernel(GEMM, us=1000, launched=False, at_us=0)
        b.seek(us=1000)
        with b.annotation("Optimizer.step#Shampoo.step"):
            b.kernel(GEMM, us=500, launched=False, at_us=1000)
            b.seek(us=1500)
        b.kernel(GEMM, us=500, launched=False, at_us=1500)
        b.seek(us=2000)
    optimizers = trace_of(b, tmp_path).optimizers
    assert optimizers["cost_ns"].tolist() == [500_000]
    assert optimizers["gpu_ns"].isna().tolist() == [True]


def test_a_program_without_an_optimizer_has_none(tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step(), b.op("aten::mm"):
        b.kernel(GEMM, us=100)
    assert len(trace_of(b, tmp_path).optimizers) == 0


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("aten::linalg_norm", False),
        ("aten::linalg_vector_norm", False),
        ("aten::mm", False),
        ("aten::linalg_eigh", True),
        ("aten::_linalg_svd", True),
        ("aten::linalg_inv_ex", True),
        ("aten::cholesky", True),
    ],
)
def test_a_step_factorizes_where_an_operator_of_it_does(op: str, expected: bool, tmp_path: Path) -> None:
    b = TraceBuilder()
    with b.step():
        with b.op("aten::linalg_qr"):  # outside the optimizer
            b.kernel("geqrf", us=50)
        with b.annotation("Optimizer.step#Shampoo.step"), b.op(op):
            b.kernel("some_kernel", us=50)
    assert read(str(b.write(tmp_path / "t.json"))).frame("trace")["optimizer_factorizes"][0] == expected


@pytest.mark.parametrize(
    ("ops", "each"),
    [
        (["aten::add_"], 1.0),  # plain SGD: one addition for each of four parameters
        (["aten::add_", "aten::add_"], 2.0),  # weight decay added in place: eight, of four gradients
        (["aten::mul_", "aten::add_", "aten::add_"], 3.0),  # momentum
    ],
)
def test_operators_of_a_step_are_counted_for_each_parameter(ops: list[str], each: float, tmp_path: Path) -> None:
    b = TraceBuilder()
    for _ in range(2):
        with b.step():
            with b.op("aten::mm"):
                b.kernel(GEMM, us=100)
            for seq in range(4):
                with b.backward("torch::autograd::AccumulateGrad", seq=seq):
                    b.idle(us=1)
            with b.annotation("Optimizer.step#SGD.step"):
                for _ in range(4):
                    for op in ops:
                        with b.op(op):
                            b.kernel("pointwise", us=3)
                with b.op("aten::linalg_vector_norm"):
                    b.kernel("norm", us=3)
            b.sync()
    kernels = trace_of(b, tmp_path).kernels
    found = kernels[kernels["name"] == "pointwise"]["update_operators"]
    assert (len(found), found.min(), found.max()) == (8 * len(ops), each, each)
    assert kernels[kernels["name"] != "pointwise"]["update_operators"].isna().all()


def test_a_first_step_that_makes_the_momentum_is_not_counted(tmp_path: Path) -> None:
    """Three operators for each of four parameters; in the first step, which loading fills, one: 40 of 12 would be 3.3 in all."""
    b = TraceBuilder(host_us=5, latency_us=2)
    for step in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.call("cudaModuleLoadData", 200_000 if not step else 1)
                b.kernel(GEMM, us=1_000)
            for seq in range(4):
                with b.backward("torch::autograd::AccumulateGrad", seq=seq):
                    b.idle(us=1)
            with b.annotation("Optimizer.step#SGD.step"):
                for op in ["aten::mul_", "aten::add_", "aten::add_"] if step else ["aten::add_"]:
                    for _ in range(4):
                        with b.op(op):
                            b.kernel("pointwise", us=3)
            b.sync()
    trace = trace_of(b, tmp_path)
    assert trace.context.ledger.counted_steps().tolist() == [1, 2, 3]
    found = trace.kernels["update_operators"].dropna()
    assert (found.min(), found.max()) == (3, 3)
