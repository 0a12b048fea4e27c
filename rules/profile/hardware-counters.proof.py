"""Proof of profile/hardware-counters: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet


def measured(ranges: int, *, kernels: bool = False) -> TraceBuilder:
    """Products, some of them in ranges of their own, whose kernels are not in the trace unless *kernels*."""
    b = TraceBuilder()
    for number in range(4):
        with b.step(), b.op("aten::mm"):
            if kernels:
                b.kernel("volta_sgemm_128x64_nn", us=500)
            else:
                b.call("cudaLaunchKernel", us=20)
            if number < ranges:
                b.counters("volta_sgemm_128x64_nn", us=120_000)
    return b


@fires(note="times are distorted")
def counters_of_every_kernel() -> TraceBuilder:
    return measured(4)


@fires
def counters_beside_kernels() -> TraceBuilder:
    return measured(4, kernels=True)


@quiet
def kernels_alone() -> TraceBuilder:
    return measured(0, kernels=True)


@edge
def one_range(over: bool) -> TraceBuilder:
    return measured(1 if over else 0, kernels=True)
