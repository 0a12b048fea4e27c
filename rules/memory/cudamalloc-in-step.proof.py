"""Proof of memory/cudamalloc-in-step: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

MB = 1 << 20


def steps(calls: int = 10, *, count: int = 5, first: int = 1, free: bool = False) -> TraceBuilder:
    """Steps of exactly 10 ms: 9 ms of kernel, then calls of the allocator, 100 us each, from step *first* on."""
    b = TraceBuilder()
    b.pool(0, 4000 * MB)
    for number in range(count):
        with b.step():
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=9000, host_us=0, at_us=10_000 * number)
            b.sync(us=0)
            b.seek(us=10_000 * number + 9000)
            with b.op("aten::empty"):
                for _ in range(calls if number >= first else 0):
                    if free:
                        b.free(2 * MB, us=100)
                    else:
                        b.malloc(2 * MB, us=100)
            b.seek(us=10_000 * (number + 1))
    return b


# Ten calls of 100 us end four of five steps of 10 ms while the GPU idles: 4 of 50 ms.
@fires(cost_ms=0.8, cost_share=0.08, occurrences=40, severity="medium", op="aten::empty")
def a_millisecond_of_cudaMalloc_in_every_step() -> TraceBuilder:
    return steps()


def growing(kept: int, reserved: int) -> TraceBuilder:
    """Six steps in each of which two calls of the allocator reserve so many bytes, of which so many stay allocated."""
    b = TraceBuilder(profile_memory=True)
    b.pool(1000 * MB, 1000 * MB)
    for _ in range(6):
        with b.step():
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=2000)
            b.sync()
            with b.op("aten::empty"):
                for _ in range(2):
                    b.malloc(reserved // 2, us=300)
                b.memory(kept)
                passing = b.memory(reserved - kept)
                b.idle(us=10)
            b.release(passing)
            b.idle(us=10)
    return b


# Nothing is ever freed, by the program or the driver: the pool has nothing to keep.
@fires(fix="Let go of what every step keeps: new memory is taken for that")
def tensors_that_every_step_keeps() -> TraceBuilder:
    return growing(16 * MB, 20 * MB)  # blocks of the driver's are larger than what is asked for


@fires(fix="Let the caching allocator keep its memory")
def shapes_that_outgrow_the_cache_beside_a_small_leak() -> TraceBuilder:
    return growing(2 * MB, 40 * MB)


@fires(cost_ms=0.8, occurrences=40)
def an_allocator_that_frees_to_make_room() -> TraceBuilder:
    return steps(free=True)


@quiet
def the_cache_is_filled_in_the_first_step() -> TraceBuilder:
    b = TraceBuilder()
    for number in range(5):
        with b.step():
            for _ in range(20 if number == 0 else 0):
                b.malloc(2 * MB, us=100)
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=9000)
            b.sync()
    return b


@quiet
def behind_a_running_kernel_it_costs_nothing() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(5):
        with b.step():
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=9000)
            with b.op("aten::empty"):
                for _ in range(10):
                    b.malloc(2 * MB, us=100)
            b.sync()
    return b


@quiet("not_applicable")
def a_single_step_may_be_the_first() -> TraceBuilder:
    return steps(count=1, first=0)


@edge
def one_call_a_step(over: bool) -> TraceBuilder:
    """Four calls in the four steps that count, behind the first of five, or three."""
    b = TraceBuilder()
    for number in range(5):
        with b.step():
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=2000)
            b.sync()
            with b.op("aten::empty"):
                for _ in range(1 if number > 1 or (number == 1 and over) else 0):
                    b.malloc(2 * MB, us=300)
    return b


@lacks("steps")
def no_steps_recorded() -> TraceBuilder:
    b = TraceBuilder()
    with b.op("aten::mm"):
        b.kernel("volta_sgemm_128x64_nn", us=2000)
        b.malloc(2 * MB, us=300)
    return b


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(3):
        with b.step(), b.op("aten::mm"):
            b.malloc(2 * MB, us=300)
            b.call("cudaLaunchKernel", 10)
    return b
