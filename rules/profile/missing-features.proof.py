"""Proof of profile/missing-features: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def training(**recorded: Any) -> TraceBuilder:
    b = TraceBuilder(**recorded)
    for _ in range(4):
        with b.step(), b.python("train.py(54): train"), b.op("aten::mm", shapes=[[64, 64], [64, 64]]):
            b.memory(16_384)
            b.kernel("volta_sgemm_128x64_nn", us=1_000)
    return b


@fires(note="shapes no, stacks yes, memory yes")
def no_shapes() -> TraceBuilder:
    return training(record_shapes=False)


@fires(note="shapes yes, stacks no, memory yes")
def no_stacks() -> TraceBuilder:
    return training(with_stack=False)


@fires(note="shapes yes, stacks yes, memory no")
def no_memory() -> TraceBuilder:
    return training(profile_memory=False)


@fires(note="shapes no, stacks no, memory no")
def none_of_them() -> TraceBuilder:
    return training(record_shapes=False, with_stack=False, profile_memory=False)


@fires(note="memory no")
def memory_asked_for_and_no_event_of_it_recorded() -> TraceBuilder:
    b = TraceBuilder()
    with b.step(), b.python("train.py(54): train"), b.op("aten::mm", shapes=[[64, 64], [64, 64]]):
        b.kernel("volta_sgemm_128x64_nn", us=1_000)
    return b


@quiet
def all_of_them() -> TraceBuilder:
    return training()


@fires(note="shapes yes, stacks yes, memory without totals")
def a_file_of_2021_which_holds_no_totals() -> TraceBuilder:
    return training(dialect="2021")


@edge
def stacks_alone(over: bool) -> TraceBuilder:
    return training(with_stack=not over)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
