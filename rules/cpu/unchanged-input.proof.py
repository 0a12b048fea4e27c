"""Proof of cpu/unchanged-input: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

LINE = {"work": "same", "calls": 2, "share": 1.0, "file": "run.py", "line": 18}


def steps(
    us: float = 250, *, rest: float = 500, found: dict[str, Any] | None = LINE, line: int = 18, stacks: bool = True
) -> TraceBuilder:
    """Steps in which line 18 calls an encoder of two layers, whose own line is 7, and then line 30 takes a product."""
    b = TraceBuilder(None, host_us=0).ran_with(**({} if found is None else {"unchanged": [found] if found else []}))
    for _ in range(3):
        with b.step():
            for _ in range(2):
                stack = f"run.py(7): forward;run.py({line}): classify;run.py(40): main"
                with b.op("aten::addmm", us=us, args={"Call stack": stack} if stacks else {}):
                    pass
            with b.op("aten::mm", us=rest, args={"Call stack": "run.py(30): classify"} if stacks else {}):
                pass
    return b


# 2 x 250 us of 1000 a step.
@fires(cost_ms=0.5, occurrences=6, severity="high", line="run.py:18")
def an_encoder_of_the_same_prompts() -> TraceBuilder:
    return steps()


@quiet
def work_of_another_kind() -> TraceBuilder:
    return steps(found=LINE | {"work": "samples"})


@quiet
def nothing_repeats() -> TraceBuilder:
    return steps(found={})


@quiet("not_applicable")
def steps_that_nobody_watched() -> TraceBuilder:
    return steps(found=None)


@quiet
def another_line() -> TraceBuilder:
    return steps(line=19)


@quiet
def beside_much_else() -> TraceBuilder:
    return steps(rest=40_000)


# 0.925 of 500 us in the middle, times a share of a half: 3 % of 7.71 ms.
@edge
def three_of_a_hundred(over: bool) -> TraceBuilder:
    return steps(found=LINE | {"share": 0.5}, rest=7100 if over else 7300)


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return steps(stacks=False)
