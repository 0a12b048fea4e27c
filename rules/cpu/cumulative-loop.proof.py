"""Proof of cpu/cumulative-loop: traces on which it fires, and traces on which it does not."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

ROWS = 8
Step = tuple[str, list[list[int]], list[str]]
"""An operator of a turn: its name, shapes and values."""


def cut(shape: list[int], start: int) -> Step:
    """Return the slice ``x[:, start:]``, or ``x[start:]`` of a vector."""
    return "aten::slice", [shape, [], [], [], []], ["", str(len(shape) - 1), str(start), "9223372036854775807", "1"]


def rest_of_lists(turn: int, *, by: int = 1, name: str = "aten::logsumexp", dim: int = 1) -> list[Step]:
    return [cut([ROWS, 100], by * turn), (name, [[ROWS, 100 - by * turn], [], []], ["", f"[{dim}]", "False"])]


def steps(
    turn_of: Callable[[int], list[Step]] = rest_of_lists,
    *,
    turns: int = 40,
    us: float = 80,
    between: str = "",
    function: str = "loss",
    stacks: bool = True,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 10 ms: the operators of each turn, 20 us each but for the last one, a reduction of *us*; and *between* them 1 us."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    for _ in range(3):
        left = 10_000.0
        with b.step():
            for turn in range(turns):
                *before, last = turn_of(turn)
                with b.python(f"train.py(30): {function}") if stacks else nullcontext():
                    for (name, dims, values), length in [*((one, 20.0) for one in before), (last, us)]:
                        with b.op(name, shapes=dims, values=values, us=length):
                            if device:
                                b.kernel("reduce_kernel", us=10)
                        left -= length
                    if between:
                        with b.op(between, shapes=[[ROWS]], us=1):
                            pass
                        left -= 1
            with b.op("aten::mm", us=left):
                pass
    return b


# 40 turns of 100 us, of which one pass leaves 0.13 ms and 0.1 us for each of 800 numbers: 3.79 ms go at most.
@fires(cost_ms=4.0, cost_share=0.4, occurrences=3, severity="high", op="aten::logsumexp", line="train.py:30")
def the_rest_of_each_list() -> TraceBuilder:
    return steps()


@fires(cost_ms=4.0)
def two_numbers_less_each_time() -> TraceBuilder:
    return steps(partial(rest_of_lists, by=2, name="aten::amax"))


@fires
def the_last_dimension_is_named_from_the_end() -> TraceBuilder:
    return steps(partial(rest_of_lists, name="aten::sum", dim=-1))


def discounted(turn: int) -> list[Step]:
    """Return ``(rewards[turn:] * discounts[: 100 - turn]).sum()``."""
    part = [100 - turn]
    return [
        cut([100], turn),
        ("aten::slice", [[100], [], [], [], []], ["", "0", "0", str(100 - turn), "1"]),
        ("aten::mul", [part, part], ["", ""]),
        ("aten::sum", [part, []], ["", ""]),
    ]


@fires
def discounted_returns_of_all_that_follows() -> TraceBuilder:
    return steps(discounted)


@quiet
def the_same_length_each_time() -> TraceBuilder:
    return steps(partial(rest_of_lists, by=0))


@quiet
def a_layer_in_each_turn() -> TraceBuilder:
    return steps(between="aten::gru_cell")


@quiet
def a_number_is_read_in_each_turn() -> TraceBuilder:
    return steps(between="aten::item")


@quiet
def no_reduction() -> TraceBuilder:
    return steps(partial(rest_of_lists, name="aten::exp"))


@quiet
def a_sum_over_the_other_dimension() -> TraceBuilder:
    """A turn gives one number for each place that is left, not one number for each row."""
    return steps(partial(rest_of_lists, name="aten::sum", dim=0))


@quiet
def the_result_is_written_to_where_the_next_turn_reads() -> TraceBuilder:
    """Forward substitution, x[i] = (b[i] - (c[:i] * x[:i]).sum()) / d: a turn needs the one before."""
    return steps(discounted, between="aten::copy_")


def row_by_row(turn: int) -> list[Step]:
    """Return ``(matrix[turn, : turn + 1] * x[: turn + 1]).sum()``: another row in each turn."""
    part, end = [turn + 1], str(turn + 1)
    return [
        ("aten::select", [[100, 100], [], []], ["", "0", str(turn)]),
        ("aten::slice", [[100], [], [], [], []], ["", "0", "0", end, "1"]),
        ("aten::slice", [[100], [], [], [], []], ["", "0", "0", end, "1"]),
        ("aten::mul", [part, part], ["", ""]),
        ("aten::sum", [part, []], ["", ""]),
    ]


@quiet
def each_turn_sums_up_a_row_of_its_own() -> TraceBuilder:
    """A triangular matrix times a vector: no sum holds the one before."""
    return steps(row_by_row)


def one_against_the_rest(turn: int) -> list[Step]:
    """Return ``relu(1 - (x[turn] - x[turn:])).sum()``: the numbers themselves differ from turn to turn."""
    part = [100 - turn]
    return [
        ("aten::select", [[100], [], []], ["", "0", str(turn)]),
        cut([100], turn),
        ("aten::sub", [[], part, []], ["", "", "1"]),
        ("aten::relu", [part], [""]),
        ("aten::sum", [part, []], ["", ""]),
    ]


@quiet
def each_turn_compares_one_number_with_the_rest() -> TraceBuilder:
    return steps(one_against_the_rest)


def weighted_anew(turn: int) -> list[Step]:
    """Return ``(softmax(scores[: turn + 1], 0) * x[: turn + 1]).sum()``."""
    part, end = [turn + 1], str(turn + 1)
    return [
        ("aten::slice", [[100], [], [], [], []], ["", "0", "0", end, "1"]),
        ("aten::softmax", [part, [], []], ["", "0", ""]),
        ("aten::slice", [[100], [], [], [], []], ["", "0", "0", end, "1"]),
        ("aten::mul", [part, part], ["", ""]),
        ("aten::sum", [part, []], ["", ""]),
    ]


@quiet
def weights_of_each_turn_are_its_own() -> TraceBuilder:
    return steps(weighted_anew)


def levels_of_a_pyramid(turn: int) -> list[Step]:
    return [("aten::sum", [[16 * (turn + 1)], []], ["", ""])]


@quiet
def tensors_of_their_own_that_are_longer_each_time() -> TraceBuilder:
    """Nothing cuts them from one tensor."""
    return steps(levels_of_a_pyramid)


@quiet
def weights_that_each_turn_computes_before_it_cuts_them() -> TraceBuilder:
    def turn_of(turn: int) -> list[Step]:
        return [("aten::mul", [[100], []], ["", ""]), *discounted(turn)]

    return steps(turn_of)


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
