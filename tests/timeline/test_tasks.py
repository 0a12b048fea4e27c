"""Operators that compute on the CPU beside a device, worked out by hand. Times in us."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

CUDA, ROCM = "Tesla V100-SXM2-16GB", "AMD Instinct MI300X"
both = pytest.mark.parametrize("device", [CUDA, ROCM])


def trace_of(b: TraceBuilder, folder: Path) -> Trace:
    return read(str(b.write(folder / "trace.json")))


def tasks(trace: Trace) -> list[str]:
    context = trace.context
    host = context.recording.host
    return [context.names[code] for code in host.name[context.waits.tasks]]


def beside_work(device: str, *ops: tuple[str, int]) -> TraceBuilder:
    """A kernel of 10 us, these operators one after the other, another kernel."""
    b = TraceBuilder(device, host_us=0, latency_us=0)
    with b.step():
        with b.op("aten::mm", us=10):
            b.kernel("gemm", us=10)
        for name, us in ops:
            with b.op(name, us=us):
                pass
        with b.op("aten::mm", us=10):
            b.kernel("gemm", us=10)
    return b


@both
def test_idle_under_an_operator_that_launches_nothing_is_its_own(device: str, tmp_path: Path) -> None:
    trace = trace_of(
        beside_work(device, ("aten::normal_", 8000), ("torchvision::nms", 100), ("aten::sub", 99)), tmp_path
    )
    assert tasks(trace) == ["aten::normal_", "torchvision::nms"]
    causes = trace.ledger.by_cause()
    # Under 0.1 ms it is what any operator takes.
    assert (causes["operator"], causes["host"], causes["compute"]) == (8_100_000, 99_000, 20_000)


@both
@pytest.mark.parametrize(
    "name",
    ["aten::view", "aten::slice", "aten::empty", "c10d::allreduce_", "nccl:all_reduce", "gloo:broadcast", "train_loop"],
)
def test_what_computes_nothing(device: str, name: str, tmp_path: Path) -> None:
    trace = trace_of(beside_work(device, (name, 900)), tmp_path)
    assert tasks(trace) == []
    assert trace.ledger.by_cause()["operator"] == 0


@both
def test_an_operator_that_launches_is_slow_python_at_most(device: str, tmp_path: Path) -> None:
    b = TraceBuilder(device, host_us=0, latency_us=0)
    with b.step():
        b.kernel("gemm", us=10)
        for _ in range(5):
            with b.op("aten::mul"):
                b.idle(us=400)
                b.kernel("mul_kernel", us=10)
    trace = trace_of(b, tmp_path)
    assert tasks(trace) == []
    # Of the first 400 us the first kernel hides ten, of the others their kernels do.
    assert trace.ledger.by_cause()["host"] == 5 * 390_000


@both
def test_the_outer_of_two_owns_the_time(device: str, tmp_path: Path) -> None:
    b = TraceBuilder(device, host_us=0, latency_us=0)
    with b.step():
        b.kernel("gemm", us=10)
        b.idle(us=10)
        with b.op("aten::rand"):
            b.idle(us=200)
            with b.op("aten::uniform_", us=800):
                pass
        b.kernel("gemm", us=10)
    trace = trace_of(b, tmp_path)
    assert tasks(trace) == ["aten::rand", "aten::uniform_"]
    assert trace.ledger.by_cause()["operator"] == 1_000_000


@both
def test_a_thread_that_launches_nothing_delays_nobody(device: str, tmp_path: Path) -> None:
    b = TraceBuilder(device, host_us=0, latency_us=0)
    with b.step():
        b.kernel("gemm", us=10)
        with b.thread(77, join=False), b.op("aten::normal_", us=5000):
            pass
        b.idle(us=5000)
        b.kernel("gemm", us=10)
    trace = trace_of(b, tmp_path)
    assert tasks(trace) == []
    assert trace.ledger.by_cause()["operator"] == 0


@both
@pytest.mark.parametrize(("direction", "operator_ms", "copy_ms"), [("DtoH", 24, 0), ("HtoD", 9, 15)])
def test_what_computes_with_a_copy_is_not_laid_at_its_door(
    direction: str, operator_ms: float, copy_ms: float, device: str, tmp_path: Path
) -> None:
    """Four steps: a kernel of 1 ms, a copy of 4 that the host waits for, all in all 5 ms, and 6 ms of an operator on the CPU.

    After a copy to the device the host could have run ahead by what it waited, 5 of the 6 ms, in all steps but the last,
    behind which nothing follows. After a copy to the host it computes with what was copied.
    """
    b = TraceBuilder(device, host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.kernel("gemm", us=1000)
            b.copy(direction, 40_000_000, 4000)
            with b.op("aten::argmax", us=6000):
                pass
    causes = trace_of(b, tmp_path).ledger.by_cause()
    assert causes["operator"] == pytest.approx(operator_ms * 1e6, abs=50_000)
    assert causes["blocking_copy"] == pytest.approx(copy_ms * 1e6, abs=50_000)


@both
@pytest.mark.parametrize(
    ("times", "shapes", "computes"), [(5, [[8, 64], []], False), (4, [[8, 64], []], True), (5, [[], []], True)]
)
def test_an_operator_that_launches_nothing_and_takes_a_thousand_times_as_long_as_equal_ones_is_stopped(
    device: str, times: int, shapes: list[list[int]], computes: bool, tmp_path: Path
) -> None:
    """Dropout with train=False: 7 us, and once 7 ms. Four are too few to know what is usual; and without an operand the
    shapes do not say how much is made."""
    b = TraceBuilder(device, host_us=0, latency_us=0)
    with b.step():
        for number in range(times):
            with b.op("aten::mm", us=10):
                b.kernel("gemm", us=10)
            with b.op("aten::dropout", us=7_000 if number == 1 else 7, shapes=shapes):
                pass
        with b.op("aten::mm", us=10):
            b.kernel("gemm", us=10)
    assert tasks(trace_of(b, tmp_path)) == ["aten::dropout"] * computes
