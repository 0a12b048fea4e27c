"""Batches of serving engines, as these annotate them, for proofs and tests: eager, or replayed as one graph."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.testing.builder import TraceBuilder
from advisor.testing.timeline import Micros

Kernel = tuple[str, Micros]
VLLM, SGLANG, TENSORRT = "vLLM", "SGLang", "TensorRT-LLM"


def annotation(engine: str, *, prompts: int = 0, prompt_tokens: int = 0, decoding: int = 0) -> str:
    """Return the engine's name of a batch of so many prompts, of so many tokens together, and so many sequences that decode."""
    if engine == VLLM:
        return f"execute_context_{prompts}({prompt_tokens})_generation_{decoding}({decoding})".replace(
            f"({prompt_tokens})", f"({prompt_tokens}_{prompt_tokens**2})"
        )
    if engine == SGLANG:
        return f"step[EXTEND bs={prompts} toks={prompt_tokens}]" if prompts else f"step[DECODE bs={decoding}]"
    return f"[Executor] _forward_step 7: {prompts} ctx reqs, {decoding} gen reqs"


def layers(count: int, us: Micros) -> list[Kernel]:
    """Return the kernels of so many layers, four each and each of so many us: two products, attention and a norm."""
    names = (
        "nvjet_tst_64x8_64x16_2x1_v_bz_TNT",
        "flash_fwd_splitkv_kernel",
        "nvjet_tst_64x16_64x16_2x1_v_bz_TNT",
        "rms_norm",
    )
    return [(name, us) for _ in range(count) for name in names]


def batch(
    b: TraceBuilder, name: str, kernels: Sequence[Kernel], *, host_us: Micros = 0, ops: str = "vllm::layer"
) -> None:
    """Add a batch and the wait for it: its kernels one by one, each behind *host_us* in an operator; as one graph with 0."""
    with b.annotation(name):
        if host_us:
            for kernel, us in kernels:
                with b.op(ops):
                    b.idle(us=host_us)
                    b.kernel(kernel, us=us)
        else:
            b.graph(kernels)
    b.sync()
