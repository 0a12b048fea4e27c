"""Proof of cpu/list-conversion: traces on which it fires, and traces on which it does not."""

from contextlib import nullcontext

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def training(
    us: float = 2000,
    *,
    first: str = "aten::empty",
    steps: int = 4,
    device: str | None = None,
    loaded: bool = False,
    ends_in: int = 56,
    reading_us: float = 0,
) -> TraceBuilder:
    """Steps of an operator of 8 ms and torch.tensor of a list: memory, Python that fills it, and the end of the call.

    *loaded*: in a loader of this process, whose function for batches does so in line 56.
    """
    b = TraceBuilder(device)

    def stack(line: int) -> dict[str, str]:
        return {"Call stack": f"data.py({line}): collate;train.py(91): main"} if loaded else {}

    for _ in range(steps):
        with b.step():
            with b.loader() if loaded else nullcontext():
                b.idle(us=reading_us)
                with b.op(first, us=5, args=stack(56)):
                    pass
                b.idle(us=us)
                for name in ("aten::to", "aten::lift_fresh", "aten::detach_"):
                    with b.op(name, us=5, args=stack(ends_in)):
                        pass
            with b.op("aten::mm", us=8000):
                pass
    return b


# 2 of some 10 ms in each of four steps.
@fires(cost_ms=2.0, occurrences=4, severity="high")
def a_fifth_of_the_step_is_conversion() -> TraceBuilder:
    return training()


@fires(cost_ms=8.0, severity="high")
def half_of_it() -> TraceBuilder:
    return training(8000)


# The wait is the loop's, and the line that of the function inside it: 2,000 us between operators of 5 us, four of them.
@fires(cost_ms=2.02, occurrences=4, severity="high", line="data.py:56")
def lists_that_a_loader_converts() -> TraceBuilder:
    return training(loaded=True)


@quiet
def a_loader_that_computes_between_two_lines() -> TraceBuilder:
    return training(loaded=True, ends_in=60)


# 900 us of Python to read the samples come first, of which no conversion is said: the middle of the wait lies in it.
@quiet
def a_loader_that_does_more_than_convert() -> TraceBuilder:
    return training(800, loaded=True, reading_us=900)


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
