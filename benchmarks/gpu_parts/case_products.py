"""Matrix products that are slow for one reason, each beside its remedy."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gpu_parts.bench import Call
from gpu_parts.case import HALF, Build, Case, Maker


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
    x, weight = (
        make.rand(make.size(64, 4), make.size(512), make.size(1024)),
        make.rand(make.size(1024), make.size(1024)),
    )
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


def split_inner(make: Maker, repaired: bool) -> Call:
    """Eight tiles of a long shared dimension, against slices of it whose products are added."""
    side, inner, parts = make.size(512), make.size(65536, 64), make.size(16, 4)
    x, y = make.rand(side, inner), make.rand(inner, side)
    if not repaired:
        return lambda: torch.mm(x, y)

    def call() -> torch.Tensor:
        left = x.view(side, parts, inner // parts).transpose(0, 1)
        return torch.bmm(left, y.view(parts, inner // parts, side)).sum(0)

    return call


def products_in_a_loop(make: Maker, repaired: bool) -> Call:
    x, y = make.rand(64, make.size(512), make.size(512)), make.rand(64, make.size(512), make.size(512))
    if repaired:
        return lambda: torch.bmm(x, y)
    return lambda: [torch.mm(left, right) for left, right in zip(x, y, strict=True)]


def bias_apart(make: Maker, repaired: bool) -> Call:
    """A bias added to the product by a kernel of its own, against the product's own bias."""
    x, weight, bias = (
        make.rand(make.size(16384), make.size(1024)),
        make.rand(make.size(4096), make.size(1024)),
        make.rand(make.size(4096)),
    )
    if repaired:
        return lambda: functional.linear(x, weight, bias)
    return lambda: torch.matmul(x, weight.t()) + bias


def bias_within(make: Maker, repaired: bool) -> Call:
    x, weight, bias = (
        make.rand(make.size(8192), make.size(8192)),
        make.rand(make.size(8192), make.size(8192)),
        make.rand(make.size(8192)),
    )
    return lambda: torch.addmm(bias, x, weight)


def scores_apart(make: Maker, repaired: bool) -> Call:
    """Scaled scores with a bias in three kernels, against baddbmm."""
    length = make.size(1024)
    query, key, bias = make.rand(64, length, 64), make.rand(64, length, 64), make.rand(64, length, length)
    if repaired:
        return lambda: torch.baddbmm(bias, query, key.transpose(1, 2), alpha=0.125)
    return lambda: torch.bmm(query, key.transpose(1, 2)) * 0.125 + bias


def turned_factor(make: Maker, repaired: bool) -> Call:
    """A transposed factor made contiguous before a product that takes it as it is."""
    x, weight = make.rand(make.size(2048), make.size(16384)), make.rand(make.size(1024), make.size(2048))
    if repaired:
        return lambda: functional.linear(x.t(), weight)
    return lambda: functional.linear(x.t().contiguous(), weight)


def heads_inside(make: Maker, repaired: bool) -> Call:
    """Scores by einsum over heads behind the length, which it copies, against heads before it."""
    batch, length = make.size(16, 2), make.size(1024)
    query, key = (make.rand(batch, length, 16, 64) for _ in range(2))
    if not repaired:
        return lambda: torch.einsum("bqhd,bkhd->bhqk", query, key)
    first, second = (tensor.transpose(1, 2).contiguous() for tensor in (query, key))
    return lambda: torch.einsum("bhqd,bhkd->bhqk", first, second)


def recurrent_cells(make: Maker, repaired: bool) -> Call:
    """Sixteen steps of one sequence by LSTM cells, against the layer."""
    width, steps = make.size(2048), 16
    x = make.rand(steps, 1, width, dtype=torch.float32)
    layer = nn.LSTM(width, width).to(make.bench.device)
    cell = nn.LSTMCell(width, width).to(make.bench.device)

    def call() -> Any:
        state = None
        for step in x:
            state = cell(step, state)
        return state

    def whole() -> Any:
        return layer(x)[1]

    return torch.no_grad()(whole if repaired else call)


def few_rows_training(make: Maker, repaired: bool) -> Call:
    """Forward and backward of a large layer on few rows: the weight is read twice and its gradient written."""
    width = make.size(8192)
    layer = nn.Linear(width, width, bias=False, device=make.bench.device, dtype=HALF)
    x = make.grad(make.size(512 if repaired else 32), width)
    out = make.like(x.detach())
    return lambda: torch.autograd.grad(layer(x), [x, layer.weight], out)


PRODUCTS: dict[str, Case] = {
    "mm_few_tiles_long": Case(
        "few-tiles", product(512, 16384, 512, (4096, 16384, 512)), "eight times the rows", (1, 8)
    ),
    "mm_few_tiles_square": Case("few-tiles", product(768, 768, 768, (6144, 768, 768)), "eight times the rows", (1, 8)),
    "mm_three_projections": Case("few-tiles", three_projections, "one product of three times the columns"),
    # Tiles of 128x128: 136 on 132 SMs, and 128. Another device or tile has other waves.
    "mm_partial_wave": Case("partial-wave", product(2176, 8192, 1024, (2048, 8192, 1024)), "fewer rows", (2176, 2048)),
    # Tiles of 128x256: 136, and 128.
    "mm_partial_wave_2": Case(
        "partial-wave", product(2176, 4096, 2048, (2048, 4096, 2048)), "fewer rows", (2176, 2048)
    ),
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
    "bmm_tiny": Case(
        "tiny", batched(65536, 16, 16, 16, (4096, 64, 64, 64)), "larger products", (65536 * 16**3, 4096 * 64**3)
    ),
    "bmm_small_32": Case(
        "tiny", batched(16384, 32, 32, 32, (2048, 64, 64, 64)), "larger products", (16384 * 32**3, 2048 * 64**3)
    ),
    "bmm_expanded": Case("copied", strided_factor, "matmul broadcasts"),
    "mm_fp64": Case("fp64", product(2048, 2048, 2048, dtype=torch.float64)),
    "mm_fp32": Case("fp32", product(4096, 4096, 4096, dtype=torch.float32), "TF32", tf32=True),
    "experts_dense": Case("dense-experts", dense_experts, "each token to its expert"),
    "near_mm": Case("", product(8192, 8192, 8192)),
    "near_mm_fp16": Case("", product(8192, 4096, 16384, dtype=torch.float16)),
    "mm_split_inner": Case("few-tiles", split_inner, "the shared dimension in slices, by bmm and sum"),
    "mm_in_a_loop": Case("few-tiles", products_in_a_loop, "one bmm"),
    "mm_tall_narrow": Case("thin", product(1 << 20, 64, 48, (1 << 20, 64, 64)), "64 columns", (48, 64)),
    "mm_skinny_1": Case("matrix-vector", product(1, 8192, 28672, (64, 8192, 28672)), "64 times the rows", (1, 64)),
    "mm_skinny_16": Case("matrix-vector", product(16, 8192, 28672, (128, 8192, 28672)), "8 times the rows", (16, 128)),
    "mm_few_rows_training": Case("matrix-vector", few_rows_training, "16 times the rows", (32, 512)),
    "mm_bias_apart": Case("unfused", bias_apart, "the bias given to linear"),
    "mm_bias_within": Case("", bias_within),
    "bmm_scores_apart": Case("unfused", scores_apart, "baddbmm"),
    "mm_turned_factor": Case("copied", turned_factor, "no contiguous()"),
    "bmm_einsum_heads": Case("copied", heads_inside, "heads before the length"),
    "lstm_cells": Case("matrix-vector", recurrent_cells, "nn.LSTM over the sequence"),
}
