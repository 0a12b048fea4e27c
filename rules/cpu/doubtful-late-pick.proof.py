"""Proof of cpu/doubtful-late-pick: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.host import Allocation
from advisor.testing.proof import edge, fires, lacks, quiet

ROWS, WIDTH, PICKED = 8192, 64, 128
WHOLE = [ROWS, WIDTH]
BYTES = 4 * ROWS * WIDTH


def turns(
    *,
    held: int = 1,
    us: float = 1000,
    picked: int = PICKED,
    away: float = 0,
    converts: bool = False,
    memory: bool = True,
    shapes: bool = True,
    device: str | None = None,
    carried: list[dict[str, int]] | None = None,
) -> TraceBuilder:
    """Steps of 10 ms: a state of *us*, which is there until the one *held* turns later has been made, and what is picked of it.

    Or bytes that it *converts*: no operator takes as many floats. Python is *away* behind the pick for so many us.
    """
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    if carried is not None:
        b.ran_with(carried=carried)
    made: list[Allocation] = []
    for _ in range(5):
        with b.step():
            name = "aten::to" if converts else "aten::mul"
            dtypes = ["unsigned char" if converts else "float", "Scalar"]
            with b.op(name, shapes=[WHOLE, []], dtypes=dtypes, values=["", "0.9"], us=us):
                if device:
                    b.kernel("vectorized_elementwise_kernel", us=us / 2)
                if memory:
                    made.append(b.memory(BYTES, device=-1))
            while len(made) > held > 0:
                b.release(made.pop(0))
            with b.op(
                "aten::index_select",
                shapes=[WHOLE, [], [picked]],
                dtypes=["float", "Scalar", "long int"],
                values=["", "0", ""],
                us=1,
            ):
                pass
            b.idle(us=away)
            while len(made) > held:
                b.release(made.pop(0))
            with b.op("aten::mm", shapes=[[picked, WIDTH], [WIDTH, 8]], us=9_999 - us - away):
                pass
    return b


# 1 ms of 10, of which 98.4 % are of rows that are not picked: half of that at the middle.
@fires(cost_ms=1.0, cost_share=0.1, occurrences=5, severity="low")
def a_state_that_goes_on() -> TraceBuilder:
    return turns()


# Nothing says how long it is there.
@fires(cost_ms=1.0)
def memory_was_not_recorded() -> TraceBuilder:
    return turns(memory=False)


# 2 MB are read in 42 us at least.
@fires(cost_ms=1.0)
def python_may_read_it() -> TraceBuilder:
    return turns(converts=True, away=43)


@quiet
def python_has_too_little_time_to_read_it() -> TraceBuilder:
    return turns(converts=True, away=41)


@quiet
def a_whole_that_is_thrown_away() -> TraceBuilder:
    return turns(held=0)


@quiet
def the_next_turn_makes_its_own() -> TraceBuilder:
    return turns(converts=True)


@quiet
def results_that_are_collected() -> TraceBuilder:
    return turns(held=3)


# The recorder saw a step read a tensor as large of the step before: here it is the state.
@quiet
def a_state_that_the_recorder_saw() -> TraceBuilder:
    return turns(carried=[{"elements": ROWS * WIDTH, "bytes": 4}])


# It saw no step do so: the next turn reads what is always there.
@quiet
def the_recorder_saw_no_state() -> TraceBuilder:
    return turns(carried=[])


# A tensor of another type is another.
@quiet
def the_recorder_saw_another_state() -> TraceBuilder:
    return turns(carried=[{"elements": ROWS * WIDTH, "bytes": 8}])


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return turns(device="NVIDIA A100-SXM4-80GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return turns(shapes=False)


@edge
def a_quarter_of_the_rows(over: bool) -> TraceBuilder:
    return turns(picked=2048 if over else 2049)


@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    """Half of 98.4 % of 610 or 609 us, of 10 ms: 3.002 or 2.997 %."""
    return turns(us=610 if over else 609)
