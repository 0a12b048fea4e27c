"""Stretches in which a thread was stopped, whether the device had work meanwhile or not; and what collectives waited. By hand."""

from __future__ import annotations

from pathlib import Path

from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

OPS = ("aten::add", "aten::mul", "aten::view", "aten::sub", "aten::exp")


def rank(folder: Path, *, hidden: bool) -> Trace:
    """One step of six all-reduces of 64 MB, 1 ms but for the second's 20, each before ten operators of 20 us with a kernel.

    Three stops of 5 ms: behind the long all-reduce where *hidden*, else behind the last, which ends first.
    """
    b = TraceBuilder(world_size=8, rank=0, host_us=2, latency_us=0)
    first = 10 if hidden else 50
    with b.step():
        for block, us in enumerate((1000, 20_000, 1000, 1000, 1000, 1000)):
            if not hidden and block == 5:
                b.sync()
            before = b.collective("all_reduce", 64 << 20, us, stream=7)
            for at in range(10 * block, 10 * block + 10):
                with b.op(OPS[at % 5], us=20):
                    if at in (first + 2, first + 4, first + 6):
                        b.idle(us=5000)
                    b.kernel("vectorized_elementwise_kernel", us=20, after=[before])
        b.sync()
    return read(str(b.write(folder / "trace.json")))


def test_a_stop_behind_a_collective_leaves_the_device_no_idle_time(tmp_path: Path) -> None:
    stalls = rank(tmp_path, hidden=True).frame("stalls")
    assert (stalls["dur_ns"] // 1_000_000).tolist() == [5, 5, 5]
    assert stalls["op"].tolist() == ["aten::view", "aten::exp", "aten::mul"]
    assert stalls["idle_ns"].tolist() == [0, 0, 0]
    # The first begins while the first all-reduce runs, and 0.2 ms of kernels lie between that and the second.
    assert stalls["communication_ns"].tolist() == [4_800_000, 5_000_000, 5_000_000]
    assert (stalls["cost_ns"] == 0).all()
    # When it begins, of 14 pieces launched one has begun; later the second all-reduce has, and its block's kernels wait.
    assert stalls["queued"].tolist() == [13, 4, 6]
    assert stalls["between_ns"].tolist() == [0, 0, 0]


def test_a_stop_behind_nothing_is_idle_time(tmp_path: Path) -> None:
    stalls = rank(tmp_path, hidden=False).frame("stalls")
    assert len(stalls) == 3
    assert (stalls["idle_ns"] > 3_500_000).all()


def test_what_a_collective_lasts_beyond_its_like_is_waiting(tmp_path: Path) -> None:
    rows = rank(tmp_path, hidden=True).frame("collectives")
    assert rows["waited_ns"].tolist() == [0, 19_000_000, 0, 0, 0, 0]
    assert (rows["exposed_ns"] - rows["waited_ns"]).sum() == 6_000_000


def test_of_few_collectives_nobody_knows(tmp_path: Path) -> None:
    b = TraceBuilder(world_size=8, rank=0)
    with b.step():
        for us in (1000, 5000):
            b.collective("all_reduce", 64 << 20, us)
        b.sync()
    rows = read(str(b.write(tmp_path / "few.json"))).frame("collectives")
    assert rows["waited_ns"].isna().all()


def test_the_host_time_of_a_cast_is_that_of_what_the_layer_called(tmp_path: Path) -> None:
    # aten::linear calls aten::to of 40 us, with one kernel, and aten::addmm of 30 with two; a kernel of no operator has none.
    b = TraceBuilder(host_us=5, latency_us=0)
    with b.step():
        with b.op("aten::linear"):
            with b.op("aten::to", us=40), b.op("aten::_to_copy"):
                b.kernel("cast", us=10)
            with b.op("aten::addmm", us=30):
                b.kernel("gemm", us=10)
                b.kernel("splitk", us=10)
        with b.op("aten::relu", us=20):
            b.kernel("relu", us=10)
        b.kernel("mine", us=10)
        b.sync()
    kernels = read(str(b.write(tmp_path / "linear.json"))).frame("kernels")
    assert kernels["host_ns"].tolist() == [40_000, 15_000, 15_000, 20_000, 0]


def test_a_kernel_name_that_all_collectives_share_tells_none(tmp_path: Path) -> None:
    # As NCCL named them up to 2.18: the launches say all-reduce, and one kernel has no launch.
    name = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"
    for op, other in (("nccl:all_reduce", "other"), ("", "send")):
        b = TraceBuilder(world_size=8, rank=0)
        with b.step():
            b.kernel(name, us=100, launched=False)
            for _ in range(2):
                if op:
                    with b.op(op):
                        b.kernel(name, us=100)
                else:
                    b.kernel(name, us=100, launched=False)
            b.sync()
        kinds = read(str(b.write(tmp_path / "old.json"))).frame("collectives")["kind"]
        assert kinds.tolist() == ([other, "all_reduce", "all_reduce"] if op else [other] * 3)


def test_stops_between_calls_are_counted_beside_those_in_them(tmp_path: Path) -> None:
    """Three stops of 5 ms in operators, and one of 4 ms between two; between others lie 2 us."""
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.step():
        for at in range(60):
            with b.op(OPS[at % 5], us=20):
                b.idle(us=5000 if at in (7, 20, 38) else 0)
                b.kernel("volta_sgemm_128x64_nn", us=1, host_us=1)
            b.idle(us=4000 if at == 45 else 2)
    stalls = read(str(b.write(tmp_path / "trace.json"))).frame("stalls")
    assert (stalls["between_ns"] // 1_000_000).tolist() == [4, 4, 4]
