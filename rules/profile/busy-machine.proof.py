"""Proof of profile/busy-machine: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet


def training(**recorded: Any) -> TraceBuilder:
    """Steps of a program of two threads on two cores."""
    known = {"threads": 2, "cores": 2, "waited_share": 0.4, "others_cores": 1.5}
    b = TraceBuilder(None, host_us=0).ran_with(**(known | recorded))
    for _ in range(3):
        with b.step(), b.op("aten::mkldnn_convolution", us=5000):
            pass
    return b


@fires(severity="note")
def other_programs_take_the_cores() -> TraceBuilder:
    return training()


@quiet
def an_idle_machine() -> TraceBuilder:
    return training(waited_share=0.002, others_cores=0.03)


@quiet("not_applicable")
def threads_beyond_the_cores_wait_for_each_other() -> TraceBuilder:
    return training(threads=16)


@quiet("not_applicable")
def a_system_that_does_not_tell() -> TraceBuilder:
    return training(waited_share=None)


@edge
def a_twentieth_of_the_time(over: bool) -> TraceBuilder:
    return training(waited_share=0.05 if over else 0.049)


@edge
def a_quarter_of_a_core(over: bool) -> TraceBuilder:
    return training(others_cores=0.25 if over else 0.24)
