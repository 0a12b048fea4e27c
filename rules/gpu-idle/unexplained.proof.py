"""Proof of gpu-idle/unexplained: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import behind


def nothing(us: int = 3000, *, work_us: int = 17_000, stacks: bool = False) -> TraceBuilder:
    """Steps in which the host does something for so many us that nobody recorded."""
    return behind(lambda b: b.idle(us=us), work_us=work_us, with_stack=stacks)


# 3 ms of 20: and never more than low.
@fires(cost_ms=3, cost_share=0.15, occurrences=4, severity="low")
def nobody_knows_what_the_host_does() -> TraceBuilder:
    return nothing()


@fires(cost_ms=90, cost_share=0.9, severity="low")
def nine_tenths_of_the_time() -> TraceBuilder:
    return nothing(90_000, work_us=10_000)


# Work that was queued before the GPU ran dry, and began late.
@fires(cost_share=0.2, severity="low")
def the_gpu_waits_with_work_queued() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(4):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=8000)
            b.kernel("volta_sgemm_128x64_nn", us=8000, at_us=number * 20_000 + 12_000)
            b.idle(us=20_000)
    return b


# A function holds it: that is gpu-idle/host-function's.
@quiet
def a_function_is_known() -> TraceBuilder:
    return nothing(stacks=True)


@quiet
def waits_for_the_loader() -> TraceBuilder:
    def part(b: TraceBuilder) -> None:
        with b.loader(us=3000):
            pass

    return behind(part)


@quiet
def the_library_is_loaded_once() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(4):
        with b.step():
            if not number:
                b.call("cudaModuleLoadData", 40_000)
            with b.op("aten::mm", us=10_000):
                b.kernel("volta_sgemm_128x64_nn", us=10_000)
    return b


@edge
def a_tenth_of_the_time(over: bool) -> TraceBuilder:
    # 3 ms behind 26.9 ms are 10.03 %, behind 27.1 ms 9.97 %.
    return nothing(work_us=26_900 if over else 27_100)


@edge
def a_gap_of_a_millisecond(over: bool) -> TraceBuilder:
    return nothing(1000 if over else 999, work_us=4000)


@edge
def twenty_kernels_with_fewer_steps(over: bool) -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(20 if over else 19):
        if number == 10:
            b.idle(us=9000)
        with b.op("aten::mm", us=100):
            b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::mm")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
