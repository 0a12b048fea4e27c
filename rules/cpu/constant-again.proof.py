"""Proof of cpu/constant-again: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

WINDOW = {"calls": 5, "share": 1.0, "file": "bank.py", "line": 14}


def features(
    us: float = 100,
    *,
    rest: float = 1000,
    device: str | None = None,
    found: dict[str, Any] | None = WINDOW,
    line: int = 14,
    stacks: bool = True,
) -> TraceBuilder:
    """Steps in which line 14 makes a window by five operators, takes a product with it, and then line 30 sorts something."""
    b = TraceBuilder(device, host_us=0).ran_with(**({} if found is None else {"constants": [found] if found else []}))
    for _ in range(3):
        with b.step():
            for name in ("arange", "mul", "cos", "mul", "add"):
                stack = f"bank.py({line}): window;bank.py(21): features;bank.py(7): main"
                with b.op(f"aten::{name}", us=1 if device else us, args={"Call stack": stack} if stacks else {}):
                    if device:
                        b.kernel("vectorized_elementwise_kernel", us=us)
            with b.op(
                "aten::sort", us=1 if device else rest, args={"Call stack": "bank.py(30): main"} if stacks else {}
            ):
                if device:
                    b.kernel("radixSort", us=rest)
            if device:
                b.sync()
    return b


# 5 x 100 us of 1500 a step.
@fires(cost_ms=0.5, occurrences=15, severity="high", line="bank.py:14")
def a_window_made_in_every_step() -> TraceBuilder:
    return features()


# Of the line only the cosine is said to be constant.
@fires(cost_ms=0.1, occurrences=3)
def one_operator_of_a_line() -> TraceBuilder:
    return features(found=WINDOW | {"operator": "aten::cos", "calls": 1}, rest=500)


@quiet
def constants_that_nobody_found() -> TraceBuilder:
    return features(found={})


@quiet("not_applicable")
def steps_that_nobody_watched() -> TraceBuilder:
    return features(found=None)


@quiet
def another_line() -> TraceBuilder:
    return features(line=15)


@quiet
def beside_much_else() -> TraceBuilder:
    return features(rest=40_000)


@fires(cost_ms=0.5, severity="high", line="bank.py:14")
def on_a_gpu() -> TraceBuilder:
    return features(device="Tesla V100-SXM2-16GB")


@quiet
def another_line_on_a_gpu() -> TraceBuilder:
    return features(device="Tesla V100-SXM2-16GB", line=15)


# 0.925 of 500 us in the middle, times a share of a half: 3 % of 7.71 ms, of which 7.21 run elsewhere.
@edge
def three_of_a_hundred(over: bool) -> TraceBuilder:
    return features(found=WINDOW | {"share": 0.5}, rest=7_100 if over else 7_300)


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return features(stacks=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("vectorized_elementwise_kernel").ran_with(constants=[WINDOW])
