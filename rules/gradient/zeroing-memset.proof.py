"""What gradient/zeroing-memset says, and where it is silent."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(memsets: int = 60, *, work_us: int = 9400, inside: str = "Optimizer.zero_grad#SGD.zero_grad") -> TraceBuilder:
    """Steps of 9.4 ms of kernels behind 60 memsets of 10 us."""
    b = TraceBuilder(host_us=1, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.annotation(inside):
                for _ in range(memsets):
                    with b.op("aten::zero_"):
                        b.memset(4096, 10)
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=work_us)
                b.sync(us=0)
    return b


# 60 x 10 us = 0.6 ms of 10 ms.
@fires(cost_ms=0.6, cost_share=0.06, occurrences=240, severity="medium", op="aten::zero_")
def a_memset_for_every_parameter() -> TraceBuilder:
    return steps()


@quiet
def gradients_that_are_dropped() -> TraceBuilder:
    return steps(0)


@quiet
def memsets_in_the_model() -> TraceBuilder:
    return steps(inside="forward")


@edge
def a_thousandth_of_the_step(over: bool) -> TraceBuilder:
    # One memset of 10 us: before 9.9 ms 0.101 %, before 10.1 ms 0.099 %.
    return steps(1, work_us=9900 if over else 10_100)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    b = TraceBuilder(None)
    with b.step(), b.annotation("Optimizer.zero_grad#SGD.zero_grad"), b.op("aten::zero_"):
        b.idle(ms=1)
    return b


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    b = TraceBuilder()
    with b.step(), b.annotation("Optimizer.zero_grad#SGD.zero_grad"), b.op("aten::zero_"):
        b.call("cudaLaunchKernel", 10)
    return b
