"""Proof of transfer/large-copy: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import copies_unsaid, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(
    copy_us: float = 2000,
    *,
    hidden_us: float = 0,
    nbytes: int = 24_000_000,
    direction: str = "HtoD",
    small: bool = False,
) -> TraceBuilder:
    """Three steps of exactly 10 ms: a pinned copy first, and a kernel that begins *hidden_us* before the copy ends."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(3):
        start = 10_000 * number
        with b.step():
            for part in range(copy_us // 10 if small else 1):
                long = 10 if small else copy_us
                b.copy(direction, nbytes, us=long, pinned=True, stream=20, at_us=start + part * long)
            kernel_at = start + copy_us - hidden_us
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=start + 10_000 - kernel_at, at_us=kernel_at)
            b.sync("cudaDeviceSynchronize")  # the host waits for the GPU, which sets the pace
            b.seek(us=start + 10_000)
    return b


@fires(cost_ms=2.0, cost_share=0.2, occurrences=3, severity="high")  # 2 of 10 ms, under nothing
def float_images_in_every_step() -> TraceBuilder:
    return steps()


@fires(cost_ms=0.5, severity="low")  # 1.5 of the 2 ms run under the kernel
def what_a_kernel_hides_costs_nothing() -> TraceBuilder:
    return steps(hidden_us=1500)


def both_ways(nbytes: int) -> TraceBuilder:
    """Three steps of 10 ms: 2 ms of a copy to the device, then 3 of one of as many bytes to the host, then a kernel."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(3):
        start = 10_000 * number
        with b.step():
            b.copy("HtoD", nbytes, us=2_000, pinned=True, stream=20, at_us=start)
            b.copy("DtoH", nbytes, us=3_000, pinned=True, stream=21, at_us=start + 2_000)
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=5_000, at_us=start + 5_000)
            b.sync("cudaDeviceSynchronize")
            b.seek(us=start + 10_000)
    return b


# 19.8 MB in 2 ms are 9.9 GB/s: what mends the link mends the way back too.
@fires(cost_ms=5.0, occurrences=6, severity="high")
def a_link_that_is_slow_both_ways() -> TraceBuilder:
    return both_ways(19_800_000)


# At 10.1 GB/s to the device the link is as it should be, and 6.7 to the host are not its fault.
@fires(cost_ms=2.0, occurrences=3, severity="high")
def a_link_that_is_slow_to_the_host_alone() -> TraceBuilder:
    return both_ways(20_200_000)


@quiet
def a_quarter_of_the_bytes() -> TraceBuilder:
    return steps(400, nbytes=4_800_000)


@quiet
def all_of_it_behind_kernels() -> TraceBuilder:
    return steps(hidden_us=1950)


@quiet
def results_on_their_way_back() -> TraceBuilder:
    return steps(direction="DtoH")


@edge
def a_twentieth_of_the_window(over: bool) -> TraceBuilder:
    return steps(501 if over else 499)


@edge
def copies_of_64_KiB(over: bool) -> TraceBuilder:
    return steps(nbytes=65536 if over else 65535, small=True)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::copy_")


@lacks("bytes_copied")
def copies_that_do_not_say_how_large_they_are() -> TraceBuilder:
    return copies_unsaid()
