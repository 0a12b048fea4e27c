"""Proof of profile/no-warmup: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def training(first_us: int, *, call: str = "cudaLaunchKernel", idle_us: int = 0, busy: bool = False) -> TraceBuilder:
    """Four steps of a 20 ms kernel and a wait for it; in the first a call takes *first_us* before.

    With *busy* the GPU works meanwhile; *idle_us* passes in Python after each kernel.
    """
    b = TraceBuilder()
    for number in range(4):
        with b.step():
            if number == 0:
                if busy:
                    b.kernel("volta_sgemm_128x64_nn", us=2 * first_us)
                if call == "cudaLaunchKernel":
                    b.kernel("volta_sgemm_128x64_nn", us=10, host_us=first_us)
                else:
                    b.call(call, first_us)
            b.kernel("volta_sgemm_128x64_nn", us=20_000)
            b.sync()
            b.idle(idle_us)
    return b


@fires(note="start-up work")
def a_launch_that_loads_its_kernel_for_30_ms() -> TraceBuilder:
    return training(30_000)


@fires()
def a_module_that_is_loaded() -> TraceBuilder:
    return training(30_000, call="cuModuleLoadData")


@quiet
def the_same_steps_after_a_warm_up() -> TraceBuilder:
    return training(6)


@quiet
def a_long_call_while_the_gpu_works() -> TraceBuilder:
    return training(30_000, busy=True)


@quiet
def a_long_wait_is_no_start_up() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(4):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=20_000)
            b.sync(us=25_000)
    return b


# In the third step the same kernel again: it is loaded, so the thread was not running.
@quiet
def a_later_launch_of_a_kernel_that_takes_30_ms() -> TraceBuilder:
    b = TraceBuilder()
    for number in range(4):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=20_000, host_us=30_000 if number == 2 else 6)
            b.sync()
    return b


@quiet
def an_event_that_takes_30_ms_to_record() -> TraceBuilder:
    return training(30_000, call="cudaEventRecord")


# The kernel ran before the recording began: it is loaded.
@quiet
def a_kernel_launched_before_the_recording() -> TraceBuilder:
    b = TraceBuilder()
    b.kernel("volta_sgemm_128x64_nn", us=100, launched=False, at_us=0)
    for number in range(4):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=20_000, host_us=6 if number else 30_000)
            b.sync()
    return b


@quiet
def start_up_that_is_a_small_part_of_much_idle_time() -> TraceBuilder:
    # 4 ms of 204 ms of idle.
    return training(4_000, idle_us=50_000)


@edge
def a_hundredth_of_the_window(over: bool) -> TraceBuilder:
    # Ten steps of 30 ms, less or more by the call that the first begins with: 3.1 ms are 1.02 % of 303.1 ms, 2.9 ms 0.96 %.
    b = TraceBuilder()
    for number in range(10):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=30_000, host_us=6 if number else 3_100 if over else 2_900)
            b.sync()
    return b


@edge
def a_tenth_of_the_idle_time(over: bool) -> TraceBuilder:
    # 4 ms of 39.6 ms of idle, or of 40.4 ms.
    return training(4_000, idle_us=8_900 if over else 9_100)


@edge
def calls_of_half_a_millisecond(over: bool) -> TraceBuilder:
    # 500 us, far above the 6 us of the other launches.
    b = TraceBuilder()
    for number in range(4):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=10_000, host_us=6 if number else 500 if over else 499)
            b.sync()
    return b


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::mm")


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
