"""Proof of distributed/exposed-forward-communication: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GPU = "NVIDIA A100-SXM4-80GB"


def forward(exposed_us: int, *, hidden_us: int = 0, backward: bool = False) -> TraceBuilder:
    """Four steps of 100 ms: two matmuls with an exchange between them, part of which may be hidden behind the first."""
    b = TraceBuilder(GPU, rank=0, world_size=8)
    for number in range(4):
        start = number * 100_000
        with b.step():
            with b.op("aten::mm", seq=number):
                b.kernel("ampere_sgemm_128x64_tn", us=40_000, at_us=start + 200)
            b.collective("all_reduce", 64_000_000, us=hidden_us + exposed_us, at_us=start + 40_200 - hidden_us)
            with b.op("MmBackward0", seq=number, fwd_thread=1) if backward else b.op("aten::mm"):
                b.kernel("ampere_sgemm_128x64_nt", us=30_000, at_us=start + 40_200 + exposed_us)
            b.sync("cudaDeviceSynchronize")  # the host waits for the GPU, which sets the pace
            b.seek((number + 1) * 100_000)
    return b


# 12 ms of each step of 100 ms, in four steps.
@fires(cost_ms=12.0, cost_share=0.12, occurrences=4, severity="medium", op="record_param_comms")
def an_exchange_that_the_next_operator_waits_for() -> TraceBuilder:
    return forward(12_000)


@quiet
def an_exchange_beside_computation() -> TraceBuilder:
    return forward(0, hidden_us=12_000)


@quiet("not_applicable")
def a_step_of_training() -> TraceBuilder:
    return forward(12_000, backward=True)


@edge
def exposed_for_5_percent_of_the_step(over: bool) -> TraceBuilder:
    return forward(5_010 if over else 4_990)


@lacks("gpu")
def launches_but_no_gpu_work() -> TraceBuilder:
    return launches_alone("aten::mm", device=GPU, rank=0, world_size=8)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    b = TraceBuilder(GPU, rank=0, world_size=8)
    b.kernel("ampere_sgemm_128x64_tn", us=1_000, launched=False)
    b.event(
        {
            "ph": "X",
            "cat": "kernel",
            "name": "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "pid": 0,
            "tid": 20,
            "args": {"device": 0, "stream": 20, "correlation": 999_999},
        },
        us=5_000,
        at_us=1_100,
    )
    return b
