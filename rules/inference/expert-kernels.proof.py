"""Proof of inference/expert-kernels: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.serving import SGLANG, VLLM, annotation, batch

MI300, B200 = "AMD Instinct MI300X", "NVIDIA B200"
OGS = "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1"
ROUTING = "_combined_routing_compute"


def decoding(
    tokens: int = 32,
    engine: str = VLLM,
    device: str = MI300,
    product: str = OGS,
    *,
    us: float = 60,
    routing_us: float = 5,
    prefill: bool = False,
) -> TraceBuilder:
    """Four batches of ten layers, 100 us each: the experts' products of *us*, their routing, and the rest attention."""
    b = TraceBuilder(device, host_us=1, latency_us=0)
    name = annotation(engine, prompts=1, prompt_tokens=tokens) if prefill else annotation(engine, decoding=tokens)
    layer = [(product, us), (ROUTING, routing_us), ("kernel_unified_attention_2d", 100 - us - routing_us)]
    for _ in range(4):
        batch(b, name, layer * 10)
    return b


# Ten layers a batch, 65 us of each in the experts.
@fires(cost_ms=0.65, severity="low", occurrences=80)
def two_thirds_of_a_batch_of_vllm() -> TraceBuilder:
    return decoding()


@fires(cost_ms=0.55, severity="low")
def kernels_of_flashinfer_under_sglang() -> TraceBuilder:
    return decoding(8, SGLANG, B200, "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x8x512u2_s6_swiGlu_dynBatch_sm100f", us=50)


@quiet
def a_model_without_experts() -> TraceBuilder:
    return decoding(product="Cijk_Alik_Bljk_F8F8BS_BH_MT32x32x256", routing_us=0)


@quiet
def hundreds_of_tokens() -> TraceBuilder:
    return decoding(1024)


@quiet("not_applicable")
def a_prefill_of_few_tokens() -> TraceBuilder:
    return decoding(prefill=True)


@quiet
def a_second_product_as_long_as_the_first_has_a_price() -> TraceBuilder:
    """inference/slow-expert-product: twice the bytes of one product in the time of the other."""
    b = TraceBuilder(MI300, host_us=1, latency_us=0)
    layer = [
        (f"{OGS}_swiglu", 35),
        (OGS, 35),
        ("_finalize_matmul_scatter_bf16", 5),
        ("kernel_unified_attention_2d", 25),
    ]
    for _ in range(4):
        batch(b, annotation(VLLM, decoding=32), layer * 10)
    return b


@fires(severity="low")
def a_second_product_of_half_the_time() -> TraceBuilder:
    b = TraceBuilder(MI300, host_us=1, latency_us=0)
    layer = [(f"{OGS}_swiglu", 40), (OGS, 22), (ROUTING, 5), ("kernel_unified_attention_2d", 33)]
    for _ in range(4):
        batch(b, annotation(VLLM, decoding=32), layer * 10)
    return b


@edge
def two_fifths_of_the_time(over: bool) -> TraceBuilder:
    return decoding(us=36 if over else 34)


@edge
def as_many_tokens_as_an_expert_may_get(over: bool) -> TraceBuilder:
    return decoding(256 if over else 257)


@edge
def more_products_than_routing(over: bool) -> TraceBuilder:
    return decoding(us=36 if over else 35, routing_us=35 if over else 36)


@lacks("gpu", verdict="not_applicable")
def no_gpu_recorded() -> TraceBuilder:
    return host_alone("aten::mm")
