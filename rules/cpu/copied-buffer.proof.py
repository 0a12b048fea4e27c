"""Proof of cpu/copied-buffer: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.host import Allocation
from advisor.testing.proof import edge, fires, lacks, quiet

ROWS, NEW, WIDTH = 10_000, 64, 32
END = "9223372036854775807"


def steps(
    *,
    us: float = 2000,
    new: int = NEW,
    rows: int = ROWS,
    first: str | None = None,
    last: str = END,
    dim: str = "0",
    behind: bool = False,
    lives: bool = True,
    memory: bool = True,
    count: int = 6,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 10 ms: all but the first rows of a buffer, with new ones behind them, are the next buffer."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes, profile_memory=memory)
    whole, kept = [rows, WIDTH], [rows, WIDTH] if behind else [rows - new, WIDTH]
    cut = [whole if not behind else [rows + new, WIDTH], [], [], [], []]
    values = ["", dim, str(new) if first is None else first, last, "1"]
    before: Allocation | None = None
    for _ in range(count):
        with b.step():
            if not behind:
                with b.op("aten::slice", shapes=cut, values=values, us=1):
                    pass
            with b.op("aten::cat", shapes=[[kept, [new, WIDTH]], []], values=["", "0"], us=us):
                if device:
                    b.kernel("CatArrayBatchedCopy", us=100)
                made = b.memory(4 * rows * WIDTH, device=-1)
            if behind:
                with b.op("aten::slice", shapes=cut, values=values, us=1):
                    pass
            if before is not None and lives:
                b.release(before)
            with b.op("aten::mm", us=9_999 - us):
                pass
            if not lives:
                b.release(made)
            before = made
    return b


def growing(
    *, us: float = 2000, new: int = NEW, start: int = ROWS, training: bool = False, picked: int = 0
) -> TraceBuilder:
    """Steps of 10 ms: a tensor grows by *new* rows in each; *picked* are the rows that an index takes of it, 1 for all,
    -1 where that was not recorded.
    """
    b = TraceBuilder(None, host_us=0)
    for number in range(8):
        with b.step():
            shapes = [[[start + number * new, WIDTH], [new, WIDTH]], []]
            with b.op("aten::cat", shapes=shapes, values=["", "0"], us=us):
                pass
            if picked:
                rows = start + number * new
                indices = [] if picked < 0 else [[rows if picked == 1 else picked]]
                with b.op("aten::index", shapes=[[rows, WIDTH], indices], values=["", ""], us=1):
                    pass
            with b.op("aten::mm", us=10_000 - us):
                pass
            if training:
                with b.backward("MmBackward0", number + 1):
                    pass
    return b


# 2 of 10 ms, of which 90 to 100 % return.
@fires(cost_ms=2.0, cost_share=0.2, occurrences=6, severity="high", op="aten::cat")
def a_memory_drops_its_oldest_rows() -> TraceBuilder:
    return steps()


@fires(cost_ms=2.0)
def new_rows_first() -> TraceBuilder:
    return steps(first="0", last=str(-NEW))


@fires(cost_ms=2.0)
def cut_behind_the_concatenation() -> TraceBuilder:
    return steps(behind=True, first=str(-ROWS))


# The first length is no repetition: 7 of 8.
@fires(cost_ms=1.75, occurrences=7)
def predictions_that_grow() -> TraceBuilder:
    return growing()


@fires(cost_ms=1.75)
def a_history_that_grows_in_training() -> TraceBuilder:
    return growing(training=True)


@fires(cost_ms=1.75)
def a_memory_of_which_some_rows_are_drawn() -> TraceBuilder:
    return growing(picked=256)


@fires(cost_ms=1.75)
def a_memory_in_training_of_which_rows_are_drawn() -> TraceBuilder:
    return growing(picked=-1, training=True)


@quiet
def indices_that_were_not_recorded_in_inference() -> TraceBuilder:
    return growing(picked=-1)


# Beams, which are put in another order each time, as a cache's are.
@quiet
def rows_in_another_order_each_time() -> TraceBuilder:
    return growing(picked=1)


# Inputs of a decoder are shifted by one as well, but made from new data each time.
@quiet
def shifted_targets() -> TraceBuilder:
    return steps(lives=False)


@quiet
def memory_was_not_recorded() -> TraceBuilder:
    return steps(memory=False)


@quiet
def a_slice_that_drops_other_rows() -> TraceBuilder:
    return steps(first="5")


@quiet
def a_slice_of_another_dimension() -> TraceBuilder:
    return steps(dim="1")


@quiet
def twice_only() -> TraceBuilder:
    return steps(count=2)


@quiet
def it_grows_by_as_much_as_it_holds() -> TraceBuilder:
    return growing(start=NEW)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(device="NVIDIA A100-SXM4-80GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(shapes=False)


@edge
def eight_times_the_new_rows(over: bool) -> TraceBuilder:
    return steps(rows=9_000, new=1_000 if over else 1_001)


@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    """95 % of 0.32 or 0.31 ms of 10: 3.04 or 2.95 %."""
    return steps(us=320 if over else 310)
