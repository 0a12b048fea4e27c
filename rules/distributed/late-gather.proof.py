"""Proof of distributed/late-gather: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

GPU = "NVIDIA A100-SXM4-80GB"
LAYERS, COMPUTE_US, GATHER_US = 6, 5_000, 2_000


def sharded(
    *, ahead: bool = False, gather_us: int = GATHER_US, compute_us: int = COMPUTE_US, record: str = "FSDP::all_gather (layers.{})",
    unshards: str = "FSDP::pre_forward", layers: int = LAYERS, steps: int = 4,
) -> TraceBuilder:  # fmt: skip
    """Steps of a forward pass over layers: gather, then compute. With *ahead* each gather begins as the one before it ends."""
    b = TraceBuilder(GPU, rank=0, world_size=8, host_us=2, latency_us=0)
    for _ in range(steps):
        with b.step():
            start = b.now_ns // 1000 + 100
            gathered = start + gather_us
            at = gathered
            for layer in range(layers):
                with b.annotation(unshards), b.annotation(record.format(layer)):
                    begins = gathered - gather_us if ahead or not layer else at
                    b.collective("all_gather", 32_000_000, us=gather_us, at_us=begins, dtype="BFloat16")
                    at = max(at, begins + gather_us)
                    gathered = begins + 2 * gather_us
                with b.op("aten::mm", shapes=[[8192, 4096], [4096, 4096]]):
                    b.kernel("ampere_bf16_s16816gemm_128x64_tn", us=compute_us, at_us=at)
                at += compute_us
            b.sync("cudaDeviceSynchronize")  # the host waits for the GPU, which sets the pace
    return b


# Five of six gathers of 2 ms begin when the 5 ms of the layer before are over: each could run beside them. 10 ms of 42.2.
@fires(cost_ms=10, occurrences=20, severity="high", op="record_param_comms")
def gathers_behind_the_layer_before() -> TraceBuilder:
    return sharded()


@fires(occurrences=20, severity="high")
def of_version_1() -> TraceBuilder:
    return sharded(record="FullyShardedDataParallel._pre_forward", unshards="layer")


# More to gather than to compute: all that there is to hide behind, 3 of 5 ms each, counts in the price.
@fires(cost_ms=25, occurrences=20, severity="high")
def longer_than_the_layer() -> TraceBuilder:
    return sharded(gather_us=5_000, compute_us=3_000)


@quiet
def gathers_one_layer_ahead() -> TraceBuilder:
    return sharded(ahead=True)


# One after another without a break: begun as early as can be, and the links are what is slow.
@quiet
def gathers_that_outlast_the_layers() -> TraceBuilder:
    return sharded(ahead=True, gather_us=5_000, compute_us=1_000)


# One unit for the whole model has no layer before it.
@quiet
def one_unit() -> TraceBuilder:
    return sharded(layers=1)


# Gathers of activations are no parameters, though the model is sharded, too.
@quiet
def gathers_of_activations() -> TraceBuilder:
    b = sharded(record="all_gather of layer {}", unshards="tensor parallel")
    with b.annotation("FSDP::root_post_backward_callback"):
        b.idle(us=1)
    return b


@edge
def three_gathers(over: bool) -> TraceBuilder:
    return sharded(layers=4 if over else 3, steps=1)


@edge
def two_percent(over: bool) -> TraceBuilder:
    # Five gathers of 190 us in a step of 31.2 ms are 3 %, of which the middle of the price is 2.4; of 120 us, 1.9 % and 1.6.
    return sharded(gather_us=190 if over else 120)


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder(GPU)
    with b.step():
        b.kernel("ampere_sgemm_128x64_tn", us=1_000)
    return b
