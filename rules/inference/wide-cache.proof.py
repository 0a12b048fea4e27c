"""Proof of inference/wide-cache: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.serving import SGLANG, VLLM, annotation, batch

H100, MI300 = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"
PAGED = "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16, {}, (vllm::Fp8KVCacheDataType){}, 1, 128, 256>"
FLASH = "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, cutlass::bfloat16_t>>"
PRODUCT = "Cijk_Alik_Bljk_F8F8BS_BH_MT32x32x256"


def decoding(
    engine: str = SGLANG,
    device: str = MI300,
    attention: str = PAGED.format("__hip_bfloat16", 0),
    *,
    us: float = 50,
    layers: int = 10,
    prefill: bool = False,
) -> TraceBuilder:
    """Four batches of ten layers of 100 us: attention of *us*, and a product in 8 bits."""
    b = TraceBuilder(device, host_us=1, latency_us=0)
    name = annotation(engine, prompts=1, prompt_tokens=32) if prefill else annotation(engine, decoding=32)
    for _ in range(4):
        batch(b, name, [(attention, us), (PRODUCT, 100 - us)] * layers)
    return b


# Ten layers of 50 us in each batch.
@fires(cost_ms=0.5, severity="medium", occurrences=40)
def half_of_a_batch_of_sglang() -> TraceBuilder:
    return decoding()


@fires(cost_ms=0.5)
def flash_attention_of_vllm() -> TraceBuilder:
    return decoding(VLLM, H100, FLASH)


@quiet
def a_cache_in_8_bits() -> TraceBuilder:
    return decoding(attention=PAGED.format("unsigned char", 1))


@quiet
def a_kernel_that_does_not_tell_its_format() -> TraceBuilder:
    return decoding(VLLM, attention="kernel_unified_attention_2d")


@quiet("not_applicable")
def a_prefill() -> TraceBuilder:
    return decoding(prefill=True)


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    return decoding(us=20 if over else 19.9)


# The middle of what is returned is 32.5 % of the attention: of 9.3 % of the time 3 %.
@edge
def three_percent_of_the_time(over: bool) -> TraceBuilder:
    b = TraceBuilder(MI300, host_us=1, latency_us=0)
    kernels = [(FLASH, 100), (PRODUCT, 950 if over else 1000)]
    for _ in range(4):
        batch(b, annotation(SGLANG, decoding=32), kernels)
    return b


@lacks("gpu", verdict="not_applicable")
def no_gpu_recorded() -> TraceBuilder:
    return host_alone("aten::mm")
