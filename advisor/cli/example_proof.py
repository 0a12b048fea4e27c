"""Proof of team/example: traces on which it fires, and on which it is silent."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(us: int, *, symptom: bool = True) -> TraceBuilder:
    """Build four steps, each with the symptom (or without it) beside 8 ms of work."""
    b = TraceBuilder()
    for _ in range(4):
        with b.step():
            if symptom:
                b.kernel("my_kernel", us=us)
            else:
                b.kernel("another_kernel", us=us)
            b.kernel("volta_sgemm_128x64_nn", us=8000)
    return b


@fires(cost_ms=2.0, occurrences=4, severity="high")
def two_ms_in_every_step() -> TraceBuilder:
    return steps(2000)


@quiet
def other_work_of_the_same_length() -> TraceBuilder:
    return steps(2000, symptom=False)


@edge
def rows_of_a_tenth_of_a_millisecond(over: bool) -> TraceBuilder:
    return steps(100 if over else 99)


@lacks("gpu")
def launches_without_gpu_work() -> TraceBuilder:
    return launches_alone("aten::mm")
