"""Start-up on traces small enough to work out by hand, of CUDA and of ROCm; and what looks like it and is none. Times in us."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import advisor
from advisor.report.figures import not_steady, start_up
from advisor.testing import TraceBuilder
from advisor.timeline import first_iteration
from advisor.timeline.startup_table import KINDS
from advisor.trace import Trace, read
from advisor.views.startup import startup_parts

CUDA, ROCM = "Tesla V100-SXM2-16GB", "AMD Instinct MI300X"
Found = list[tuple[str, str, int]]
both = pytest.mark.parametrize("device", [CUDA, ROCM])


def api(device: str, name: str) -> str:
    """The name of a call of CUDA in the device's own runtime."""
    return name.replace("cuda", "hip") if device == ROCM else name


def builder(device: str = CUDA, **options: object) -> TraceBuilder:
    return TraceBuilder(device, host_us=5, latency_us=0, **options)  # type: ignore[arg-type]


def trace_of(b: TraceBuilder, folder: Path) -> Trace:
    return read(str(b.write(folder / "trace.json")))


def found(b: TraceBuilder, folder: Path) -> Found:
    """Kind, name and length of each span of start-up, in order of start; '' names an overhead event."""
    context = trace_of(b, folder).context
    table, host = context.waits.startup, context.recording.host
    rows = zip(table.kind.tolist(), table.node.tolist(), (table.end - table.start).tolist(), strict=True)
    return [(KINDS[k], context.names[host.name[n]] if n >= 0 else "", ns // 1000) for k, n, ns in rows]


def steady(b: TraceBuilder, calls: int = 20, *, names: int = 1, us: int = 20) -> None:
    """Operators of 20 us that launch kernels of so many names in turn."""
    for at in range(calls):
        with b.op("aten::mul", us=us):
            b.kernel(f"elementwise_{at % names}", us=10)


# ---- loading


@both
def test_lazy_loading_that_the_profiler_records(device: str, tmp_path: Path) -> None:
    b = builder(device)
    steady(b)
    with b.op("aten::add"):
        b.overhead("Lazy Function Loading", us=700)
        b.kernel("add_kernel", us=10)
    steady(b)
    assert found(b, tmp_path) == [("loading", "", 700)]
    assert trace_of(b, tmp_path).ledger.of_extent()["startup"] == 700_000


@both
def test_the_profilers_own_overhead_is_no_loading(device: str, tmp_path: Path) -> None:
    b = builder(device)
    steady(b)
    b.overhead("Activity Buffer Request", us=700)
    steady(b)
    assert found(b, tmp_path) == []


@both
def test_the_first_launch_of_each_kernel(device: str, tmp_path: Path) -> None:
    b = builder(device)
    for name, us in (("gemm", 40_000), ("relu", 900), ("norm", 600), ("pool", 499)):
        with b.op("aten::mul"):
            b.kernel(name, us=10, host_us=us)
    steady(b)
    launch = api(device, "cudaLaunchKernel")
    # Half a ms and ten times the like; the fourth takes less.
    assert found(b, tmp_path) == [("loading", launch, 40_000), ("loading", launch, 900), ("loading", launch, 600)]


@both
@pytest.mark.parametrize("call", ["cudaModuleLoadData", "cudaLibraryLoadData", "cudaFuncGetAttributes"])
def test_calls_that_load_count_from_a_tenth_of_a_ms(device: str, call: str, tmp_path: Path) -> None:
    b = builder(device)
    for us in (300, 120, 99):
        b.call(api(device, call), us)
        steady(b, 2)
    assert found(b, tmp_path) == [("loading", api(device, call), 300), ("loading", api(device, call), 120)]


@both
def test_a_call_that_nothing_else_is_like_sets_something_up(device: str, tmp_path: Path) -> None:
    b = builder(device)
    steady(b, 1)
    b.call(api(device, "cudaStreamCreateWithFlags"), 240_000)
    steady(b)
    assert found(b, tmp_path) == [("loading", api(device, "cudaStreamCreateWithFlags"), 240_000)]


@both
@pytest.mark.parametrize("before", [True, False])
def test_the_first_question_to_a_device_makes_its_context(device: str, before: bool, tmp_path: Path) -> None:
    # Behind work of the device's it has a context, and what takes as long loads something.
    b = builder(device)
    for asks in (before, not before):
        if asks:
            b.call(api(device, "cudaDeviceGetStreamPriorityRange"), 2_000_000)
        else:
            steady(b)
    kind = "context" if before else "loading"
    assert found(b, tmp_path) == [(kind, api(device, "cudaDeviceGetStreamPriorityRange"), 2_000_000)]


@both
def test_the_context_in_a_first_empty(device: str, tmp_path: Path) -> None:
    b = builder(device)
    with b.op("aten::empty"):
        b.idle(us=2200)
    for _ in range(5):
        with b.op("aten::empty", us=4):
            pass
    steady(b, names=20)
    assert found(b, tmp_path) == [("first call", "aten::empty", 2200)]


# ---- selection


@both
@pytest.mark.parametrize("name", ["aten::cudnn_convolution", "aten::miopen_convolution", "aten::addmm"])
def test_the_first_call_of_each_shape_selects(device: str, name: str, tmp_path: Path) -> None:
    b = builder(device)
    for first, shape in ((1400, 8), (800, 16), (600, 32)):
        for own in (first, 20, 20, 20):
            with b.op(name, shapes=[[shape, 64]]):
                b.idle(us=own)
                b.kernel("implicit_gemm", us=10)
    assert found(b, tmp_path) == [("selection", name, 1400), ("selection", name, 800), ("selection", name, 600)]


@both
def test_a_search_that_runs_many_kernels_is_not_counted_and_computes(device: str, tmp_path: Path) -> None:
    b = builder(device)
    steady(b, 4)
    with b.op("aten::cudnn_convolution", shapes=[[8, 3, 224, 224]]):
        for trial in range(8):
            b.kernel(f"candidate_{trial}", us=500)
            b.sync()
    for _ in range(8):
        with b.op("aten::cudnn_convolution", shapes=[[8, 3, 224, 224]], us=100):
            b.kernel("candidate_3", us=100)
    # Eight trials of 5 us for the launch and 500 us for the kernel.
    assert found(b, tmp_path) == [("selection", "aten::cudnn_convolution", 4040)]
    trace = trace_of(b, tmp_path)
    ledger = trace.ledger
    # Eight trials of 500 us are the device's, and no steady work; four of 10 us and eight of 100 us are.
    assert ledger.of_extent()["compute"] == 4 * 10_000 + 4_000_000 + 800_000
    assert ledger.by_cause()["compute"] == 4 * 10_000 + 800_000
    summary = advisor.analyze(trace).summary
    assert summary.startup_work_ms == pytest.approx(4.0)
    assert summary.first_step_ms is None
    assert "4.00 ms of GPU work that start-up launched." in not_steady(summary)


@both
def test_what_a_search_loads_is_loaded(device: str, tmp_path: Path) -> None:
    """The first convolution starts cuDNN inside its search: 40 ms in making an event, 4 ms of trials."""
    b = builder(device)
    steady(b, 4)
    with b.op("aten::cudnn_convolution", shapes=[[8, 3, 224, 224]]):
        b.call(api(device, "cudaEventCreateWithFlags"), 40_000)
        for trial in range(8):
            b.kernel(f"candidate_{trial}", us=500)
            b.sync()
    for _ in range(8):
        with b.op("aten::cudnn_convolution", shapes=[[8, 3, 224, 224]], us=100):
            b.kernel("candidate_3", us=100)
    kinds = [(kind, ms) for kind, _, ms in found(b, tmp_path)]
    assert kinds == [("loading", 40_000), ("selection", 4040)]


@both
def test_a_long_free_in_a_librarys_first_call_starts_it(device: str, tmp_path: Path) -> None:
    """cuBLAS asks for its memory and gives it back; where the device is idle, that takes no 300 ms: nothing is allocated."""
    b = builder(device)
    steady(b, 4)
    with b.op("aten::addmm"):
        b.call(api(device, "cudaFree"), 300_000)
        b.kernel("sgemm", us=100)
    with b.op("aten::empty"):
        b.call(api(device, "cudaFree"), 30_000)
    for _ in range(8):
        with b.op("aten::addmm", us=100):
            b.kernel("sgemm", us=100)
    steady(b)
    kinds = [(kind, ms) for kind, _, ms in found(b, tmp_path)]
    assert kinds == [("loading", 300_000), ("allocation", 30_000)]


def test_a_first_convolution_of_which_nothing_shows_that_it_chose(tmp_path: Path) -> None:
    """Operators alone: whether the 2 s of the first went to a search or to a library's start, no event says."""
    b = builder()
    for us in (2_000_000, *[100] * 8):
        with b.op("aten::cudnn_convolution", shapes=[[8, 3, 224, 224]], us=us):
            pass
    assert found(b, tmp_path) == [("first call", "aten::cudnn_convolution", 2_000_000)]


# ---- specialization


@both
def test_torchscript_specializes_inside_its_function(device: str, tmp_path: Path) -> None:
    b = builder(device)
    steady(b)
    for own in (150_000, 140_000, 5, 5, 5):
        with b.op("delta"):
            b.idle(us=own)
            with b.op("fused_neg_pow"):
                b.kernel("fused_neg_pow", us=10)
    steady(b)
    assert found(b, tmp_path) == [("specialization", "delta", 150_000), ("specialization", "delta", 140_000)]


@both
def test_torchscript_specializes_before_its_functions_event(device: str, tmp_path: Path) -> None:
    b = builder(device)
    with b.annotation("evaluate"):
        steady(b)
        b.idle(us=290_000)
        with b.op("delta"), b.op("fallback_function"), b.op("aten::sub"):
            b.kernel("sub", us=10)
        steady(b)
    assert found(b, tmp_path) == [("specialization", "delta", 290_000)]


# ---- compilation, capture, allocation, copies


def compiling(device: str, compiles: tuple[int, ...]) -> TraceBuilder:
    """Five steps of 20 operators, of which some compile for so many ms first."""
    b = builder(device)
    for ms in compiles:
        with b.step():
            if ms:
                with b.annotation("_compile.compile_inner"):
                    b.idle(ms=ms)
            steady(b)
    return b


@both
def test_compilation_in_the_first_of_several_steps(device: str, tmp_path: Path) -> None:
    b = compiling(device, (900, 0, 0, 0, 0))
    assert found(b, tmp_path) == [("compilation", "_compile.compile_inner", 900_000)]


@both
def test_what_a_later_step_compiles_stays_compilation(device: str, tmp_path: Path) -> None:
    b = compiling(device, (900, 0, 50, 0, 0))
    assert found(b, tmp_path) == [("compilation", "_compile.compile_inner", 900_000)]
    assert trace_of(b, tmp_path).ledger.by_cause()["compile"] == 50_000_000


@both
def test_what_every_step_compiles_is_no_start_up(device: str, tmp_path: Path) -> None:
    b = compiling(device, (90, 90, 90, 90, 90))
    assert found(b, tmp_path) == []


@both
def test_a_capture_from_its_begin_to_its_end(device: str, tmp_path: Path) -> None:
    b = builder(device)
    steady(b)
    b.call(api(device, "cudaStreamBeginCapture"), 10)
    for _ in range(9):
        with b.op("aten::linear", us=100):
            b.call(api(device, "cudaLaunchKernel"), 10)
    b.call(api(device, "cudaStreamEndCapture"), 90)
    b.call(api(device, "cudaGraphInstantiate"), 300)
    steady(b)
    # 10 + 9 x 100 + 90.
    assert found(b, tmp_path) == [
        ("capture", api(device, "cudaStreamEndCapture"), 1000),
        ("capture", api(device, "cudaGraphInstantiate"), 300),
    ]


@both
def test_a_capture_that_had_begun_and_an_end_that_lacks_its_begin(device: str, tmp_path: Path) -> None:
    b = builder(device)
    b.idle(us=1)
    with b.op("aten::linear", us=500):
        pass
    b.call(api(device, "cudaStreamEndCapture"), 100)
    steady(b, 20)
    b.call(api(device, "cudaStreamEndCapture"), 100)
    steady(b, 20)
    end = api(device, "cudaStreamEndCapture")
    assert found(b, tmp_path) == [("capture", end, 600), ("capture", end, 100)]


def allocating(device: str, mallocs: tuple[int, ...]) -> TraceBuilder:
    b = builder(device)
    for us in mallocs:
        with b.step():
            if us:
                b.malloc(1 << 30, us)
            steady(b)
    return b


@both
def test_early_allocations(device: str, tmp_path: Path) -> None:
    b = allocating(device, (7000, 0, 0, 0))
    assert found(b, tmp_path) == [("allocation", api(device, "cudaMalloc"), 7000)]


@both
def test_allocations_that_go_on_through_the_first_iteration_without_runtime_calls(device: str, tmp_path: Path) -> None:
    """In recordings of operators alone the allocator's calls show only in `aten::empty`, and not in the first one alone."""
    b = builder(device)
    for us in (5, 30_000, 5, 547_000, 5):
        with b.op("aten::conv2d"), b.op("aten::empty", us=us):
            pass
    for _ in range(40):
        with b.op("aten::conv2d"), b.op("aten::empty", us=5):
            pass
    assert found(b, tmp_path) == [("allocation", "aten::empty", 30_000), ("allocation", "aten::empty", 547_000)]


@both
def test_allocations_that_take_long_to_the_end_without_runtime_calls(device: str, tmp_path: Path) -> None:
    b = builder(device)
    for at in range(40):
        with b.op("aten::conv2d"), b.op("aten::empty", us=30_000 if at % 8 == 1 else 5):
            pass
    assert found(b, tmp_path) == []


@both
def test_what_every_step_allocates_is_no_start_up(device: str, tmp_path: Path) -> None:
    b = allocating(device, (7000, 4000, 4000, 4000))
    assert found(b, tmp_path) == []


@both
def test_a_first_copy_that_is_held_far_longer_than_its_like(device: str, tmp_path: Path) -> None:
    b = builder(device)
    for latency in (40_000, 10, 10, 10):
        with b.op("aten::to"):
            b.copy("HtoD", nbytes=1 << 20, us=100, latency_us=latency)
        steady(b, 5)
    spans = found(b, tmp_path)
    assert [kind for kind, _, _ in spans] == ["first call"]
    assert spans[0][2] == pytest.approx(40_000, abs=10)  # and the call itself


@both
@pytest.mark.parametrize("later", [100, 900])
def test_a_first_copy_of_a_warm_program_that_is_held_over_ten_times_as_long_as_any(
    device: str, later: int, tmp_path: Path
) -> None:
    """Steps 16 to 20: others had their code before, and one slow call among many is a thread that did not run."""
    b = builder(device)
    for number, latency in enumerate((7000, 100, later, 100, 100), 16):
        with b.step(number):
            with b.op("aten::to"):
                b.copy("HtoD", nbytes=1 << 20, us=100, latency_us=latency)
            steady(b, 20, names=5)
    kinds = [kind for kind, _, _ in found(b, tmp_path)]
    assert kinds == (["first call"] if later == 100 else [])


@both
def test_a_first_copy_behind_recorded_work_waits_for_that(device: str, tmp_path: Path) -> None:
    b = builder(device)
    with b.op("aten::mm"):
        b.kernel("gemm", us=40_000)
    for _ in range(4):
        with b.op("aten::to"):
            b.copy("HtoD", nbytes=1 << 20, us=100)
        steady(b, 5)
    assert found(b, tmp_path) == []


# ---- none


@both
def test_a_later_launch_of_a_known_kernel(device: str, tmp_path: Path) -> None:
    b = builder(device)
    steady(b)
    for us in (40_000, 20_000, 10_000):
        b.kernel("elementwise_0", us=10, host_us=us)
        steady(b, 5)
    assert found(b, tmp_path) == []


@both
def test_one_slow_first_launch_among_many_quick_ones(device: str, tmp_path: Path) -> None:
    b = builder(device)
    steady(b, 40, names=40)
    b.kernel("late", us=10, host_us=29_000)
    steady(b, 40, names=40)
    assert found(b, tmp_path) == []


@both
def test_in_a_warm_recording_even_a_very_slow_one(device: str, tmp_path: Path) -> None:
    b = builder(device, first_step=3)
    with b.step():
        steady(b, 10, names=10)
        b.kernel("late", us=10, host_us=50_000)
        steady(b, 10, names=10)
    assert found(b, tmp_path) == []


@both
@pytest.mark.parametrize(("begins_us", "kind"), [(5, "first call"), (900, "loading")])
def test_a_first_launch_that_returns_long_after_its_kernel_has_run_loaded_nothing(
    begins_us: int, kind: str, device: str, tmp_path: Path
) -> None:
    """After 9 us the kernel has run: what the first launch of all does then, it does once. Or it begins late, once loaded."""
    b = builder(device)
    b.kernel("gemm", us=4, host_us=1_400, at_us=begins_us)
    steady(b)
    assert found(b, tmp_path) == [(kind, api(device, "cudaLaunchKernel"), 1_400)]


@both
@pytest.mark.parametrize(("begins_us", "count"), [(5, 0), (900, 1)])
def test_a_later_one_that_does_so_is_no_start_up(begins_us: int, count: int, device: str, tmp_path: Path) -> None:
    b = builder(device)
    steady(b, 2)
    b.kernel("gemm", us=4, host_us=1_400, at_us=begins_us)
    steady(b)
    assert found(b, tmp_path) == [("loading", api(device, "cudaLaunchKernel"), 1_400)] * count


@both
def test_a_full_queue(device: str, tmp_path: Path) -> None:
    b = builder(device)
    b.kernel("gemm", us=100_000)
    for at in range(4):
        with b.op("aten::mul"):
            b.kernel(f"first_{at}", us=10, host_us=20_000)  # the launch waits for room, the device works
    steady(b)
    assert found(b, tmp_path) == []


@both
@pytest.mark.parametrize("call", ["cudaEventRecord", "cudaEventQuery", "cudaStreamWaitEvent", "cudaMemcpyAsync"])
def test_calls_that_never_set_up(device: str, call: str, tmp_path: Path) -> None:
    b = builder(device)
    steady(b, 1)
    b.call(api(device, call), 80_000)
    steady(b)
    assert found(b, tmp_path) == []


@both
def test_selection_that_goes_on_is_a_cause_of_its_own(device: str, tmp_path: Path) -> None:
    b = builder(device)
    for number in range(6):
        with b.step():
            for own in (900, 20, 20, 20):
                with b.op("aten::addmm", shapes=[[number, 64]]):
                    b.idle(us=own)
                    b.kernel("gemm", us=10)
    # Of the first step, which warms up. The second's is of a new shape like the later ones'.
    assert found(b, tmp_path) == [("selection", "aten::addmm", 900)]


@both
def test_a_second_step_that_selects_for_longer_than_later_ones_is_start_up(device: str, tmp_path: Path) -> None:
    b = builder(device)
    for number, selection in enumerate((900, 1800, 900, 900, 900, 900)):
        with b.step():
            for own in (selection, 20, 20, 20):
                with b.op("aten::addmm", shapes=[[number, 64]]):
                    b.idle(us=own)
                    b.kernel("gemm", us=10)
    assert found(b, tmp_path) == [("selection", "aten::addmm", 900), ("selection", "aten::addmm", 1800)]


def test_a_first_wait_for_a_device_of_which_nothing_is_recorded(tmp_path: Path) -> None:
    b = TraceBuilder(None)
    for us in (50_000, 500, 500, 500, 500):
        with b.op("aten::linear", us=1000), b.op("aten::_mps_linear"):
            pass
        with b.op("aten::item"), b.op("aten::_local_scalar_dense", us=us):
            pass
    assert found(b, tmp_path) == []


# ---- programs that look like it


def a_compiled_model_bound_by_its_wrapper(b: TraceBuilder) -> None:
    # Two calls of 300 launches, 15 us of Python before each: 4.5 ms of the function's own, in no long stretch.
    for _ in range(2):
        with b.op("CompiledFunction"):
            for at in range(300):
                b.idle(us=15)
                with b.op(f"triton_poi_fused_{at % 9}"):
                    b.kernel(f"triton_poi_fused_{at % 9}", us=3)


def a_scripted_model_behind_preprocessing(b: TraceBuilder) -> None:
    # Each request is prepared for 30 ms outside torch, the first no longer than the others.
    for _ in range(6):
        b.idle(ms=30)
        with b.op("forward"), b.op("fused_add_mul"):
            b.kernel("fused_add_mul", us=100)


def a_scripted_function_that_was_held_up_later(b: TraceBuilder) -> None:
    for at in range(40):
        with b.op("gelu"):
            b.idle(us=19_000 if at in (11, 30) else 30)
            with b.op("fused_tanh"):
                b.kernel("fused_tanh", us=10)


def a_compiled_region_that_was_held_up_later(b: TraceBuilder) -> None:
    for at in range(40):
        with b.op("Torch-Compiled Region"):
            b.idle(us=24_000 if at in (11, 30) else 60)
            with b.op("triton_poi_fused_add_0"):
                b.kernel("triton_poi_fused_add_0", us=10)


def a_recurrent_network_on_a_long_sequence(b: TraceBuilder) -> None:
    # Kernels and time grow with the sequence: 400 steps in time after ten of ten.
    for length in (*[10] * 10, 400, *[10] * 10):
        with b.op("aten::_cudnn_rnn", shapes=[[length, 8, 256]]):
            for _ in range(length):
                b.idle(us=10)
                b.kernel("rnn_cell", us=5)


def a_prompt_before_its_tokens(b: TraceBuilder) -> None:
    # The attention of all layers takes 3 ms of Python for the prompt, 50 us for each token.
    for token in range(9):
        for _ in range(4):
            with b.op("vllm::unified_attention", shapes=[[1 if token else 512, 64]]):
                b.idle(us=50 if token else 3000)
                b.kernel("paged_attention", us=20)


def images_of_other_sizes_on_the_cpu(b: TraceBuilder) -> None:
    # The first image is a large one; each is of another size.
    for size in (4000, 300, 310, 320, 330, 340):
        with b.op("aten::upsample_bilinear2d", shapes=[[1, 3, size, size]], us=size * 10):
            pass
        steady(b, 5)


def a_readback_behind_queued_work(b: TraceBuilder) -> None:
    for us in (30_000, 10, 10, 10, 10):
        b.kernel("gemm", us=us)
        b.item()


def a_barrier_that_waits_for_another_rank(b: TraceBuilder) -> None:
    # Once started, ranks drift: one of the later calls waits long, for a message of a new size.
    for at in range(20):
        with b.op("c10d::allreduce_", shapes=[[at]]):
            b.idle(us=32_000 if at == 14 else 20)
            b.kernel("ncclDevKernel_AllReduce", us=30, stream=20)


def descheduled_in_cheap_operators(b: TraceBuilder) -> None:
    for at in range(200):
        with b.op(("aten::add", "aten::mul", "aten::sub", "aten::exp")[at % 4]):
            b.idle(us=2500 if at in (57, 102, 166) else 10)
            b.kernel(f"elementwise_{at % 4}", us=5)


def a_layer_that_allocates(b: TraceBuilder, us: int = 300) -> None:
    if us:
        b.malloc(1 << 20, us)
    for name in ("one", "two", "three", "four", "five", "six", "seven", "eight"):
        with b.op("aten::mul", us=20):
            b.kernel(f"elementwise_{name}", us=10)


@both
def test_an_allocator_that_only_grows_is_in_its_first_iteration(device: str, tmp_path: Path) -> None:
    """Each kernel is another's: 300 us of memory before each of four, in a recording of no steps and no passes."""
    b = builder(device)
    for at in range(4):
        b.malloc(1 << 20, 300)
        with b.op(f"aten::layer{at}", us=20):
            b.kernel(f"elementwise_{at}", us=10)
    assert found(b, tmp_path) == [("allocation", api(device, "cudaMalloc"), 300)] * 4
    b.free(1 << 20, 50)  # what is given back has to be asked for again
    assert found(b, tmp_path) == []


@both
def test_of_passes_that_allocate_the_first_is_start_up(device: str, tmp_path: Path) -> None:
    b = builder(device)
    for _ in range(4):
        a_layer_that_allocates(b)
    assert found(b, tmp_path) == [("allocation", api(device, "cudaMalloc"), 300)]


def test_passes_are_looked_for_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Allocations ask for them, and the rest of the first iteration."""
    asked, run = [], first_iteration._passes
    monkeypatch.setattr(first_iteration, "_passes", lambda recording: (asked.append(recording), run(recording))[1])
    b = builder()
    for at in range(4):
        a_layer_that_allocates(b, 300 if at else 900)
    assert len(found(b, tmp_path)) > 0
    assert len(asked) == 1


@both
def test_steps_that_allocate_a_little_are_no_start_up(device: str, tmp_path: Path) -> None:
    assert found(allocating(device, (300, 300, 300, 300)), tmp_path) == []


def an_allocator_that_is_emptied_each_time(b: TraceBuilder) -> None:
    for _ in range(8):
        steady(b, 10)
        b.free(1 << 30, 3000)
        b.malloc(1 << 30, 4000)


def an_outer_loop_with_ranges_of_2021(b: TraceBuilder) -> None:
    # A range around everything is Python's, for 5 ms at the beginning of each of two.
    for _ in range(2):
        with b.op("ProfilerStep#*"):
            b.idle(ms=5)
            with b.op("forward"), b.op("fused_add"):
                b.kernel("fused_add", us=50)


@both
@pytest.mark.parametrize(
    "program",
    [
        a_compiled_model_bound_by_its_wrapper,
        a_scripted_model_behind_preprocessing,
        a_scripted_function_that_was_held_up_later,
        a_compiled_region_that_was_held_up_later,
        a_recurrent_network_on_a_long_sequence,
        a_prompt_before_its_tokens,
        images_of_other_sizes_on_the_cpu,
        a_readback_behind_queued_work,
        a_barrier_that_waits_for_another_rank,
        descheduled_in_cheap_operators,
        an_allocator_that_is_emptied_each_time,
        an_outer_loop_with_ranges_of_2021,
    ],
    ids=lambda program: str(program.__name__),
)
def test_programs_without_start_up(device: str, program: Callable[[TraceBuilder], None], tmp_path: Path) -> None:
    b = builder(device)
    steady(b)
    program(b)
    steady(b)
    assert found(b, tmp_path) == []


# ---- a model that is built before the GPU has anything to do


@both
def test_a_model_that_is_built_and_moved_to_the_device(device: str, tmp_path: Path) -> None:
    # 300 ms of random numbers on the CPU, six parameters of 4 MB, and then 20 ms of work: the host's span is over twice the GPU's.
    b = builder(device)
    with b.op("aten::normal_", us=300_000):
        pass
    for _ in range(6):
        b.copy("HtoD", nbytes=4_000_000, us=400, pinned=True, host_us=10)
    b.idle(us=3_000)
    steady(b, 1_000)
    trace = trace_of(b, tmp_path)
    assert ("initialization", 300_000) in [(kind, ms // 100_000 * 100_000) for kind, _, ms in found(b, tmp_path)]
    # What is left is the thousand operators of 20 us.
    assert trace.whole_ms == pytest.approx(20, rel=0.05)


@both
@pytest.mark.parametrize(("context_us", "place"), [(300_000, "StreamPriorityRange"), (150_000, None)])
def test_a_model_that_is_built_is_placed_where_most_of_its_time_is(
    device: str, context_us: int, place: str | None, tmp_path: Path
) -> None:
    # 200 ms of Python, then the context in the first parameter's memory: over half of it all, or less, and a copy of 0.4 ms.
    b = builder(device)
    with b.op("aten::arange", us=5):
        pass
    b.idle(us=200_000)
    with b.op("aten::to"):
        with b.op("aten::empty_strided"):
            b.call(api(device, "cudaDeviceGetStreamPriorityRange"), context_us)
        with b.op("aten::copy_"):
            b.copy("HtoD", nbytes=4_000_000, us=400, pinned=True, host_us=10)
    for _ in range(5):
        with b.op("aten::copy_"):
            b.copy("HtoD", nbytes=4_000_000, us=400, pinned=True, host_us=10)
    b.idle(us=3_000)
    steady(b, 1_000)
    parts = {part.kind: part for part in startup_parts(trace_of(b, tmp_path).context)}
    part = parts["initialization"]
    assert part.where == (place and api(device, f"cudaDeviceGet{place}"))
    assert part.where_ms is None if place is None else part.where_ms == pytest.approx(context_us / 1000, abs=0.01)


@both
def test_loading_that_is_spread_over_operators_names_the_three_with_most(device: str, tmp_path: Path) -> None:
    b = builder(device)
    for name, ms in (
        ("aten::native_batch_norm", 330),
        ("aten::native_group_norm", 210),
        ("aten::mse_loss", 127),
        ("aten::sum", 9),
    ):
        with b.op(name):
            b.kernel(f"{name[6:]}_kernel", us=20, host_us=ms * 1000)
    with b.op("aten::repeat"):
        b.kernel("repeat_kernel", us=20, host_us=119_000)
    steady(b, 1_000)
    parts = {
        part.kind: part for part in startup_parts(trace_of(b, tmp_path).context)
    }  # the first operator lies before it
    named = parts["loading"].operators
    assert list(named) == ["aten::native_group_norm", "aten::mse_loss", "aten::repeat"], parts
    assert list(named.values()) == pytest.approx([210, 127, 119], rel=0.01)


@both
def test_a_batch_that_is_copied_first_is_part_of_the_program(device: str, tmp_path: Path) -> None:
    # Fewer copies than a model has parameters; and where the GPU works from the start there is nothing to build before.
    b = builder(device)
    with b.op("aten::normal_", us=300_000):
        pass
    for _ in range(3):
        b.copy("HtoD", nbytes=8_000_000, us=400, pinned=True, host_us=10)
    steady(b, 1_000)
    assert [kind for kind, _, _ in found(b, tmp_path)] == []


@pytest.mark.parametrize(("drawn", "copies", "kinds"), [(6, 6, ["initialization"]), (4, 6, []), (6, 4, []), (0, 6, [])])
def test_a_model_that_is_built_where_nothing_of_the_device_is_recorded(
    drawn: int, copies: int, kinds: list[str], tmp_path: Path
) -> None:
    # Parameters of 50 ms each are drawn on the CPU and copied; then launches. Five of them are a model, four may be a batch.
    b = TraceBuilder(None)
    for _ in range(drawn):
        with b.op("aten::uniform_", us=50_000):
            pass
    for _ in range(copies):
        with b.op("aten::copy_"):
            b.call("cudaMemcpyAsync", 100)
    for _ in range(20):
        with b.op("aten::mm", us=20):
            b.call("cudaLaunchKernel", 10)
    assert [kind for kind, _, _ in found(b, tmp_path)] == kinds


@pytest.mark.parametrize(("counted", "ns"), [(True, 4 * 50_000_000), (False, 0)])
def test_launches_that_wait_for_counters_are_the_profilers(counted: bool, ns: int, tmp_path: Path) -> None:
    # Four launches of 50 ms, in which a kernel runs once for each group of counters; one of 10 us is a launch.
    b = TraceBuilder(None)
    for us in (50_000, 50_000, 50_000, 50_000, 10):
        with b.op("aten::mm", us=20):
            b.call("cudaLaunchKernel", us)
        if counted:
            b.counters(us=1)
    assert trace_of(b, tmp_path).ledger.by_cause()["profiler"] == ns


@pytest.mark.parametrize(
    ("first", "later", "loading"),
    [
        (800_000, (50_000, 60_000), 740_000_000),  # what it takes beyond the longest behind it
        (599_000, (50_000, 60_000), 0),  # less than ten times as long: the larger product
        (800_000, (), 0),  # nothing shows what a launch takes while counters are read
    ],
)
def test_a_first_launch_for_counters_loads_what_later_ones_find(
    first: int, later: tuple[int, ...], loading: int, tmp_path: Path
) -> None:
    b = TraceBuilder(None)
    for us in (first, *later):
        with b.op("aten::mm", us=20):
            b.call("cudaLaunchKernel", us)
            b.call("cudaLaunchKernel", 2_000)
        b.counters(us=1)
    trace = trace_of(b, tmp_path)
    causes, launches = trace.ledger.of_extent(), 1 + len(later)
    assert causes["startup"] == loading
    assert causes["profiler"] == (first + sum(later) + 2_000 * launches) * 1_000 - loading


@both
def test_a_first_step_that_start_up_fills_does_not_count(device: str, tmp_path: Path) -> None:
    # Four steps of 20 operators of 20 us; the first takes 30 ms more for a library: what is left of it is left out too.
    b = builder(device)
    for number in range(4):
        with b.step():
            if number == 0:
                b.call(api(device, "cuModuleLoadData") if device == CUDA else "hipModuleLoad", 30_000)
            steady(b)
    trace = trace_of(b, tmp_path)
    assert trace.ledger.counted_steps().tolist() == [1, 2, 3]
    assert trace.whole_ms == pytest.approx(0.4, rel=0.02)
    # Its parts add up: 30 ms of start-up, 0.4 ms that are left of the first step, and three of 0.4 ms.
    summary = advisor.analyze(trace).summary
    assert summary.first_step_ms == pytest.approx(0.4, rel=0.03)
    assert summary.startup_work_ms is None
    parts = summary.first_step_ms + sum(part.ms for part in summary.startup) + trace.ledger.counted_ns / 1e6
    assert parts == pytest.approx(summary.extent_ms, abs=1e-6)
    assert "30.0 ms of start-up (loading 30.0 ms" in not_steady(summary)
    assert "; 400 µs that" in not_steady(summary)
    assert "that are left of the first step." in not_steady(summary)


@both
def test_the_headline_counts_what_is_left_of_a_first_step_as_the_line_below_does(device: str, tmp_path: Path) -> None:
    """One screen, one figure: 30 ms of a library and 10 ms of the first step."""
    b = builder(device)
    for number in range(4):
        with b.step():
            if number == 0:
                b.call(api(device, "cuModuleLoadData") if device == CUDA else "hipModuleLoad", 30_000)
            steady(b, 500 if number == 0 else 20)
    analysis = advisor.analyze(trace_of(b, tmp_path))
    assert analysis.headline.text.startswith("40 of 41.2 ms are start-up")
    assert "40 of 41.2 ms" in start_up(analysis.summary)


def iterations(device: str, *, first_us: int = 400, stem: bool = False) -> TraceBuilder:
    """Three iterations of ten operators with a kernel each; the first loads a library and is slower by so much an operator.

    With *stem* they are three layers: what comes before the first comes once.
    """
    b = builder(device)
    if stem:
        with b.op("aten::embedding"):
            b.kernel("embedding", us=10)
    for number in range(3):
        for at in range(10):
            with b.op("aten::mul", us=20 if number else 20 + first_us):
                b.kernel(f"elementwise_{at}", us=10, host_us=30_000 if number == 0 and at in (3, 6, 9) else 5)
    return b


@both
def test_the_rest_of_a_first_iteration_that_start_up_fills(device: str, tmp_path: Path) -> None:
    # 90 ms of loading and 10 times 0.4 ms of what no single call shows; then twice 10 operators of about 20 us.
    trace = trace_of(iterations(device), tmp_path)
    assert {KINDS[kind] for kind in trace.context.waits.startup.kind.tolist()} == {"loading", "first iteration"}
    assert trace.ledger.counted_ns / 1e6 == pytest.approx(0.5, abs=0.15)


@both
@pytest.mark.parametrize("first_us", [400, 0])
def test_layers_behind_a_stem_are_no_iterations(device: str, first_us: int, tmp_path: Path) -> None:
    table = trace_of(iterations(device, first_us=first_us, stem=True), tmp_path).context.waits.startup
    assert {KINDS[kind] for kind in table.kind.tolist()} == {"loading"}


def passes(*each_us: int, loading_ms: int = 30, kernels: int = 10, draws: bool = False) -> TraceBuilder:
    """Passes of ten operators with a kernel each, of so many us an operator; the first loads a library besides."""
    b = builder(CUDA)
    if draws:
        with b.op("aten::rand"):
            b.kernel("distribution_elementwise_grid_stride_kernel", us=10)
    for number, us in enumerate(each_us):
        for at in range(kernels):
            with b.op("aten::mul", us=us):
                b.kernel(f"elementwise_{at}", us=10, host_us=loading_ms * 1_000 if number == 0 and at == 3 else 5)
    return b


def left_ms(b: TraceBuilder, tmp_path: Path) -> float:
    """Time that is judged, in ms."""
    return trace_of(b, tmp_path).ledger.counted_ns / 1e6


@pytest.mark.parametrize("draws", [False, True])
def test_the_first_of_two_passes_is_start_up_as_a_whole_where_it_takes_ten_times_as_long(
    draws: bool, tmp_path: Path
) -> None:
    # 30 ms of loading in ten operators of 200 us; the second pass, of the same kernels, takes 2 ms, but for what lies behind its
    # last kernel.
    assert left_ms(passes(200, 200, draws=draws), tmp_path) == pytest.approx(1.815, abs=0.01)


@pytest.mark.parametrize(
    ("b", "left"),
    [
        (passes(200, 200, loading_ms=15), 3.61),  # 17 ms are less than ten times 2
        (passes(200, 200, kernels=4), 1.21),  # four kernels are no pass
        (passes(200, 200, 200), 3.815),
        (passes(200), 1.61),
    ],
    ids=["not so slow", "too short", "three", "one"],
)
def test_what_is_left_where_no_first_pass_is_far_above_its_like(b: TraceBuilder, left: float, tmp_path: Path) -> None:
    assert left_ms(b, tmp_path) == pytest.approx(left, abs=0.01)


def test_the_hosts_lead_before_a_window_that_begins_with_the_devices_first_work(tmp_path: Path) -> None:
    """The first launch of 322 ms lies before the first kernel: in no cause of the window, and said beside it."""
    b = builder()
    with b.op("aten::index_select"):
        b.kernel("index_select", us=300_000, host_us=322_000)
    steady(b, 40, names=10)
    summary = advisor.analyze(trace_of(b, tmp_path)).summary
    assert summary.lead_ms == pytest.approx(322, rel=0.01)
    assert [(part.kind, part.where) for part in summary.lead_startup] == [("loading", "aten::index_select")]
    assert "behind the host's (start-up: loading 322 ms in aten::index_select)." in not_steady(summary)


@both
@pytest.mark.parametrize(("overhead", "kinds"), [(True, {"loading"}), (False, {"loading", "first call"})])
def test_what_the_profiler_took_of_a_first_call_is_not_the_calls(
    device: str, overhead: bool, kinds: set[str], tmp_path: Path
) -> None:
    b = builder(device)
    with b.op("aten::arange"):
        if overhead:
            b.overhead("Activity Buffer Request", us=5_000)
        else:
            b.idle(us=5_000)
        b.kernel("arange", us=10)
    for at in range(4):
        with b.op("aten::mul"):
            b.kernel(f"first_{at}", us=10, host_us=5_000)
    for _ in range(10):
        with b.op("aten::arange"):
            b.kernel("arange", us=10)
    steady(b)
    assert {kind for kind, _, _ in found(b, tmp_path)} == kinds
