"""Proof of cpu/cumulative-loop: traces on which it fires, and traces on which it does not."""

from contextlib import nullcontext

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

ROWS = 8


def steps(
    *,
    turns: int = 40,
    by: int = 1,
    us: float = 80,
    name: str = "aten::logsumexp",
    between: str = "",
    function: str = "loss",
    stacks: bool = True,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 10 ms: in each turn a slice of 20 us and a reduction of *us*, of *by* numbers less each time, of 8 rows."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    for _ in range(3):
        left = 10_000.0
        with b.step():
            for turn in range(turns):
                part = [ROWS, 100 - by * turn]
                with b.python(f"train.py(30): {function}") if stacks else nullcontext():
                    with b.op("aten::slice", shapes=[[ROWS, 100], [], [], [], []], us=20):
                        pass
                    with b.op(name, shapes=[part, [], []], us=us):
                        if device:
                            b.kernel("reduce_kernel", us=10)
                    if between:
                        with b.op(between, shapes=[part], us=1):
                            pass
                left -= 20 + us + bool(between)
            with b.op("aten::mm", us=left):
                pass
    return b


# 40 turns of 100 us, of which one pass leaves 0.13 ms and 0.1 us for each of 800 numbers: 3.79 ms go at most.
@fires(cost_ms=4.0, cost_share=0.4, occurrences=3, severity="high", op="aten::logsumexp", line="train.py:30")
def the_rest_of_each_list() -> TraceBuilder:
    return steps()


@fires(cost_ms=4.0)
def two_numbers_less_each_time() -> TraceBuilder:
    return steps(by=2, name="aten::sum")


@quiet
def the_same_length_each_time() -> TraceBuilder:
    return steps(by=0)


@quiet
def a_layer_in_each_turn() -> TraceBuilder:
    return steps(between="aten::gru_cell")


@quiet
def a_number_is_read_in_each_turn() -> TraceBuilder:
    return steps(between="aten::item")


@quiet
def no_reduction() -> TraceBuilder:
    return steps(name="aten::exp")


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(device="NVIDIA A100-SXM4-80GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(shapes=False)


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return steps(stacks=False)


@edge
def sixteen_turns(over: bool) -> TraceBuilder:
    return steps(turns=16 if over else 15)


@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    """92.5 % of 16 turns of 34 or 33 us without 0.13 ms and 0.1 us for each of 800 numbers, of 10 ms: 3.09 or 2.94 %."""
    return steps(turns=16, us=14 if over else 13)
