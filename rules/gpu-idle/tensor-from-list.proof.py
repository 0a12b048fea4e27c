"""Proof of gpu-idle/tensor-from-list: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import Part, behind


def at(line: int) -> dict[str, str]:
    """The stack that the recorder writes to an operator: the line that ran."""
    return {"Call stack": f"train.py({line}): main"}


def made(us: int = 3000, *, first: str = "aten::empty", lines: tuple[int, int] = (70, 70)) -> Part:
    """Four operators of torch.tensor as recorded, 5 us each: memory, Python that fills it, and the operators that end the call."""

    def part(b: TraceBuilder) -> None:
        with b.op(first, us=5, args=at(lines[0])):
            pass
        b.idle(us=us - 20)
        for name in ("aten::to", "aten::lift_fresh", "aten::detach_"):
            with b.op(name, us=5, args=at(lines[1])):
                pass

    return part


def training(part: Part, *, stacks: bool = False, work_us: int = 17_000) -> TraceBuilder:
    return behind(part, with_stack=stacks, work_us=work_us)


# 3 ms of 20, in each of four steps.
@fires(cost_ms=3, cost_share=0.15, occurrences=4, severity="high", line="train.py:70")
def a_batch_of_states_from_a_tuple_of_arrays() -> TraceBuilder:
    return training(made())


# A function holds it, where functions were recorded: the operators around it tell the same.
@fires(cost_ms=3, occurrences=4, severity="high")
def the_same_with_stacks() -> TraceBuilder:
    return training(made(), stacks=True)


@quiet
def another_operator_before_it() -> TraceBuilder:
    return training(made(first="aten::cat"))


@quiet
def two_lines_are_no_one_call() -> TraceBuilder:
    return training(made(lines=(70, 75)))


@edge
def a_gap_of_a_millisecond(over: bool) -> TraceBuilder:
    return training(made(1000 if over else 999), work_us=4000)


@edge
def three_stretches(over: bool) -> TraceBuilder:
    return behind(made(), steps=3 if over else 2, with_stack=False)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::mm")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
