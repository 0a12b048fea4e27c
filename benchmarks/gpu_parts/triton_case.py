"""Kernels of one's own, as first ones in Triton look: small tiles, products in fp32 units, a program a short row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def naive_matmul_kernel(a, b, c, n, tile: tl.constexpr):  # type: ignore[no-untyped-def]
    """Compute one tile of c, each step of the shared dimension as wide as the tile."""
    row, column = tl.program_id(0), tl.program_id(1)
    rows, columns, inner = row * tile + tl.arange(0, tile), column * tile + tl.arange(0, tile), tl.arange(0, tile)
    total = tl.zeros((tile, tile), dtype=tl.float32)
    for k in range(0, n, tile):
        left = tl.load(a + rows[:, None] * n + (k + inner)[None, :]).to(tl.float32)
        right = tl.load(b + (k + inner)[:, None] * n + columns[None, :]).to(tl.float32)
        total += tl.dot(left, right, input_precision="ieee")
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))


@torch.library.custom_op("mylib::matmul", mutates_args=())
def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of two square matrices."""
    out = torch.empty_like(a)
    count = a.shape[0] // 16
    naive_matmul_kernel[count, count](a, b, out, a.shape[0], 16)
    return out


@triton.jit
def half_matmul_kernel(a, b, c, n, tile: tl.constexpr):  # type: ignore[no-untyped-def]
    """Compute one tile of c from factors of 16 bits."""
    row, column = tl.program_id(0), tl.program_id(1)
    rows, columns, inner = row * tile + tl.arange(0, tile), column * tile + tl.arange(0, tile), tl.arange(0, tile)
    total = tl.zeros((tile, tile), dtype=tl.float32)
    for k in range(0, n, tile):
        left = tl.load(a + rows[:, None] * n + (k + inner)[None, :])
        right = tl.load(b + (k + inner)[:, None] * n + columns[None, :])
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))


@torch.library.custom_op("mylib::half_matmul", mutates_args=())
def half_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of two square matrices of 16 bits."""
    out = torch.empty_like(a)
    count = a.shape[0] // 16
    half_matmul_kernel[count, count](a, b, out, a.shape[0], 16)
    return out


@triton.jit
def row_softmax_kernel(x, out, width: tl.constexpr):  # type: ignore[no-untyped-def]
    """Compute the softmax of one row."""
    places = tl.program_id(0) * width + tl.arange(0, width)
    row = tl.load(x + places).to(tl.float32)
    power = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + places, (power / tl.sum(power, axis=0)).to(tl.bfloat16))


@torch.library.custom_op("mylib::softmax", mutates_args=())
def softmax(x: torch.Tensor) -> torch.Tensor:
    """The softmax of rows of 64 numbers of 16 bits, a program a row."""
    out = torch.empty_like(x)
    row_softmax_kernel[(x.shape[0],)](x, out, x.shape[1])
    return out
