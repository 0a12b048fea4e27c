"""Proof of inference/uncaptured-batches: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.serving import SGLANG, TENSORRT, VLLM, annotation, batch, layers

H100, MI300 = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"


def serving(
    sizes: Sequence[int],
    captured: Sequence[int],
    engine: str = SGLANG,
    device: str = MI300,
    *,
    host_us: float = 19,
    count: int = 10,
    us: float = 8,
    ops: str = "sgl_kernel::layer",
) -> TraceBuilder:
    """Decoding batches of these sizes, of 40 kernels of 8 us: captured ones replay, the others take the host 20 us a kernel."""
    b = TraceBuilder(device, host_us=1, latency_us=0)
    for size in sizes:
        name = annotation(engine, decoding=size)
        batch(b, name, layers(count, us), host_us=0 if size in captured else host_us, ops=ops)
    return b


# Of each three batches one of 48 is eager, and idles 39 times for 12 us: a third of that a step. What is idle before its first
# kernel is the wait's for the batch before.
@fires(cost_ms=0.156, severity="high", fix="Capture graphs for the batch sizes that occur (cuda_graph_max_bs)")
def batches_above_the_largest_that_sglang_captured() -> TraceBuilder:
    return serving([16, 32, 48] * 4, [16, 32])


@fires(cost_ms=0.156, fix="Capture graphs for the batch sizes that occur (cudagraph_capture_sizes)")
def a_size_that_vllm_was_not_asked_for() -> TraceBuilder:
    return serving([16, 24, 32] * 4, [16, 32], VLLM, H100, ops="vllm::layer")


@fires(fix="Capture graphs for the batch sizes that occur (cuda_graph_config)")
def a_size_between_that_tensorrt_llm_does_not_pad() -> TraceBuilder:
    return serving([16, 24, 32] * 4, [16, 32], TENSORRT, H100, ops="trtllm::layer")


@quiet
def every_size_is_captured() -> TraceBuilder:
    return serving([16, 32, 48] * 4, [16, 32, 48])


@quiet
def none_is_captured() -> TraceBuilder:
    return serving([16, 32, 48] * 4, [])


@quiet
def a_host_that_is_ahead_of_the_gpu() -> TraceBuilder:
    return serving([16, 32, 48] * 4, [16, 32], host_us=5, us=60)


@quiet("not_applicable")
def no_engine() -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            b.graph(layers(4, 10))
    return b


@edge
def two_eager_batches(over: bool) -> TraceBuilder:
    return serving([16, 16, 48, 48 if over else 16, 16], [16])


@edge
def twenty_launches_a_batch(over: bool) -> TraceBuilder:
    return serving([16, 48] * 4, [16], count=5 if over else 4)


# Of a step between 328 and 376 us, half of 40 stretches: 73.5 % of 1.2 us each return.
@edge
def five_percent_of_the_time(over: bool) -> TraceBuilder:
    return serving([16, 48] * 4, [16], host_us=8.6 if over else 7.9)


@lacks("gpu", verdict="not_applicable")
def no_gpu_recorded() -> TraceBuilder:
    return host_alone("aten::mm")
