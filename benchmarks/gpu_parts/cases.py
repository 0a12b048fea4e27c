"""Kernels that are far from what the device can do for one nameable reason, each beside its remedy; and some that are near it.

Of each: device time of the call and of its remedy without a profiler, and a small trace of the call with shapes. The remedy
computes the same, or the same per row; ``per`` says of what the times are, where sizes differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_parts.bench import Bench, Call, precision

HALF = torch.bfloat16
Build = Callable[["Maker", bool], Call]


class Maker(NamedTuple):
    """Tensors and modules on the device; sizes are those of the GPU, or small ones without one."""

    bench: Bench

    def size(self, gpu: int, cpu: int = 16) -> int:
        return int(self.bench.pick(gpu, cpu))

    def rand(self, *shape: int, dtype: torch.dtype = HALF) -> torch.Tensor:
        return torch.randn(*shape, device=self.bench.device).to(dtype)

    def grad(self, *shape: int, dtype: torch.dtype = HALF) -> torch.Tensor:
        return self.rand(*shape, dtype=dtype).requires_grad_()


class Case(NamedTuple):
    """One call and its remedy. ``rows``: work of the call and of its remedy, where the remedy does more of it at once."""

    reason: str
    build: Build
    fix: str = ""
    rows: tuple[int, int] = (1, 1)
    tf32: bool | None = None
    """TF32 in the call and in its remedy: None for no TF32 in both, True for in the remedy only."""


def product(m: int, k: int, n: int, fixed: tuple[int, int, int] | None = None, dtype: torch.dtype = HALF) -> Build:
    """A plain product, and one of other sizes."""

    def build(make: Maker, repaired: bool) -> Call:
        sizes = fixed if repaired and fixed else (m, k, n)
        rows, inner, columns = (make.size(size, min(size, 24)) for size in sizes)
        a, b = make.rand(rows, inner, dtype=dtype), make.rand(inner, columns, dtype=dtype)
        return lambda: a @ b

    return build


def batched(b: int, m: int, k: int, n: int, fixed: tuple[int, int, int, int]) -> Build:
    def build(make: Maker, repaired: bool) -> Call:
        count, rows, inner, columns = (make.size(size, min(size, 12)) for size in (fixed if repaired else (b, m, k, n)))
        x, y = make.rand(count, rows, inner), make.rand(count, inner, columns)
        return lambda: torch.bmm(x, y)

    return build


def rows_one_by_one(make: Maker, repaired: bool) -> Call:
    weight, count = make.rand(make.size(8192), make.size(8192)), 16
    x = make.rand(count, make.size(8192))
    if repaired:
        return lambda: functional.linear(x, weight)
    return lambda: [functional.linear(x[row], weight) for row in range(count)]


def strided_factor(make: Maker, repaired: bool) -> Call:
    """A batch of products with one matrix, which expand copies for each."""
    x, weight = make.rand(make.size(64, 4), make.size(512), make.size(1024)), make.rand(make.size(1024), make.size(1024))
    if repaired:
        return lambda: x @ weight
    return lambda: torch.bmm(x, weight.expand(x.shape[0], -1, -1).contiguous())


def lora(make: Maker, repaired: bool) -> Call:
    """A correction of rank 16 beside a product, against one product with the sum of both."""
    x, weight = make.rand(make.size(8192), make.size(4096)), make.rand(make.size(4096), make.size(4096))
    down, up = make.rand(make.size(4096), 16), make.rand(16, make.size(4096))
    if repaired:
        merged = weight + down @ up
        return lambda: x @ merged
    return lambda: x @ weight + (x @ down) @ up


def three_projections(make: Maker, repaired: bool) -> Call:
    x = make.rand(make.size(512), make.size(1024))
    width = make.size(1024)
    weights = [make.rand(width, width) for _ in range(3)]
    joined = torch.cat(weights)
    if repaired:
        return lambda: functional.linear(x, joined).chunk(3, -1)
    return lambda: [functional.linear(x, weight) for weight in weights]


def linear_training(m: int, k: int, n: int, fixed_n: int) -> Build:
    """Forward and backward of a layer."""

    def build(make: Maker, repaired: bool) -> Call:
        columns = make.size(fixed_n if repaired else n, 12)
        layer = nn.Linear(make.size(k), columns, bias=False, device=make.bench.device, dtype=HALF)
        x, out = make.grad(make.size(m), make.size(k)), make.rand(make.size(m), columns)
        return lambda: torch.autograd.grad(layer(x), [x, layer.weight], out)

    return build


class Conv(NamedTuple):
    """A convolution: batch, channels, outputs, side, window, and the rest as torch has it."""

    n: int
    c: int
    k: int
    side: int
    window: Any = 3
    stride: int = 1
    padding: Any = 1
    dilation: int = 1
    groups: int = 1
    last: bool = True
    dims: int = 2
    transposed: bool = False
    dtype: torch.dtype = HALF


def convolution(conv: Conv, fixed: Conv | None = None, backward: bool = False) -> Build:
    """A convolution, and another one."""

    def build(make: Maker, repaired: bool) -> Call:
        one = fixed if repaired and fixed else conv
        gpu = make.bench.gpu
        n, side = (one.n, one.side) if gpu else (1, min(one.side, 40))
        groups = one.groups
        kind = {(1, False): nn.Conv1d, (2, False): nn.Conv2d, (3, False): nn.Conv3d, (2, True): nn.ConvTranspose2d}
        options: dict[str, Any] = {"stride": one.stride, "padding": one.padding, "dilation": one.dilation, "groups": groups}
        layer = kind[one.dims, one.transposed](one.c, one.k, one.window, bias=False, **options)
        layer = layer.to(make.bench.device, one.dtype)
        x = make.rand(n, one.c, *[side] * one.dims, dtype=one.dtype)
        if one.last and one.dims > 1:
            form = torch.channels_last if one.dims == 2 else torch.channels_last_3d
            layer, x = layer.to(memory_format=form), x.to(memory_format=form)
        if not backward:
            return lambda: layer(x)
        x.requires_grad_()
        out = torch.randn_like(layer(x))
        return lambda: torch.autograd.grad(layer(x), [x, layer.weight], out)

    return build


def patches(make: Maker, repaired: bool) -> Call:
    """A convolution whose windows do not overlap, against the product that it is."""
    side, patch, width, n = make.size(224, 32), 16, make.size(768), make.size(64, 2)
    x, weight = make.rand(n, 3, side, side), make.rand(width, 3, patch, patch)
    if not repaired:
        return lambda: functional.conv2d(x, weight, stride=patch)
    flat = weight.flatten(1)
    count = side // patch

    def call() -> torch.Tensor:
        cut = x.view(n, 3, count, patch, count, patch).permute(0, 2, 4, 1, 3, 5).reshape(n * count * count, 3 * patch * patch)
        return functional.linear(cut, flat)

    return call


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


def transposed_pointwise(make: Maker, repaired: bool) -> Call:
    x, y = make.rand(make.size(8192), make.size(8192)), make.rand(make.size(8192), make.size(8192))
    other = y.clone() if repaired else y.t()
    return lambda: x + other


def transposed_copy(make: Maker, repaired: bool) -> Call:
    x = make.rand(make.size(64, 4), make.size(512), make.size(32), make.size(64))
    return (lambda: x.clone()) if repaired else (lambda: x.permute(0, 3, 2, 1).contiguous())


def mixed_types(make: Maker, repaired: bool) -> Call:
    x = make.rand(make.size(8192), make.size(8192))
    y = x.clone() if repaired else x.float()
    return lambda: x * y


def outer_reduction(make: Maker, repaired: bool) -> Call:
    x = make.rand(make.size(1 << 22, 64), 7, dtype=torch.float32)
    y = x.t().contiguous() if repaired else x
    return (lambda: y.sum(0)) if repaired else (lambda: y.sum(1))


def narrow_norm(make: Maker, repaired: bool) -> Call:
    width = make.size(1024 if repaired else 64, 8)
    x = make.rand(make.size((1 << 27) // width, 64), width)
    return lambda: functional.layer_norm(x, (width,))


def wide_softmax(make: Maker, repaired: bool) -> Call:
    x = make.rand(make.size(4096), make.size(50257), dtype=HALF if repaired else torch.float32)
    return lambda: x.softmax(-1)


def duplicate_rows(make: Maker, repaired: bool) -> Call:
    rows, width = make.size(1 << 18, 64), make.size(256)
    index = torch.randint(0, make.size(1 << 16, 64) if repaired else 16, (rows,), device=make.bench.device)
    x, into = make.rand(rows, width, dtype=torch.float32), make.rand(make.size(1 << 16, 64), width, dtype=torch.float32)
    return lambda: into.index_add_(0, index, x)


def few_tokens(make: Maker, repaired: bool) -> Call:
    count = make.size(50304, 64)
    tokens = torch.randint(0, count if repaired else 16, (make.size(64 * 1024, 64),), device=make.bench.device)
    weight = make.grad(count, make.size(768))
    out = make.rand(tokens.numel(), make.size(768))
    return lambda: torch.autograd.grad(functional.embedding(tokens, weight), weight, out)


def batch_norm(make: Maker, repaired: bool) -> Call:
    form = torch.channels_last if repaired else torch.contiguous_format
    x = make.rand(make.size(64, 2), 64, make.size(112), make.size(112)).to(memory_format=form).requires_grad_()
    layer = nn.BatchNorm2d(64).to(make.bench.device)
    out = torch.randn_like(x)
    return lambda: torch.autograd.grad(layer(x), x, out)


def small_sort(make: Maker, repaired: bool) -> Call:
    x = make.rand(make.size(512), make.size(32768), dtype=torch.float32)
    return (lambda: x.topk(10)) if repaired else (lambda: x.sort(descending=True)[0][:, :10])


def losses(make: Maker, repaired: bool) -> Call:
    """Cross-entropy over a vocabulary in fp32 and backward, against chunks of it in 16 bits."""
    rows, words = make.size(8192), make.size(50304, 64)
    logits = make.grad(rows, words)
    target = torch.randint(0, words, (rows,), device=make.bench.device)
    if not repaired:
        return lambda: torch.autograd.grad(functional.cross_entropy(logits.float(), target), logits)
    compiled = torch.compile(lambda x, y: functional.cross_entropy(x.float(), y)) if make.bench.gpu else functional.cross_entropy
    return lambda: torch.autograd.grad(compiled(logits, target), logits)


def dense_experts(make: Maker, repaired: bool) -> Call:
    """Eight experts that all compute all tokens, against each its own."""
    tokens, width, experts = make.size(8192, 32), make.size(1024), 8
    x = make.rand(tokens, width)
    up = make.rand(experts, width, 4 * width)
    down = make.rand(experts, 4 * width, width)
    chosen = torch.randint(0, experts, (tokens,), device=make.bench.device)
    order, sizes = chosen.argsort(), torch.bincount(chosen, minlength=experts).tolist()

    def dense() -> torch.Tensor:
        total = torch.zeros_like(x)
        for expert in range(experts):
            found = functional.gelu(x @ up[expert]) @ down[expert]
            total = total + torch.where((chosen == expert)[:, None], found, 0)
        return total

    def own() -> torch.Tensor:
        parts = x[order].split(sizes)
        found = [functional.gelu(part @ up[expert]) @ down[expert] for expert, part in enumerate(parts)]
        return torch.empty_like(x).index_copy_(0, order, torch.cat(found))

    return own if repaired else dense


def own_kernel(make: Maker, repaired: bool) -> Call:
    """A product in Triton with small tiles and fp32 products, against the library's."""
    m = make.size(4096, 32)
    a, b = make.rand(m, m, dtype=torch.float16), make.rand(m, m, dtype=torch.float16)
    if repaired or not make.bench.gpu:
        return lambda: a @ b
    from gpu_parts.triton_case import matmul

    return lambda: matmul(a, b)


GRID = Conv(64, 256, 256, 28)
CASES: dict[str, Case] = {
    "mm_few_tiles_long": Case("few-tiles", product(512, 16384, 512, (4096, 16384, 512)), "eight times the rows", (1, 8)),
    "mm_few_tiles_square": Case("few-tiles", product(768, 768, 768, (6144, 768, 768)), "eight times the rows", (1, 8)),
    "mm_three_projections": Case("few-tiles", three_projections, "one product of three times the columns"),
    "mm_partial_wave": Case("partial-wave", product(1536, 8192, 2816, (1408, 8192, 1536)), "other sizes", (1536 * 2816, 1408 * 1536)),
    "mm_partial_wave_2": Case("partial-wave", product(2176, 4096, 2048, (2112, 4096, 2048)), "fewer rows", (2176, 2112)),
    "mm_thin": Case("thin", product(131072, 32, 32), ""),
    "mm_thin_k16": Case("thin", product(8192, 16, 8192), ""),
    "mm_lora": Case("thin", lora, "the correction merged into the weight"),
    "mm_misaligned_columns": Case("misaligned", product(4096, 4096, 4095, (4096, 4096, 4096)), "padded"),
    "mm_misaligned_inner": Case("misaligned", product(4096, 4095, 4096, (4096, 4096, 4096)), "padded"),
    "mm_misaligned_fp16": Case("misaligned", product(8192, 1023, 1001, (8192, 1024, 1008), torch.float16), "padded"),
    "mm_vocabulary_training": Case("misaligned", linear_training(8192, 768, 50257, 50304), "padded"),
    "mm_even_not_8": Case("misaligned", product(4096, 4096, 4100, (4096, 4096, 4104)), "padded to a multiple of 8"),
    "mm_skinny_4": Case("matrix-vector", product(4, 8192, 8192, (64, 8192, 8192)), "sixteen times the rows", (1, 16)),
    "mm_rows_one_by_one": Case("matrix-vector", rows_one_by_one, "one product for all rows"),
    "bmm_tiny": Case("tiny", batched(65536, 16, 16, 16, (4096, 64, 64, 64)), "larger products", (65536 * 16**3, 4096 * 64**3)),
    "bmm_small_32": Case("tiny", batched(16384, 32, 32, 32, (2048, 64, 64, 64)), "larger products", (16384 * 32**3, 2048 * 64**3)),
    "bmm_expanded": Case("copied", strided_factor, "matmul broadcasts"),
    "mm_fp64": Case("fp64", product(2048, 2048, 2048, dtype=torch.float64)),
    "mm_fp32": Case("fp32", product(4096, 4096, 4096, dtype=torch.float32), "TF32", tf32=True),
    "conv_nchw": Case("channels-first", convolution(GRID._replace(last=False), GRID), "channels_last"),
    "conv_nchw_training": Case("channels-first", convolution(GRID._replace(last=False), GRID, backward=True), "channels_last"),
    "conv_depthwise_nchw": Case("depthwise", convolution(Conv(64, 384, 384, 56, groups=384, last=False), Conv(64, 384, 384, 56, groups=384)), "channels_last"),
    "conv_depthwise7_training": Case("depthwise", convolution(Conv(32, 192, 192, 56, 7, padding=3, groups=192, last=False), Conv(32, 192, 192, 56, 7, padding=3, groups=192), backward=True), "channels_last"),
    "conv_depthwise7_last": Case("depthwise", convolution(Conv(32, 192, 192, 56, 7, padding=3, groups=192))),
    "conv_grouped_32": Case("grouped", convolution(Conv(32, 256, 256, 56, groups=32, last=False), Conv(32, 256, 256, 56, groups=32)), "channels_last"),
    "conv_grouped_8": Case("grouped", convolution(Conv(32, 256, 256, 56, groups=32), Conv(32, 256, 256, 56, groups=8)), "fewer groups"),
    "conv_stem": Case("few-channels", convolution(Conv(64, 3, 64, 224, 7, 2, 3), Conv(64, 8, 64, 224, 7, 2, 3)), "8 channels, 5 of them zero"),
    "conv_stem4": Case("few-channels", convolution(Conv(64, 3, 64, 224, 7, 2, 3), Conv(64, 4, 64, 224, 7, 2, 3)), "4 channels, one of them zero"),
    "conv_few_outputs": Case("few-channels", convolution(Conv(32, 64, 3, 224), Conv(32, 64, 8, 224)), "8 outputs"),
    "conv_patches": Case("patches", patches, "the product that it is"),
    "conv_odd_channels": Case("odd-channels", convolution(Conv(64, 65, 65, 56), Conv(64, 72, 72, 56)), "72 channels"),
    "conv_odd_33": Case("odd-channels", convolution(Conv(64, 33, 127, 56), Conv(64, 40, 128, 56)), "40 and 128 channels"),
    "conv_dilated_12": Case("dilated", convolution(Conv(8, 256, 256, 64, padding=12, dilation=12, last=False), Conv(8, 256, 256, 64, padding=12, dilation=12)), "channels_last"),
    "conv_asymmetric": Case("uneven-window", convolution(Conv(64, 192, 192, 17, (1, 7), padding=(0, 3)), Conv(64, 192, 192, 17))),
    "conv_transposed": Case("transposed", convolution(Conv(16, 256, 128, 64, 2, 2, 0, transposed=True, last=False), Conv(16, 256, 128, 64, 2, 2, 0, transposed=True)), "channels_last"),
    "conv_transposed4": Case("transposed", convolution(Conv(16, 256, 128, 64, 4, 2, 1, transposed=True))),
    "conv_1x1_nchw": Case("channels-first", convolution(Conv(64, 512, 512, 28, 1, padding=0, last=False), Conv(64, 512, 512, 28, 1, padding=0)), "channels_last"),
    "conv_small_side": Case("few-tiles", convolution(Conv(1, 1024, 1024, 7), Conv(32, 1024, 1024, 7)), "32 times the batch", (1, 32)),
    "conv3d_nchw": Case("channels-first", convolution(Conv(4, 64, 64, 28, dims=3, last=False), Conv(4, 64, 64, 28, dims=3)), "channels_last_3d"),
    "conv1d_long": Case("", convolution(Conv(16, 128, 128, 16384, dims=1))),
    "conv_fp32": Case("fp32", convolution(GRID._replace(dtype=torch.float32)), "TF32", tf32=True),
    "attention_head_80": Case("head-size", attention(Heads(4, 16, 2048, 2048, 80), Heads(4, 10, 2048, 2048, 128)), "128 a head"),
    "attention_head_100": Case("head-size", attention(Heads(4, 16, 2048, 2048, 100), Heads(4, 16, 2048, 2048, 104)), "104 a head"),
    "attention_head_256": Case("head-size", attention(Heads(4, 8, 2048, 2048, 256), Heads(4, 16, 2048, 2048, 128)), "128 a head"),
    "attention_mask": Case("mask", attention(Heads(4, 16, 2048, 2048, 64, mask=True), Heads(4, 16, 2048, 2048, 64, causal=True)), "is_causal"),
    "attention_mask_training": Case("mask", attention(Heads(4, 16, 2048, 2048, 64, mask=True), Heads(4, 16, 2048, 2048, 64, causal=True), backward=True), "is_causal"),
    "attention_flash2": Case("backend", attention(Heads(4, 16, 2048, 2048, 64, backend=SDPBackend.FLASH_ATTENTION), Heads(4, 16, 2048, 2048, 64, backend=SDPBackend.CUDNN_ATTENTION)), "cuDNN"),
    "attention_flash2_training": Case("backend", attention(Heads(4, 16, 1024, 1024, 96, True, backend=SDPBackend.FLASH_ATTENTION), Heads(4, 16, 1024, 1024, 96, True, backend=SDPBackend.CUDNN_ATTENTION), backward=True), "cuDNN"),
    "attention_fp32": Case("wide-numbers", attention(Heads(4, 16, 1024, 1024, 64, dtype=torch.float32), Heads(4, 16, 1024, 1024, 64)), "bf16"),
    "attention_short": Case("", attention(Heads(512, 8, 64, 64, 64), Heads(32, 8, 1024, 64, 64)), "longer sequences", (512 * 64, 32 * 1024)),
    "attention_one_sequence": Case("few-tiles", attention(Heads(1, 8, 512, 512, 64), Heads(16, 8, 512, 512, 64)), "16 sequences", (1, 16)),
    "attention_decode": Case("one-query", attention(Heads(32, 32, 1, 8192, 128), Heads(32, 32, 1, 8192, 128, kv=8)), "8 key heads"),
    "attention_repeated_heads": Case("copied", repeated_heads, "enable_gqa"),
    "attention_dropout": Case("dropout", attention(Heads(4, 16, 2048, 2048, 64, dropout=0.1), Heads(4, 16, 2048, 2048, 64)), "no dropout"),
    "pointwise_transposed": Case("strided", transposed_pointwise, "one layout for both"),
    "copy_transposed": Case("strided", transposed_copy, "no transposition"),
    "pointwise_mixed": Case("mixed", mixed_types, "one type"),
    "sum_of_seven": Case("narrow", outer_reduction, "the long dimension last"),
    "norm_of_64": Case("narrow", narrow_norm, "rows of 1,024"),
    "softmax_wide_fp32": Case("wide-numbers", wide_softmax, "16 bits"),
    "index_add_duplicates": Case("duplicates", duplicate_rows, "spread indices"),
    "embedding_few_tokens": Case("duplicates", few_tokens, "spread tokens"),
    "batch_norm_nchw": Case("channels-first", batch_norm, "channels_last"),
    "sort_for_ten": Case("sort", small_sort, "topk"),
    "cross_entropy_fp32": Case("unfused", losses, "compiled"),
    "experts_dense": Case("dense-experts", dense_experts, "each token to its expert"),
    "own_matmul": Case("own-kernel", own_kernel, "the library's product"),
    "near_mm": Case("", product(8192, 8192, 8192)),
    "near_mm_fp16": Case("", product(8192, 4096, 16384, dtype=torch.float16)),
    "near_conv": Case("", convolution(Conv(64, 256, 256, 56))),
    "near_attention": Case("", attention(Heads(4, 32, 4096, 4096, 128, backend=SDPBackend.CUDNN_ATTENTION))),
}  # fmt: skip


def record(bench: Bench, call: Call, path: Path, target_ms: float = 2.0) -> None:
    """Three marked steps of a few calls each, with shapes."""
    once = max(bench.between(call), 0.01) if bench.gpu else target_ms
    repeats = max(1, min(8, round(target_ms / once)))
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(
        activities=[kinds.CPU, kinds.CUDA] if bench.gpu else [kinds.CPU],
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=3, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
        record_shapes=True,
    ) as profiler:
        for _ in range(4):
            for _ in range(repeats):
                call()
            bench.sync()
            profiler.step()


def take(bench: Bench, name: str, case: Case, folder: Path) -> dict[str, Any]:
    """Times of one case and of its remedy, and the case's trace."""
    found: dict[str, Any] = {"reason": case.reason, "fix": case.fix, "rows": list(case.rows)}
    for repaired in (False, True):
        if repaired and not case.fix:
            continue
        precision("tf32" if case.tf32 and repaired else "fp32")
        torch.manual_seed(0)
        call = case.build(Maker(bench), repaired)
        found["fixed_ms" if repaired else "ms"] = bench.timed(call, 30.0)["ms"]
        found |= {("fixed_kernels" if repaired else "kernels"): bench.profiled(call)["kernels"][:4]}
        if not repaired:
            record(bench, call, folder / f"{name}.json.gz")
        del call
    if "fixed_ms" in found:
        found["gain"] = 1 - found["fixed_ms"] * case.rows[0] / case.rows[1] / found["ms"]
    (folder / f"{name}.json").write_text(json.dumps({"torch": torch.__version__, **found}, indent=1))
    return found


def run(bench: Bench) -> None:
    """Take all cases."""
    folder = bench.path.parent / "cases"
    folder.mkdir(exist_ok=True)
    for name, case in CASES.items():
        bench.measure(f"case/{name}", lambda name=name, case=case: take(bench, name, case, folder))
