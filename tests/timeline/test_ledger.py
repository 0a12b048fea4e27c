"""The ledger and the waits on traces small enough to work out by hand. Times in us unless they say ns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.testing import TraceBuilder
from advisor.trace import Trace, read


def trace_of(builder: TraceBuilder, folder: Path) -> Trace:
    return read(str(builder.write(folder / "trace.json")))


def causes(trace: Trace) -> dict[str, int]:
    return {name: ns for name, ns in trace.ledger.by_cause().items() if ns}


def test_compute_hides_copies_and_a_later_kernel_owns_only_what_sticks_out(tmp_path: Path) -> None:
    builder = TraceBuilder()
    with builder.step():
        with builder.op("aten::mm"):
            builder.kernel("first", us=100, at_us=1000)
            builder.kernel("second", us=100, at_us=1050, stream=8)  # owns 1100-1150
            builder.copy("HtoD", nbytes=1 << 20, pinned=True, us=100, at_us=1120, stream=9)  # owns 1150-1220
        builder.seek(us=2000)
    trace = trace_of(builder, tmp_path)
    assert trace.kernels["cost_ns"].tolist() == [100_000, 50_000]
    assert trace.copies["cost_ns"].tolist() == [70_000]
    assert trace.copies["exposed_ns"].tolist() == [70_000]
    figures = causes(trace)
    assert (figures["compute"], figures["copy"]) == (150_000, 70_000)
    # Nothing happens from 1220 us to the end of the step: that is the recording's tail.
    assert sum(figures.values()) == trace.window_ns - 780_000
    assert trace.ledger.of_extent()["after"] == 780_000


def test_communication_is_exposed_only_where_no_kernel_runs(tmp_path: Path) -> None:
    builder = TraceBuilder(world_size=8)
    with builder.step():
        with builder.op("aten::mm"):
            builder.kernel("gemm", us=100, at_us=1000)
            builder.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", us=100, at_us=1060, stream=20)
        builder.seek(us=2000)
    trace = trace_of(builder, tmp_path)
    collective = trace.frame("collectives").iloc[0]
    assert (collective["kind"], collective["exposed_ns"], collective["cost_ns"]) == ("all_reduce", 60_000, 60_000)
    assert causes(trace)["communication"] == 60_000


def test_a_loader_wait_costs_what_of_it_the_gpu_idles(tmp_path: Path) -> None:
    builder = TraceBuilder()
    with builder.step():
        with builder.op("aten::mm"):
            work = builder.kernel("gemm", us=5000, host_us=10)
        with builder.loader(ms=8) as wait:
            pass
        with builder.op("aten::mm"):
            after = builder.kernel("gemm", us=100, host_us=10)
    trace = trace_of(builder, tmp_path)
    row = trace.loader.iloc[0]
    # The wait begins with the launch's end: idle until the kernel starts, then from its end to the wait's.
    expected = (work.start_ns - wait.start_ns) + (wait.end_ns - work.end_ns)
    assert 0 < expected < wait.dur_ns == 8_000_000
    assert row["idle_ns"] == row["cost_ns"] == expected
    assert causes(trace)["loader"] == expected
    assert after.start_ns >= wait.end_ns


def test_a_scalar_readback_owns_no_more_idle_than_the_host_lost(tmp_path: Path) -> None:
    builder = TraceBuilder()
    with builder.step():
        with builder.op("aten::mm"):
            builder.kernel("gemm", us=3000, host_us=10)
        builder.item()
        builder.idle(us=50)
        with builder.op("aten::mm"):
            builder.kernel("gemm", us=100, host_us=10)
    trace = trace_of(builder, tmp_path)
    row = trace.syncs[trace.syncs["kind"] == "scalar"].iloc[0]
    assert row["call_ns"] >= 2_000_000
    assert 50_000 <= row["bubble_ns"] < 200_000
    assert 0 < row["cost_ns"] <= row["bubble_ns"] + 20_000
    assert row["op"] == "aten::_local_scalar_dense"


def test_the_profilers_own_stop_is_not_the_programs_wait(tmp_path: Path) -> None:
    builder = TraceBuilder()
    with builder.step(), builder.op("aten::mm"):
        builder.kernel("gemm", us=3000, host_us=10)
    builder.sync("cudaDeviceSynchronize")
    trace = trace_of(builder, tmp_path)
    assert trace.syncs["kind"].tolist() == ["profiler"]
    assert trace.syncs["cost_ns"].tolist() == [0]


def test_idle_with_work_already_queued_is_not_the_hosts(tmp_path: Path) -> None:
    builder = TraceBuilder()
    with builder.step():
        with builder.op("aten::mm"):
            builder.kernel("gemm", us=100, at_us=1000)
            builder.kernel("gemm", us=100, at_us=1500)  # launched long before: waits 400 us on the device
        builder.seek(us=1600)
    trace = trace_of(builder, tmp_path)
    gap = trace.gaps[trace.gaps["start_ns"] == trace.kernels["start_ns"][0] + 100_000].iloc[0]
    assert (gap["cause"], gap["dur_ns"]) == ("unknown", 400_000)


def test_steps_are_divided_by_their_starts_and_the_last_ends_with_the_window(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for _ in range(3):
        with builder.step():
            with builder.op("aten::mm"):
                builder.kernel("gemm", us=500, host_us=10)
            builder.sync("cudaStreamSynchronize")
        builder.idle(us=40)
    trace = trace_of(builder, tmp_path)
    steps = trace.steps
    starts = steps["host_start_ns"].to_numpy()
    assert steps["start_ns"].tolist() == starts.tolist()
    assert steps["dur_ns"].tolist()[:2] == np.diff(starts).tolist()
    assert steps["sampled"].tolist() == [False, True, True]
    assert trace.step_ms == pytest.approx(np.median(steps["dur_ns"].to_numpy()[1:]) / 1e6)


def test_a_host_that_runs_ahead_leaves_the_steps_to_the_gpus_clock(tmp_path: Path) -> None:
    builder = TraceBuilder()
    ends = []
    for _ in range(4):
        with builder.step(), builder.op("aten::mm"):
            ends.append(builder.kernel("gemm", us=10_000, host_us=10).end_ns)
        builder.idle(us=20)
    trace = trace_of(builder, tmp_path)
    steps = trace.steps
    # Launched within 0.2 ms, run over 40: each step ends with its own kernel.
    zero = trace.kernels["start_ns"][0] - (ends[0] - 10_000_000)
    assert (steps["start_ns"] + steps["dur_ns"]).tolist() == [end + zero for end in ends]


def test_backward_work_takes_the_place_of_its_forward_operator(tmp_path: Path) -> None:
    builder = TraceBuilder()
    with builder.step():
        with builder.python("train.py(12): forward"), builder.module("Linear_0"), builder.op("aten::addmm", seq=7):
            builder.kernel("gemm", us=10, host_us=5)
        with builder.thread(99), builder.backward("AddmmBackward0", 7):
            builder.kernel("gemm_backward", us=10, host_us=5)
    kernels = trace_of(builder, tmp_path).kernels
    assert kernels["phase"].tolist() == ["forward", "backward"]
    assert kernels["file"].tolist() == ["train.py", "train.py"]
    assert kernels["line"].tolist() == [12, 12]
    assert kernels["module"].tolist() == ["Linear_0", "Linear_0"]
    assert kernels["thread"].nunique() == 2


def test_the_gradient_of_a_gradient_takes_the_place_of_the_first_forward_operator(tmp_path: Path) -> None:
    """create_graph=True: operators of the backward pass make nodes of their own, whose place is known from where theirs is."""
    builder = TraceBuilder()
    with builder.step():
        with builder.python("train.py(12): forward"), builder.module("Linear_0"), builder.op("aten::addmm", seq=7):
            builder.kernel("gemm", us=10, host_us=5)
        with builder.thread(99), builder.backward("AddmmBackward0", 7), builder.op("aten::mm", seq=8):
            builder.kernel("first_order", us=10, host_us=5)
        with builder.thread(99), builder.backward("MmBackward0", 8), builder.op("aten::mm", seq=9):
            builder.kernel("second_order", us=10, host_us=5)
        with builder.thread(99), builder.backward("MmBackward0", 9):
            builder.kernel("third_order", us=10, host_us=5)
    kernels = trace_of(builder, tmp_path).kernels
    assert kernels["phase"].tolist() == ["forward", *["backward"] * 3]
    assert kernels["line"].tolist() == [12] * 4
    assert kernels["module"].tolist() == ["Linear_0"] * 4


def test_a_library_frame_stands_beside_the_users(tmp_path: Path) -> None:
    builder = TraceBuilder()
    frames = (
        "train.py(54): main",
        "transformers/models/bert/modeling_bert.py(812): forward",
        "torch/nn/functional.py(9): linear",
    )
    user, library, torch = (builder.python(frame) for frame in frames)
    with builder.step(), user, library, torch, builder.op("aten::linear"):
        builder.kernel("gemm", us=10, host_us=5)
    row = trace_of(builder, tmp_path).kernels.iloc[0]
    assert (row["file"], row["line"], row["function"]) == ("train.py", 54, "main")
    assert row["library"] == "transformers/models/bert/modeling_bert.py:812 forward"


def test_shifting_the_clock_and_renaming_threads_changes_nothing(tmp_path: Path) -> None:
    def build(first_us: int, tid: int) -> Trace:
        builder = TraceBuilder()
        builder.seek(us=first_us)
        with builder.thread(tid):
            for _ in range(2):
                with builder.step():
                    with builder.loader(ms=2):
                        pass
                    with builder.op("aten::mm"):
                        builder.kernel("gemm", us=700, host_us=10)
        (tmp_path / str(tid)).mkdir()
        return trace_of(builder, tmp_path / str(tid))

    one, other = build(5, 11), build(90_000, 4711)
    assert causes(one) == causes(other)
    for frame in ("kernels", "gaps", "loader", "steps"):
        a, b = one.frame(frame), other.frame(frame)
        drop = [name for name in ("thread", "correlation") if name in a]
        assert a.drop(columns=drop).equals(b.drop(columns=drop)), frame


def test_work_launched_after_the_last_step_is_no_part_of_it(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for _ in range(3):
        with builder.step():
            with builder.op("aten::mm"):
                builder.kernel("gemm", us=1000, host_us=10)
            builder.sync("cudaStreamSynchronize")
    builder.idle(ms=500)
    with builder.op("aten::mm"):
        late = builder.kernel("gemm", us=1000, host_us=10)
    trace = trace_of(builder, tmp_path)
    steps = trace.steps
    assert steps["dur_ns"].max() < 2_000_000
    assert trace.kernels["step"].tolist() == [0, 1, 2, -1]
    # The window still reaches to the last GPU work; what costs are shares of does not.
    assert trace.window_ns > 500_000_000
    assert trace.ledger.counted_ns == steps["dur_ns"].sum()
    assert late.dur_ns == 1_000_000


def test_idle_of_a_cut_off_file_is_not_explained(tmp_path: Path) -> None:
    builder = TraceBuilder()
    with builder.step():
        for _ in range(40):
            with builder.op("aten::mm"):
                builder.kernel("gemm", us=10, host_us=100)
    whole = builder.to_json()
    cut = tmp_path / "cut.json"
    cut.write_text(whole[: int(len(whole) * 0.6)])
    trace = read(str(cut))
    assert not trace.frame("trace")["idle_trusted"][0]
    assert "idle" not in trace.features
    assert trace.ledger.by_cause()["host"] == 0
    assert trace.gpu_expected


def test_a_gap_under_a_first_call_is_start_up(tmp_path: Path) -> None:
    builder = TraceBuilder()
    with builder.step():
        with builder.op("aten::conv2d"):
            builder.kernel("gemm", us=100, host_us=30_000)  # one launch call of 30 ms: lazy loading
        with builder.op("aten::conv2d"):
            builder.kernel("gemm", us=100, host_us=10)
        builder.idle(ms=10)
        with builder.op("aten::conv2d"):
            builder.kernel("gemm", us=100, host_us=10)
    gaps = trace_of(builder, tmp_path).gaps
    long = gaps[gaps["dur_ns"] > 5_000_000]
    assert long["startup"].tolist() == [True, False]


def test_the_autograd_profilers_backward_is_training(tmp_path: Path) -> None:
    builder = TraceBuilder()
    with builder.step(), builder.op("CudnnConvolutionBackward"), builder.op("aten::cudnn_convolution_backward"):
        builder.kernel("volta_scudnn_dgrad", us=10, host_us=5)
    trace = trace_of(builder, tmp_path)
    assert trace.kernels["phase"].tolist() == ["backward"]
    assert trace.frame("trace")["training"][0]


def test_an_annotation_that_ends_inside_its_exit_frame_keeps_its_length(tmp_path: Path) -> None:
    builder = TraceBuilder()
    with builder.step():
        builder.event(
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
            },
            us=50,
            at_us=12_000,
        )
        builder.event({"ph": "X", "cat": "python_function", "name": "profiler.py(650): __exit__"}, us=3, at_us=12_049)
        builder.seek(us=13_000)
        with builder.op("aten::mm"):
            builder.kernel("gemm", us=10, host_us=5)
    assert trace_of(builder, tmp_path).loader["dur_ns"].tolist() == [50_000]


@pytest.mark.parametrize(("steps", "median"), [(6, {"compute": 8_000_000.0}), (3, {})])
def test_each_cause_has_a_median_over_the_steps_after_the_first(
    steps: int, median: dict[str, float], tmp_path: Path
) -> None:
    # 8 ms of work in each step; the last one waits 10 ms for its batch, as no step usually does. Two steps have no usual one.
    builder = TraceBuilder(host_us=0, latency_us=0)
    for number in range(steps):
        with builder.step():
            if number == steps - 1:
                with builder.loader(ms=10):
                    pass
            with builder.op("aten::mm", us=8_000):
                builder.kernel("gemm", us=8_000)
    context = trace_of(builder, tmp_path).context
    assert {cause: ns for cause, ns in context.median_causes().items() if ns} == median


def test_of_copies_at_once_the_one_that_ends_last_owns(tmp_path: Path) -> None:
    """To the host from 1000 to 1177 us, to the device from 1007 to 1313: the first is over before, and shortens nothing.

    The third begins before it and ends with it: a tie goes to the lower stream.
    """
    builder = TraceBuilder()
    with builder.step():
        builder.copy("DtoH", nbytes=1 << 20, pinned=True, blocking=False, us=177, at_us=1000, stream=8)
        builder.copy("HtoD", nbytes=1 << 20, pinned=True, us=306, at_us=1007, stream=9)
        builder.copy("DtoD", nbytes=1 << 20, us=100, at_us=1213, stream=10)
        builder.seek(us=2000)
    trace = trace_of(builder, tmp_path)
    assert trace.copies[["direction", "cost_ns"]].values.tolist() == [["DtoH", 7_000], ["HtoD", 306_000], ["DtoD", 0]]
    assert causes(trace)["copy"] == 313_000
