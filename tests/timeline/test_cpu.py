"""Programs on the CPU: which these are, who owns the main thread's time, and what reports say of it. Times worked by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.frames.ops import op_kinds
from advisor.pipeline import analyze
from advisor.report import Options
from advisor.report.text import render
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read


def trace_of(builder: TraceBuilder, folder: Path) -> Trace:
    return read(str(builder.write(folder / "trace.json")))


def causes(trace: Trace) -> dict[str, int]:
    return {name: ns // 1000 for name, ns in trace.ledger.by_cause().items() if ns}


def is_cpu_only(trace: Trace) -> bool:
    return bool(trace.frame("trace")["cpu_only"][0])


def test_every_ns_of_the_main_thread_has_the_innermost_operator_as_owner(tmp_path: Path) -> None:
    b = TraceBuilder(None)
    with b.step():
        b.idle(us=10)  # Python: 10
        with b.op("aten::linear", us=100):  # 100 in all
            b.idle(us=5)  # its own: 5 before, 15 after
            with b.op("aten::addmm"):  # 80 in all, of which 30 in another
                b.idle(us=50)
                with b.op("aten::copy_", us=30):
                    pass
        b.idle(us=40)  # behind the last operator of the one step: the recording's tail
    trace = trace_of(b, tmp_path)
    assert causes(trace) == {"compute": 100, "host": 10}
    assert trace.ledger.of_extent()["after"] == 40_000
    ops = trace.frame("ops")
    assert dict(zip(ops["name"], ops["cost_ns"] // 1000, strict=True)) == {
        "aten::linear": 20,
        "aten::addmm": 50,
        "aten::copy_": 30,
    }
    addmm = (ops["name"] == "aten::addmm").to_numpy()
    assert int(trace.ledger.dur_ns[trace.claims("ops", addmm)].sum()) == 50_000
    assert ops["kind_share"].tolist() == pytest.approx([70 / 110, 70 / 110, 30 / 110])  # the first two are products


def test_what_the_loader_runs_is_the_loaders(tmp_path: Path) -> None:
    b = TraceBuilder(None)
    for _ in range(2):
        with b.step():
            with b.loader(us=300), b.op("aten::stack", us=200):
                pass
            with b.op("aten::mm", us=700):
                pass
    trace = trace_of(b, tmp_path)
    assert causes(trace) == {"compute": 1400, "loader": 600}
    assert trace.frame("loader")["cost_ns"].tolist() == [300_000, 300_000]
    assert trace.frame("ops")["cost_ns"].tolist() == [0, 700_000, 0, 700_000]


def test_a_collective_in_flight_costs_what_the_operators_do_not_hide(tmp_path: Path) -> None:
    b = TraceBuilder(None, rank=0, world_size=2, backend="gloo")
    with b.step():
        with b.op("c10d::allreduce_", us=20):  # issued on the main thread: communication, 20
            pass
        with b.thread(77, join=False), b.annotation("gloo:all_reduce", us=500):  # 20 to 520
            pass
        with b.op("aten::mm", us=200):  # hides 20 to 220
            pass
        b.idle(us=400)  # waits from 220 to 520, then Python for 100
        with b.op("aten::add", us=10):
            pass
    trace = trace_of(b, tmp_path)
    assert causes(trace) == {"compute": 210, "communication": 20 + 300, "host": 100}


def test_other_threads_own_nothing(tmp_path: Path) -> None:
    b = TraceBuilder(None)
    with b.step():
        with b.thread(77, join=False), b.op("aten::stack", us=900):
            pass
        b.idle(us=100)
        with b.op("aten::mm", us=300):
            pass
    trace = trace_of(b, tmp_path)
    assert causes(trace) == {"compute": 300, "host": 100}
    ops = trace.frame("ops").set_index("name")["cost_ns"]
    assert (ops["aten::stack"], ops["aten::mm"]) == (0, 300_000)


def test_without_steps_the_thread_with_most_time_in_operators_sets_the_pace(tmp_path: Path) -> None:
    b = TraceBuilder(None)
    with b.op("aten::empty", us=10):
        pass
    with b.thread(77), b.op("aten::mm", us=490):
        pass
    assert causes(trace_of(b, tmp_path)) == {"compute": 490, "host": 10}


def test_a_collection_and_a_compilation_come_before_the_operators(tmp_path: Path) -> None:
    b = TraceBuilder(None)
    with b.step(), b.op("aten::mm"):
        b.idle(us=100)
        b.gc(us=30)
        with b.annotation("_compile.compile_inner", us=50):
            pass
    assert causes(trace_of(b, tmp_path)) == {"compute": 100, "gc": 30, "compile": 50}


def plain(b: TraceBuilder) -> TraceBuilder:
    with b.step(), b.op("aten::mm", us=100):
        pass
    return b


def listed() -> TraceBuilder:
    b = plain(TraceBuilder())
    with b.step(), b.op("aten::mkldnn_convolution", us=100):
        pass
    return b


def called(name: str) -> TraceBuilder:
    b = plain(TraceBuilder())
    b.call(name, us=3)
    return b


def held(device: int) -> TraceBuilder:
    b = plain(TraceBuilder() if device >= 0 else TraceBuilder(None))
    b.memory(1024, device=device)
    return b


def running(name: str) -> TraceBuilder:
    b = plain(TraceBuilder(None))
    with b.op(name, us=20):
        pass
    return b


@pytest.mark.parametrize(
    ("build", "cpu"),
    [
        (lambda: plain(TraceBuilder(None)), True),
        (lambda: plain(TraceBuilder()), False),  # a GPU is listed, and only the host was recorded
        (listed, True),  # but an operator that only the CPU has ran there
        (lambda: called("cudaDeviceSynchronize"), True),  # the GPU's calls were recorded: the profiler's own, no work
        (lambda: called("cudaLaunchKernel"), False),
        (lambda: called("cudaMalloc"), False),
        (lambda: held(-1), True),
        (lambda: held(0), False),
        (lambda: plain(TraceBuilder(None, dialect="2021")), False),  # an old file does not tell
        (lambda: running("aten::cudnn_convolution"), False),
        (lambda: running("aten::cudnn_is_acceptable"), True),
        (lambda: running("aten::_use_cudnn_rnn_flatten_weight"), True),
        (lambda: running("nccl:all_to_all"), False),
        (lambda: running("aten::record_stream"), False),
        (lambda: running("aten::linear"), False),  # with nothing inside: one operator on Apple's GPUs alone
        (lambda: running("aten::_scaled_dot_product_flash_attention"), False),
        (lambda: running("aten::_scaled_dot_product_flash_attention_for_cpu"), True),
    ],
)
def test_a_program_is_on_the_cpu_only_where_that_is_known(build: object, cpu: bool, tmp_path: Path) -> None:
    assert callable(build)
    trace = trace_of(build(), tmp_path)
    assert is_cpu_only(trace) is cpu
    assert sum(causes(trace).values()) == trace.window_ns // 1000
    if not cpu:
        assert "compute" not in causes(trace)
        assert trace.claims("ops", np.ones(len(trace.ops), np.bool_)).size == 0


def test_operators_that_run_on_gpus_only_say_that_one_was_not_recorded(tmp_path: Path) -> None:
    trace = trace_of(running("aten::cudnn_convolution"), tmp_path)
    assert trace.gpu_expected
    assert not trace_of(running("aten::mkldnn_convolution"), tmp_path).gpu_expected


def test_backward_operators_are_of_their_forwards_kind() -> None:
    names = [
        "aten::mm",
        "aten::addmm",
        "aten::max",
        "aten::convolution_backward",
        "aten::native_batch_norm",
        "aten::mul",
    ]
    names += ["aten::linalg_qr", "aten::_embedding_bag", "aten::max_pool2d_with_indices", "my::linear"]
    kinds, codes = op_kinds(names, np.arange(len(names)))
    assert [kinds[code] for code in codes] == [
        "matmul",
        "matmul",
        "aten::max",
        "convolution",
        "normalization",
        "aten::mul",
        "aten::linalg_qr",
        "indexing",
        "pooling",
        "my::linear",
    ]


def test_the_report_speaks_of_the_cpu_and_not_of_what_a_gpu_lacks(tmp_path: Path) -> None:
    b = TraceBuilder(None)
    for _ in range(4):
        with b.step():
            with b.loader(us=2000):
                pass
            b.idle(us=1000)
            with b.op("aten::mkldnn_convolution", us=7000):
                pass
    analysis = analyze(trace_of(b, tmp_path))
    text = render(analysis, Options(verbosity=1))
    assert "compute 70 %, loader 20 %, Python 10 %" in text
    assert "GPU" not in "".join(text.splitlines()[1:4])
    assert "kernels that compute" not in text
    short = render(analysis, Options(verbosity=-1))
    assert "step 10.0 ms · compute 70 %, loader 20 %, Python 10 %" in short


def in_flight(*, later: bool) -> TraceBuilder:
    """A step of 210 ms of which a thread of gloo reduces for 180, and the main thread records nothing."""
    b = TraceBuilder(None, rank=0, world_size=2, backend="gloo")
    with b.step():
        b.idle(us=20_000)
        with b.thread(77, join=False), b.annotation("gloo:all_reduce", us=180_000):
            pass
        b.idle(us=190_000)
    if later:
        with b.thread(77, join=False), b.annotation("gloo:all_reduce", us=180_000):
            pass
        b.idle(us=900_000)
        with b.op("aten::empty", us=3):
            pass
    return b


def test_a_thread_that_recorded_nothing_in_the_step_is_not_in_python(tmp_path: Path) -> None:
    trace = trace_of(in_flight(later=True), tmp_path)
    assert is_cpu_only(trace)
    assert causes(trace) == {"communication": 180_000, "unknown": 30_000}


def test_a_step_ends_where_it_was_marked_while_the_recording_goes_on(tmp_path: Path) -> None:
    # More is recorded a second later: the 10 ms behind the collective are the step's, not the recording's tail.
    trace = trace_of(in_flight(later=True), tmp_path)
    assert trace.ledger.of_extent()["after"] == 0
    assert trace.step_ms == pytest.approx(210.0)


def test_the_headline_says_that_collectives_are_in_flight(tmp_path: Path) -> None:
    found = analyze(trace_of(in_flight(later=True), tmp_path)).headline
    assert found is not None
    assert "86 % of the 210 ms step collectives are in flight that no operator hides" in found.text
