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
