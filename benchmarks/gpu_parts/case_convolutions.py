"""Convolutions that are slow for one reason, each beside its remedy."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from gpu_parts.bench import Call
from gpu_parts.case import HALF, Build, Case, Maker


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
        options: dict[str, Any] = {
            "stride": one.stride,
            "padding": one.padding,
            "dilation": one.dilation,
            "groups": groups,
        }
        layer = kind[one.dims, one.transposed](one.c, one.k, one.window, bias=False, **options)
        layer = layer.to(make.bench.device, one.dtype)
        x = make.rand(n, one.c, *[side] * one.dims, dtype=one.dtype)
        if one.last and one.dims > 1:
            form = torch.channels_last if one.dims == 2 else torch.channels_last_3d
            layer, x = layer.to(memory_format=form), x.to(memory_format=form)
        if not backward:
            return lambda: layer(x)
        x.requires_grad_()
        out = make.like(layer(x).detach())
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
        cut = (
            x.view(n, 3, count, patch, count, patch)
            .permute(0, 2, 4, 1, 3, 5)
            .reshape(n * count * count, 3 * patch * patch)
        )
        return functional.linear(cut, flat).view(n, count, count, width).permute(0, 3, 1, 2)

    return call


GRID = Conv(64, 256, 256, 28)

CONVOLUTIONS: dict[str, Case] = {
    "conv_nchw": Case("channels-first", convolution(GRID._replace(last=False), GRID), "channels_last"),
    "conv_nchw_training": Case(
        "channels-first", convolution(GRID._replace(last=False), GRID, backward=True), "channels_last"
    ),
    "conv_depthwise_nchw": Case(
        "depthwise",
        convolution(Conv(64, 384, 384, 56, groups=384, last=False), Conv(64, 384, 384, 56, groups=384)),
        "channels_last",
    ),
    "conv_depthwise7_training": Case(
        "depthwise",
        convolution(
            Conv(32, 192, 192, 56, 7, padding=3, groups=192, last=False),
            Conv(32, 192, 192, 56, 7, padding=3, groups=192),
            backward=True,
        ),
        "channels_last",
    ),
    "conv_depthwise7_last": Case("depthwise", convolution(Conv(32, 192, 192, 56, 7, padding=3, groups=192))),
    "conv_grouped_32": Case(
        "grouped",
        convolution(Conv(32, 256, 256, 56, groups=32, last=False), Conv(32, 256, 256, 56, groups=32)),
        "channels_last",
    ),
    "conv_grouped_8": Case(
        "grouped", convolution(Conv(32, 256, 256, 56, groups=32), Conv(32, 256, 256, 56, groups=8)), "fewer groups"
    ),
    "conv_stem": Case(
        "few-channels",
        convolution(Conv(64, 3, 64, 224, 7, 2, 3), Conv(64, 8, 64, 224, 7, 2, 3)),
        "8 channels, 5 of them zero",
    ),
    "conv_stem4": Case(
        "few-channels",
        convolution(Conv(64, 3, 64, 224, 7, 2, 3), Conv(64, 4, 64, 224, 7, 2, 3)),
        "4 channels, one of them zero",
    ),
    "conv_few_outputs": Case("few-channels", convolution(Conv(32, 64, 3, 224), Conv(32, 64, 8, 224)), "8 outputs"),
    "conv_patches": Case("patches", patches, "the product that it is"),
    "conv_odd_channels": Case("odd-channels", convolution(Conv(64, 65, 65, 56), Conv(64, 72, 72, 56)), "72 channels"),
    "conv_odd_33": Case(
        "odd-channels", convolution(Conv(64, 33, 127, 56), Conv(64, 40, 128, 56)), "40 and 128 channels"
    ),
    "conv_dilated_12": Case(
        "dilated",
        convolution(
            Conv(8, 256, 256, 64, padding=12, dilation=12, last=False), Conv(8, 256, 256, 64, padding=12, dilation=12)
        ),
        "channels_last",
    ),
    "conv_asymmetric": Case(
        "uneven-window", convolution(Conv(64, 192, 192, 17, (1, 7), padding=(0, 3)), Conv(64, 192, 192, 17))
    ),
    "conv_transposed": Case(
        "transposed",
        convolution(
            Conv(16, 256, 128, 64, 2, 2, 0, transposed=True, last=False),
            Conv(16, 256, 128, 64, 2, 2, 0, transposed=True),
        ),
        "channels_last",
    ),
    "conv_transposed4": Case("transposed", convolution(Conv(16, 256, 128, 64, 4, 2, 1, transposed=True))),
    "conv_1x1_nchw": Case(
        "channels-first",
        convolution(Conv(64, 512, 512, 28, 1, padding=0, last=False), Conv(64, 512, 512, 28, 1, padding=0)),
        "channels_last",
    ),
    "conv_small_side": Case(
        "few-tiles", convolution(Conv(1, 1024, 1024, 7), Conv(32, 1024, 1024, 7)), "32 times the batch", (1, 32)
    ),
    "conv3d_nchw": Case(
        "channels-first",
        convolution(Conv(4, 64, 64, 28, dims=3, last=False), Conv(4, 64, 64, 28, dims=3)),
        "channels_last_3d",
    ),
    "conv1d_long": Case("", convolution(Conv(16, 128, 128, 16384, dims=1))),
    "conv_fp32": Case("fp32", convolution(GRID._replace(dtype=torch.float32)), "TF32", tf32=True),
    "near_conv": Case("", convolution(Conv(64, 256, 256, 56))),
    "conv_1x1_tiny_side": Case(
        "few-tiles",
        convolution(Conv(2, 2048, 512, 7, 1, padding=0), Conv(128, 2048, 512, 7, 1, padding=0)),
        "64 times the batch",
        (2, 128),
    ),
    "conv_batch_one": Case(
        "few-tiles", convolution(Conv(1, 256, 256, 14), Conv(64, 256, 256, 14)), "64 times the batch", (1, 64)
    ),
    "conv_depthwise3_last": Case("depthwise", convolution(Conv(64, 384, 384, 56, groups=384))),
    "conv1d_depthwise": Case("depthwise", convolution(Conv(8, 1024, 1024, 16384, 4, padding=3, groups=1024, dims=1))),
    "conv_odd_training": Case(
        "odd-channels", convolution(Conv(64, 65, 65, 56), Conv(64, 72, 72, 56), backward=True), "72 channels"
    ),
    "conv_grouped_training": Case(
        "grouped",
        convolution(Conv(32, 256, 256, 28, groups=32), Conv(32, 256, 256, 28), backward=True),
        "one group, which computes more",
    ),
}
