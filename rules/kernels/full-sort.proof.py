"""Proof of kernels/full-sort: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

ROWS = 512
KINDS = ["float", "Scalar", "Scalar"]


def sorting(
    first: int = 10,
    *,
    us: float = 1000,
    length: int = 32_768,
    between: str = "",
    shapes: bool = True,
    device: str | None = "NVIDIA H100 80GB HBM3",
) -> TraceBuilder:
    """Steps of 10 ms, of which a sort of rows takes *us*, and a slice takes the *first* places of it."""
    b = TraceBuilder(device, host_us=1, record_shapes=shapes)
    whole = [ROWS, length]
    for _ in range(3):
        with b.step():
            operands = {"shapes": [whole, [], []], "dtypes": KINDS, "values": ["", "-1", "True"]}
            with b.op("aten::argsort", **operands), b.op("aten::sort", **operands, us=1):
                if device:
                    b.kernel("DeviceSegmentedRadixSortKernel", us=us)
            if between:
                with b.op(between, shapes=[whole, [], whole], dtypes=["float", "Scalar", "long int"], us=1):
                    pass
            texts = ["", "1", "0", str(first), "1"]
            types = ["long int", "Scalar", "Scalar", "Scalar", "Scalar"]
            with b.op("aten::slice", shapes=[whole, [], [], [], []], dtypes=types, values=texts, us=1):
                pass
            with b.op("aten::mm", us=1):
                if device:
                    b.kernel("nvjet_tst_128x128", us=10_000 - us)
            if device:
                b.sync()
    return b


# 1 of 10 ms; 1 - 0.18 - 10 / 32,768 - 0.02 of it go, or 80 % of that: the middle is 7.2 % of the step.
@fires(cost_ms=1.0, cost_share=0.1, occurrences=3, severity="medium", op="aten::argsort")
def the_ten_largest_of_long_rows() -> TraceBuilder:
    return sorting()


@quiet
def the_order_is_used_as_a_whole() -> TraceBuilder:
    return sorting(between="aten::gather")


@quiet("not_applicable")
def a_program_on_the_cpu() -> TraceBuilder:
    return sorting(device=None)


@edge
def rows_that_no_block_sorts_alone(over: bool) -> TraceBuilder:
    return sorting(length=4097 if over else 4096)


@edge
def a_quarter_of_the_places(over: bool) -> TraceBuilder:
    return sorting(8192 if over else 8193)


@edge
def a_fiftieth_of_the_step(over: bool) -> TraceBuilder:
    """Of *us* 0.8197 go but for 20 us: 90 % of that is 2 % of 10 ms from 296 us on."""
    return sorting(us=297 if over else 294)


@lacks("host")
def kernels_alone_were_recorded() -> TraceBuilder:
    return kernels_alone("DeviceSegmentedRadixSortKernel")


@lacks("gpu")
def launches_alone_were_recorded() -> TraceBuilder:
    return launches_alone("aten::sort")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return sorting(shapes=False)
