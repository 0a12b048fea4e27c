"""Proof of cpu/late-pick: traces on which it fires, and traces on which it does not."""

import math
from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.host import Allocation
from advisor.testing.proof import edge, fires, lacks, quiet

ROWS, WIDTH, PICKED = 8192, 64, 128
WHOLE = [ROWS, WIDTH]
Call = tuple[str, list[Any], list[str], list[str]]
"""An operator: its name, and the shapes, types and recorded values of its operands."""
TO: Call = ("aten::to", [WHOLE, [], []], ["unsigned char", "Scalar", "Scalar"], ["", "6", "False"])
DIV: Call = ("aten::div", [WHOLE, []], ["float", "Scalar"], ["", "255"])


def index_select(rows: int = PICKED) -> Call:
    return ("aten::index_select", [WHOLE, [], [rows]], ["float", "Scalar", "long int"], ["", "0", ""])


def steps(
    *calls: Call,
    us: float = 1000,
    backward_us: float = 0,
    shapes: bool = True,
    device: str | None = None,
    held: int = 0,
    away: float = 0,
    carried: list[dict[str, int]] | None = None,
) -> TraceBuilder:
    """Steps of 10 ms, of which each operator that makes or changes the whole tensor takes *us*.

    What it makes is thrown away as the next one has run, the last behind the picks, or as that of *held* turns later is made.
    Python is *away* for so many us behind the picks.
    """
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    if carried is not None:
        b.ran_with(carried=carried)
    made: list[Allocation] = []
    for step in range(5):
        with b.step():
            spent, whole = 0.0, None
            for number, (name, dims, types, values) in enumerate(calls):
                picks = name.startswith(("aten::index", "aten::select", "aten::gather", "aten::slice"))
                took = 1.0 if picks else us
                seq = 100 * step + number + 1 if backward_us and name == "aten::div" else None
                last = whole
                with b.op(name, shapes=dims, dtypes=types, values=values, seq=seq, us=took):
                    if device:
                        b.kernel("vectorized_elementwise_kernel", us=100)
                    if name == "aten::linear":  # as a whole it is one of an accelerator
                        with b.op("aten::t", shapes=dims[1:]):
                            pass
                    elif not picks and not name.endswith("_"):
                        whole = b.memory(4 * math.prod(dims[0]), device=-1)
                if last is not None and last is not whole:
                    b.release(last)
                following = calls[number + 1 : number + 2]
                if held and whole is not None and following and following[0][0].startswith("aten::index"):
                    made.append(whole)
                    whole = None
                    if len(made) > held:
                        b.release(made.pop(0))
                spent += took
            b.idle(us=away)
            if whole is not None:
                b.release(whole)
            for number, (name, *_) in enumerate(calls):
                if backward_us and name == "aten::div":
                    with b.backward("DivBackward0", 100 * step + number + 1), b.op("aten::div", us=backward_us):
                        pass
                    spent += backward_us
            with b.op("aten::mm", shapes=[[PICKED, WIDTH], [WIDTH, 8]], us=10_000 - spent - away):
                pass
    return b


# 2 ms of 10, of which 98.4 % are of rows that are not picked; 80 to 100 % of that: 17.7 %.
@fires(cost_ms=2.0, cost_share=0.2, occurrences=5, severity="high")
def a_memory_is_converted_and_then_sampled() -> TraceBuilder:
    return steps(TO, DIV, index_select())


@fires(cost_ms=1.0, occurrences=5)
def one_position_of_all() -> TraceBuilder:
    whole = [8, 512, 128]
    soft: Call = ("aten::log_softmax", [whole, [], []], ["float", "Scalar", ""], ["", "-1", ""])
    return steps(soft, ("aten::select", [whole, [], []], ["float", "Scalar", "Scalar"], ["", "1", "-1"]))


@fires(cost_ms=1.0)
def logits_of_all_positions() -> TraceBuilder:
    head: Call = ("aten::linear", [[8, 64, 16], [2048, 16]], ["float", "float"], ["", ""])
    last: Call = ("aten::select", [[8, 64, 2048], [], []], ["float", "Scalar", "Scalar"], ["", "1", "-1"])
    return steps(head, last)


@fires(cost_ms=2.0)
def the_backward_pass_goes_over_all_rows_as_well() -> TraceBuilder:
    return steps(DIV, index_select(), backward_us=1000)


# The second memory is as large and of the same types: it is no use of the first.
@fires(cost_ms=4.0, occurrences=10)
def two_memories() -> TraceBuilder:
    return steps(TO, DIV, index_select(), TO, DIV, index_select())


@fires(cost_ms=1.0)
def columns_by_gather() -> TraceBuilder:
    gather: Call = (
        "aten::gather",
        [WHOLE, [], [ROWS, 1], []],
        ["float", "Scalar", "long int", "Scalar"],
        ["", "1", "", "False"],
    )
    return steps(DIV, gather)


# A softmax over the dimension that is picked needs all of it.
@quiet
def columns_of_a_softmax() -> TraceBuilder:
    soft: Call = ("aten::softmax", [WHOLE, [], []], ["float", "Scalar", ""], ["", "1", ""])
    gather: Call = (
        "aten::gather",
        [WHOLE, [], [ROWS, 1], []],
        ["float", "Scalar", "long int", "Scalar"],
        ["", "1", "", "False"],
    )
    return steps(soft, gather)


@quiet
def the_whole_is_used_behind_the_pick() -> TraceBuilder:
    return steps(DIV, index_select(), ("aten::matmul", [[4, WIDTH], WHOLE], ["float", "float"], ["", ""]))


@quiet
def the_whole_is_used_before_the_pick() -> TraceBuilder:
    return steps(DIV, ("aten::sum", [WHOLE, []], ["float", ""], ["", ""]), index_select())


@quiet
def all_parts_are_picked_in_turn() -> TraceBuilder:
    return steps(DIV, *[index_select(1024)] * 8)


@quiet
def parts_by_split() -> TraceBuilder:
    return steps(DIV, ("aten::split", [WHOLE, [], []], ["float", "Scalar", "Scalar"], ["", "16", "1"]), index_select())


# A name that is given another in the next turn: no operator takes a float that was not made in its turn.
@fires(cost_ms=2.0)
def the_whole_is_there_until_the_next_one_is_made() -> TraceBuilder:
    return steps(TO, DIV, index_select(), held=1)


# The next turn scales the same numbers, or goes on with those of this one.
@quiet
def a_state_perhaps() -> TraceBuilder:
    return steps(DIV, index_select(), held=1)


# The recorder watched a step, and that went on with nothing.
@fires(cost_ms=1.0)
def the_same_numbers_are_scaled_in_each_turn() -> TraceBuilder:
    return steps(DIV, index_select(), held=1, carried=[])


@quiet
def a_state() -> TraceBuilder:
    return steps(DIV, index_select(), held=1, carried=[{"elements": ROWS * WIDTH, "bytes": 4}])


@quiet
def results_that_are_collected() -> TraceBuilder:
    return steps(TO, DIV, index_select(), held=3)


# 2 MB are read in 42 us at least.
@fires
def python_has_too_little_time_to_read_it() -> TraceBuilder:
    return steps(TO, DIV, index_select(), away=41)


@quiet
def python_may_read_it() -> TraceBuilder:
    return steps(TO, DIV, index_select(), away=43)


# numpy() asks for the numbers as they are.
@quiet
def numpy_reads_it_behind_the_pick() -> TraceBuilder:
    return steps(TO, DIV, index_select(), ("aten::resolve_neg", [WHOLE], ["float"], [""]))


@quiet
def numpy_reads_it_before_the_pick() -> TraceBuilder:
    to: Call = ("aten::to", [WHOLE, [], []], ["float", "Scalar", "Scalar"], ["", "6", "False"])
    return steps(TO, DIV, to, ("aten::resolve_neg", [WHOLE], ["float"], [""]), index_select())


# What is written in place was there before: a memory that is updated.
@quiet
def an_update_in_place() -> TraceBuilder:
    return steps(("aten::mul_", [WHOLE, []], ["float", "Scalar"], ["", "0.9"]), index_select())


@quiet
def made_by_a_convolution() -> TraceBuilder:
    return steps(("aten::conv1d", [WHOLE, [64, 64, 3]], ["float", "float"], ["", ""]), index_select())


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(TO, DIV, index_select(), device="NVIDIA A100-SXM4-80GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(TO, DIV, index_select(), shapes=False)


@edge
def a_quarter_of_the_rows(over: bool) -> TraceBuilder:
    return steps(TO, DIV, index_select(2048 if over else 2049))


@edge
def a_megabyte(over: bool) -> TraceBuilder:
    whole = [4096 if over else 4095, WIDTH]
    scale: Call = ("aten::div", [whole, []], ["float", "Scalar"], ["", "255"])
    return steps(scale, ("aten::index_select", [whole, [], [8]], ["float", "Scalar", "long int"], ["", "0", ""]))


@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    """90 % of 98.4 % of 339 or 338 us, of 10 ms: 3.003 or 2.995 %."""
    return steps(DIV, index_select(), us=339 if over else 338)
