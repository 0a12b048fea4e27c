"""Proof of cpu/evaluation-every-step: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

LINE = {"work": "evaluated", "calls": 2, "share": 1.0, "file": "run.py", "line": 18}


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
def an_evaluation_in_every_step() -> TraceBuilder:
    return steps()


@quiet
def work_of_another_kind() -> TraceBuilder:
    return steps(found=LINE | {"work": "same"})


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


# 0.945 of 500 us in the middle, times a share of a half: 4.7 % of 5.03 ms.
@edge
def nearly_five_of_a_hundred(over: bool) -> TraceBuilder:
    return steps(found=LINE | {"share": 0.5}, rest=4500 if over else 4600)


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return steps(stacks=False)
