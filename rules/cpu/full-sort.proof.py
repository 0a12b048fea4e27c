"""Proof of cpu/full-sort: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

ROWS, LENGTH = 64, 1024
Slice = tuple[str, int, int, int]
"""An operator that takes places: its name, the dimension, and two numbers more."""


def steps(
    *slices: Slice,
    us: float = 2000,
    sort: str = "aten::argsort",
    dtype: str = "long int",
    between: Sequence[str] = (),
    length: int = LENGTH,
    values: Sequence[str] | None = None,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 10 ms, of which a sort of rows takes *us*; then operators on all of its result, and slices of it."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    whole = [ROWS, length]
    for _ in range(3):
        with b.step():
            sorting = list(values or ["", "-1", "False"])
            with b.op(sort, shapes=[whole, [], []], dtypes=["float", "Scalar", "Scalar"], values=sorting):
                if device:
                    b.kernel("radixSortKVInPlace", us=100)
                with b.op(
                    "aten::sort", shapes=[whole, [], []], dtypes=["float", "Scalar", "Scalar"], values=sorting, us=us
                ):
                    pass
            for name in between:
                with b.op(name, shapes=[whole, whole], dtypes=["float", dtype], us=1):
                    pass
            for name, *numbers in slices:
                texts = ["", *map(str, numbers), *(["1"] if name == "aten::slice" else [])]
                with b.op(
                    name,
                    shapes=[whole, *([] for _ in texts[1:])],
                    dtypes=[dtype, *("Scalar" for _ in texts[1:])],
                    values=texts,
                    us=1,
                ):
                    pass
            with b.op("aten::mm", us=10_000 - us - len(slices) - len(between)):
                pass
    return b


# 2 of 10 ms; 64 k = n, so that 96 % of them go: the middle of 80 % and all of that is 17.3 % of the step.
@fires(cost_ms=2.0, cost_share=0.2, occurrences=3, severity="high", op="aten::argsort")
def the_nearest_sixteen() -> TraceBuilder:
    return steps(("aten::slice", 1, 0, 16))


@fires(cost_ms=2.0)
def the_last_ten_of_sorted_values() -> TraceBuilder:
    return steps(("aten::slice", -1, -10, 9223372036854775807), sort="aten::sort", dtype="float")


@fires(cost_ms=2.0)
def the_first_but_for_itself() -> TraceBuilder:
    return steps(("aten::slice", 1, 1, 17))


@fires(cost_ms=2.0)
def narrowed() -> TraceBuilder:
    return steps(("aten::narrow", 1, 0, 16))


# 1 - (0.18 + 8 / 1024) of 2 ms go.
@fires(cost_ms=2.0, severity="medium")
def the_value_in_the_middle() -> TraceBuilder:
    return steps(("aten::select", 1, 512, 0), sort="aten::sort", dtype="float")


@fires(cost_ms=2.0)
def reversed_first() -> TraceBuilder:
    return steps(("aten::slice", 1, 0, 16), between=["aten::flip"])


# Half of them: nothing that a selection does much faster.
@quiet
def half_of_the_places() -> TraceBuilder:
    return steps(("aten::slice", 1, 0, 512))


@quiet
def both_parts_are_used() -> TraceBuilder:
    return steps(("aten::slice", 1, 0, 16), ("aten::slice", 1, 16, 1024))


@quiet
def the_order_is_used_as_a_whole() -> TraceBuilder:
    return steps(("aten::slice", 1, 0, 16), between=["aten::gather"])


# A sum of the sorted values up to each place needs them all.
@quiet
def sorted_values_are_summed_up() -> TraceBuilder:
    return steps(("aten::slice", 1, 0, 16), sort="aten::sort", dtype="float", between=["aten::cumsum"])


@quiet
def a_slice_of_another_dimension() -> TraceBuilder:
    return steps(("aten::slice", 0, 0, 4))


@quiet
def nothing_is_sliced() -> TraceBuilder:
    return steps()


@quiet
def a_sort_without_its_dimension() -> TraceBuilder:
    return steps(("aten::slice", 1, 0, 16), values=["", "", ""])


# topk of the quantile's own making is another rule's.
@quiet
def inside_of_another_operator() -> TraceBuilder:
    b = TraceBuilder(None, host_us=0)
    for _ in range(3):
        with b.step(), b.op("aten::unique_dim", shapes=[[ROWS, LENGTH]]):
            with b.op("aten::sort", shapes=[[ROWS, LENGTH], [], []], values=["", "-1", "False"], us=2000):
                pass
            with b.op("aten::slice", shapes=[[ROWS, LENGTH], [], [], [], []], values=["", "1", "0", "16", "1"], us=1):
                pass
    return b


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(("aten::slice", 1, 0, 16), device="NVIDIA A100-SXM4-80GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(("aten::slice", 1, 0, 16), shapes=False)


@edge
def a_quarter_of_the_places(over: bool) -> TraceBuilder:
    return steps(("aten::slice", 1, 0, 256 if over else 257))


@edge
def sixty_four_values(over: bool) -> TraceBuilder:
    return steps(("aten::slice", 1, 0, 1), length=64 if over else 63)


@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    """90 % of 96 % of 0.58 or 0.57 ms of 10: 5.01 or 4.92 %."""
    return steps(("aten::slice", 1, 0, 16), us=580 if over else 570)
