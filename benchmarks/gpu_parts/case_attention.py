"""Attention that is slow for one reason, each beside its remedy."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_parts.bench import Call
from gpu_parts.case import HALF, Build, Case, Maker


class Heads(NamedTuple):
    """Attention: batch, heads, queries, keys, size of a head."""

    b: int
    h: int
    q: int
    s: int
    d: int
    causal: bool = False
    dtype: torch.dtype = HALF
    mask: bool = False
    kv: int = 0
    backend: SDPBackend | None = None
    dropout: float = 0.0


def attention(heads: Heads, fixed: Heads | None = None, backward: bool = False) -> Build:
    def build(make: Maker, repaired: bool) -> Call:
        one = fixed if repaired and fixed else heads
        if not make.bench.gpu:
            one = one._replace(b=1, q=min(one.q, 32), s=min(one.s, 32), backend=None)
        q = make.rand(one.b, one.h, one.q, one.d, dtype=one.dtype)
        k, v = (make.rand(one.b, one.kv or one.h, one.s, one.d, dtype=one.dtype) for _ in range(2))
        options: dict[str, Any] = {"is_causal": one.causal, "dropout_p": one.dropout, "enable_gqa": bool(one.kv)}
        if one.mask:
            full = torch.ones(one.q, one.s, device=q.device, dtype=torch.bool).tril()
            bias = torch.zeros(one.q, one.s, device=q.device, dtype=one.dtype).masked_fill(~full, float("-inf"))
            options["attn_mask"] = bias
            options["is_causal"] = False
        if backward:
            for tensor in (q, k, v):
                tensor.requires_grad_()
        out = torch.randn_like(q)

        def call() -> Any:
            if one.backend is None:
                found = functional.scaled_dot_product_attention(q, k, v, **options)
            else:
                with sdpa_kernel(one.backend):
                    found = functional.scaled_dot_product_attention(q, k, v, **options)
            return torch.autograd.grad(found, [q, k, v], out) if backward else found

        return call

    return build


def repeated_heads(make: Maker, repaired: bool) -> Call:
    q = make.rand(4, 32, make.size(2048), 128)
    k, v = (make.rand(4, 8, make.size(2048), 128) for _ in range(2))
    if repaired:
        return lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return lambda: functional.scaled_dot_product_attention(
        q, k.repeat_interleave(4, 1), v.repeat_interleave(4, 1), is_causal=True
    )


def by_hand(backward: bool, causal: bool) -> Build:
    """Attention in a product, a mask, a softmax and a product, against the fused operator."""

    def build(make: Maker, repaired: bool) -> Call:
        length = make.size(2048)
        q, k, v = (make.rand(4, 16, length, 64).requires_grad_(backward) for _ in range(3))
        later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
        out = make.like(q.detach())

        def explicit() -> torch.Tensor:
            scores = q @ k.transpose(-2, -1) * 0.125
            if causal:
                scores = scores.masked_fill(later, float("-inf"))
            made: torch.Tensor = torch.softmax(scores, dim=-1) @ v
            return made

        def fused() -> torch.Tensor:
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        forward = fused if repaired else explicit
        return (lambda: torch.autograd.grad(forward(), [q, k, v], out)) if backward else forward

    return build


ATTENTION: dict[str, Case] = {
    "attention_head_80": Case(
        "head-size", attention(Heads(4, 16, 2048, 2048, 80), Heads(4, 10, 2048, 2048, 128)), "128 a head"
    ),
    "attention_head_100": Case(
        "head-size", attention(Heads(4, 16, 2048, 2048, 100), Heads(4, 16, 2048, 2048, 104)), "104 a head"
    ),
    "attention_head_256": Case(
        "head-size", attention(Heads(4, 8, 2048, 2048, 256), Heads(4, 16, 2048, 2048, 128)), "128 a head"
    ),
    "attention_mask": Case(
        "mask",
        attention(Heads(4, 16, 2048, 2048, 64, mask=True), Heads(4, 16, 2048, 2048, 64, causal=True)),
        "is_causal",
    ),
    "attention_mask_training": Case(
        "mask",
        attention(Heads(4, 16, 2048, 2048, 64, mask=True), Heads(4, 16, 2048, 2048, 64, causal=True), backward=True),
        "is_causal",
    ),
    "attention_flash2": Case(
        "backend",
        attention(
            Heads(4, 16, 2048, 2048, 64, backend=SDPBackend.FLASH_ATTENTION),
            Heads(4, 16, 2048, 2048, 64, backend=SDPBackend.CUDNN_ATTENTION),
        ),
        "cuDNN",
    ),
    "attention_flash2_training": Case(
        "backend",
        attention(
            Heads(4, 16, 1024, 1024, 96, True, backend=SDPBackend.FLASH_ATTENTION),
            Heads(4, 16, 1024, 1024, 96, True, backend=SDPBackend.CUDNN_ATTENTION),
            backward=True,
        ),
        "cuDNN",
    ),
    "attention_fp32": Case(
        "wide-numbers",
        attention(Heads(4, 16, 1024, 1024, 64, dtype=torch.float32), Heads(4, 16, 1024, 1024, 64)),
        "bf16",
    ),
    "attention_short": Case(
        "", attention(Heads(512, 8, 64, 64, 64), Heads(32, 8, 1024, 64, 64)), "longer sequences", (512 * 64, 32 * 1024)
    ),
    "attention_one_sequence": Case(
        "few-tiles", attention(Heads(1, 8, 512, 512, 64), Heads(16, 8, 512, 512, 64)), "16 sequences", (1, 16)
    ),
    "attention_decode": Case(
        "one-query", attention(Heads(32, 32, 1, 8192, 128), Heads(32, 32, 1, 8192, 128, kv=8)), "8 key heads"
    ),
    "attention_repeated_heads": Case("copied", repeated_heads, "enable_gqa"),
    "attention_dropout": Case(
        "dropout", attention(Heads(4, 16, 2048, 2048, 64, dropout=0.1), Heads(4, 16, 2048, 2048, 64)), "no dropout"
    ),
    "near_attention": Case("", attention(Heads(4, 32, 4096, 4096, 128, backend=SDPBackend.CUDNN_ATTENTION))),
    "attention_head_17": Case(
        "head-size", attention(Heads(4, 16, 2048, 2048, 17), Heads(4, 16, 2048, 2048, 24)), "24 a head"
    ),
    "attention_by_hand": Case("by-hand", by_hand(False, False), "scaled_dot_product_attention"),
    "attention_by_hand_training": Case("by-hand", by_hand(True, True), "scaled_dot_product_attention"),
    "attention_fp32_training": Case(
        "wide-numbers",
        attention(Heads(4, 16, 1024, 1024, 64, dtype=torch.float32), Heads(4, 16, 1024, 1024, 64), backward=True),
        "bf16",
    ),
    "near_attention_flash": Case(
        "", attention(Heads(4, 32, 4096, 4096, 128, True, backend=SDPBackend.FLASH_ATTENTION))
    ),
}
