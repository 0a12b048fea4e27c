"""Proof of cpu/list-conversion: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def training(
    us: float = 2000, *, first: str = "aten::empty", steps: int = 4, device: str | None = None
) -> TraceBuilder:
    """Steps of an operator of 8 ms and torch.tensor of a list: memory, Python that fills it, and the end of the call."""
    b = TraceBuilder(device)
    for _ in range(steps):
        with b.step():
            with b.op("aten::mm", us=8000):
                pass
            with b.op(first, us=5):
                pass
            b.idle(us=us)
            for name in ("aten::to", "aten::lift_fresh", "aten::detach_"):
                with b.op(name, us=5):
                    pass
    return b


# 2 of some 10 ms in each of four steps.
@fires(cost_ms=2.0, occurrences=4, severity="high")
def a_fifth_of_the_step_is_conversion() -> TraceBuilder:
    return training()


@fires(cost_ms=8.0, severity="high")
def half_of_it() -> TraceBuilder:
    return training(8000)


@quiet
def another_operator_before_it() -> TraceBuilder:
    return training(first="aten::cat")


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = training(device="Tesla V100-SXM2-16GB")
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@edge
def three_stretches(over: bool) -> TraceBuilder:
    return training(steps=3 if over else 2)


# 2 % of some 8.18 ms is 164 us.
@edge
def two_percent_of_the_step(over: bool) -> TraceBuilder:
    return training(175 if over else 155)


@lacks("steps")
def no_steps() -> TraceBuilder:
    b = TraceBuilder(None)
    with b.op("aten::mm", us=8000):
        pass
    return b
