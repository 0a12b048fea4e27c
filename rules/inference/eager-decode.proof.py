"""Proof of inference/eager-decode: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.serving import SGLANG, TENSORRT, VLLM, annotation, batch, layers

H100, MI300 = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"


def decoding(
    engine: str = VLLM,
    device: str = H100,
    *,
    eager: int = 4,
    replayed: int = 0,
    prefills: int = 0,
    host_us: float = 19,
    count: int = 10,
    us: float = 8,
    ops: str = "vllm::layer",
) -> TraceBuilder:
    """Batches of 16 sequences, of 40 kernels of 8 us: eager ones take the host 20 us a kernel, replayed ones one launch."""
    b = TraceBuilder(device, host_us=1, latency_us=0)
    name = annotation(engine, decoding=16)
    for _ in range(prefills):
        batch(b, annotation(engine, prompts=1, prompt_tokens=500), layers(count, us), host_us=host_us, ops=ops)
    for number in range(eager + replayed):
        batch(b, name, layers(count, us), host_us=host_us if number < eager else 0, ops=ops)
    return b


# Each kernel ends 12 us before the next is launched: 40 times a batch, with the one behind the wait for the batch before, whose
# first 8 us are that wait's.
@fires(cost_ms=0.48, severity="high", op="vllm::layer", fix="Leave eager mode, so that decoding batches replay graphs")
def vllm_with_enforce_eager() -> TraceBuilder:
    return decoding()


@fires(cost_ms=0.48, fix="Switch graphs on for decoding batches (disable_cuda_graph=False)")
def sglang_on_an_mi300() -> TraceBuilder:
    return decoding(SGLANG, MI300, ops="sgl_kernel::layer")


@fires(cost_ms=0.48, fix="Switch graphs on for decoding batches (cuda_graph_config)")
def tensorrt_llm_without_graphs() -> TraceBuilder:
    return decoding(TENSORRT, ops="trtllm::layer")


@quiet
def every_batch_replays_a_graph() -> TraceBuilder:
    return decoding(eager=0, replayed=4)


@quiet
def the_first_batches_are_eager() -> TraceBuilder:
    return decoding(eager=2, replayed=3)


@quiet
def a_host_that_is_ahead_of_the_gpu() -> TraceBuilder:
    return decoding(host_us=5, us=60)


@quiet("not_applicable")
def prefills_alone() -> TraceBuilder:
    return decoding(eager=0, prefills=4)


@edge
def two_decoding_batches(over: bool) -> TraceBuilder:
    return decoding(eager=2 if over else 1, prefills=2)


@edge
def twenty_launches_a_batch(over: bool) -> TraceBuilder:
    return decoding(count=5 if over else 4)


# With 0.6 us idle behind each of 40 kernels of 8 us, 7 % of a batch, of which 73.5 % return.
@edge
def five_percent_of_the_time(over: bool) -> TraceBuilder:
    return decoding(host_us=7.8 if over else 7.4)


@lacks("gpu", verdict="not_applicable")
def no_gpu_recorded() -> TraceBuilder:
    return host_alone("aten::mm")
