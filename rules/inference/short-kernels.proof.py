"""Proof of inference/short-kernels: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.serving import SGLANG, TENSORRT, VLLM, annotation, batch

SHORT = ("rms_norm", "rotary_embedding_kernel", "store_kvcache", "silu_and_mul", "copy_kernel", "quantize_kernel")


def decoding(
    us: Sequence[float] = (5, 5, 5, 5),
    *,
    engine: str = VLLM,
    between: str = "",
    host_us: float = 0,
    prefill: bool = False,
) -> TraceBuilder:
    """Four batches of ten layers of 100 us: short kernels of so many us, *between* the middle two, and a product for the rest."""
    b = TraceBuilder("NVIDIA H100 80GB HBM3", host_us=1, latency_us=0)
    name = annotation(engine, prompts=1, prompt_tokens=32) if prefill else annotation(engine, decoding=32)
    short = list(zip(SHORT, us, strict=False))
    if between:
        short.insert(len(short) // 2, (between, 5))
    layer = [*short, ("nvjet_tst_64x8_64x16_2x1_v_bz_TNT", 100 - sum(length for _, length in short))]
    for _ in range(4):
        batch(b, name, layer * 10, host_us=host_us)
    return b


# Ten layers a batch, 20 of 100 us each, of which three quarters are beyond one kernel: 3 to 12 %.
@fires(cost_ms=0.2, severity="medium", occurrences=160)
def a_fifth_of_a_batch_of_vllm() -> TraceBuilder:
    return decoding()


@fires(cost_ms=0.15, severity="low")
def runs_of_three_under_sglang() -> TraceBuilder:
    return decoding((5, 5, 5), engine=SGLANG)


@fires(cost_ms=0.2)
def another_engine() -> TraceBuilder:
    return decoding(engine=TENSORRT)


@quiet
def a_product_between_them() -> TraceBuilder:
    return decoding(between="nvjet_tst_64x16_64x16_2x1_v_bz_TNT")


@quiet
def routing_of_experts_is_their_librarys() -> TraceBuilder:
    b = TraceBuilder("AMD Instinct MI300X", host_us=1, latency_us=0)
    routing = ("_topk_forward", "_sum_bitmatrix_rows", "_combined_routing_memset", "_combined_routing_compute")
    for _ in range(4):
        batch(b, annotation(VLLM, decoding=32), [*((name, 5) for name in routing), ("Cijk_Alik_Bljk_BBS_BH", 80)] * 10)
    return b


@quiet
def kernels_that_have_work_to_do() -> TraceBuilder:
    return decoding((12, 12, 12, 12))


@quiet
def an_eager_batch_waits_for_launches() -> TraceBuilder:
    """Each kernel 120 us behind the one before: what is lost there is no kernel's."""
    return decoding(host_us=120)


@quiet("not_applicable")
def a_prefill_of_few_tokens() -> TraceBuilder:
    return decoding(prefill=True)


@edge
def three_in_a_row(over: bool) -> TraceBuilder:
    return decoding((8, 8, 8) if over else (9, 9))


@lacks("gpu", verdict="not_applicable")
def no_gpu_recorded() -> TraceBuilder:
    return host_alone("aten::mm")
