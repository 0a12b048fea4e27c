"""Proof of profile/unrecorded-work: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def training(
    share: float | None = 0.4, *, burst: int | None = 50, by: str = "optimizer", steps: int = 5
) -> TraceBuilder:
    """Some steps of an optimizer, of bursts with so large a share of the time between them."""
    b = TraceBuilder()
    for _ in range(steps):
        with b.step(), b.op("aten::addmm"):
            b.kernel("volta_sgemm_128x64_nn", us=1_000)
    return b.ran_with(steps_by=by, steps_burst=burst, between_share=share)


@fires(severity="note")
def a_validation_of_two_fifths() -> TraceBuilder:
    return training()


@quiet
def a_checkpoint_now_and_then() -> TraceBuilder:
    return training(0.02, burst=500)


@quiet("not_applicable")
def iterations_were_recorded() -> TraceBuilder:
    return training(by="iterations")


@quiet("not_applicable")
def the_recorded_steps_hold_a_whole_iteration() -> TraceBuilder:
    return training(burst=4)


@fires(severity="note")
def five_steps_of_bursts_of_differing_length() -> TraceBuilder:
    return training(burst=None)


@quiet("not_applicable")
def twelve_steps_of_bursts_of_differing_length() -> TraceBuilder:
    """Updates that end early: a burst has few steps, and twelve reach from one to the next."""
    return training(burst=None, steps=12)


@edge
def a_tenth_of_the_time(over: bool) -> TraceBuilder:
    return training(0.11 if over else 0.09)


@lacks("steps")
def no_steps() -> TraceBuilder:
    b = TraceBuilder()
    with b.op("aten::addmm"):
        b.kernel("volta_sgemm_128x64_nn", us=1_000)
    return b.ran_with(steps_by="optimizer", steps_burst=50, between_share=0.4)
