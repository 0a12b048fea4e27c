"""Proof of inference/unchunked-prefill: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.serving import SGLANG, TENSORRT, VLLM, annotation, batch

H100, MI300 = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"
OWN = {VLLM: "vllm::attend", SGLANG: "sgl_kernel::attend", TENSORRT: "trtllm::attend"}
Decode = int
Prefill = tuple[int, float]


def serving(
    batches: Sequence[Decode | Prefill], engine: str = TENSORRT, device: str = H100, *, decode_ms: float = 5
) -> TraceBuilder:
    """Batches in order: of so many sequences that decode, for 5 ms, or of one prompt with so many tokens, for so many ms."""
    b = TraceBuilder(device, host_us=1, latency_us=0)
    for each in batches:
        if isinstance(each, tuple):
            name = annotation(engine, prompts=1, prompt_tokens=each[0])
            us = 100 * each[1]
        else:
            name, us = annotation(engine, decoding=each), 100 * decode_ms
        batch(b, name, [("nvjet_tst_256x128_64x4_2x1_v_bz_TNT", us)] * 10, host_us=4, ops=OWN[engine])
    return b


@fires(occurrences=2, severity="low", fix="Compute prompts in chunks (enable_chunked_prefill)")
def prompts_of_8000_tokens_between_the_batches_of_tensorrt_llm() -> TraceBuilder:
    return serving([16, 16, (8000, 200), 17, 17, (8000, 200), 18, 18])


@fires(occurrences=1, fix="Compute prompts in chunks, mixed with decoding (enable_mixed_chunk)")
def a_prompt_of_sglang() -> TraceBuilder:
    return serving([16, 16, (8000, 200), 17, 17], SGLANG, MI300)


@quiet
def short_prompts() -> TraceBuilder:
    return serving([16, 16, (500, 12), 17, 17])


@quiet
def prompts_before_anything_decodes() -> TraceBuilder:
    return serving([(8000, 200), (8000, 200), 2, 2, 2])


@quiet
def sequences_that_ended_before_the_prompt() -> TraceBuilder:
    return serving([16, 16, (8000, 200), 1, 1])


@quiet("not_applicable")
def prompts_alone() -> TraceBuilder:
    return serving([(8000, 200)] * 4)


@quiet
def batches_that_mix_both() -> TraceBuilder:
    b = TraceBuilder(H100, host_us=1, latency_us=0)
    for prompts in (0, 0, 1, 1, 0, 0):
        name = annotation(VLLM, prompts=prompts, prompt_tokens=2048 * prompts, decoding=16)
        batch(b, name, [("nvjet_tst_256x128_64x4_2x1_v_bz_TNT", 5000 if prompts else 500)] * 10, host_us=4)
    return b


@edge
def eight_decoding_batches(over: bool) -> TraceBuilder:
    return serving([16, 16, (8000, 41 if over else 39), 17, 17])


@edge
def twenty_ms(over: bool) -> TraceBuilder:
    return serving([16, 16, (8000, 20.1 if over else 19.9), 17, 17], decode_ms=1)


@edge
def one_sequence_that_waits(over: bool) -> TraceBuilder:
    return serving([1, 1, (8000, 200), 2 if over else 1, 1])


@lacks("gpu", verdict="not_applicable")
def no_gpu_recorded() -> TraceBuilder:
    return host_alone("aten::mm")
