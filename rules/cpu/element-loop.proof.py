"""Proof of cpu/element-loop: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet

ASSIGNMENT = ("aten::select", "aten::select", "aten::add_", "aten::select", "aten::select", "aten::copy_")
CELL = ("aten::select", "aten::addmm", "aten::add", "aten::tanh", "aten::mul")


def loop(
    turns: int = 100,
    turn: tuple[str, ...] = ASSIGNMENT,
    us: float = 2,
    *,
    between_us: float = 3,
    rest_us: float = 1000,
    line: str = "train.py(8): count",
    device: str | None = None,
    pause_us: float = 0,
) -> TraceBuilder:
    """Steps of one large operator, and a loop of small ones at one line with Python between, in its middle a collection."""
    b = TraceBuilder(device, host_us=0)
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=rest_us):
                pass
            with b.python(line):
                for number, name in enumerate(turn * turns):
                    if pause_us and 2 * number == len(turn) * turns:
                        b.gc(us=pause_us)
                    b.idle(us=between_us)
                    with b.op(name, us=us):
                        pass
    return b


# 600 operators of 2 us behind 3 us of Python: 3 ms a step.
@fires(cost_ms=3.0, occurrences=1800, severity="high")
def a_matrix_counted_element_by_element() -> TraceBuilder:
    return loop()


# Two of three read numbers.
@fires(cost_ms=3.0, severity="high")
def numbers_read_one_by_one() -> TraceBuilder:
    return loop(200, ("aten::select", "aten::item", "aten::add"))


# The Python of 90 us before each operator is part of the loop.
@fires(cost_ms=55.2, severity="high")
def slow_python_between() -> TraceBuilder:
    return loop(between_us=90)


# 3 ms of the loop, and 2 ms in which the collector looks at the objects that it made.
@fires(cost_ms=5.0, severity="high")
def a_collection_in_the_loop() -> TraceBuilder:
    return loop(pause_us=2000)


@quiet
def a_recurrent_cell_picks_once_a_turn() -> TraceBuilder:
    return loop(200, CELL)


@quiet
def operators_that_compute() -> TraceBuilder:
    return loop(us=50)


@quiet
def beside_a_step_of_much_more_work() -> TraceBuilder:
    return loop(rest_us=100_000)


@quiet
def lines_that_were_not_recorded() -> TraceBuilder:
    b = TraceBuilder(None, with_stack=False)
    for _ in range(3):
        with b.step():
            for name in ASSIGNMENT * 100:
                with b.op(name, us=2):
                    pass
    return b


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = loop(device="Tesla V100-SXM2-16GB")
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


COUNT = ("aten::eq", "aten::eq", "aten::bitwise_and", "aten::sum", *ASSIGNMENT)
NUMBERS = {"aten::select": [[19], [], []]}


def counting(us: float, shapes: dict[str, list[list[int]]]) -> TraceBuilder:
    """Count in every turn with four operators of *us* before the assignment to an element."""
    b = TraceBuilder(None, host_us=0)
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=1000):
                pass
            with b.python("train.py(8): count"):
                for name in COUNT * 100:
                    b.idle(us=3)
                    with b.op(name, us=2 if name in ASSIGNMENT else us, shapes=shapes.get(name, [])):
                        pass
    return b


# Four of ten operators pick, and leave numbers: however long the others take. 100 turns of 600 x 5 and 400 x 13 or 33 us.
@fires(cost_ms=8.2, occurrences=3000)
def numbers_that_are_picked_beside_much_else() -> TraceBuilder:
    return counting(10, NUMBERS)


@fires(cost_ms=17.2, occurrences=3000)
def numbers_that_are_picked_beside_longer_operators() -> TraceBuilder:
    return counting(32.5, NUMBERS)


@quiet
def rows_that_are_picked_beside_much_else() -> TraceBuilder:
    return counting(10, {"aten::select": [[19, 19], [], []]})


def patients(computing: int, function: str = "loss", shapes: dict[str, list[list[int]]] = NUMBERS) -> TraceBuilder:
    """150 turns: a line that picks two numbers and compares them, and one of so many operators that compute with them."""
    b = TraceBuilder(None, host_us=0)
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=1000):
                pass
            for _ in range(150):
                with b.python("train.py(8): loss"):
                    for name in ("aten::select", "aten::select", "aten::lt"):
                        with b.op(name, us=4, shapes=shapes.get(name, [])):
                            pass
                with b.python(f"train.py(9): {function}"):
                    for _ in range(computing):
                        with b.op("aten::mul", us=4):
                            pass
    return b


# What the loop computes with the numbers goes with it: 150 turns of seven operators of 4 us.
@fires(cost_ms=4.2, occurrences=3150)
def other_lines_of_a_loop_over_numbers() -> TraceBuilder:
    return patients(4)


# Of nine operators a turn two pick: the line that picks is a loop, the rest may be what takes the time.
@fires(cost_ms=1.8, occurrences=1350)
def lines_that_compute_much_in_a_loop_over_numbers() -> TraceBuilder:
    return patients(6)


@fires(cost_ms=1.8, occurrences=1350)
def a_loop_in_another_function() -> TraceBuilder:
    return patients(4, "model")


@fires(cost_ms=1.8, occurrences=1350)
def a_loop_over_rows_with_other_lines() -> TraceBuilder:
    return patients(4, shapes={"aten::select": [[19, 19], [], []]})


@edge
def half_of_a_lines_operators(over: bool) -> TraceBuilder:
    return loop(150, ("aten::select", "aten::add") if over else ("aten::select", "aten::add", "aten::mul"))


@edge
def operators_of_thirty_microseconds(over: bool) -> TraceBuilder:
    return loop(us=29.999 if over else 30)


# 100 turns of six small operators and a comparison of 40 us, which is the loop's as well: 600 x 5 + 100 x 43 us.
@fires(cost_ms=7.3, occurrences=2100, severity="high")
def a_turn_that_compares_a_whole_map() -> TraceBuilder:
    b = TraceBuilder(None, host_us=0)
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=1000):
                pass
            with b.python("train.py(8): count"):
                for name in ("aten::eq", *ASSIGNMENT) * 100:
                    b.idle(us=3)
                    with b.op(name, us=40 if name == "aten::eq" else 2):
                        pass
    return b


@edge
def two_hundred_a_step(over: bool) -> TraceBuilder:
    return loop(100 if over else 99, ("aten::select", "aten::item"), rest_us=100)
