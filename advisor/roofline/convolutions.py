"""Convolutions: every element of the output (of the input, where transposed) meets each weight of its group once.

Sources: torch.utils.flop_counter (conv_flop_count) and the schemas in aten/src/ATen/native/native_functions.yaml. With a
weight of [K, C/groups, R, S] that is 2·N·P·Q·K·(C/groups)·R·S = 2·N·P·Q·(elements of the weight), so neither groups,
dilation nor the kind (depthwise is groups = C) have to be asked; a transposed convolution, [C, K/groups, R, S], scatters and has
2·N·H·W·(elements of the weight). Products with padding are counted. The gradient of the input and that of the weight take as
many each. These are the operations of the direct algorithm; Winograd's takes fewer, by the tile in its kernel's name (``share``).
Source: Lavin and Gray, https://arxiv.org/abs/1509.09308: F(m×m, r×r) multiplies (m + r - 1)² times for m²·r².
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from advisor.regex import regex
from advisor.roofline.signature import Operand, Shape, Signature, Tensor
from advisor.roofline.traits import channels_first
from advisor.roofline.types import SIZES
from advisor.roofline.work import UNSIZED, Formula, Hints, Sizes, Work, dense, finish

ALIGNED = 16
"""Bytes of channels that one load of a matrix unit takes."""
_FEW_CHANNELS = 8
"""Channels under which a matrix unit has less than one load of them."""

_FFT = regex(r"\bfft[12]d_[rc]2[rc]")
_TILE = regex(r"winograd\w*?(?<!\d)(\d)x\1(?!\d)|_f(\d)x(\d)(?!\d)", re.IGNORECASE)
_WINOGRAD = regex(r"winograd|sp3asmconv", re.IGNORECASE)


def share(kernel: str) -> float:
    """The part of the direct algorithm's multiplications that a kernel does; 0 where it transforms (FFT), 1 for other names.

    cuDNN names the outputs of a tile for 3×3 weights (``4x4``), 9×9 its transformed tile for 5×5; MIOpen names both (``f2x3``).
    """
    if _FFT.search(kernel):
        return 0.0
    if not _WINOGRAD.search(kernel):
        return 1.0
    tile = _TILE.search(kernel)
    outputs, weights = 2, 3
    if tile and tile[1]:
        outputs, weights = (5, 5) if tile[1] == "9" else (int(tile[1]), 3)
    elif tile:
        outputs, weights = int(tile[2]), int(tile[3])
    return ((outputs + weights - 1) / (outputs * weights)) ** 2


class Layout(NamedTuple):
    """Places of a convolution's arguments in its schema; -1 where it has none of them."""

    bias: int
    stride: int
    padding: int
    dilation: int = -1
    transposed: int | bool = False
    """The place of the argument that says so, or what always holds."""
    output_padding: int = -1
    groups: int = -1
    added: int = -1
    """A tensor that is added to the output."""


def _argument(signature: Signature, place: int, rank: int, default: int) -> Shape | None:
    """Return an argument with a number a dimension; *default* where the operator has none; None where it was not recorded."""
    if place < 0:
        return (default,) * rank
    numbers = signature.operand(place).numbers
    if not numbers:
        return None
    return numbers * rank if len(numbers) == 1 else numbers if len(numbers) == rank else None


def output_sizes(
    signature: Signature, layout: Layout, source: Tensor, weight: Tensor, transposed: bool
) -> Shape | None:
    """The output's spatial sizes, by the formulas in torch.nn.Conv2d and ConvTranspose2d; None without the arguments."""
    rank = len(weight.shape) - 2
    stride = _argument(signature, layout.stride, rank, 1)
    padding = _argument(signature, layout.padding, rank, 0)
    dilation = _argument(signature, layout.dilation, rank, 1)
    extra = _argument(signature, layout.output_padding, rank, 0) if transposed else (0,) * rank
    word = signature.operand(layout.padding).value.strip("'\"") if layout.padding >= 0 else ""
    spans, sizes = weight.shape[2:], source.shape[-rank:]
    if word == "same":
        return sizes
    if word == "valid":
        padding = (0,) * rank
    if stride is None or padding is None or dilation is None or extra is None or 0 in stride:
        return None
    if transposed:
        return tuple(
            (size - 1) * s - 2 * p + d * (k - 1) + e + 1
            for size, s, p, d, k, e in zip(sizes, stride, padding, dilation, spans, extra, strict=True)
        )
    return tuple(
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, s, p, d, k in zip(sizes, stride, padding, dilation, spans, strict=True)
    )


def _groups(signature: Signature, layout: Layout, source: Tensor, weight: Tensor, transposed: bool) -> int | None:
    """Return the number of groups: as recorded, else by the channels; None where neither tells."""
    if layout.groups < 0:
        return 1
    recorded = signature.operand(layout.groups).numbers
    if recorded and len(recorded) == 1 and recorded[0] > 0:
        return recorded[0]
    # A transposed weight is [C, K/groups, ...]: its sizes do not tell the groups.
    channels = source.shape[-len(weight.shape) + 1]
    return None if transposed or not weight.shape[1] else max(channels // weight.shape[1], 1)


def _near(hints: Hints, batch: Shape, channels: int | None, spatial: Shape) -> Shape | None:
    """Return the spatial sizes of the first neighbouring shape that this convolution's output can have."""
    for shape in hints.near:
        if len(shape) != len(batch) + 1 + len(spatial) or shape[: len(batch)] != batch:
            continue
        if channels in (None, shape[len(batch)]) and all(size > 0 for size in shape):
            return shape[len(batch) + 1 :]
    return None


def _forward(layout: Layout) -> Formula:
    def formula(signature: Signature, hints: Hints) -> Work | None:
        source, weight = signature.tensor(0), signature.tensor(1)
        if source is None or weight is None or len(weight.shape) < 3:
            return None
        rank = len(weight.shape) - 2
        if len(source.shape) not in (rank + 1, rank + 2):
            return None
        transposed = (
            _is_transposed(signature.operand(layout.transposed), source, weight)
            if (type(layout.transposed) is int)
            else bool(layout.transposed)
        )
        groups = _groups(signature, layout, source, weight, transposed)
        channels = weight.shape[0] if not transposed else groups and weight.shape[1] * groups
        batch = source.shape[: -rank - 1]
        sizes = output_sizes(signature, layout, source, weight, transposed)
        sizes = sizes or _near(hints, batch, channels, source.shape[-rank:])
        result = dense((*batch, channels, *sizes), source.type) if sizes is not None and channels else None
        steps = source.shape[-rank:] if transposed else sizes
        flops = None if steps is None else 2 * math.prod(batch) * math.prod(steps) * weight.elements
        read = [source, weight, *(signature.tensor(at) for at in (layout.bias, layout.added) if at >= 0)]
        missing = None if result is not None else UNSIZED
        found = finish("convolution", flops, [*read, result], hints, arithmetic=source.type, missing=missing)
        stride = _argument(signature, layout.stride, rank, 1)
        dilation = _argument(signature, layout.dilation, rank, 1)
        shape = _Form(groups or 1, transposed, stride, dilation)
        return found._replace(sizes=_as_product(source, weight, math.prod(batch) * math.prod(steps or (0,)), shape))

    return formula


class _Form(NamedTuple):
    """Arguments of a convolution that its kernels depend on; None where they were not recorded."""

    groups: int
    transposed: bool
    stride: Shape | None = None
    dilation: Shape | None = None


def _as_product(source: Tensor, weight: Tensor, places: int, form: _Form) -> Sizes | None:
    """Return a convolution as the product that it is computed as (implicit GEMM), forward."""
    if not places:
        return None
    groups = form.groups
    inner = math.prod(weight.shape[1:]) if not form.transposed else weight.shape[0] // groups
    columns = weight.shape[0] // groups if not form.transposed else math.prod(weight.shape[1:])
    return Sizes(groups, places, columns, inner, traits(source, weight, form))


def traits(source: Tensor, weight: Tensor, form: _Form) -> tuple[str, ...]:
    """Properties of a convolution that its kernels are known to suffer from."""
    window = weight.shape[2:]
    inputs = weight.shape[1] if not form.transposed else weight.shape[0] // form.groups
    outputs = weight.shape[0] // form.groups if not form.transposed else weight.shape[1]
    size = SIZES.get(source.type or "", 0)
    found = {
        "depthwise": form.groups > 1 and inputs == 1,
        "grouped": form.groups > 1 and inputs > 1,
        "patches": not form.transposed and form.stride == window and math.prod(window) > 1,
        "few-channels": form.groups == 1 and min(inputs, outputs) < _FEW_CHANNELS,
        "odd-channels": form.groups == 1 and bool(size) and any(n * size % ALIGNED for n in (inputs, outputs)),
        "uneven-window": len(set(window)) > 1,
        "dilated": form.dilation is not None and max(form.dilation, default=1) > 1,
        "transposed": form.transposed,
        # A window of one is a product, which libraries compute in either layout.
        "channels-first": channels_first(source) and math.prod(window) > 1,
    }
    return tuple(name for name, holds in found.items() if holds)


def _of_gradients(signature: Signature, source: Tensor, weight: Tensor, places: int) -> Sizes | None:
    """Return the forward convolution of a backward operator as a product: its gradients are products of the same numbers."""
    rank, full = len(weight.shape) - 2, signature.name.startswith("aten::convolution_backward")
    transposed = "transpose" in signature.name or (full and _is_transposed(signature.operand(7), source, weight))
    groups = signature.operand(9).numbers if full else None
    number = groups[0] if groups and groups[0] > 0 else max(source.shape[1] // max(weight.shape[1], 1), 1)
    stride, dilation = (_argument(signature, at, rank, 1) if full else None for at in (4, 6))
    return _as_product(
        source, weight, places, _Form(1 if transposed and not groups else number, transposed, stride, dilation)
    )


def _is_transposed(operand: Operand, source: Tensor, weight: Tensor) -> bool:
    """Tell whether a forward convolution is transposed: as recorded, else by the channels."""
    if operand.flag is not None:
        return operand.flag
    channels = source.shape[-len(weight.shape) + 1]
    return channels == weight.shape[0] and channels % max(weight.shape[1], 1) != 0


def _backward(grad: int, source: int, weight: int, mask: int, bias: bool = True) -> Formula:
    """Return the formula of a backward operator, with the places of its tensors and of its mask."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        out, given, kernel = signature.tensor(grad), signature.tensor(source), signature.tensor(weight)
        if out is None or given is None or kernel is None or len(kernel.shape) < 3:
            return None
        wanted = signature.operand(mask).flags
        for_input, for_weight, *rest = wanted or (True, True, False)
        steps = _steps(signature, out, given, kernel)
        flops = 2 * math.prod(steps) * kernel.elements * (int(for_input) + int(for_weight))
        moved: list[Tensor | None] = [out]
        moved += [kernel, dense(given.shape, given.type)] if for_input else []
        moved += [given, dense(kernel.shape, kernel.type)] if for_weight else []
        moved += [dense((out.shape[1],), out.type)] if bias and rest and rest[0] else []
        missing = None if wanted else "the gradients that were asked for: the first layer needs none of its input"
        found = finish("convolution", flops, moved, hints, arithmetic=out.type, missing=missing)
        return found._replace(sizes=_of_gradients(signature, given, kernel, math.prod(steps)))

    return formula


def _steps(signature: Signature, grad: Tensor, source: Tensor, kernel: Tensor) -> Shape:
    """Return the batch and places in which each weight takes part: the output's; the input's of a transposed convolution."""
    rank = len(kernel.shape) - 2
    outer, inner = grad.shape[-rank:], source.shape[-rank:]
    flag = signature.operand(7).flag if signature.name == "aten::convolution_backward" else None
    if "transpose" in signature.name:
        flag = True
    if flag is None:
        normal = grad.shape[-rank - 1] == kernel.shape[0]
        flipped = source.shape[-rank - 1] == kernel.shape[0]
        # Channels tell, where they differ; else only a transposed convolution makes the image larger by more than padding.
        flag = (flipped and not normal) or (flipped and math.prod(outer) > 2 * math.prod(inner))
    return (*source.shape[: -rank - 1], *(inner if flag else outer))


def _input_gradient(grad: int, weight: int, size: int) -> Formula:
    """Return the formula of an operator that gives the input's gradient alone, and gets the input's size as numbers."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        out, kernel = signature.tensor(grad), signature.tensor(weight)
        if out is None or kernel is None or len(kernel.shape) < 3:
            return None
        shape = signature.operand(size).numbers or _input_near(hints, out, kernel)
        steps = out.shape[:1] + out.shape[2:]
        if "transpose" in signature.name:
            steps = () if shape is None else shape[:1] + shape[2:]
        result = None if shape is None else dense(shape, out.type)
        flops = 2 * math.prod(steps) * kernel.elements if steps else None
        missing = None if result else UNSIZED
        found = finish("convolution", flops, [out, kernel, result], hints, arithmetic=out.type, missing=missing)
        return (
            found
            if result is None
            else found._replace(sizes=_of_gradients(signature, result, kernel, math.prod(steps)))
        )

    return formula


def _input_near(hints: Hints, out: Tensor, kernel: Tensor) -> Shape | None:
    for shape in hints.near:
        fits = len(shape) == len(out.shape) and shape[:1] == out.shape[:1]
        if fits and shape[1] % max(kernel.shape[1], 1) == 0:
            return shape
    return None


def _weight_gradient(grad: int, source: int, size: int) -> Formula:
    """Return the formula of an operator that gives the weight's gradient alone, and gets the weight's size as numbers."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        out, given = signature.tensor(grad), signature.tensor(source)
        if out is None or given is None or len(out.shape) < 3:
            return None
        shape = signature.operand(size).numbers or _weight_near(hints, out, given)
        steps = given if "transpose" in signature.name else out
        places = math.prod(steps.shape[:1] + steps.shape[2:])
        flops = None if shape is None else 2 * places * math.prod(shape)
        result = None if shape is None else dense(shape, out.type)
        missing = None if result else UNSIZED
        found = finish("convolution", flops, [out, given, result], hints, arithmetic=out.type, missing=missing)
        return found if result is None else found._replace(sizes=_of_gradients(signature, given, result, places))

    return formula


def _weight_near(hints: Hints, out: Tensor, given: Tensor) -> Shape | None:
    for shape in hints.near:
        pair = (shape[0], given.shape[1] % shape[1]) if len(shape) == len(out.shape) and shape[1] else (0, 1)
        if pair == (out.shape[1], 0) and shape not in (out.shape, given.shape):
            return shape
    return None


_PLAIN = Layout(bias=2, stride=3, padding=4, dilation=5, groups=6)
_TURNED = Layout(bias=2, stride=3, padding=4, output_padding=5, groups=6, dilation=7, transposed=True)
_FULL = Layout(bias=2, stride=3, padding=4, dilation=5, transposed=6, output_padding=7, groups=8)
_CUDNN = Layout(bias=-1, padding=2, stride=3, dilation=4, groups=5)
_CUDNN_BIAS = Layout(bias=2, padding=3, stride=4, dilation=5, groups=6)
_CUDNN_TURNED = Layout(bias=-1, padding=2, output_padding=3, stride=4, dilation=5, groups=6, transposed=True)
_MIOPEN_TURNED = Layout(bias=2, padding=3, output_padding=4, stride=5, dilation=6, groups=7, transposed=True)
_SLOW = Layout(bias=3, stride=4, padding=5)
_SLOW_DILATED = Layout(bias=3, stride=4, padding=5, dilation=6)
_DEPTHWISE = Layout(bias=3, stride=4, padding=5, dilation=6, groups=99)
_SLOW_TURNED = Layout(bias=3, stride=4, padding=5, output_padding=6, dilation=7, transposed=True)


def _cudnn(plain: Layout, biased: Layout) -> Formula:
    """Return the formula of an operator that took a bias before torch 1.7: then something stands at its place."""
    without, with_bias = _forward(plain), _forward(biased)
    return lambda signature, hints: (
        with_bias if signature.tensor(2) is not None or len(signature.operands) == len(plain) + 2 else without
    )(signature, hints)


_LAYOUTS = {
    "aten::convolution": _FULL,
    "aten::_convolution": _FULL,
    "aten::convolution_overrideable": _FULL,
    **{f"aten::conv{rank}d": _PLAIN for rank in (1, 2, 3)},
    **{f"aten::conv_transpose{rank}d": _TURNED for rank in (1, 2, 3)},
    "aten::cudnn_convolution_relu": _PLAIN,
    "aten::miopen_convolution_relu": _PLAIN,
    "aten::cudnn_convolution_add_relu": Layout(added=2, bias=4, stride=5, padding=6, dilation=7, groups=8),
    "aten::miopen_convolution_add_relu": Layout(added=2, bias=4, stride=5, padding=6, dilation=7, groups=8),
    "aten::miopen_convolution": _CUDNN_BIAS,
    "aten::miopen_depthwise_convolution": _CUDNN_BIAS,
    "aten::miopen_convolution_transpose": _MIOPEN_TURNED,
    "aten::mkldnn_convolution": _CUDNN_BIAS,
    "mkldnn::_convolution_pointwise": _CUDNN_BIAS,
    "mkldnn::_convolution_transpose_pointwise": _MIOPEN_TURNED,
    "aten::_mps_convolution": _CUDNN_BIAS,
    "aten::_mps_convolution_transpose": Layout(
        bias=-1, padding=2, output_padding=3, stride=4, dilation=5, groups=6, transposed=True
    ),
    "aten::_slow_conv2d_forward": _SLOW,
    "aten::slow_conv3d_forward": _SLOW,
    "aten::thnn_conv2d_forward": _SLOW,
    "aten::slow_conv_dilated2d": _SLOW_DILATED,
    "aten::slow_conv_dilated3d": _SLOW_DILATED,
    "aten::_conv_depthwise2d": _DEPTHWISE,
    "aten::conv_depthwise3d": _DEPTHWISE,
    "aten::thnn_conv_depthwise2d_forward": _DEPTHWISE,
    "aten::slow_conv_transpose2d": _SLOW_TURNED,
    "aten::slow_conv_transpose3d": _SLOW_TURNED,
    "aten::_nnpack_spatial_convolution": Layout(bias=2, padding=3, stride=4),
}

FORMULAS: dict[str, Formula] = {
    **{name: _forward(layout) for name, layout in _LAYOUTS.items()},
    "aten::cudnn_convolution": _cudnn(_CUDNN, _CUDNN_BIAS),
    "aten::cudnn_convolution_transpose": _cudnn(_CUDNN_TURNED, _MIOPEN_TURNED),
    "aten::convolution_backward": _backward(0, 1, 2, 10),
    "aten::convolution_backward_overrideable": _backward(0, 1, 2, 9),
    "aten::cudnn_convolution_backward": _backward(1, 0, 2, 10, bias=False),
    "aten::cudnn_convolution_transpose_backward": _backward(1, 0, 2, 11, bias=False),
    "aten::miopen_convolution_backward": _backward(1, 0, 2, 9),
    "aten::miopen_depthwise_convolution_backward": _backward(1, 0, 2, 9),
    "aten::miopen_convolution_transpose_backward": _backward(1, 0, 2, 10),
    "aten::mkldnn_convolution_backward": _backward(1, 0, 2, 7),
    "aten::_slow_conv2d_backward": _backward(0, 1, 2, 6),
    "aten::thnn_conv2d_backward": _backward(0, 1, 2, 8),
    "aten::_conv_depthwise2d_backward": _backward(0, 1, 2, 7),
    "aten::mps_convolution_backward": _backward(1, 0, 2, 7),
}
for _maker in ("cudnn", "miopen", "miopen_depthwise", "mkldnn"):
    for _turned in ("", "_transpose"):
        _prefix = f"aten::{_maker}_convolution{_turned}_backward"
        # The transposed one's input gradient is a plain convolution of the gradient, and gets no size.
        FORMULAS[f"{_prefix}_weight"] = _weight_gradient(1, 2, 0)
        FORMULAS[f"{_prefix}_weights"] = _weight_gradient(1, 2, 0)
        FORMULAS[f"{_prefix}_input"] = _input_gradient(1, 2, 0) if not _turned else _input_gradient(0, 1, 99)
