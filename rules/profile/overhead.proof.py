"""Proof of profile/overhead: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def training(overhead_us: int, name: str = "Activity Buffer Request", *, idle: bool = True) -> TraceBuilder:
    """Four steps of a 9 ms kernel; the profiler stops the host for *overhead_us* after it, or while it runs."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=9_000)
            if idle:
                b.sync(us=0)
            b.overhead(name, us=overhead_us)
            b.sync(us=0)
    return b


@fires(note="took 10 % of the recorded time")
def a_buffer_is_requested_in_every_step() -> TraceBuilder:
    return training(1_000)


@fires()
def buffers_are_flushed() -> TraceBuilder:
    return training(1_000, "Buffer Flush")


@quiet
def a_profiler_that_takes_little() -> TraceBuilder:
    return training(50)


@quiet
def what_the_profiler_does_while_the_gpu_works() -> TraceBuilder:
    return training(1_000, idle=False)


@edge
def a_twentieth_of_the_window(over: bool) -> TraceBuilder:
    # 480 of 9,480 us are 5.06 %, 470 of 9,470 us are 4.96 %.
    return training(480 if over else 470)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    b = TraceBuilder()
    with b.step():
        b.overhead(us=1_000)
        b.call("cudaLaunchKernel", 6)
    return b
