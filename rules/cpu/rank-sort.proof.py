"""Proof of cpu/rank-sort: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

ROWS, LENGTH = 64, 4096
EQ = ("aten::eq", [[ROWS, LENGTH], [ROWS, 1]], ["long int", "long int"])
Reads = tuple[str, Sequence[Sequence[int]], Sequence[str]]


def ranking(
    *reads: Reads, us: float = 2000, sort: str = "aten::argsort", shapes: bool = True, device: str | None = None
) -> TraceBuilder:
    """Steps of 10 ms, of which a sort of rows of scores takes *us*; then what reads the order."""
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
                with b.op(name, shapes=sizes, dtypes=types, us=1):
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
    return ranking(EQ, sort="aten::sort")


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
