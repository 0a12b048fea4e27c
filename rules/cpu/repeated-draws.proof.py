"""Proof of cpu/repeated-draws: traces on which it fires, and traces on which it does not."""

from contextlib import nullcontext
from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

FOUND = {"share": 0.3, "function": "choice(p=…)", "file": "train.py", "line": 21}


def training(
    python_us: float = 3000,
    *,
    found: dict[str, Any] | None = FOUND,
    line: int = 21,
    device: str | None = None,
    steps: bool = True,
    looks: int | None = 60,
) -> TraceBuilder:
    """Four steps of 10 ms: Python for *python_us* at a line, and an operator for the rest."""
    b = TraceBuilder(device).ran_with(step_looks=looks, **({} if found is None else {"step_draws": found}))
    for _ in range(4):
        with b.step() if steps else nullcontext():
            with b.python(f"train.py({line}): features"):
                b.idle(us=python_us)
            with b.op("aten::mkldnn_convolution", us=10_000 - python_us):
                pass
    return b


# All of the 3 ms of 10 at the line: 0.3 of the steps' time.
@fires(cost_ms=3.0, cost_share=0.3, occurrences=4, severity="high", line="train.py:21")
def weights_that_each_draw_sums_up() -> TraceBuilder:
    return training()


@fires(cost_ms=3.0, severity="medium")
def half_of_the_line() -> TraceBuilder:
    return training(found=FOUND | {"share": 0.15})


@quiet
def a_fifth_of_the_line() -> TraceBuilder:
    return training(found=FOUND | {"share": 0.06})


@quiet
def another_line() -> TraceBuilder:
    return training(line=22)


@quiet
def steps_without_any() -> TraceBuilder:
    return training(found=None)


@quiet("not_applicable")
def steps_that_nobody_looked_at() -> TraceBuilder:
    return training(found=None, looks=None)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = training(device="NVIDIA A100-SXM4-80GB")
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=10)
    return b


@lacks("steps")
def no_steps() -> TraceBuilder:
    return training(steps=False)


# The middle, 80 %, of what the line takes: 6 % of 10 ms.
@edge
def six_of_a_hundred(over: bool) -> TraceBuilder:
    return training(760 if over else 740, found=FOUND | {"share": 1.0})
