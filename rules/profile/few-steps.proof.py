"""Proof of profile/few-steps: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def training(steps: int) -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(steps):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=10_000)
    return b


@fires(note="Only one step")
def one_step() -> TraceBuilder:
    return training(1)


@quiet
def five_steps() -> TraceBuilder:
    return training(5)


@edge
def the_second_step(over: bool) -> TraceBuilder:
    return training(1 if over else 2)


@lacks("steps")
def no_steps_at_all() -> TraceBuilder:
    b = TraceBuilder()
    b.kernel("volta_sgemm_128x64_nn", us=10_000)
    return b
