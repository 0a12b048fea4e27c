"""Proof of cpu/growing-work: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

EACH = (11, 12, 13, 14, 15, 16)


def training(
    kept: Sequence[int] = EACH,
    *,
    us: float = 100,
    rest: float = 800,
    name: str = "aten::argmax",
    steps: bool = True,
    shapes: bool = True,
    stacks: bool = True,
) -> TraceBuilder:
    """Steps that take a product, and then go over so many batches of 100 rows; a batch takes *us* / 10."""
    b = TraceBuilder(None, host_us=0, record_shapes=shapes)

    def step(batches: int) -> None:
        for line, op, dims, length in (
            (7, "aten::addmm", [[10], [100, 20], [20, 10]], rest),
            (9, name, [[100 * batches, 10]], us * batches / 10),
        ):
            with b.op(op, shapes=dims, us=length, args={"Call stack": f"run.py({line}): main"} if stacks else {}):
                pass

    for batches in kept:
        if steps:
            with b.step():
                step(batches)
        else:
            step(batches)
    return b


# 110, 120 ... 160 us in six steps of 800 us and that: 135 on average.
@fires(cost_ms=0.135, occurrences=6, severity="high", line="run.py:9")
def a_metric_of_all_batches() -> TraceBuilder:
    return training()


@fires
def lists_by_what_they_allocate() -> TraceBuilder:
    b = TraceBuilder(None, host_us=0)
    for batches in EACH:
        with b.step():
            with b.op("aten::addmm", shapes=[[10], [100, 20], [20, 10]], us=800):
                pass
            with b.op("aten::cat", shapes=[[], []], us=200, args={"Call stack": "run.py(9): main"}):
                b.memory(4000 * batches, device=-1)
    return b


def drawn(*, masked: bool = False) -> TraceBuilder:
    """Steps that draw as many rows from more and more: with an index, of which only what it allocates is told, and in place."""
    b = TraceBuilder(None, host_us=0)
    rows = {"Call stack": "run.py(9): main"}
    for batches in EACH:
        kept = [100 * batches, 10]
        with b.step():
            with b.op("aten::index", shapes=[kept, []], us=500, args=rows):
                if masked:
                    with b.op("aten::nonzero", shapes=[kept[:1]], us=400, args=rows):
                        pass
                b.memory(4000, device=-1)
            with b.op("aten::index_select", shapes=[kept, [], [50]], us=500, args=rows):
                pass
            with b.op("aten::index_put_", shapes=[kept, [], [50, 10], []], us=500, args=rows):
                pass
            with b.op("aten::slice", shapes=[kept, [], [], [], []], us=50, args=rows):
                pass
            with b.op(
                "aten::addmm", shapes=[[10], [100, 20], [20, 10]], us=100, args={"Call stack": "run.py(7): main"}
            ):
                pass
    return b


# A mask has as many places as what it is of: the index goes over all of it, 0.5 ms of 1.65.
@fires(cost_ms=0.5, occurrences=12)
def rows_by_a_mask() -> TraceBuilder:
    return drawn(masked=True)


# The product of 0.4 ms takes as much in each step; the one of all that was kept takes 0.11 to 0.16.
@fires(cost_ms=0.135, occurrences=6)
def one_of_two_products_of_a_line() -> TraceBuilder:
    b = TraceBuilder(None, host_us=0)
    for batches in EACH:
        with b.step():
            for rows, us in ((5000, 400), (100 * batches, 10 * batches)):
                with b.op("aten::mm", shapes=[[rows, 20], [20, 10]], us=us, args={"Call stack": "run.py(9): main"}):
                    pass
    return b


# As many rows in each step, of however many there are.
@quiet
def rows_drawn_from_what_was_kept() -> TraceBuilder:
    return drawn()


@quiet
def batches_of_one_length() -> TraceBuilder:
    return training([11] * 6)


@quiet
def batches_of_other_lengths() -> TraceBuilder:
    return training([11, 14, 12, 19, 13, 15])


# Sorted by length they grow, though not by the same amount each time.
@quiet
def batches_sorted_by_length() -> TraceBuilder:
    return training([11, 12, 14, 15, 17, 18])


@quiet
def a_metric_that_starts_anew() -> TraceBuilder:
    return training([14, 15, 16, 1, 2, 3])


@quiet
def fewer_steps() -> TraceBuilder:
    return training(EACH[:3])


# 0.75 of 13.5 us in the middle: 1.5 % of 675 us.
@edge
def two_of_a_hundred(over: bool) -> TraceBuilder:
    return training(us=10, rest=640 if over else 680)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return training(stacks=False)


@lacks("steps")
def no_steps() -> TraceBuilder:
    return training(steps=False)
