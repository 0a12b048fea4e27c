"""Proof of cpu/explicit-inverse: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

INVERSE = {
    "operator": "aten::linalg_inv_ex", "calls": 1, "size": 640, "columns": 1, "gradient": True, "file": "gp.py", "line": 49,
}  # fmt: skip


def fitting(
    us: float = 400,
    *,
    rest: float = 1000,
    device: str | None = None,
    found: dict[str, Any] | None = INVERSE,
    line: int = 49,
    backward: bool = True,
    stacks: bool = True,
) -> TraceBuilder:
    """Steps in which line 49 inverts a matrix, with a backward pass of twice its time, and then line 60 sorts something."""
    b = TraceBuilder(device, host_us=0).ran_with(**({} if found is None else {"factors": [found] if found else []}))
    for step in range(3):
        with b.step():
            args = {"Call stack": f"gp.py({line}): likelihood;gp.py(7): fit"} if stacks else {}
            with b.op("aten::linalg_inv_ex", us=1 if device else us, seq=step, args=args):
                if device:
                    b.kernel("getrf", us=us)
            with b.op("aten::sort", us=1 if device else rest, args={"Call stack": "gp.py(60): fit"} if stacks else {}):
                if device:
                    b.kernel("radixSort", us=rest)
            if backward:
                with b.backward("LinalgInvExBackward0", step), b.op("aten::matmul", us=1 if device else 2 * us):
                    if device:
                        b.kernel("volta_sgemm_128x64_nn", us=2 * us)
            if device:
                b.sync()
    return b


# 400 us and 800 in the backward pass, of 2200 a step. There are three operators a step: the inverse, the node and its product.
@fires(cost_ms=1.2, occurrences=12, severity="high", line="gp.py:49")
def an_inverse_and_its_backward_pass() -> TraceBuilder:
    return fitting()


@fires(cost_ms=0.4, occurrences=3)
def a_quarter_as_many_columns_as_rows_without_a_gradient() -> TraceBuilder:
    return fitting(found=INVERSE | {"columns": 160, "gradient": False}, backward=False)


@quiet
def more_columns_than_half_the_rows() -> TraceBuilder:
    return fitting(found=INVERSE | {"columns": 321})


@quiet
def an_inverse_of_which_something_else_is_read() -> TraceBuilder:
    return fitting(found=INVERSE | {"columns": 0, "again": 2})


@quiet
def inverses_that_nobody_found() -> TraceBuilder:
    return fitting(found={})


@quiet("not_applicable")
def steps_that_nobody_watched() -> TraceBuilder:
    return fitting(found=None)


@quiet
def another_line() -> TraceBuilder:
    return fitting(line=50)


# 0.75 of a fifth of 1200 of 2200 us are 8 %, of 45 % of it 18 %.
@fires(cost_ms=1.2, occurrences=12, severity="medium", line="gp.py:49")
def on_a_gpu() -> TraceBuilder:
    return fitting(device="Tesla V100-SXM2-16GB")


@fires(cost_ms=1.2, occurrences=12, severity="high", line="gp.py:49")
def a_large_matrix_on_a_gpu() -> TraceBuilder:
    return fitting(device="Tesla V100-SXM2-16GB", found=INVERSE | {"size": 2048})


@quiet
def more_columns_than_half_the_rows_on_a_gpu() -> TraceBuilder:
    return fitting(device="Tesla V100-SXM2-16GB", found=INVERSE | {"columns": 321})


# Three quarters of 0.8 x 1.2 ms: 4 % of 18 ms, of which 16.8 run elsewhere.
@edge
def four_of_a_hundred(over: bool) -> TraceBuilder:
    return fitting(rest=16_600 if over else 17_000)


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return fitting(stacks=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("getrf").ran_with(factors=[INVERSE])
