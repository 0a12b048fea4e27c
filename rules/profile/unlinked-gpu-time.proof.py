"""Proof of profile/unlinked-gpu-time: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def training(early_us: int) -> TraceBuilder:
    """Four steps of a 10 ms kernel; the GPU works for *early_us* on what was launched before the recording."""
    b = TraceBuilder()
    for number in range(4):
        with b.step():
            if number == 0 and early_us:
                b.kernel("volta_sgemm_128x64_nn", us=early_us, launched=False)
            b.kernel("volta_sgemm_128x64_nn", us=10_000)
    return b


@fires(note="20 % of GPU time")
def a_kernel_from_before_the_recording() -> TraceBuilder:
    return training(10_000)


@fires(note="20 % of GPU time")
def work_of_no_call_between_the_rest() -> TraceBuilder:
    """Of 50 ms, 10 are of a kernel without a launch in the third step: no synchronization before the recording brings it one."""
    b = TraceBuilder()
    for number in range(4):
        with b.step():
            if number == 2:
                b.kernel("volta_sgemm_128x64_nn", us=10_000, launched=False)
            b.kernel("volta_sgemm_128x64_nn", us=10_000)
    return b


@quiet
def all_work_has_its_launch() -> TraceBuilder:
    return training(0)


@quiet
def a_graph_of_which_only_the_first_kernel_is_launched() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(4):
        with b.step():
            b.graph([("volta_sgemm_128x64_nn", 5_000), ("volta_sgemm_128x64_nn", 5_000)])
    return b


@edge
def a_twentieth_of_the_gpu_time(over: bool) -> TraceBuilder:
    # 2,110 of 42,110 us are 5.01 %, 2,100 of 42,100 us are 4.99 %.
    return training(2_110 if over else 2_100)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::mm")


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
