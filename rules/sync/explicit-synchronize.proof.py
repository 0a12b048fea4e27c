"""Proof of sync/explicit-synchronize: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.serving import SGLANG, annotation, batch, layers
from advisor.testing.workloads import stalled


def steps(bubble_us: int = 1000, *, call: str = "cudaDeviceSynchronize", **options: Any) -> TraceBuilder:
    """Steps of 10 ms, 1 of them behind a synchronization; *options* are those of ``stalled``."""
    return stalled((lambda b: b.sync(call, us=0)) if call else None, bubble_us, **options)


# In each step the device idles for 1 ms behind the synchronization, of 10 ms.
@fires(cost_ms=1.0, cost_share=0.1, occurrences=4, severity="medium", line="train.py:61")
def timing_code_in_every_step() -> TraceBuilder:
    return steps()


@fires(cost_ms=1.0, occurrences=4)
def one_stream_is_waited_for() -> TraceBuilder:
    return steps(call="cudaStreamSynchronize")


@quiet
def no_synchronization() -> TraceBuilder:
    return steps(call="")


# One stream is waited for, while another has work for as long as the host needs.
@quiet
def the_device_has_other_work() -> TraceBuilder:
    return steps(call="cudaStreamSynchronize", ahead=True)


# Layers on two GPUs, as device_map="auto" spreads them: each waits for the other, 5 of 10 ms, and the host for both.
@quiet
def two_devices_take_turns() -> TraceBuilder:
    b = TraceBuilder(devices=2, host_us=2)
    for _ in range(4):
        with b.step(), b.python("generate.py(20): generate"):
            first = b.kernel("volta_sgemm_128x64_nn", ms=5)
            second = b.kernel("volta_sgemm_128x64_nn", ms=5, device=1, after=[first])
            b.sync("cudaDeviceSynchronize", after=[second])
    return b


# The profiler synchronizes when it stops: outside the steps, after the last launch.
@quiet
def the_synchronization_of_the_profiler() -> TraceBuilder:
    b = steps(call="", steps=1)
    b.kernel("volta_sgemm_128x64_nn", ms=20)
    b.sync("cudaDeviceSynchronize")
    return b


# Once a step, before its first work: the queue is empty, so the call waits for nothing, however long it takes.
@quiet
def nothing_to_wait_for() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            b.sync("cudaDeviceSynchronize", us=900)
            with b.op("aten::add", us=900):
                pass
            b.kernel("volta_sgemm_128x64_nn", ms=8)
            with b.op("aten::mul", us=9000):
                pass
    return b


# A wait for a single value is sync/scalar-readback's.
@quiet
def a_value_that_is_read() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", ms=8)
            b.item()
            with b.op("aten::add", us=1000):
                pass
            b.kernel("volta_sgemm_128x64_nn", ms=1)
    return b


@quiet
def an_engine_that_reads_the_tokens_of_each_batch() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(4):
        batch(b, annotation(SGLANG, decoding=16), layers(10, 8), host_us=20)
    return b


@edge
def one_call_per_step(over: bool) -> TraceBuilder:
    return steps(every=1 if over else 2)


@edge
def two_calls(over: bool) -> TraceBuilder:
    return steps(steps=2 if over else 1)


@edge
def one_per_cent_of_the_step(over: bool) -> TraceBuilder:
    # Behind 19 ms of kernels, with 1 more: 205 us are 1.01 % of the step, 195 us 0.97 %.
    return steps(205 if over else 195, work_us=19_000)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::mm")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
