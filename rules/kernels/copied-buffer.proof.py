"""Proof of kernels/copied-buffer: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.host import Allocation
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

ROWS, WIDTH = 256, 4096
END = "9223372036854775807"


def steps(
    *,
    us: float = 1000,
    new: int = 1,
    first: str | None = None,
    lives: bool = True,
    shapes: bool = True,
    device: str | None = "NVIDIA H100 80GB HBM3",
) -> TraceBuilder:
    """Steps of 10 ms: all but the first rows of a buffer, with new ones behind them, are the next buffer."""
    b = TraceBuilder(device, host_us=1, record_shapes=shapes)
    whole, kept = [ROWS, WIDTH], [ROWS - new, WIDTH]
    values = ["", "0", str(new) if first is None else first, END, "1"]
    before: Allocation | None = None
    for _ in range(6):
        with b.step():
            with b.op("aten::slice", shapes=[whole, [], [], [], []], values=values, us=1):
                pass
            with b.op("aten::cat", shapes=[[kept, [new, WIDTH]], []], values=["", "0"], us=1):
                made = b.memory(4 * ROWS * WIDTH)
                if device:
                    b.kernel("CatArrayBatchedCopy_vectorized", us=us)
            if before is not None and lives:
                b.release(before)
            with b.op("aten::mm", us=1):
                if device:
                    b.kernel("nvjet_tst_128x128", us=10_000 - us)
            if not lives:
                b.release(made)
            before = made
            if device:
                b.sync()
    return b


def growing(*, start: int = ROWS) -> TraceBuilder:
    """Steps of 10 ms: a tensor grows by a row in each."""
    b = TraceBuilder("NVIDIA H100 80GB HBM3", host_us=1)
    for number in range(8):
        with b.step():
            with b.op("aten::cat", shapes=[[[start + number, WIDTH], [1, WIDTH]], []], values=["", "0"], us=1):
                b.kernel("CatArrayBatchedCopy_vectorized", us=1000)
            with b.op("aten::mm", us=1):
                b.kernel("nvjet_tst_128x128", us=9000)
            b.sync()
    return b


# 1 of 10 ms; but for 10 us 90 to 100 % of it return.
@fires(cost_ms=1.0, cost_share=0.1, occurrences=6, severity="medium", op="aten::cat")
def a_history_drops_its_oldest_row() -> TraceBuilder:
    return steps()


# The first length is no repetition: 7 of 8.
@fires(cost_ms=0.875, occurrences=7)
def predictions_that_grow() -> TraceBuilder:
    return growing()


# Inputs of a decoder are shifted by one as well, but made from new data each time.
@quiet
def shifted_targets() -> TraceBuilder:
    return steps(lives=False)


@quiet
def a_slice_that_drops_other_rows() -> TraceBuilder:
    return steps(first="5")


@quiet
def it_grows_from_a_few_rows() -> TraceBuilder:
    return growing(start=1)


@quiet("not_run")
def a_program_on_the_cpu() -> TraceBuilder:
    return steps(device=None)


@edge
def eight_times_the_new_rows(over: bool) -> TraceBuilder:
    return steps(new=28 if over else 29)


@edge
def a_fiftieth_of_the_step(over: bool) -> TraceBuilder:
    """Of *us* but for 10 us 95 % are 2 % of 10 ms from 221 us on."""
    return steps(us=223 if over else 218)


@lacks("host")
def kernels_alone_were_recorded() -> TraceBuilder:
    return kernels_alone("CatArrayBatchedCopy_vectorized")


@lacks("gpu")
def launches_alone_were_recorded() -> TraceBuilder:
    return launches_alone("aten::cat")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(shapes=False)
