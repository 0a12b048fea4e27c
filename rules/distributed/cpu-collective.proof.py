"""Proof of distributed/cpu-collective: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import Part, behind


def collective(us: int = 2000, *, name: str = "gloo:all_reduce", own_thread: bool = True, meanwhile: str = "") -> Part:
    """A collective on the CPU of so many us, on a thread of its own; the launching thread waits, or is in an operator."""

    def part(b: TraceBuilder) -> None:
        if not own_thread:
            with b.annotation(name, us=us):
                pass
            return
        with b.thread(77, join=not meanwhile), b.annotation(name, us=us):
            pass
        if meanwhile:
            with b.op(meanwhile, us=us):
                pass

    return part


# 2 ms of 19, in each of four steps. Without stacks: Python is what waits.
@fires(cost_ms=2, cost_share=2 / 19, occurrences=4, severity="medium")
def a_metric_is_reduced_by_gloo() -> TraceBuilder:
    return behind(collective(), with_stack=False)


@fires(cost_ms=4, cost_share=0.8, severity="high")
def mpi_on_the_launching_thread() -> TraceBuilder:
    return behind(collective(4000, name="mpi:broadcast", own_thread=False), work_us=1000, device="AMD Instinct MI300X")


@quiet
def the_host_works_meanwhile() -> TraceBuilder:
    return behind(collective(meanwhile="aten::view"), with_stack=False)


@quiet
def another_annotation() -> TraceBuilder:
    return behind(collective(name="reduce"), with_stack=False)


@edge
def two_per_cent_of_the_step(over: bool) -> TraceBuilder:
    # 350 us beside 17 ms are 2.02 %, 345 us 1.99 %.
    return behind(collective(350 if over else 345), with_stack=False)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::mm", annotation="gloo:all_reduce")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
