"""Proof of inference/small-decode-batch: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.serving import SGLANG, TENSORRT, VLLM, annotation, batch

H100, MI300 = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"
TENSILE = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT32x32x256_MI16x16x1_SN"
NVJET = "nvjet_tst_64x8_64x16_2x1_v_bz_TNT"


def decoding(
    sequences: int = 32,
    engine: str = SGLANG,
    device: str = MI300,
    product: str = TENSILE,
    *,
    us: float = 40,
    rest_us: float = 60,
    prefill: bool = False,
) -> TraceBuilder:
    """Batches that replay ten products of 40 us and ten kernels of attention of 60: half a millisecond of each ms."""
    b = TraceBuilder(device, host_us=1, latency_us=0)
    name = annotation(engine, prompts=1, prompt_tokens=sequences) if prefill else annotation(engine, decoding=sequences)
    for _ in range(4):
        batch(b, name, [(product, us), ("paged_attention_ll4mi_QKV_mfma16_kernel", rest_us)] * 10)
    return b


@fires(cost_ms=0.4, severity="medium", occurrences=40)
def thirty_two_sequences_of_sglang() -> TraceBuilder:
    return decoding()


@fires(cost_ms=0.4)
def one_sequence_of_vllm() -> TraceBuilder:
    return decoding(1, VLLM, H100, NVJET)


@quiet
def hundreds_of_sequences() -> TraceBuilder:
    return decoding(256)


@quiet
def an_engine_that_does_not_say_how_many_tokens_there_are() -> TraceBuilder:
    return decoding(4, TENSORRT, H100, NVJET)


@quiet
def weights_in_8_bits() -> TraceBuilder:
    return decoding(4, VLLM, H100, "nvjet_qst_64x8_64x16_2x1_v_bz_TNT")


@quiet
def weights_in_4_bits_for_16_bit_products() -> TraceBuilder:
    return decoding(4, VLLM, H100, "void marlin::Marlin<__nv_bfloat16, 256, 1, 8, 8, 4, 8>")


@quiet
def weights_in_4_bits_of_experts() -> TraceBuilder:
    return decoding(product="_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1")


@quiet("not_applicable")
def a_prefill_of_few_tokens() -> TraceBuilder:
    return decoding(prefill=True)


@edge
def sixty_four_rows(over: bool) -> TraceBuilder:
    return decoding(64 if over else 65)


@edge
def kernels_of_5_us(over: bool) -> TraceBuilder:
    return decoding(us=5 if over else 4.9, rest_us=10)


# Of what the products take, the middle is 35 %.
@edge
def five_percent_of_the_time(over: bool) -> TraceBuilder:
    return decoding(us=10.2 if over else 9.8)


@lacks("gpu", verdict="not_applicable")
def no_gpu_recorded() -> TraceBuilder:
    return host_alone("aten::mm")
