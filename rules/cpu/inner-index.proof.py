"""Proof of cpu/inner-index: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def picks(
    strides: str = "[24000, 0]",
    *,
    us: float = 500,
    rest_us: float = 1_000,
    device: str | None = None,
    shapes: bool = True,
) -> TraceBuilder:
    """Steps that pick 256 columns of a matrix; the view inside of it takes 5 us."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    for _ in range(3):
        with b.step():
            with (
                b.python("replay.py(58): sample"),
                b.op("aten::index", us=us, shapes=[[1024, 24000], []], values=["", ""]),
            ):
                values = ["", "[1024, 256]", strides, ""]
                with b.op("aten::as_strided", us=5, shapes=[[1024, 24000], [], [], []], values=values):
                    pass
            with b.op("aten::mm", us=rest_us, shapes=[[512, 64], [64, 8]]):
                if device is not None:
                    b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


# Its view is a call of its own.
@fires(cost_ms=0.495, occurrences=3, severity="high", line="replay.py:58")
def columns_of_a_replay_memory() -> TraceBuilder:
    return picks()


@quiet
def rows() -> TraceBuilder:
    return picks("[0, 1]")


@quiet
def a_place_in_each_of_two_dimensions() -> TraceBuilder:
    return picks("[0, 0]")


@quiet
def of_a_long_step() -> TraceBuilder:
    return picks(rest_us=30_000)


@quiet("not_applicable")
def beside_a_gpu() -> TraceBuilder:
    return picks(device="Tesla V100-SXM2-16GB")


@edge
def twenty_microseconds(over: bool) -> TraceBuilder:
    return picks(us=20 if over else 19, rest_us=10)


@lacks("shapes")
def without_shapes() -> TraceBuilder:
    return picks(shapes=False)
