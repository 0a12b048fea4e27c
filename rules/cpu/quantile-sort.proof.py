"""Proof of cpu/quantile-sort: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

LENGTH = 100_000


def steps(
    us: float = 2000,
    *,
    name: str = "aten::quantile",
    quantiles: list[int] | None = None,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 10 ms, of which the sort inside of a quantile takes *us*."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    for _ in range(3):
        with b.step():
            sort = b.op("aten::sort", shapes=[[LENGTH], [], []], values=["", "-1", "False"], us=us)
            with b.op(name, shapes=[[LENGTH], quantiles or []]), sort:
                if device:
                    b.kernel("radixSortKVInPlace", us=100)
            with b.op("aten::mm", us=10_000 - us):
                pass
    return b


# 2 of 10 ms, of which 82 % go.
@fires(cost_ms=2.0, cost_share=0.2, occurrences=3, severity="medium", op="aten::quantile")
def one_percentile() -> TraceBuilder:
    return steps()


@fires(cost_ms=4.0, severity="high")
def two_of_numbers_that_may_be_nan() -> TraceBuilder:
    return steps(4000, name="aten::nanquantile", quantiles=[2])


@quiet
def a_sort_of_its_own() -> TraceBuilder:
    return steps(name="aten::argsort")


def on_the_gpu(asked: str = "0.9", *, length: int = LENGTH, us: float = 2000) -> TraceBuilder:
    """The same on a GPU: the quantile takes one number, and calls another one that takes a tensor."""
    b = TraceBuilder("NVIDIA A100-SXM4-80GB", host_us=1)
    for _ in range(3):
        with b.step():
            sizes, given = [[length], [], [], [], []], ["", asked, "", "False", "linear"]
            outer = b.op("aten::quantile", shapes=sizes, values=given)
            inner = b.op("aten::quantile", shapes=sizes, values=["", "", *given[2:]])
            sort = b.op("aten::sort", shapes=[[length], [], []], values=["", "-1", "False"])
            with outer, inner, sort:
                b.kernel("radixSortKVInPlace", us=us)
            with b.op("aten::mm"):
                b.kernel("ampere_sgemm_128x64_tn", us=10_000 - us)
            b.sync()
    return b


# 2 of 10 ms: a tenth of the values, 0.18 of the sort and 20 us stay, 71 % go.
@fires(cost_ms=2.0, cost_share=0.2, severity="medium", fix="Take the values up to that rank with topk")
def a_percentile_on_a_gpu() -> TraceBuilder:
    return on_the_gpu()


@quiet
def the_median_on_a_gpu() -> TraceBuilder:
    return on_the_gpu("0.5")


@quiet
def a_quantile_that_was_not_recorded() -> TraceBuilder:
    return on_the_gpu("")


@edge
def more_values_than_a_block_sorts(over: bool) -> TraceBuilder:
    return on_the_gpu(length=4097 if over else 4096)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(shapes=False)


@edge
def three_quantiles(over: bool) -> TraceBuilder:
    return steps(quantiles=[3] if over else [4])


@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    """90 % of 82 % of 0.68 or 0.67 ms of 10: 5.02 or 4.94 %."""
    return steps(680 if over else 670)
