"""Proof of profile/slowed-device: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

A100 = "NVIDIA A100-SXM4-80GB"


def forward(
    slow: range = range(8, 16),
    *,
    us: float = 800,
    every: int = 40,
    names: tuple[str, ...] = ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x32_tn"),
    beside: bool = False,
    steps: int = 0,
    shapes: bool = True,
) -> TraceBuilder:
    """Products of 400 us, two kernels in turn on the same shapes; those in *slow* take *us*."""
    b = TraceBuilder(A100, host_us=1, latency_us=0, record_shapes=shapes)

    def products() -> None:
        for at in range(every):
            with b.op("aten::mm", shapes=[[4096, 1024], [1024, 4096]]):
                product = b.kernel(names[at % len(names)], us=us if at in slow else 400)
            if beside and at in slow:
                b.kernel("ncclDevKernel_AllReduce", us=300, stream=20, launched=False, at_us=product.start_ns / 1000)
        b.sync()

    for _ in range(steps):
        with b.step():
            products()
    if not steps:
        products()
    return b


# Eight of forty products take 400 us more: 3.2 of 19.2 ms.
@fires(severity="note")
def eight_products_in_a_row_take_twice_as_long() -> TraceBuilder:
    return forward()


@quiet
def products_that_always_take_alike() -> TraceBuilder:
    return forward(range(0))


@quiet
def slow_products_here_and_there() -> TraceBuilder:
    return forward(range(0, 40, 5))


@quiet
def slow_products_of_one_sort() -> TraceBuilder:
    return forward(names=("ampere_sgemm_128x64_tn",))


@quiet
def the_same_products_of_every_step() -> TraceBuilder:
    return forward(steps=4)


@quiet
def something_runs_beside_them() -> TraceBuilder:
    return forward(beside=True)


@edge
def half_as_long_again(over: bool) -> TraceBuilder:
    return forward(us=601 if over else 600)


# Four products that take 400 us more are 1.6 ms of 17.6; of a longer program they are under 3 %.
@edge
def three_percent_of_the_time(over: bool) -> TraceBuilder:
    return forward(range(8, 12), every=120 if over else 140)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return forward(shapes=False)
