"""Proof of gpu-idle/eager-parts: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(
    launches: int = 20, replayed: int = 60, *, host_us: int = 10, replayed_us: int = 10, gpu: bool = True
) -> TraceBuilder:
    """Steps of operators for which the device idles 10 us each, and of one replay of kernels of 10 us each."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            for _ in range(launches):
                with b.op("aten::relu"):
                    b.call("cudaGetDevice", 1)
                    b.idle(us=host_us - 1)
                    b.kernel("elementwise_kernel", us=10)
                b.idle(us=10)
            if replayed:
                b.graph([("elementwise_kernel", replayed_us)] * replayed)
            b.sync()
    return b


# 20 times a step the device idles for 10 us; the first wait of a step behind a synchronization is that one's.
@fires(
    cost_ms=0.1925,
    occurrences=77,
    severity="high",
    op="aten::relu",
    fix="Compile the parts that still launch one by one",
)
def a_part_beside_a_graph() -> TraceBuilder:
    return steps()


@quiet
def a_part_of_few_launches() -> TraceBuilder:
    return steps(2)


@quiet
def a_part_whose_launches_the_gpu_does_not_wait_for() -> TraceBuilder:
    return steps(host_us=2, replayed_us=200)


@edge
def half_of_the_kernels_in_graphs(over: bool) -> TraceBuilder:
    return steps(20, 20 if over else 19)


# Ten waits in all, of 10 us.
@edge
def ten_waits(over: bool) -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.step():
        for _ in range(10 if over else 9):
            with b.op("aten::relu"):
                b.idle(us=10)
                b.kernel("elementwise_kernel", us=10)
            b.idle(us=10)
        b.graph([("elementwise_kernel", 10)] * 20)
        b.sync()
    return b


# Of 4 percent of the step, 2.5 are the middle of what goes.
@edge
def a_twenty_fifth_of_the_step(over: bool) -> TraceBuilder:
    return steps(replayed_us=60 if over else 100)


@lacks("gpu", verdict="not_applicable")
def no_gpu_recorded() -> TraceBuilder:
    return host_alone("aten::relu")
