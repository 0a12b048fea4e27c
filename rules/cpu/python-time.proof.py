"""Proof of cpu/python-time: traces on which it fires, and traces on which it does not."""

from contextlib import nullcontext

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def training(
    python_us: float = 3000, *, device: str | None = None, steps: bool = True, loader: bool = False
) -> TraceBuilder:
    """Four steps of 10 ms: Python for *python_us* at a stretch, and an operator for the rest."""
    b = TraceBuilder(device)
    for _ in range(4):
        with b.step() if steps else nullcontext():
            with b.loader() if loader else b.python("train.py(21): augment"):
                b.idle(us=python_us)
            with b.op("aten::mkldnn_convolution", us=10_000 - python_us):
                pass
    return b


@fires(cost_ms=3.0, cost_share=0.3, occurrences=4, severity="high", line="train.py:21")  # 3 of 10 ms
def a_batch_prepared_in_python() -> TraceBuilder:
    return training()


def freed_between_operators(mib: int) -> TraceBuilder:
    """Four steps of 10 ms: 7 of an operator, then a tensor is freed, and 3 ms later the step ends. Nothing says what they are."""
    b = TraceBuilder(None, host_us=0, with_stack=False)
    for _ in range(4):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=7000):
                b.memory(mib << 20, device=-1)
            b.memory(-(mib << 20), device=-1)
            b.idle(us=3000)
    return b


@quiet
def memory_of_a_large_tensor_that_the_system_takes_back() -> TraceBuilder:
    return freed_between_operators(64)  # which takes up to 6.7 ms


@fires(cost_ms=3.0, cost_share=0.3, occurrences=4, severity="high")
def a_small_tensor_whose_memory_is_kept() -> TraceBuilder:
    return freed_between_operators(8)


def in_one_step(us: float, others_us: float = 100) -> TraceBuilder:
    """Four steps of a line of Python beside an operator of 1 ms: *us* of the former in the second, *others_us* in the others."""
    b = TraceBuilder(None, host_us=0)
    for turn in range(4):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=500):
                pass
            with b.python("model.py(9): flow"):
                b.idle(us=us if turn == 1 else others_us)
            with b.op("aten::mkldnn_convolution", us=500):
                pass
    return b


@quiet
def a_step_that_waited_for_a_core() -> TraceBuilder:
    return in_one_step(4_000)


@fires(cost_ms=1.325)  # 5 ms and three times 0.1, over four steps
def longer_than_one_waits_for_a_core() -> TraceBuilder:
    return in_one_step(5_000)


@fires(cost_ms=1.025)  # 2 ms and three times 0.7
def steps_that_differ() -> TraceBuilder:
    return in_one_step(2_000, 700)


def in_a_call_of(library: str) -> TraceBuilder:
    """Four steps, 2 of 4 ms Python in a call of *library* at one line of the program's."""
    b = TraceBuilder(None, host_us=0)
    for _ in range(4):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=1000):
                pass
            with b.python("train.py(13): jacobian"), b.python(library):
                b.idle(us=2000)
            with b.op("aten::mkldnn_convolution", us=1000):
                pass
    return b


@quiet
def a_transform_of_torchs() -> TraceBuilder:
    return in_a_call_of("torch/_functorch/vmap.py(493): _flat_vmap")


@fires(cost_ms=2.0)
def a_library_that_is_not_torch() -> TraceBuilder:
    return in_a_call_of("site-packages/scipy/ndimage/_filters.py(493): gaussian_filter")


def between_steps(us: float) -> TraceBuilder:
    """Four steps of an operator of 1 ms, with half of *us* before it and half behind: from step to step nothing else is there."""
    b = TraceBuilder(None, host_us=0)
    for _ in range(4):
        with b.step():
            b.idle(us=us / 2)
            with b.op("aten::mkldnn_convolution", us=1000):
                pass
            b.idle(us=us / 2)
    return b


@quiet
def what_the_profiler_does_from_step_to_step() -> TraceBuilder:
    return between_steps(900)


@fires
def python_from_step_to_step() -> TraceBuilder:
    return between_steps(1_100)


@quiet
def the_same_inside_the_loader() -> TraceBuilder:
    return training(loader=True)


@quiet
def short_gaps_between_operators() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(4):
        with b.step():
            for _ in range(100):
                b.idle(us=50)
                with b.op("aten::mkldnn_convolution", us=50):
                    pass
    return b


@quiet
def logging_that_takes_a_little() -> TraceBuilder:
    return training(500)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = training(device="Tesla V100-SXM2-16GB")
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@edge
def three_twentieths_of_the_step(over: bool) -> TraceBuilder:
    return training(1500 if over else 1499)


@edge
def a_tenth_of_a_millisecond_at_a_stretch(over: bool) -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(4):
        with b.step():
            for _ in range(10):
                b.idle(us=100 if over else 99.9)
                with b.op("aten::mkldnn_convolution", us=100):
                    pass
    return b


@lacks("steps")
def no_steps_recorded() -> TraceBuilder:
    return training(steps=False)
