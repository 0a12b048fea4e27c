"""Proof of profile/inflated-host-time: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import STACKS_APART
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def training(idle_us: int, *, stack: bool = True, loader: bool = False) -> TraceBuilder:
    """Steps in which the host takes *idle_us* longer to launch a kernel than the 8 ms that the kernel before runs.

    The host takes the time in Python, or waits for the loader.
    """
    b = TraceBuilder(with_stack=stack, host_us=0, latency_us=0)
    for _ in range(4):
        with b.step(), b.python("train.py(54): train"):
            b.kernel("volta_sgemm_128x64_nn", us=8_000)
            if loader:
                with b.loader(us=8_000 + idle_us):
                    pass
            else:
                b.idle(8_000 + idle_us)
    return b


@fires(note="upper bound")
def stacks_and_a_gpu_that_waits_for_the_host() -> TraceBuilder:
    return training(2_000)


@quiet
def the_same_without_stacks() -> TraceBuilder:
    return training(2_000, stack=False)


@quiet
def stacks_and_a_busy_gpu() -> TraceBuilder:
    return training(100)


@quiet
def idle_that_is_the_loaders() -> TraceBuilder:
    return training(2_000, loader=True)


@edge
def a_tenth_of_the_window(over: bool) -> TraceBuilder:
    # 900 of 8,900 us are 10.1 %, 880 of 8,880 us are 9.9 %.
    return training(900 if over else 880)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    b = TraceBuilder()
    with b.step(), b.python("train.py(54): train"):
        b.call("cudaLaunchKernel", 10)
    return b


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")


@quiet
def stacks_from_a_pass_of_their_own() -> TraceBuilder:
    return training(2_000).ran_with(stacks=STACKS_APART)
