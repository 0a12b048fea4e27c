"""Proof of profile/slowed-by-profiler: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def training(*bare_ms: float, steps: bool = True, last_ms: float = 10) -> TraceBuilder:
    """Steps of 10 ms, the last of *last_ms*, which took *bare_ms* without the profiler."""
    b = TraceBuilder(host_us=0, latency_us=0).ran_with(unprofiled_step_ms=bare_ms)
    for number in range(4):
        if steps:
            with b.step():
                b.kernel("volta_sgemm_128x64_nn", ms=last_ms if number == 3 else 10)
                b.sync()
        else:
            b.kernel("volta_sgemm_128x64_nn", ms=10)
    return b


# By the medians 10 ms are a quarter more than 8, by the shortest two thirds more than 6.
@fires(note="25 %")
def steps_that_are_a_quarter_longer() -> TraceBuilder:
    return training(6, 8, 30)


# By the medians 10 ms are twice 5; but one of them took 5 under the profiler too: another program may have held the others up.
@quiet
def steps_of_a_busy_machine() -> TraceBuilder:
    return training(5, 5, 5, last_ms=5)


@quiet
def two_steps_are_too_few() -> TraceBuilder:
    return training(5, 5)


@quiet
def steps_that_take_what_they_take() -> TraceBuilder:
    return training(9.9, 10, 10.1)


@quiet("not_applicable")
def no_steps_timed_without_the_profiler() -> TraceBuilder:
    return training()


# 10 over 9.05 ms are 10.5 % more, over 9.15 ms 9.3 %.
@edge
def a_tenth_longer(over: bool) -> TraceBuilder:
    return training(*[9.05 if over else 9.15] * 3)


@lacks("steps")
def no_steps_recorded() -> TraceBuilder:
    return training(8, 8, 8, steps=False)
