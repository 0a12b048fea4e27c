"""Proof of cpu/explicit-inverse: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet

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
) -> TraceBuilder:
    """Steps in which line 49 inverts a matrix, with a backward pass of twice its time, and then line 60 sorts something."""
    b = TraceBuilder(device, host_us=0).ran_with(**({} if found is None else {"factors": [found] if found else []}))
    for step in range(3):
        with b.step():
            stack = f"gp.py({line}): likelihood;gp.py(7): fit"
            with b.op("aten::linalg_inv_ex", us=us, seq=step, args={"Call stack": stack}):
                if device:
                    b.kernel("getrf", us=10)
            with b.op("aten::sort", us=rest, args={"Call stack": "gp.py(60): fit"}):
                pass
            if backward:
                with b.backward("LinalgInvExBackward0", step), b.op("aten::matmul", us=2 * us):
                    pass
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


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return fitting(device="NVIDIA A100-SXM4-80GB")


# Three quarters of 0.8 x 1.2 ms: 4 % of 18 ms, of which 16.8 run elsewhere.
@edge
def four_of_a_hundred(over: bool) -> TraceBuilder:
    return fitting(rest=16_600 if over else 17_000)
