"""Proof of cpu/one-by-one: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet

CROPS = {"module": "Net", "calls": 20, "loops": 1, "share": 1.0, "file": "read.py", "line": 20}


def reading(
    us: float = 40,
    name: str = "aten::addmm",
    *,
    rest: float = 1000,
    device: str | None = None,
    crops: dict[str, Any] | None = CROPS,
) -> TraceBuilder:
    """Steps in which line 20 calls a model for each of 20 crops, of a product with one row, and then something else runs."""
    b = TraceBuilder(device, host_us=0).ran_with(**({} if crops is None else {"singles": [crops] if crops else []}))
    for _ in range(3):
        with b.step():
            for _ in range(20):
                stack = "read.py(30): forward;read.py(20): read;read.py(7): main"
                args = {"Call stack": stack, "Input Dims": [[64], [1, 512], [512, 64]]}
                with b.op(name, us=us, args=args):
                    if device:
                        b.kernel("volta_sgemm_128x64_nn", us=10)
            with b.op("aten::sort", us=rest, args={"Call stack": "read.py(22): read;read.py(7): main"}):
                pass
    return b


# 0.8 ms of 1.8 in line 20. Of 40 us of a product with one row 0.95 (8 + 0.9 x 32) go with the calls: 34.96 us, 0.874 of it.
@fires(cost_ms=0.8, occurrences=60, severity="high")
def products_of_one_row() -> TraceBuilder:
    return reading()


# The backward pass of the calls is theirs: 20 x (40 + 60) of 3000 us a step, in three operators each.
@fires(cost_ms=2.0, occurrences=160, severity="high")
def losses_of_single_samples_with_their_backward_pass() -> TraceBuilder:
    b = TraceBuilder(None, host_us=0).ran_with(singles=[CROPS])
    stack = "read.py(30): forward;read.py(20): read;read.py(7): main"
    for step in range(2):
        with b.step():
            for call in range(20):
                args = {"Call stack": stack, "Input Dims": [[64], [1, 512], [512, 64]]}
                with b.op("aten::addmm", us=40, seq=100 * step + call, args=args):
                    pass
            with b.op("aten::sort", us=1000, args={"Call stack": "read.py(22): read;read.py(7): main"}):
                pass
            for call in range(20):
                with (
                    b.backward("AddmmBackward0", 100 * step + call),
                    b.op("aten::mm", us=60, args={"Input Dims": [[512, 1], [1, 64]]}),
                ):
                    pass
    return b


@quiet
def calls_that_depend_on_each_other() -> TraceBuilder:
    return reading(crops={})


@quiet("not_applicable")
def samples_that_nobody_watched() -> TraceBuilder:
    return reading(crops=None)


@quiet
def another_line_of_the_same_file() -> TraceBuilder:
    return reading(crops=CROPS | {"line": 2})


# 0.95 x 8 of 200 us.
@quiet
def large_convolutions() -> TraceBuilder:
    return reading(us=200, name="aten::mkldnn_convolution")


@quiet
def a_cheap_loop() -> TraceBuilder:
    return reading(rest=20_000)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return reading(device="NVIDIA A100-SXM4-80GB")


# 0.8 ms x 0.874 in line 20, 0.835 of it in the middle: 4 % of 14.596 ms, of which 13.796 run elsewhere.
@edge
def four_of_a_hundred(over: bool) -> TraceBuilder:
    return reading(rest=13_700 if over else 13_900)
