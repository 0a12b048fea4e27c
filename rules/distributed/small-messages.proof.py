"""Proof of distributed/small-messages: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GPU = "NVIDIA A100-SXM4-80GB"


def reductions(count: int = 40, us: int = 200, *, nbytes: int = 65_536, world_size: int = 8) -> TraceBuilder:
    """Four steps of 100 ms: forward, backward, and then *count* reductions, none of them hidden."""
    b = TraceBuilder(GPU, rank=0, world_size=world_size)
    for number in range(4):
        start = number * 100_000
        with b.step():
            with b.op("aten::mm", seq=number):
                b.kernel("ampere_sgemm_128x64_tn", us=20_000, at_us=start + 200)
            with b.op("MmBackward0", seq=number, fwd_thread=1):
                b.kernel("ampere_sgemm_128x64_nt", us=30_000, at_us=start + 20_200)
                for index in range(count):
                    b.collective("all_reduce", nbytes, us=us, at_us=start + 50_200 + index * us)
            b.sync("cudaDeviceSynchronize")  # the host waits for the GPU, which sets the pace
            b.seek((number + 1) * 100_000)
    return b


# 40 reductions of 64 KiB, 0.2 ms each: 8 ms of 100 ms, 160 of them in four steps.
@fires(cost_ms=8.0, cost_share=0.08, occurrences=160, severity="medium")
def a_reduction_for_each_parameter() -> TraceBuilder:
    return reductions()


@quiet
def buckets_of_25_MB() -> TraceBuilder:
    return reductions(nbytes=26_214_400)


# Sizes were not recorded: nothing is said, not that all is well.
@quiet("not_run")
def messages_of_unknown_size() -> TraceBuilder:
    b = TraceBuilder(GPU, rank=0, world_size=8)
    for number in range(4):
        with b.step():
            with b.op("aten::mm", seq=number):
                b.kernel("ampere_sgemm_128x64_tn", us=20_000)
            with b.op("MmBackward0", seq=number, fwd_thread=1):
                for _ in range(40):
                    b.kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", us=200, stream=20)
            b.sync("cudaDeviceSynchronize")
    return b


@edge
def messages_of_1_MB(over: bool) -> TraceBuilder:
    return reductions(nbytes=999_996 if over else 1_000_000)


@edge
def twenty_a_step(over: bool) -> TraceBuilder:
    return reductions(20 if over else 19, us=300)


@edge
def two_percent_of_the_step(over: bool) -> TraceBuilder:
    return reductions(20, us=101 if over else 99)


@lacks("gpu")
def launches_but_no_gpu_work() -> TraceBuilder:
    return launches_alone(backward="MmBackward0", device=GPU, rank=0, world_size=8)
