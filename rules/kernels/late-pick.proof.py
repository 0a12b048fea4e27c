"""Proof of kernels/late-pick: traces on which it fires, and traces on which it does not."""

import math
from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.host import Allocation
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
ROWS, WIDTH, PICKED = 8192, 64, 128
WHOLE = [ROWS, WIDTH]
Call = tuple[str, list[Any], list[str], list[str]]
"""An operator: its name, and the shapes, types and recorded values of its operands."""
TO: Call = ("aten::to", [WHOLE, [], []], ["unsigned char", "Scalar", "Scalar"], ["", "6", "False"])
DIV: Call = ("aten::div", [WHOLE, []], ["float", "Scalar"], ["", "255"])


def index_select(rows: int = PICKED) -> Call:
    return ("aten::index_select", [WHOLE, [], [rows]], ["float", "Scalar", "long int"], ["", "0", ""])


def steps(
    *calls: Call, us: float = 500, backward_us: float = 0, shapes: bool = True, device: str | None = H100
) -> TraceBuilder:
    """Steps of 10 ms, of which each operator that makes or changes the whole tensor takes *us*; what it makes is thrown away."""
    b = TraceBuilder(device, host_us=1, record_shapes=shapes)
    made: list[Allocation] = []

    def kernel(time: float) -> None:
        if device:
            b.kernel("vectorized_elementwise_kernel", us=time)

    for step in range(3):
        with b.step():
            spent = 0.0
            for number, (name, dims, types, values) in enumerate(calls or (TO, DIV, index_select())):
                picks = name.startswith(("aten::index", "aten::select"))
                took = 5.0 if picks else us
                seq = 100 * step + number + 1 if backward_us and name == "aten::div" else None
                with b.op(name, shapes=dims, dtypes=types, values=values, seq=seq, us=1):
                    if device and not picks and name != "aten::linear" and not name.endswith("_"):
                        made.append(b.memory(4 * math.prod(dims[0])))
                    kernel(took)
                spent += took
            while made:
                b.release(made.pop())
            for number, (name, *_) in enumerate(calls):
                if backward_us and name == "aten::div":
                    with b.backward("DivBackward0", 100 * step + number + 1), b.op("aten::div", us=1):
                        kernel(backward_us)
                    spent += backward_us
            with b.op("aten::mm", shapes=[[PICKED, WIDTH], [WIDTH, 8]], us=1):
                kernel(10_000 - spent)
            if device:
                b.sync()
    return b


# Twice 0.5 ms of 10, of which 98.4 % are of rows that are not picked.
@fires(cost_ms=1.0, cost_share=0.1, occurrences=3, severity="medium")
def a_memory_is_converted_and_then_sampled() -> TraceBuilder:
    return steps()


@fires(cost_ms=0.5, occurrences=3)
def logits_of_all_positions() -> TraceBuilder:
    head: Call = ("aten::linear", [[8, 64, 16], [2048, 16]], ["float", "float"], ["", ""])
    last: Call = ("aten::select", [[8, 64, 2048], [], []], ["float", "Scalar", "Scalar"], ["", "1", "-1"])
    return steps(head, last)


@fires(cost_ms=1.0)
def the_backward_pass_goes_over_all_rows_as_well() -> TraceBuilder:
    return steps(DIV, index_select(), backward_us=500)


@quiet
def the_whole_is_used_behind_the_pick() -> TraceBuilder:
    return steps(DIV, index_select(), ("aten::matmul", [[4, WIDTH], WHOLE], ["float", "float"], ["", ""]))


@quiet
def an_update_in_place() -> TraceBuilder:
    return steps(("aten::mul_", [WHOLE, []], ["float", "Scalar"], ["", "0.9"]), index_select())


@quiet("not_applicable")
def a_program_on_the_cpu() -> TraceBuilder:
    return steps(device=None)


@edge
def a_quarter_of_the_rows(over: bool) -> TraceBuilder:
    return steps(TO, DIV, index_select(2048 if over else 2049))


@edge
def a_fiftieth_of_the_step(over: bool) -> TraceBuilder:
    """Of 98.4 % of *us* but 3 us 85 % are 2 % of 10 ms from 242 us on."""
    return steps(DIV, index_select(), us=243 if over else 240)


@lacks("host")
def kernels_alone_were_recorded() -> TraceBuilder:
    return kernels_alone("vectorized_elementwise_kernel")


@lacks("gpu")
def launches_alone_were_recorded() -> TraceBuilder:
    return launches_alone("aten::add")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(shapes=False)
