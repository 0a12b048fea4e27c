"""Proof of gpu-idle/python-code: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import Part, behind


def between(us: int = 3000, *, lines: tuple[int, int] = (40, 40)) -> Part:
    """Python of so many us between two operators of 5 us, of which the lines are known."""

    def part(b: TraceBuilder) -> None:
        with b.op("aten::sum", us=5, args={"Call stack": f"train.py({lines[0]}): main"}):
            pass
        b.idle(us=us - 10)
        with b.op("aten::view", us=5, args={"Call stack": f"train.py({lines[1]}): main"}):
            pass

    return part


# 3 ms of 20, in each of four steps.
@fires(cost_ms=3, cost_share=0.15, occurrences=4, severity="high", line="train.py:40")
def python_at_one_line() -> TraceBuilder:
    return behind(between(), with_stack=False)


# Which line it is, nobody knows: that is gpu-idle/unexplained's.
@quiet
def python_somewhere_between_two_lines() -> TraceBuilder:
    return behind(between(lines=(40, 44)), with_stack=False)


# Functions were recorded: gpu-idle/host-function names the one.
@quiet
def functions_were_recorded() -> TraceBuilder:
    return behind(between())


@quiet
def waits_for_the_loader() -> TraceBuilder:
    def part(b: TraceBuilder) -> None:
        with b.loader(us=3000):
            pass

    return behind(part, with_stack=False)


@edge
def a_gap_of_a_millisecond(over: bool) -> TraceBuilder:
    return behind(between(1000 if over else 999), work_us=4000, with_stack=False)


@edge
def three_stretches(over: bool) -> TraceBuilder:
    return behind(between(), steps=3 if over else 2, work_us=4000, with_stack=False)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::mm")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
