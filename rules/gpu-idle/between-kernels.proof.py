"""Proof of gpu-idle/between-kernels: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(
    kernels: int = 500,
    *,
    gap_us: float = 2,
    kernel_us: float = 4,
    device: str = "NVIDIA H100 80GB HBM3",
    training: bool = True,
) -> TraceBuilder:
    """Two steps in which a long kernel lets the host queue many short ones, which the GPU then runs with a gap before each."""
    b = TraceBuilder(device, host_us=1, latency_us=0)
    for number in range(2):
        with b.step():
            begun = b.now_ns / 1e3
            long_us = 2.0 * kernels + 1000
            with b.op("aten::linear"):
                b.kernel("volta_sgemm_128x64_nn", us=long_us)
            free = begun + 1 + long_us
            for _ in range(kernels):
                free += gap_us
                with b.op("aten::add"):
                    b.kernel("vectorized_elementwise_kernel<add>", us=kernel_us, at_us=free)
                free += kernel_us
            with b.op("aten::empty", us=free - b.now_ns / 1e3):  # the host is busy with something else meanwhile
                pass
            if training:
                with b.backward("AddBackward0", number):
                    pass
    return b


# 500 gaps of 2 us in each of two steps of 2 ms and 500 times 6 us.
@fires(cost_ms=1.0, severity="low")
def gaps_of_two_microseconds() -> TraceBuilder:
    return steps()


@fires(cost_ms=1.0, severity="low", fix="Run fewer kernels: compile the model, and replay it as a CUDA graph")
def in_inference() -> TraceBuilder:
    return steps(training=False)


@quiet
def long_kernels() -> TraceBuilder:
    return steps(kernel_us=200)


@edge
def gaps_of_three_microseconds(over: bool) -> TraceBuilder:
    return steps(gap_us=2.95 if over else 3.05)


@edge
def two_hundred_gaps(over: bool) -> TraceBuilder:
    return steps(100 if over else 99, gap_us=2.9, kernel_us=1)


@quiet("not_applicable")
def replayed_as_a_graph() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            b.graph([("vectorized_elementwise_kernel", 5)] * 50)
            b.sync()
    return b


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::add")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("vectorized_elementwise_kernel")
