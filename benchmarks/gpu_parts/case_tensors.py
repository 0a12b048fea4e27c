"""Indexing, scans, selections, casts and copies that are slow for one reason, each beside its remedy; copies near the limit."""

from __future__ import annotations

import torch
from torch.nn import functional

from gpu_parts.bench import Call
from gpu_parts.case import HALF, Case, Maker


def outer_sum(make: Maker, repaired: bool) -> Call:
    x = make.rand(make.size(1 << 20, 64), make.size(128))
    if repaired:
        turned = x.t().contiguous()
        return lambda: turned.sum(1)
    return lambda: x.sum(0)


def outer_scan(make: Maker, repaired: bool) -> Call:
    """A running sum over the first dimension, against the same over the last."""
    x = make.rand(make.size(16384), make.size(4096), dtype=torch.float32)
    if repaired:
        turned = x.t().contiguous()
        return lambda: turned.cumsum(1)
    return lambda: x.cumsum(0)


def one_long_scan(make: Maker, repaired: bool) -> Call:
    x = make.rand(make.size(1 << 26, 1024), dtype=torch.float32)
    return lambda: torch.cumsum(x, 0)


def random_rows(make: Maker, repaired: bool) -> Call:
    """Rows of 16 bytes in random order, of which memory moves 32 or more, against the same rows in order."""
    table = make.rand(make.size(1 << 25, 1024), 8)
    index = make.integers(table.shape[0], make.size(1 << 23, 256))
    order = index.sort()[0] if repaired else index
    return lambda: table.index_select(0, order)


def random_columns(make: Maker, repaired: bool) -> Call:
    x = make.rand(make.size(4096), make.size(50304, 64))
    index = make.integers(x.shape[1], x.shape[0], make.size(8192))
    order = index.sort(1)[0] if repaired else index
    return lambda: torch.gather(x, 1, order)


def crowded_scatter(make: Maker, repaired: bool) -> Call:
    """Sums into 16 places, whose atomics wait for one another, against a million places."""
    values = make.rand(make.size(1 << 24, 256), dtype=torch.float32)
    places = make.size(1 << 20, 64)
    index = make.integers(places if repaired else 16, values.numel())
    into = torch.zeros(places, device=make.bench.device)
    return lambda: into.scatter_add_(0, index, values)


def sorted_gradient(make: Maker, repaired: bool) -> Call:
    """The gradient of x[index], which sorts the index, against that of index_select, which adds."""
    table = make.rand(make.size(1 << 17, 64), make.size(256), dtype=torch.float32).requires_grad_()
    index = make.integers(table.shape[0], make.size(1 << 18, 128))
    out = make.rand(index.numel(), table.shape[1], dtype=torch.float32)
    if repaired:
        return lambda: torch.autograd.grad(table.index_select(0, index), table, out)
    return lambda: torch.autograd.grad(table[index], table, out)


def many_small(make: Maker, repaired: bool) -> Call:
    """1,024 small tensors joined, against the copy of one that was never split."""
    parts = list(make.rand(1024, 64, make.size(512), dtype=torch.float32).unbind(0))
    whole = torch.cat(parts, 1)
    return whole.clone if repaired else (lambda: torch.cat(parts, 1))


def large_sort(make: Maker, repaired: bool) -> Call:
    """64-bit keys of 20 bits each, against keys of 32."""
    x = make.integers(1 << 20, make.size(1 << 24, 1024))
    keys = x.int() if repaired else x
    return keys.sort


def one_row_topk(make: Maker, repaired: bool) -> Call:
    """The largest 100 of one row, against the largest of each of 1,024 parts and then of those."""
    x, parts = make.rand(make.size(1 << 26, 1 << 14), dtype=torch.float32), make.size(1024, 16)

    def call() -> torch.Tensor:
        first = x.view(parts, -1).topk(100, 1)[0]
        return first.flatten().topk(100)[0]

    return call if repaired else (lambda: x.topk(100)[0])


def selected(make: Maker, repaired: bool) -> Call:
    """A sum over selected elements, whose number the host waits for, against zeros in place of the others."""
    x = make.rand(make.size(8192), make.size(8192))
    mask = x > 0
    if repaired:
        return lambda: torch.where(mask, x, 0).sum()
    return lambda: x.masked_select(mask).sum()


def repeated_rows(make: Maker, repaired: bool) -> Call:
    """Rows repeated in memory for a product that broadcasting makes without them."""
    count, width = make.size(8192, 64), make.size(1024)
    x, y = make.rand(count, width), make.rand(count * 8, width)
    if repaired:
        return lambda: x[:, None] * y.view(count, 8, width)
    return lambda: x.repeat_interleave(8, 0) * y


def expanded_copy(make: Maker, repaired: bool) -> Call:
    x, y = make.rand(make.size(4096), make.size(1024)), make.rand(16, make.size(4096), make.size(1024))
    if repaired:
        return lambda: x.expand_as(y) + y
    return lambda: x.repeat(16, 1, 1) + y


def casts(make: Maker, repaired: bool) -> Call:
    """A chain that goes to 16 bits and back around each operator, against one that stays there."""
    x = make.rand(make.size(8192), make.size(8192), dtype=HALF if repaired else torch.float32)
    if repaired:
        return lambda: functional.gelu(x).relu()
    return lambda: functional.gelu(x.to(HALF)).float().to(HALF).relu().float()


def dropout(make: Maker, repaired: bool) -> Call:
    x = make.rand(make.size(8192), make.size(8192)).requires_grad_()
    if repaired:
        return lambda: functional.dropout(x, 0.1)

    def call() -> torch.Tensor:
        mask = torch.rand_like(x) > 0.1
        return x * mask / 0.9

    return call


def one_hot(make: Maker, repaired: bool) -> Call:
    """Rows of a table by a product with one-hot rows, against the look-up."""
    words = make.size(16384, 64)
    table, tokens = make.rand(words, make.size(1024)), make.integers(words, make.size(4096))
    if repaired:
        return lambda: functional.embedding(tokens, table)
    return lambda: functional.one_hot(tokens, words).to(HALF) @ table


def gelu(make: Maker, repaired: bool) -> Call:
    """The tanh form written out and its gradient, against the operator."""
    x = make.grad(make.size(8192), make.size(4096))
    out = make.like(x.detach())
    if repaired:
        return lambda: torch.autograd.grad(functional.gelu(x, approximate="tanh"), x, out)

    def call() -> tuple[torch.Tensor, ...]:
        inner = 0.7978845608 * (x + 0.044715 * x**3)
        made: tuple[torch.Tensor, ...] = torch.autograd.grad(0.5 * x * (1 + torch.tanh(inner)), x, out)
        return made

    return call


def layer_norm(make: Maker, repaired: bool) -> Call:
    """A normalization written out and its gradient, against the operator."""
    width = make.size(4096)
    x, weight, bias = make.grad(make.size(8192), width), make.grad(width), make.grad(width)
    out = make.like(x.detach())
    if repaired:
        return lambda: torch.autograd.grad(functional.layer_norm(x, (width,), weight, bias), [x, weight, bias], out)

    def call() -> tuple[torch.Tensor, ...]:
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
        found = (x - mean) * torch.rsqrt(variance + 1e-5) * weight + bias
        made: tuple[torch.Tensor, ...] = torch.autograd.grad(found, [x, weight, bias], out)
        return made

    return call


def own_softmax(make: Maker, repaired: bool) -> Call:
    """A softmax in Triton with one program a row of 64, against the library's."""
    x = make.rand(make.size(1 << 20, 64), 64)
    if repaired or not make.bench.gpu:
        return lambda: x.softmax(-1)
    from gpu_parts.triton_case import softmax

    return lambda: softmax(x)


def own_half_product(make: Maker, repaired: bool) -> Call:
    """A product in Triton on tensor cores with tiles of 16x16, against the library's."""
    side = make.size(4096, 32)
    a, b = make.rand(side, side, dtype=torch.float16), make.rand(side, side, dtype=torch.float16)
    if repaired or not make.bench.gpu:
        return lambda: a @ b
    from gpu_parts.triton_case import half_matmul

    return lambda: half_matmul(a, b)


def large_copy(make: Maker, repaired: bool) -> Call:
    x = make.rand(make.size(1 << 29, 1024))
    return x.clone


def large_add(make: Maker, repaired: bool) -> Call:
    x, y = make.rand(make.size(1 << 28, 1024)), make.rand(make.size(1 << 28, 1024))
    return lambda: torch.add(x, y)


TENSORS: dict[str, Case] = {
    "near_copy": Case("", large_copy),
    "near_add": Case("", large_add),
    "sum_outer": Case("outer", outer_sum, "the dimension of the sum last"),
    "cumsum_outer": Case("outer", outer_scan, "the dimension of the sum last"),
    "cumsum_one_row": Case("", one_long_scan),
    "index_select_random": Case("random", random_rows, "sorted indices"),
    "gather_random": Case("random", random_columns, "sorted indices"),
    "scatter_add_crowded": Case("duplicates", crowded_scatter, "spread indices"),
    "index_gradient": Case("sorted-gradient", sorted_gradient, "index_select"),
    "cat_many_small": Case("many-small", many_small, "one tensor that is written in place"),
    "sort_64_bit": Case("wide-numbers", large_sort, "keys of 32 bits"),
    "topk_one_row": Case("few-blocks", one_row_topk, "parts first"),
    "masked_select": Case("wait", selected, "where"),
    "repeat_interleave": Case("copied", repeated_rows, "broadcasting"),
    "repeat_for_sum": Case("copied", expanded_copy, "broadcasting"),
    "casts": Case("casts", casts, "one type"),
    "dropout_by_hand": Case("unfused", dropout, "functional.dropout"),
    "one_hot": Case("one-hot", one_hot, "embedding"),
    "gelu_by_hand_training": Case("unfused", gelu, "functional.gelu"),
    "layer_norm_by_hand_training": Case("unfused", layer_norm, "functional.layer_norm"),
    "own_softmax": Case("own-kernel", own_softmax, "the library's softmax"),
    "own_half_matmul": Case("own-kernel", own_half_product, "the library's product"),
}
