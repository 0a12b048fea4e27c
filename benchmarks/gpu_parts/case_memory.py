"""Kernels that move bytes and are slow for one reason, each beside its remedy; and one of one's own."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from gpu_parts.bench import Call
from gpu_parts.case import HALF, Case, Maker


def transposed_pointwise(make: Maker, repaired: bool) -> Call:
    x, y = make.rand(make.size(8192), make.size(8192)), make.rand(make.size(8192), make.size(8192))
    other = y.clone() if repaired else y.t()
    return lambda: x + other


def transposed_copy(make: Maker, repaired: bool) -> Call:
    x = make.rand(make.size(64, 4), make.size(512), make.size(32), make.size(64))
    return x.clone if repaired else (lambda: x.permute(0, 3, 2, 1).contiguous())


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
    out = make.like(x.detach())
    return lambda: torch.autograd.grad(layer(x), x, out)


def small_sort(make: Maker, repaired: bool) -> Call:
    x = make.rand(make.size(512), make.size(32768), dtype=torch.float32)
    return (lambda: x.topk(10)[0]) if repaired else (lambda: x.sort(descending=True)[0][:, :10])


def losses(make: Maker, repaired: bool) -> Call:
    """Cross-entropy over a vocabulary in fp32 and backward, against chunks of it in 16 bits."""
    rows, words = make.size(8192), make.size(50304, 64)
    logits = make.grad(rows, words)
    target = torch.randint(0, words, (rows,), device=make.bench.device)
    if not repaired:
        return lambda: torch.autograd.grad(functional.cross_entropy(logits.float(), target), logits)
    compiled = (
        torch.compile(lambda x, y: functional.cross_entropy(x.float(), y))
        if make.bench.gpu
        else functional.cross_entropy
    )
    return lambda: torch.autograd.grad(compiled(logits, target), logits)


def own_kernel(make: Maker, repaired: bool) -> Call:
    """A product in Triton with small tiles and fp32 products, against the library's."""
    m = make.size(4096, 32)
    a, b = make.rand(m, m, dtype=torch.float16), make.rand(m, m, dtype=torch.float16)
    if repaired or not make.bench.gpu:
        return lambda: a @ b
    from gpu_parts.triton_case import matmul

    return lambda: matmul(a, b)


MEMORY: dict[str, Case] = {
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
    "own_matmul": Case("own-kernel", own_kernel, "the library's product"),
}
