"""Proof of cpu/thread-oversubscription: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet


def training(
    threads: int | None, cores: int | None = 4, *, us: float = 2000, rest_us: float = 0, device: str | None = None
) -> TraceBuilder:
    """Steps of one operator and some Python, of a program with this many threads and cores."""
    b = TraceBuilder(device).ran_with(threads=threads, cores=cores)
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=us):
                pass
            b.idle(us=rest_us)
            if device:
                b.kernel("volta_sgemm_128x64_nn", ms=9)
    return b


# Of 2 ms that are all of the step 72 % may go.
@fires(cost_ms=2.0, cost_share=1.0, severity="high", setting="torch.get_num_threads()=64 → 4")
def a_container_of_four_cores_on_a_machine_of_64() -> TraceBuilder:
    return training(64)


@fires(cost_ms=2.0, severity="high", setting="torch.get_num_threads()=5 → 4")
def one_thread_too_many() -> TraceBuilder:
    return training(5)


@edge
def operators_of_over_five_milliseconds_wait_once(over: bool) -> TraceBuilder:
    # Of a tenth of the step three quarters of 30 % are 2.25 %, and of 20 % they are 1.5 %.
    return training(5, us=5000 if over else 5001, rest_us=45_000)


@edge
def eight_threads_for_each_core(over: bool) -> TraceBuilder:
    # Of 4 % of the step three quarters of 72 % are 2.16 %, and of 60 % they are 1.8 %.
    return training(32 if over else 31, us=2000, rest_us=48_000)


@edge
def four_threads_for_each_core(over: bool) -> TraceBuilder:
    # Of 5 % of the step three quarters of 60 % are 2.25 %, and of 45 % they are 1.69 %.
    return training(16 if over else 15, us=2500, rest_us=47_500)


@edge
def three_threads_for_two_cores(over: bool) -> TraceBuilder:
    # Of 7 % of the step three quarters of 45 % are 2.36 %, and of 30 % they are 1.58 %.
    return training(6 if over else 5, us=3500, rest_us=46_500)


@edge
def a_fiftieth_of_the_step(over: bool) -> TraceBuilder:
    # Three quarters of 72 % of 3.8 % of the step are 2.05 %, and of 3.6 % they are 1.94 %.
    return training(64, us=1900 if over else 1800, rest_us=48_100 if over else 48_200)


@quiet
def a_thread_a_core() -> TraceBuilder:
    return training(4)


@quiet("not_applicable")
def threads_that_were_not_recorded() -> TraceBuilder:
    return training(None)


@quiet("not_applicable")
def cores_that_were_not_recorded() -> TraceBuilder:
    return training(64, None)


# The operators of a program on a GPU run there.
@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return training(64, device="Tesla T4")
