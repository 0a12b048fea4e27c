"""Proof of kernels/rank-sort: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

WHOLE = [256, 4096]


def ranking(
    *,
    us: float = 1000,
    target: tuple[int, int] = (256, 1),
    also: str = "",
    shapes: bool = True,
    device: str | None = "NVIDIA H100 80GB HBM3",
) -> TraceBuilder:
    """Steps of 10 ms, of which a sort of scores takes *us*; its order is compared with *target*, and read by *also*."""
    b = TraceBuilder(device, host_us=1, record_shapes=shapes)

    def run(
        name: str, time: float, operands: list[list[int]], dtypes: list[str], values: list[str] | None = None
    ) -> None:
        with b.op(name, shapes=operands, dtypes=dtypes, values=values, us=1):
            if device and time:
                b.kernel("radix_sort" if "sort" in name else "elementwise_kernel", us=time)

    for _ in range(3):
        with b.step():
            run("aten::argsort", us, [WHOLE, [], []], ["float", "Scalar", "Scalar"], ["", "1", "True"])
            run("aten::eq", 50, [WHOLE, list(target)], ["long int", "long int"])
            if also:
                run(also, 50, [WHOLE, [], WHOLE], ["float", "Scalar", "long int"])
            run("aten::argmax", 50, [WHOLE, [], []], ["bool", "Scalar", "Scalar"])
            run("aten::mm", 9900 - us, [[8, 8], [8, 8]], ["float", "float"])
            if device:
                b.sync()
    return b


# 1 of 10 ms; but for 10 us 90 to 100 % of it go: the middle is 9.4 % of the step.
@fires(cost_ms=1.0, cost_share=0.1, occurrences=3, severity="medium", op="aten::argsort")
def the_rank_of_the_true_candidate() -> TraceBuilder:
    return ranking()


@quiet
def the_order_picks_labels_as_well() -> TraceBuilder:
    return ranking(also="aten::gather")


@quiet
def an_order_compared_with_another_one() -> TraceBuilder:
    return ranking(target=(256, 4096))


@quiet("not_applicable")
def a_program_on_the_cpu() -> TraceBuilder:
    return ranking(device=None)


@edge
def a_fiftieth_of_the_step(over: bool) -> TraceBuilder:
    """Of *us* but for 10 us 95 % are 2 % of 10 ms from 221 us on."""
    return ranking(us=223 if over else 218)


@lacks("host")
def kernels_alone_were_recorded() -> TraceBuilder:
    return kernels_alone("radix_sort")


@lacks("gpu")
def launches_alone_were_recorded() -> TraceBuilder:
    return launches_alone("aten::argsort")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return ranking(shapes=False)
