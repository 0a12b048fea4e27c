"""Proof of cpu/rank-sort: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

ROWS, LENGTH = 64, 4096
EQ = ("aten::eq", [[ROWS, LENGTH], [ROWS, 1]], ["long int", "long int"])
Reads = tuple[str, Sequence[Sequence[int]], Sequence[str]]


def ranking(
    *reads: Reads,
    us: float = 2000,
    sort: str = "aten::argsort",
    places: int = 0,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 10 ms, of which a sort of rows of scores takes *us*; then what reads the order, or so many places of it."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    for _ in range(3):
        with b.step():
            operands = {
                "shapes": [[ROWS, LENGTH], [], []],
                "dtypes": ["float", "Scalar", "Scalar"],
                "values": ["", "1", "True"],
            }
            with b.op(sort, **operands):
                if device:
                    b.kernel("radixSortKVInPlace", us=100)
                with b.op("aten::sort", **operands, us=us):
                    pass
            for name, sizes, types in reads:
                taken = ["", "1", "0", str(places), "1"] if name == "aten::slice" else None
                with b.op(name, shapes=sizes, dtypes=types, values=taken, us=1):
                    pass
            with b.op("aten::mm", us=10_000 - us - len(reads)):
                pass
    return b


# 2 of 10 ms, of which 92 to 100 % go: the middle is 19.2 % of the step.
@fires(cost_ms=2.0, cost_share=0.2, occurrences=3, severity="high", op="aten::argsort")
def the_rank_of_the_true_candidate() -> TraceBuilder:
    largest = ("aten::argmax", [[ROWS, LENGTH], [], []], ["int", "Scalar", "Scalar"])
    return ranking(EQ, ("aten::to", [[ROWS, LENGTH]], ["bool"]), largest)


@fires
def the_same_number_for_all_rows() -> TraceBuilder:
    return ranking(("aten::eq", [[ROWS, LENGTH], [1, 1]], ["long int", "long int"]))


FIRST_TEN = ("aten::slice", [[ROWS, LENGTH], [], [], [], []], ["long int", "Scalar", "Scalar", "Scalar", "Scalar"])


# The ten first places of 4,096 as well: 64 * 10 <= 4096, so a selection of them spares 96 % of the 2 ms.
@fires(cost_ms=2.0, cost_share=0.2, occurrences=3, severity="high", op="aten::argsort")
def the_rank_and_the_first_places() -> TraceBuilder:
    return ranking(EQ, FIRST_TEN, places=10)


@quiet
def the_rank_and_half_of_the_places() -> TraceBuilder:
    return ranking(EQ, FIRST_TEN, places=LENGTH // 2)


@fires
def a_sort_of_which_the_order_alone_is_asked() -> TraceBuilder:
    return ranking(("aten::eq", [[ROWS, 1], [ROWS, LENGTH]], ["long int", "long int"]), sort="aten::sort")


@fires
def truth_values_as_numbers_behind_a_sort() -> TraceBuilder:
    as_float = ("aten::to", [[ROWS, LENGTH], []], ["bool", "Scalar"])
    return ranking(
        EQ, as_float, ("aten::argmax", [[ROWS, LENGTH], [], []], ["float", "Scalar", "Scalar"]), sort="aten::sort"
    )


@quiet
def the_order_picks_labels_as_well() -> TraceBuilder:
    return ranking(EQ, ("aten::gather", [[ROWS, LENGTH], [], [ROWS, LENGTH]], ["float", "Scalar", "long int"]))


@quiet
def an_order_compared_with_another_one() -> TraceBuilder:
    return ranking(("aten::eq", [[ROWS, LENGTH], [ROWS, LENGTH]], ["long int", "long int"]))


@quiet
def an_order_that_nothing_reads() -> TraceBuilder:
    return ranking()


@quiet
def values_that_were_sorted_too() -> TraceBuilder:
    return ranking(EQ, ("aten::cumsum", [[ROWS, LENGTH], [], []], ["float", "Scalar", ""]), sort="aten::sort")


@quiet
def first_values_that_were_sorted_too() -> TraceBuilder:
    return ranking(EQ, (FIRST_TEN[0], FIRST_TEN[1], ["float", *FIRST_TEN[2][1:]]), sort="aten::sort", places=10)


@quiet("not_applicable")
def on_a_gpu() -> TraceBuilder:
    return ranking(EQ, device="NVIDIA A100-SXM4-80GB")


@edge
def six_per_cent_of_the_step(over: bool) -> TraceBuilder:
    """Of 10 ms the sort takes 0.521: 0.96 of 5.21 % is 5.0 %."""
    return ranking(EQ, us=522 if over else 520)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return ranking(EQ, shapes=False)
