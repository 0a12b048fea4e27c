"""Traces of the ranks of a mixture of experts, each with experts of its own, that got as many tokens as said."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.testing.builder import TraceBuilder

_GPU = "NVIDIA H100 80GB HBM3"
_ATTENTION_US, _EXCHANGE_US = 1_000, 100
_TOKEN_BYTES = 4_096
_TOKENS = 4_096
GROUPED = "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape>>"
DEEP_EP = "void deep_ep::intranode::{}<__nv_bfloat16, 8, 768>(int)"


def expert_ranks(
    loads: Sequence[Sequence[float]],
    *,
    expert_us: float = 2_000,
    experts: str = GROUPED,
    op: str = "aten::_grouped_mm",
    sends_more: bool = True,
    library: bool = False,
    slow: Sequence[float] = (),
    steps: int = 4,
    shapes: bool = True,
) -> list[TraceBuilder]:
    """Build ranks that run a layer for each entry of *loads*: attention of 1 ms, an all-to-all, experts, an all-to-all back.

    A rank's experts take *expert_us* times its load, and it sends so much more back (with *sends_more*). The exchanges take 100 us
    from when the last rank has come. With *library* they are kernels of DeepEP, of which nothing says the size. *slow* ranks take
    so many times as long for all that they compute.
    """
    count = len(loads[0])
    factors = [*slow, *[1.0] * (count - len(slow))]
    builders = [
        TraceBuilder(_GPU, rank=rank, world_size=count, record_shapes=shapes, host_us=1, latency_us=0)
        for rank in range(count)
    ]
    at = 200.0
    for _ in range(steps):
        spans = []
        for layer in loads:
            met = max(at + _ATTENTION_US * factor for factor in factors) + _EXCHANGE_US
            ends = [met + expert_us * load * factor for load, factor in zip(layer, factors, strict=True)]
            spans.append((at, met, ends, layer))
            at = max(ends) + _EXCHANGE_US
        for rank, b in enumerate(builders):
            with b.step():
                for start, met, ends, layer in spans:
                    done = start + _ATTENTION_US * factors[rank]
                    with b.op("aten::scaled_dot_product_attention", shapes=[[8, 32, 512, 128]]):
                        b.kernel("flash_fwd_kernel", us=done - start, at_us=start)
                    _exchange(b, "dispatch", _TOKENS, done, met, library)
                    tokens = round(_TOKENS * layer[rank])
                    with b.op(op, shapes=[[tokens, 4_096], [8, 4_096, 4_096]]):
                        b.kernel(experts, us=ends[rank] - met, at_us=met)
                    _exchange(
                        b, "combine", tokens if sends_more else _TOKENS, ends[rank], max(ends) + _EXCHANGE_US, library
                    )
                b.sync("cudaDeviceSynchronize")
        at += 200
    return builders


def _exchange(b: TraceBuilder, what: str, tokens: int, start: float, end: float, library: bool) -> None:
    if not library:
        b.collective("all_to_all", tokens * _TOKEN_BYTES, us=end - start, at_us=start, dtype="BFloat16")
        return
    with b.op(f"deep_ep::{what}"):
        b.kernel(DEEP_EP.format(what), us=end - start, at_us=start, stream=20)
