"""Proof of distributed/exposed-communication: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GPU = "NVIDIA A100-SXM4-80GB"


def training(exposed_us: int, *, hidden_us: int = 0, backward: bool = True, steps: int = 4) -> TraceBuilder:
    """Steps of 100 ms in which an all-reduce of 100 MB follows the computation; part of it may be hidden behind that."""
    b = TraceBuilder(GPU, rank=0, world_size=8)
    for number in range(steps):
        start = number * 100_000
        with b.step():
            with b.op("aten::mm", seq=number):
                b.kernel("ampere_sgemm_128x64_tn", us=40_000, at_us=start + 200)
            with b.op("MmBackward0", seq=number, fwd_thread=1) if backward else b.op("aten::mm"):
                b.kernel("ampere_sgemm_128x64_nt", us=30_000, at_us=start + 40_200)
                b.collective("all_reduce", 100_000_000, us=hidden_us + exposed_us, at_us=start + 70_200 - hidden_us)
            b.sync("cudaDeviceSynchronize")  # the host waits for the GPU, which sets the pace
            b.seek((number + 1) * 100_000)
    return b


# 12 ms of each step of 100 ms, in four steps.
@fires(cost_ms=12.0, cost_share=0.12, occurrences=4, severity="medium", op="record_param_comms")
def a_reduction_after_the_backward_pass() -> TraceBuilder:
    return training(12_000)


# 20 ms run beside the backward pass and 7 ms after it: 7 ms count.
@fires(cost_ms=7.0, severity="low")
def only_what_computation_does_not_hide() -> TraceBuilder:
    return training(7_000, hidden_us=20_000)


def exchanging(dtype: str, *, early: bool) -> TraceBuilder:
    """Steps of 100 ms with an exchange of 20 ms, 15 of them alone.

    The kernel that runs meanwhile was launched behind it (*early*), or before it.
    """
    b = TraceBuilder(GPU, rank=0, world_size=8)
    for number in range(4):
        start = number * 100_000
        with b.step():
            with b.op("aten::mm", seq=number):
                b.kernel("ampere_sgemm_128x64_tn", us=40_000 if early else 45_000, at_us=start + 200)
            b.collective("all_to_all", 100_000_000, us=20_000, dtype=dtype, at_us=start + 40_200)
            if early:
                with b.op("aten::relu"):
                    b.kernel("elementwise_kernel", us=5_000, at_us=start + 40_200)
            with b.op("MmBackward0", seq=number, fwd_thread=1):
                b.kernel("ampere_sgemm_128x64_nt", us=30_000, at_us=start + 60_200)
            b.sync("cudaDeviceSynchronize")
            b.seek((number + 1) * 100_000)
    return b


@fires(cost_ms=15.0, fix="Even out the ranks' tables, then send fewer bytes: the call is asynchronous already")
def an_exchange_that_is_started_early() -> TraceBuilder:
    return exchanging("Float", early=True)


@fires(cost_ms=15.0, fix="Even out the ranks' tables: the exchange is async and in 8 bits")
def one_of_bytes() -> TraceBuilder:
    return exchanging("Byte", early=True)


@fires(cost_ms=15.0, fix="Start the exchange early, work on what does not need it, and wait where it is used")
def one_beside_which_only_older_work_runs() -> TraceBuilder:
    return exchanging("Float", early=False)


@quiet
def a_reduction_beside_the_backward_pass() -> TraceBuilder:
    return training(0, hidden_us=20_000)


@quiet("not_applicable")
def a_forward_pass_alone() -> TraceBuilder:
    return training(12_000, backward=False)


@edge
def exposed_for_5_percent_of_the_step(over: bool) -> TraceBuilder:
    return training(5_010 if over else 4_990)


@lacks("gpu")
def launches_but_no_gpu_work() -> TraceBuilder:
    return launches_alone(backward="MmBackward0", device=GPU, rank=0, world_size=8)
