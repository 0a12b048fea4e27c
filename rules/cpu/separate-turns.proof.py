"""Proof of cpu/separate-turns: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

LINE = {"turns": 100, "deeper": 0.01, "calls": 300, "file": "users.py", "line": 16}


def loop(
    *chains: dict[str, Any],
    turns: int = 100,
    us: float = 5,
    rest_us: float = 0,
    device: str | None = None,
    stacks: bool = True,
    name: str = "aten::mean",
) -> TraceBuilder:
    """Steps in which line 16 picks rows, computes of them and joins them in each turn, beside one large operator."""
    b = TraceBuilder(device, host_us=0).ran_with(chains=list(chains))
    for _ in range(3):
        with b.step():
            for turn in range(turns):
                for each, size in (("aten::index", 900), (name, turn % 7 + 1), ("aten::div", 8)):
                    with b.op(
                        each, us=us, shapes=[[size]], args={"Call stack": "users.py(16): forward"} if stacks else {}
                    ):
                        pass
            if rest_us:
                with b.op("aten::mkldnn_convolution", us=rest_us):
                    pass
    return b


# 300 operators of 5 us a step.
@fires(cost_ms=1.5, occurrences=900, severity="high", line="users.py:16")
def rows_of_each_user() -> TraceBuilder:
    return loop(LINE)


# The longer ones are the loop's as well.
@fires(cost_ms=12, fix="Take all turns at once: index_add with the turn of each row, or rows padded with a mask")
def operators_of_forty_microseconds() -> TraceBuilder:
    return loop(LINE, us=40)


# So are copies whose memory was new to them: 300 of 0.2 ms a step.
@fires(cost_ms=60)
def copies_into_new_memory() -> TraceBuilder:
    return loop(LINE, us=200, name="aten::clone")


@quiet
def turns_that_work_for_milliseconds() -> TraceBuilder:
    return loop(LINE, us=1_001)


@quiet
def products_that_compute() -> TraceBuilder:
    return loop(LINE, us=40, rest_us=60_000, name="aten::addmm")


@quiet
def a_recurrence() -> TraceBuilder:
    return loop(LINE | {"deeper": 0.99})


@quiet
def another_line() -> TraceBuilder:
    return loop(LINE | {"line": 20})


@quiet
def few_operators() -> TraceBuilder:
    return loop(LINE | {"turns": 33}, turns=33)


@quiet
def beside_much_else() -> TraceBuilder:
    return loop(LINE, rest_us=12_000)


@quiet("not_applicable")
def turns_that_were_not_watched() -> TraceBuilder:
    b = TraceBuilder(None)
    with b.step(), b.python("users.py(16): forward"), b.op("aten::mean", us=5):
        pass
    return b


@quiet("not_applicable")
def beside_a_gpu() -> TraceBuilder:
    b = loop(LINE, device="Tesla V100-SXM2-16GB")
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@edge
def a_fiftieth_of_the_turns_lies_deeper(over: bool) -> TraceBuilder:
    return loop(LINE | {"deeper": 0.02 if over else 0.021})


# Each cell needs those beside it, on the diagonal before.
@quiet
def a_table_of_ten_by_ten_cells() -> TraceBuilder:
    return loop(LINE | {"deeper": 0.19})


@edge
def twenty_turns(over: bool) -> TraceBuilder:
    return loop(LINE | {"turns": 20 if over else 19})


@edge
def a_hundred_operators_a_step(over: bool) -> TraceBuilder:
    return loop(LINE, turns=34 if over else 33)


@lacks("stacks")
def without_lines() -> TraceBuilder:
    return loop(LINE, stacks=False)
