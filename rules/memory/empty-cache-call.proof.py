"""Proof of memory/empty-cache-call: traces on which it fires, and traces on which it does not."""

from contextlib import nullcontext

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

MB = 1 << 20


def emptying(
    frees: int = 5, *, named: bool = True, steps: int = 3, first: int = 1, inside: bool = False
) -> TraceBuilder:
    """Steps of a kernel of 6 ms; from step *first* on, frees of 100 us each follow it once the GPU is idle, and the
    next step allocates as much again, 100 us each."""
    b = TraceBuilder(with_stack=named)
    b.pool(0, 2000 * MB)
    for number in range(steps):
        with b.step():
            if number > first:
                with b.op("aten::empty"):
                    for _ in range(frees):
                        b.malloc(2 * MB, us=100)
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=6000)
            b.sync()
            if number >= first:
                call = b.python("torch/cuda/memory.py(170): empty_cache")
                with b.python("train.py(31): train"), call, b.op("aten::empty") if inside else nullcontext():
                    for _ in range(frees):
                        b.free(2 * MB, us=100)
    return b


# Five frees of 0.1 ms end the second and the third step, five allocations of 0.1 ms begin the third: 1.5 ms of three steps,
# 15 calls: 1.5 of about 20 ms.
@fires(occurrences=15, severity="medium", line="train.py:31")
def a_call_in_every_step() -> TraceBuilder:
    return emptying()


@fires(cost_ms=0.8, cost_share=0.08, occurrences=40)
def planted_in_steps_of_equal_length() -> TraceBuilder:
    """Ten frees of 100 us end four of five steps of 10 ms, all but the first: 4 of 50 ms; nothing is allocated again."""
    b = TraceBuilder()
    for number in range(5):
        with b.step():
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=9000, host_us=0, at_us=1000 * 10 * number)
            b.sync(us=0)
            b.seek(us=10_000 * number + 9000)
            with b.python("train.py(31): train"), b.python("torch/cuda/memory.py(170): empty_cache"):
                for _ in range(10):
                    if number:
                        b.free(2 * MB, us=100)
            b.seek(us=10_000 * (number + 1))
    return b


@fires(occurrences=15)
def without_stacks_a_run_of_frees_outside_operators() -> TraceBuilder:
    return emptying(named=False)


@fires(occurrences=3)
def with_the_stack_even_a_single_block() -> TraceBuilder:
    return emptying(1)


@quiet
def an_allocator_short_of_memory_frees_inside_the_operator_that_asks() -> TraceBuilder:
    return emptying(named=False, inside=True)


@quiet
def emptied_once_in_the_first_step() -> TraceBuilder:
    b = emptying(steps=1, first=0)
    for _ in range(3):
        with b.step():
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=6000)
            b.sync()
    return b


@quiet
def a_steady_loop() -> TraceBuilder:
    return emptying(first=9)


@edge
def five_frees_in_a_row(over: bool) -> TraceBuilder:
    return emptying(5 if over else 4, named=False)


def rounds(count: int, *, frees: int = 5, mallocs: int = 5) -> TraceBuilder:
    """Rounds without steps: allocations of 100 us each, a kernel of 6 ms, and as many frees of 100 us once the GPU is idle."""
    b = TraceBuilder(with_stack=False)
    b.pool(0, 2000 * MB)
    for _ in range(6):  # what the program does before: no early allocations are left to judge
        with b.op("aten::mm"):
            b.kernel("volta_sgemm_128x64_nn", us=6000)
    for number in range(count + 1):
        with b.op("aten::empty"):
            for _ in range(mallocs if number else 0):
                b.malloc(2 * MB, us=100)
        with b.op("aten::mm"):
            b.kernel("volta_sgemm_128x64_nn", us=6000)
        b.sync()
        for _ in range(frees if number < count else 0):
            b.free(2 * MB, us=100)
    return b


# Emptied three times: but for the first frees 10 frees and 15 allocations of 0.1 ms, of some 63 ms.
@fires(cost_ms=2.5, occurrences=25, severity="medium")
def rounds_without_steps() -> TraceBuilder:
    return rounds(3)


@quiet
def emptied_once_before_what_is_measured() -> TraceBuilder:
    return rounds(1)


@quiet
def a_program_that_ends_frees_its_blocks_one_after_the_other() -> TraceBuilder:
    b = rounds(1)
    for _ in range(3):
        b.call("cudaEventQuery", us=1)
        for _ in range(5):
            b.free(2 * MB, us=100)
    with b.op("aten::mm"):
        b.kernel("volta_sgemm_128x64_nn", us=6000)
    return b


@fires(occurrences=25)
def blocks_that_were_not_there_before_are_the_programs() -> TraceBuilder:
    return rounds(3, mallocs=9)


@lacks("host")
def kernels_without_the_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
