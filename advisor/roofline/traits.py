"""Traits of calls that move memory: the layouts and types of their operands, and the width of what they normalize."""

from __future__ import annotations

import math

from advisor.roofline.signature import Signature, Tensor
from advisor.roofline.types import is_floating
from advisor.roofline.work import Sizes

_NARROW = 256
"""Elements of a row up to which a block that normalizes it has more threads than loads."""
_ROWS = 4096
_SHORT = 32
"""Neighbours in memory under which a reduction over them fills no warp: its threads load one number each."""
_REDUCED = {
    **dict.fromkeys(
        ("aten::sum", "aten::nansum", "aten::mean", "aten::prod", "aten::amax", "aten::amin", "aten::logsumexp",
         "aten::any", "aten::all", "aten::max", "aten::min", "aten::argmax", "aten::argmin", "aten::count_nonzero"), 1
    ),
    "aten::norm": 2,
    "aten::linalg_vector_norm": 2,
}  # fmt: skip
"""Places of the dimensions that are reduced."""
_NORMALIZED = {
    "aten::native_layer_norm": (1, 2),
    "aten::_fused_rms_norm": (1, 2),
    "aten::native_layer_norm_backward": (2, 5),
    "aten::_fused_rms_norm_backward": (2, 4),
}
"""Places of the sizes that are normalized over, as numbers, and of the weight."""


def of_memory(kind: str, signature: Signature) -> Sizes | None:
    """The traits of a call that is no sum of products, as sizes of so many rows; None where it has none."""
    source = next((tensor for tensor in signature.tensors if tensor.shape), None)
    if source is None:
        return None
    found = {
        "strided": kind in ("pointwise", "copy") and _differently_ordered(signature),
        "mixed-types": kind == "pointwise" and _mixed(signature),
        "narrow-rows": kind == "normalization" and _narrow(signature, source),
        "narrow-sums": kind == "reduction" and _short(signature, source),
        "channels-first": kind == "normalization" and "batch_norm" in signature.name and channels_first(source),
    }
    traits = tuple(name for name, holds in found.items() if holds)
    return Sizes(1, source.elements, 1, 1, traits) if traits else None


def channels_first(source: Tensor) -> bool:
    """Tell whether a batch of several channels and positions lies with its channels apart (NCHW), by its strides."""
    shape, strides = source.shape, source.strides
    if strides is None or len(strides) != len(shape) or len(shape) < 4 or shape[1] == 1 or math.prod(shape[2:]) == 1:
        return False
    return strides[1] != 1


def _innermost(tensor: Tensor) -> int | None:
    """Return the dimension along which neighbours in memory lie; None where strides are unknown, and of an expanded tensor."""
    shape, strides = tensor.shape, tensor.strides
    if strides is None or len(strides) != len(shape) or not all(strides):
        return None
    return min((at for at, size in enumerate(shape) if size > 1), key=lambda at: strides[at], default=None)


def _differently_ordered(signature: Signature) -> bool:
    """Tell whether neighbours in memory lie along different dimensions in two operands of one shape.

    Then one of them is read or written across its rows. Orders that differ further out cost little: rows stay whole.
    """
    largest = max((tensor.elements for tensor in signature.tensors), default=0)
    whole = [tensor for tensor in signature.tensors if tensor.elements == largest and len(tensor.shape) > 1]
    found = {at for tensor in whole if (at := _innermost(tensor)) is not None}
    return len(found) > 1 and len({tensor.shape for tensor in whole}) == 1


def _mixed(signature: Signature) -> bool:
    """Tell whether whole operands are of different floating types: kernels then load element by element, and convert."""
    largest = max((tensor.elements for tensor in signature.tensors), default=0)
    kinds = {
        tensor.type
        for tensor in signature.tensors
        if tensor.elements == largest and tensor.type and is_floating(tensor.type)
    }
    return len(kinds) > 1


def _short(signature: Signature, source: Tensor) -> bool:
    """Tell whether a reduction takes a few neighbours in memory each time, and nothing further out."""
    place, shape, strides = _REDUCED.get(signature.name), source.shape, source.strides
    dims = signature.operand(place).numbers if place is not None and place < len(signature.operands) else None
    if not dims or (strides is not None and (len(strides) != len(shape) or not all(strides))):
        return False
    steps = strides or tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))
    gone = {dim % len(shape) for dim in dims}
    inner = sorted((at for at, size in enumerate(shape) if size > 1), key=lambda at: steps[at])[: len(gone)]
    width = math.prod(shape[at] for at in gone)
    return set(inner) == gone and 1 < width < _SHORT and source.elements // width >= _ROWS


def _narrow(signature: Signature, source: Tensor) -> bool:
    places = _NORMALIZED.get(signature.name)
    if places is None:
        return False
    numbers, weight = signature.operand(places[0]).numbers, signature.tensor(places[1])
    width = weight.elements if weight is not None else math.prod(numbers) if numbers else 0
    return 0 < width <= _NARROW and source.elements // width >= _ROWS
