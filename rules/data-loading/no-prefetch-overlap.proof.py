"""Proof of data-loading/no-prefetch-overlap: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import copies_unsaid, host_alone
from advisor.testing.proof import edge, fires, lacks, quiet

MIB = 1 << 20


def steps(
    copy_us: int = 1000,
    *,
    nbytes: int = 8 * MIB,
    where: str = "before",
    pinned: bool = True,
    work_us: int = 9000,
    count: int = 4,
) -> TraceBuilder:
    """Steps of 9 ms of kernels; the batch is copied before them, between them, or beside those of the step before."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(count):
        with b.step(), b.python("train.py(54): train"):
            if where == "before" or (where == "half" and number % 2) or (where == "some" and not number % 3):
                b.copy("HtoD", nbytes, us=copy_us, pinned=pinned)
            b.kernel("volta_sgemm_128x64_nn", us=work_us // 2)
            if where == "between":
                b.copy("HtoD", nbytes, us=copy_us, pinned=pinned)
            if where == "beside":
                b.copy("HtoD", nbytes, us=copy_us, pinned=pinned, stream=20)
            b.kernel("volta_sgemm_128x64_nn", us=work_us // 2)
            b.sync(us=0)
    return b


# 1 ms of copy before 9 ms of kernels, four times.
@fires(cost_ms=1.0, cost_share=0.1, occurrences=4, severity="medium", line="train.py:54")
def a_copy_before_every_step() -> TraceBuilder:
    return steps()


@fires(cost_share=2 / 38, occurrences=2)
def a_copy_before_every_second_step() -> TraceBuilder:
    return steps(where="half")


@quiet
def beside_the_kernels_of_the_step_before() -> TraceBuilder:
    return steps(where="beside")


@quiet
def between_two_kernels() -> TraceBuilder:
    return steps(where="between")


@quiet
def from_pageable_memory() -> TraceBuilder:
    return steps(pinned=False)


@edge
def copies_of_64_KiB(over: bool) -> TraceBuilder:
    return steps(nbytes=65536 if over else 65535)


@edge
def half_of_the_steps(over: bool) -> TraceBuilder:
    # Six steps: in three of them, or in two.
    return steps(where="half" if over else "some", count=6)


@edge
def two_per_cent_of_the_step(over: bool) -> TraceBuilder:
    # Before 9.8 ms: 202 us are 2.02 %, 198 us 1.98 %.
    return steps(202 if over else 198, work_us=9800)


@lacks("steps")
def no_steps() -> TraceBuilder:
    b = TraceBuilder()
    b.copy("HtoD", 8 * MIB, us=1000, pinned=True)
    with b.op("aten::mm"):
        b.kernel("volta_sgemm_128x64_nn", ms=9)
    return b


@lacks("gpu", verdict="not_applicable")
def no_gpu() -> TraceBuilder:
    return host_alone("aten::mm")


@lacks("copy_memory")
def copies_that_do_not_say_which_memory_they_read() -> TraceBuilder:
    return copies_unsaid()
