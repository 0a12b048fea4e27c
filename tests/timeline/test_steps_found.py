"""Steps that are found where the profiler marks none, worked out by hand. Times in us."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from support.raw_events import host, kernel, launch, op, read

from advisor.testing import TraceBuilder
from advisor.trace import Trace
from advisor.trace import read as read_file

CUDA, ROCM = "Tesla V100-SXM2-16GB", "AMD Instinct MI300X"
both = pytest.mark.parametrize("device", [CUDA, ROCM])


def builder(device: str = CUDA) -> TraceBuilder:
    return TraceBuilder(device, host_us=0, latency_us=0)


def work(b: TraceBuilder, us: int = 1000) -> None:
    with b.op("aten::mm", us=us):
        b.kernel("gemm", us=us)


def marks(b: TraceBuilder, names: Iterable[str]) -> None:
    """1 ms of work, then an annotation of 1 ms with work, for each name."""
    for name in names:
        work(b)
        with b.annotation(name):
            work(b)


def trace_of(b: TraceBuilder, folder: Path) -> Trace:
    return read_file(str(b.write(folder / "trace.json")))


def found(b: TraceBuilder, folder: Path) -> tuple[str, list[int]]:
    """What marks the steps, and their lengths in us."""
    recording = trace_of(b, folder).context.recording
    bounds = recording.bounds
    return recording.steps_by, [int(ns) // 1000 for ns in bounds[1:] - bounds[:-1]]


SGD, ADAM = "Optimizer.step#SGD.step", "Optimizer.step#Adam.step"


@both
def test_a_step_ends_with_its_optimizer(device: str, tmp_path: Path) -> None:
    b = builder(device)
    marks(b, [SGD] * 4)
    assert found(b, tmp_path) == ("Optimizer.step of SGD", [2000] * 4)


@both
def test_of_two_optimizers_it_ends_with_the_second(device: str, tmp_path: Path) -> None:
    b = builder(device)
    marks(b, [SGD, ADAM] * 3)
    assert found(b, tmp_path) == ("Optimizer.step of Adam, SGD", [4000] * 3)


def test_a_gan_whose_optimizers_step_at_different_rates(tmp_path: Path) -> None:
    b = builder()
    marks(b, ["Optimizer.step#RMSprop.step", "Optimizer.step#RMSprop.step", "Optimizer.step#RMSprop.step", ADAM] * 2)
    # The critic steps three times, the generator once, at the end of the third.
    assert found(b, tmp_path) == ("Optimizer.step of Adam, RMSprop", [2000, 2000, 4000] * 2)


def test_two_optimizers_of_one_class_step_twice_a_batch(tmp_path: Path) -> None:
    b = builder()
    for _ in range(4):
        with b.loader(us=1000):
            pass
        marks(b, [ADAM, ADAM])
    with b.loader(us=10):  # finds the iterator exhausted
        pass
    # Batches are twice as coarse. The first begins before the window, which begins with the first kernel.
    assert found(b, tmp_path) == ("DataLoader", [4000, 5000, 5000, 5000])


def test_gradients_of_several_batches_are_accumulated(tmp_path: Path) -> None:
    b = builder()
    for number in range(12):
        with b.loader(us=500):
            pass
        work(b)
        if number % 4 == 3:
            with b.annotation(SGD):
                work(b)
    # Twelve batches, three optimizer steps: 4 x 1.5 + 1 ms, the first less the wait before the window.
    assert found(b, tmp_path) == ("Optimizer.step of SGD", [6500, 7000, 7000])


def test_many_optimizer_steps_a_batch(tmp_path: Path) -> None:
    b = builder()
    for _ in range(3):
        with b.loader(us=500):
            pass
        marks(b, [ADAM] * 4)
    assert found(b, tmp_path) == ("DataLoader", [8000, 8500, 8500])


def test_one_optimizer_step_more_than_batches_is_no_coarser(tmp_path: Path) -> None:
    b = builder()
    marks(b, [SGD])
    for _ in range(3):
        with b.loader(us=500):
            pass
        marks(b, [SGD])
    assert found(b, tmp_path) == ("Optimizer.step of SGD", [2000, 2500, 2500, 2500])


@both
def test_batches(device: str, tmp_path: Path) -> None:
    b = builder(device)
    work(b, 100)
    for _ in range(4):
        with b.loader(us=500, workers=4):
            pass
        work(b)
    # What lies before the first batch is before the steps.
    assert found(b, tmp_path) == ("DataLoader", [1500] * 4)


@both
@pytest.mark.parametrize(
    "names",
    [
        ["execute_context_1(12)_generation_0(0)", "execute_context_0(0)_generation_1(1)", "execute_context_0_2"],
        ["execute_new_1_cached_0", "execute_new_0_cached_1", "execute_new_0_cached_2"],
        ["execute_32_context_1(sq7)_generation_31(sq31)", "execute_32_context_0(sq0)_generation_32(sq32)"] * 2,
        ["step[EXTEND bs=1 toks=128]", "step[DECODE bs=32]", "step[DECODE bs=31]"],
        ["[Executor] _forward_step 11: 1 ctx reqs, 3 gen reqs", "[Executor] _forward_step 12: 0 ctx reqs, 4 gen reqs"],
        ["gpu_model_runner: preprocess"] * 3,
    ],
    ids=["vllm", "vllm-new", "vllm-tokens", "sglang", "tensorrt-llm", "vllm-scopes"],
)
def test_iterations_of_engines(device: str, names: list[str], tmp_path: Path) -> None:
    b = builder(device)
    for name in names:
        with b.annotation(name):
            work(b)
            with b.annotation("execute_model"):  # engines nest theirs
                work(b)
    assert found(b, tmp_path) == ("the engine's annotations", [2000] * len(names))


@both
def test_a_range_that_repeats(device: str, tmp_path: Path) -> None:
    b = builder(device)
    with b.annotation("epoch"):
        for _ in range(4):
            with b.annotation("train_batch"):
                with b.annotation("forward"):
                    work(b)
                with b.annotation("backward"):
                    work(b, 2000)
    # The ranges touch, the outer ones cover more, and the one around all does not repeat.
    assert found(b, tmp_path) == ("the range train_batch", [3000] * 4)


def test_ranges_with_gaps(tmp_path: Path) -> None:
    b = builder()
    for _ in range(3):
        with b.annotation("infer"):
            work(b, 7000)
        b.idle(us=3000)
    assert found(b, tmp_path) == ("the range infer", [10_000, 10_000, 7000])


# ---- none


@pytest.mark.parametrize("name", ["layer", "TransformerBlock", "self_attention", "## Call CompiledFxGraph f3 ##"])
def test_parts_of_a_model_are_no_steps(name: str, tmp_path: Path) -> None:
    b = builder()
    for _ in range(24):
        with b.annotation(name):
            work(b)
    assert found(b, tmp_path) == ("", [24_000])


def test_ranges_inside_a_module_are_no_steps(tmp_path: Path) -> None:
    b = builder()
    with b.python("infer.py(3): main"), b.module("UNet_0"):
        for _ in range(5):
            with b.annotation("down"):
                work(b)
    assert found(b, tmp_path) == ("", [5000])


def test_ranges_that_cover_little_or_are_few_are_no_steps(tmp_path: Path) -> None:
    b = builder()
    for _ in range(3):
        with b.annotation("metrics"):
            work(b, 500)
        work(b, 500)
    assert found(b, tmp_path)[0] == ""
    b = builder()
    for _ in range(2):
        with b.annotation("metrics"):
            work(b)
    assert found(b, tmp_path)[0] == ""


def test_one_mark_alone_makes_no_steps(tmp_path: Path) -> None:
    b = builder()
    marks(b, [SGD])
    assert found(b, tmp_path) == ("", [2000])


def test_the_profilers_steps_go_before_all_others(tmp_path: Path) -> None:
    b = builder()
    for _ in range(2):
        with b.step():
            marks(b, [SGD, SGD])
    assert found(b, tmp_path) == ("ProfilerStep", [4000, 4000])


def test_found_steps_leave_the_window_as_it_is(tmp_path: Path) -> None:
    plain, marked = builder(), builder()
    for b in (plain, marked):
        b.idle(us=700)
        for _ in range(3):
            work(b)
            if b is marked:
                with b.annotation(SGD):
                    work(b)
            else:
                work(b)
        work(b)
    one, other = (trace_of(b, tmp_path).context.recording for b in (plain, marked))
    assert one.window[1] - one.window[0] == other.window[1] - other.window[0] == 7_000_000
    # What is launched behind the last optimizer step belongs to none.
    assert (other.bounds - other.window[0]).tolist() == [0, 2_000_000, 4_000_000, 6_000_000]
    assert other.step_of(other.bounds[-1:] + 500_000).tolist() == [-1]


def test_the_last_step_ends_with_the_work_that_it_launched() -> None:
    events = []
    for number in range(3):
        at = 100 * number
        events += [op("aten::mm", at, 10), launch(number + 1, at + 1), host("user_annotation", SGD, at + 20, 10)]
    events += [kernel(2, 500, 1), kernel(502, 500, 2), kernel(1002, 500, 3)]
    recording = read(events).context.recording
    # The host is done at 230; its work runs until 1502, each step's on the device's clock.
    assert (recording.bounds - recording.window[0]).tolist() == [0, 500_000, 1_000_000, 1_500_000]


def test_an_optimizer_around_another_and_a_loader_around_another_count_once(tmp_path: Path) -> None:
    b = builder()
    for _ in range(3):
        with b.annotation("Optimizer.step#AcceleratedOptimizer.step"), b.annotation(ADAM):
            work(b)
    assert found(b, tmp_path) == ("Optimizer.step of AcceleratedOptimizer", [1000] * 3)
    b = builder()
    work(b)
    for _ in range(3):
        with b.loader(us=500), b.loader(us=500):
            pass
        work(b)
    assert found(b, tmp_path) == ("DataLoader", [1500] * 3)


def test_an_evaluation_between_the_epochs_lengthens_one_step(tmp_path: Path) -> None:
    b = builder()
    for _ in range(2):
        for _ in range(4):
            with b.loader(us=500):
                pass
            marks(b, [SGD])
        for _ in range(2):  # without an optimizer
            with b.loader(us=500):
                pass
            work(b)
    # The second evaluation is behind the last step.
    assert found(b, tmp_path) == ("Optimizer.step of SGD", [2000, 2500, 2500, 2500, 5500, 2500, 2500, 2500])


def collecting(
    b: TraceBuilder, iterations: int, *, steps: int = 4, collect_us: int = 20_000, loader: bool = False
) -> None:
    """Iterations that collect for a while and step an optimizer some times, 2 ms each."""
    for _ in range(iterations):
        work(b, collect_us)
        for _ in range(steps):
            if loader:
                with b.loader(us=10):
                    pass
            marks(b, [ADAM])


@both
def test_an_iteration_that_collects_holds_all_its_optimizer_steps(device: str, tmp_path: Path) -> None:
    b = builder(device)
    collecting(b, 3)
    assert found(b, tmp_path) == ("Optimizer.step of Adam, 4 to an iteration", [28_000] * 3)


def test_steps_that_lie_apart_now_and_then_are_steps(tmp_path: Path) -> None:
    """After the third and the seventh, and the twelfth: no period."""
    b = builder()
    for length in (3, 4, 5, 2):
        marks(b, [ADAM] * length)
        work(b, 20_000)
    assert found(b, tmp_path)[0] == "Optimizer.step of Adam"


def test_what_comes_after_so_many_batches_of_a_loader_is_an_epochs_end(tmp_path: Path) -> None:
    b = builder()
    collecting(b, 3, loader=True)
    assert found(b, tmp_path)[0] == "Optimizer.step of Adam"
