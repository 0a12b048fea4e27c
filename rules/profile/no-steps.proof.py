"""Proof of profile/no-steps: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def training(*, steps: bool, annotation: str = "") -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(4):
        with b.step() if steps else b.annotation(annotation) if annotation else b.op("aten::mm"):
            b.kernel("volta_sgemm_128x64_nn", us=1_000)
    return b


@fires(note="has no steps")
def operators_without_steps() -> TraceBuilder:
    return training(steps=False)


@fires()
def annotations_that_are_no_steps() -> TraceBuilder:
    return training(steps=False, annotation="train_step")


@fires()
def a_program_on_the_cpu_without_steps() -> TraceBuilder:
    b = TraceBuilder(None)
    with b.op("aten::mm", us=1_000):
        pass
    return b


@quiet
def four_steps() -> TraceBuilder:
    return training(steps=True)


@edge
def one_step(over: bool) -> TraceBuilder:
    b = training(steps=False)
    if not over:
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=1_000)
    return b


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
