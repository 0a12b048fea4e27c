"""Proof of profile/missing-host: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def kernels(*, launched: bool = False) -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(4):
        b.kernel("volta_sgemm_128x64_nn", us=1_000, launched=launched)
    return b


@fires(note="No operators were recorded")
def kernels_alone() -> TraceBuilder:
    return kernels()


@fires()
def kernels_and_their_launches() -> TraceBuilder:
    return kernels(launched=True)


@quiet
def kernels_with_operators() -> TraceBuilder:
    b = TraceBuilder()
    with b.step(), b.op("aten::mm"):
        b.kernel("volta_sgemm_128x64_nn", us=1_000)
    return b


@edge
def one_operator(over: bool) -> TraceBuilder:
    b = kernels()
    if not over:
        with b.op("aten::mm", us=5):
            pass
    return b


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::mm")


@lacks("gpu", verdict="not_applicable")
def a_program_on_the_cpu() -> TraceBuilder:
    b = TraceBuilder(None)
    with b.step(), b.op("aten::mm", us=1_000):
        pass
    return b
