"""Proof of kernels/doubtful-late-pick: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
ROWS, WIDTH, PICKED = 8192, 64, 128
WHOLE = [ROWS, WIDTH]


def turns(
    *,
    us: float = 1000,
    picked: int = PICKED,
    freed: bool | None = None,
    converts: bool = False,
    shapes: bool = True,
    device: str | None = H100,
) -> TraceBuilder:
    """Steps of 10 ms: a state of *us*, and what is picked of it.

    Or bytes that are *converted*: no operator takes as many floats. It is *freed* behind the pick, or not; None: unrecorded.
    """
    b = TraceBuilder(device, host_us=1, record_shapes=shapes)

    def kernel(time: float) -> None:
        if device:
            b.kernel("vectorized_elementwise_kernel", us=time)

    for _ in range(5):
        with b.step():
            name, dtype = ("aten::to", "unsigned char") if converts else ("aten::mul", "float")
            with b.op(name, shapes=[WHOLE, []], dtypes=[dtype, "Scalar"], values=["", "0.9"], us=1):
                made = b.memory(4 * ROWS * WIDTH) if freed is not None else None
                kernel(us)
            with b.op(
                "aten::index_select",
                shapes=[WHOLE, [], [picked]],
                dtypes=["float", "Scalar", "long int"],
                values=["", "0", ""],
                us=1,
            ):
                kernel(5)
            if made is not None and freed:
                b.release(made)
            with b.op("aten::mm", shapes=[[picked, WIDTH], [WIDTH, 8]], us=1):
                kernel(9_995 - us)
            if device:
                b.sync()
    return b


# 1 ms of 10, of which 98.4 % are of rows that are not picked: half of that at the middle.
@fires(cost_ms=1.0, cost_share=0.1, occurrences=5, severity="low")
def a_state_that_goes_on() -> TraceBuilder:
    return turns()


@quiet
def the_next_turn_makes_its_own() -> TraceBuilder:
    return turns(converts=True)


@quiet
def a_whole_that_is_thrown_away() -> TraceBuilder:
    return turns(freed=True)


# Five of them are there at the end.
@quiet
def results_that_are_collected() -> TraceBuilder:
    return turns(freed=False)


@quiet("not_applicable")
def a_program_on_the_cpu() -> TraceBuilder:
    return turns(device=None)


@edge
def a_quarter_of_the_rows(over: bool) -> TraceBuilder:
    return turns(picked=2048 if over else 2049)


@edge
def a_fiftieth_of_the_step(over: bool) -> TraceBuilder:
    """Half of 98.4 % of *us* but 3 us is 2 % of 10 ms from 410 us on."""
    return turns(us=412 if over else 408)


@lacks("host")
def kernels_alone_were_recorded() -> TraceBuilder:
    return kernels_alone("vectorized_elementwise_kernel")


@lacks("gpu")
def launches_alone_were_recorded() -> TraceBuilder:
    return launches_alone("aten::add")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return turns(shapes=False)
