"""Proof of profile/graph-replays-underrecorded: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

REPLAY = [("triton_poi_fused_add_0", 4_000), ("sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", 5_000)]


def replays(late_us: int = 0) -> TraceBuilder:
    """Four replays of 9 ms. With *late_us* a kernel of 1 ms follows each, queued at once, and starts so much later."""
    b = TraceBuilder("NVIDIA A100-SXM4-80GB")
    for _ in range(4):
        with b.step():
            last = b.graph(REPLAY)[-1]
            if late_us:
                b.kernel("elementwise_kernel", us=1_000, at_us=last.end_ns / 1e3 + late_us)
            b.sync()
    return b


@fires(note="graph replays were recorded in part")
def replays_of_which_nothing_was_recorded() -> TraceBuilder:
    b = replays()
    with b.step():
        b.call("cudaGraphLaunch", 6)
        b.idle(ms=9)
        b.kernel("elementwise_kernel", us=10)
    return b


@fires()
def the_device_waits_with_work_queued_beside_replays() -> TraceBuilder:
    return replays(late_us=5_000)


@quiet
def whole_replays() -> TraceBuilder:
    return replays()


@quiet
def a_device_that_waits_with_work_queued_and_no_replays() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-SXM4-80GB")
    for _ in range(4):
        with b.step():
            first = b.kernel("elementwise_kernel", us=5_000)
            b.kernel("elementwise_kernel", us=1_000, at_us=first.end_ns / 1e3 + 5_000)
            b.sync()
    return b


@quiet
def idle_that_the_host_causes_beside_replays() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-SXM4-80GB")
    for _ in range(4):
        with b.step():
            b.graph(REPLAY)
            b.sync()
            b.idle(ms=5)
    return b


@edge
def a_twentieth_of_the_window(over: bool) -> TraceBuilder:
    # A step takes 10 ms and late_us: 540 us are 5.1 % of 10.54 ms, 510 us are 4.9 % of 10.51 ms.
    return replays(late_us=540 if over else 510)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    b = TraceBuilder()
    with b.step():
        b.call("cudaGraphLaunch", 10)
    return b
