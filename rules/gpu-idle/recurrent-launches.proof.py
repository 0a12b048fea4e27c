"""Proof of gpu-idle/recurrent-launches: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

OP = "aten::_cudnn_rnn"


def steps(
    launches: int = 100,
    *,
    op: str = OP,
    every_us: float = 10,
    kernel_us: float = 5,
    device: str = "Tesla V100-SXM2-16GB",
) -> TraceBuilder:
    """Steps of a layer that launches so many kernels of 5 us, one every 10, and a product of 1 ms."""
    b = TraceBuilder(device, host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.op(op):
                for _ in range(launches):
                    b.kernel("persist_RNN_elementWise", us=kernel_us)
                    b.idle(us=every_us)
            with b.op("aten::mm", us=1000):
                b.kernel("volta_sgemm_128x64_nn", us=1000)
            b.sync()
    return b


# 100 times 5 of 10 us are idle, but for the last that the product follows at once.
@fires(cost_ms=0.5, occurrences=400, severity="medium", op=OP)
def a_layer_of_a_hundred_time_steps() -> TraceBuilder:
    return steps()


@fires(cost_ms=0.5, occurrences=400)
def on_amd() -> TraceBuilder:
    return steps(op="aten::miopen_rnn", device="AMD Instinct MI300X")


@quiet
def kernels_that_last_longer_than_their_launches() -> TraceBuilder:
    return steps(kernel_us=20)


# gpu-idle/launch-bound speaks of operators that a compiler can take.
@quiet
def other_operators() -> TraceBuilder:
    return steps(op="aten::add")


@edge
def fifty_gaps(over: bool) -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(2):
        with b.step():
            with b.op(OP):
                for _ in range(25 if over else 24):
                    b.kernel("persist_RNN_elementWise", us=5)
                    b.idle(us=100)
            with b.op("aten::mm", us=10):
                b.kernel("volta_sgemm_128x64_nn", us=10)
            b.sync()
    return b


@edge
def gaps_of_a_millisecond(over: bool) -> TraceBuilder:
    return steps(30, every_us=950 if over else 1050)


@quiet("not_applicable")
def replayed_as_a_graph() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.op(OP):
                b.graph([("persist_RNN_elementWise", 5)] * 50)
            b.sync()
    return b


@lacks("gpu")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone(OP)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("persist_RNN_elementWise")
