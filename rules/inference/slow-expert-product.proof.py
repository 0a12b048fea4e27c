"""Proof of inference/slow-expert-product: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.serving import SGLANG, VLLM, annotation, batch

MI300, B200 = "AMD Instinct MI300X", "NVIDIA B200"
FIRST, SECOND = (f"_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1{gate}" for gate in ("_swiglu", ""))


def decoding(
    first_us: float = 60,
    second_us: float = 60,
    *,
    tokens: int = 32,
    engine: str = VLLM,
    device: str = MI300,
    names: tuple[str, str] = (FIRST, SECOND),
    prefill: bool = False,
) -> TraceBuilder:
    """Four batches of ten layers of 200 us: two products of the experts, and attention for the rest."""
    b = TraceBuilder(device, host_us=1, latency_us=0)
    name = annotation(engine, prompts=1, prompt_tokens=tokens) if prefill else annotation(engine, decoding=tokens)
    rest = 200 - first_us - second_us
    layer = [(names[0], first_us), (names[1], second_us), ("kernel_unified_attention_2d", rest)]
    for _ in range(4):
        batch(b, name, layer * 10)
    return b


# 120 of each layer's 200 us, of which a twentieth to a quarter: 9 % of the batch.
@fires(cost_ms=1.2, severity="low", occurrences=80)
def half_of_the_bytes_in_the_same_time() -> TraceBuilder:
    return decoding()


@fires(cost_ms=1.6, severity="medium")
def kernels_of_flashinfer_under_sglang() -> TraceBuilder:
    names = (
        "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x8x512u2_s6_swiGlu_dynBatch_sm100f",
        "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x8x256u2_s6_dynBatch_sm100f",
    )
    return decoding(70, 90, tokens=8, engine=SGLANG, device=B200, names=names)


@quiet
def two_thirds_of_the_first_ones_time() -> TraceBuilder:
    return decoding(70, 45)


@quiet
def a_gate_of_its_own() -> TraceBuilder:
    """Names that tell the products not apart."""
    return decoding(names=(SECOND, SECOND))


@quiet("not_applicable")
def a_prefill() -> TraceBuilder:
    return decoding(prefill=True)


@edge
def as_long_as_the_first(over: bool) -> TraceBuilder:
    return decoding(60, 60 if over else 59)


@edge
def as_many_tokens_as_an_expert_may_get(over: bool) -> TraceBuilder:
    return decoding(tokens=256 if over else 257)


@edge
def long_enough_to_be_more_than_start_and_end(over: bool) -> TraceBuilder:
    b = TraceBuilder(MI300, host_us=1, latency_us=0)
    us = 20 if over else 19
    for _ in range(4):
        batch(b, annotation(VLLM, decoding=32), [(FIRST, us), (SECOND, us), ("kernel_unified_attention_2d", 30)] * 10)
    return b


@lacks("gpu", verdict="not_applicable")
def no_gpu_recorded() -> TraceBuilder:
    return host_alone("aten::mm")
