"""Proof of memory/growth: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

MB, GB = 1 << 20, 10**9


def training(
    kept: Sequence[int], *, device: str | None = "Tesla V100-SXM2-16GB", capacity: int = GB, memory: bool = True
) -> TraceBuilder:
    """One step for each number: so many bytes are allocated in it and kept for good; 50 MB come and go."""
    b = TraceBuilder(device, memory_bytes=capacity, profile_memory=memory) if device else TraceBuilder(None)
    where = 0 if device else -1
    for nbytes in kept:
        with b.step(), b.python("train.py(17): train"), b.op("aten::add"):
            activations = b.memory(50 * MB, device=where)
            if nbytes:
                b.memory(nbytes, device=where)
            if device:
                b.kernel("volta_sgemm_128x64_nn", us=1000)
            b.idle(us=20)
            b.release(activations)
    return b


# Two megabytes in each of seven steps; those of the last two have not outlived two steps yet: five rows.
@fires(occurrences=5, severity="medium", line="train.py:17")
def a_sum_that_keeps_every_graph() -> TraceBuilder:
    return training([2 * MB] * 7)


@fires(occurrences=5)
def the_same_on_the_cpu() -> TraceBuilder:
    return training([2 * MB] * 7, device=None)


@edge
def half_of_it_before_the_profiler_began(over: bool) -> TraceBuilder:
    return training([20 * MB] * 7).ran_with(unprofiled_growth_bytes=10 * MB if over else 10 * MB - 1)


@quiet
def what_only_the_profiler_keeps() -> TraceBuilder:
    return training([20 * MB] * 7, device=None).ran_with(unprofiled_growth_bytes=0)


@fires(occurrences=5)
def growth_before_the_profiler_began_too() -> TraceBuilder:
    return training([2 * MB] * 7, device=None).ran_with(unprofiled_growth_bytes=2 * MB)


@quiet
def the_first_step_allocates_what_all_of_them_keep() -> TraceBuilder:
    return training([200 * MB, 0, 0, 0, 0, 0])


@quiet
def a_step_without_growth_is_no_leak() -> TraceBuilder:
    return training([2 * MB, 2 * MB, 2 * MB, 0, 2 * MB, 2 * MB])


@quiet
def a_large_device_takes_long_to_fill() -> TraceBuilder:
    return training([2 * MB] * 7, capacity=80 * GB)


# 16 MB a step fill 80 GB in 5,000 steps.
@fires(occurrences=5, severity="medium")
def a_large_device_that_lasts_five_thousand_steps() -> TraceBuilder:
    return training([16 * MB] * 7, capacity=80 * GB)


@quiet("not_applicable")
def four_steps_do_not_tell() -> TraceBuilder:
    return training([2 * MB] * 4)


@edge
def a_megabyte_a_step(over: bool) -> TraceBuilder:
    return training([MB if over else MB - 1] * 7)


@edge
def a_ten_thousandth_of_the_device_a_step(over: bool) -> TraceBuilder:
    return training([2_000_000 if over else 1_999_999] * 7, capacity=20 * GB)


@lacks("memory")
def no_memory_recorded() -> TraceBuilder:
    return training([2 * MB] * 7, memory=False)
