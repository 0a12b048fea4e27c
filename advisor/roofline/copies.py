"""Copies, casts, fills, and what moves elements without computing: no arithmetic, bytes alone.

Sources: native_functions.yaml. A copy reads its source as it is stored (an expanded one once) and writes its destination; a cast is
a copy between types. A fill writes. Random numbers are written, and what makes them is not counted.
"""

from __future__ import annotations

import math

from advisor.roofline.signature import Shape, Signature, Tensor
from advisor.roofline.work import UNLISTED, UNSIZED, Formula, Hints, Work, dense, finish


def _copy(signature: Signature, hints: Hints) -> Work | None:
    """copy_(self, src)."""
    target, source = signature.tensor(0), signature.tensor(1)
    if target is None or source is None:
        return None
    return finish("copy", 0, [source, target], hints)


def _same(signature: Signature, hints: Hints) -> Work | None:
    """Operators that write as many elements of the same type as they read."""
    source = signature.tensor(0)
    return None if source is None else finish("copy", 0, [source, dense(source.shape, source.type)], hints)


def _cast(signature: Signature, hints: Hints) -> Work | None:
    """_to_copy(self, dtype): the type it casts to is recorded as a number, which releases number differently."""
    source = signature.tensor(0)
    return None if source is None else finish("copy", 0, [source], hints, missing="the type that is cast to")


def _fill(signature: Signature, hints: Hints) -> Work | None:
    """Operators that write their first operand without reading it."""
    target = signature.tensor(0)
    return None if target is None else finish("fill", 0, [target], hints)


def _scalar(signature: Signature, hints: Hints) -> Work | None:
    source = signature.tensor(0)
    return None if source is None else finish("copy", 0, [source], hints)


def _join(signature: Signature, hints: Hints) -> Work | None:
    """cat(tensors, dim), stack: all of them are read and written."""
    tensors = signature.operand(0).tensors
    if tensors is None:
        return Work("copy", 0, None, None, False, UNLISTED)
    result = dense((sum(tensor.elements for tensor in tensors),), next((t.type for t in tensors), None))
    return finish("copy", 0, [*tensors, result], hints)


def _pad(signature: Signature, hints: Hints) -> Work | None:
    """constant_pad_nd(self, pad): pairs of numbers from the last dimension on."""
    source, pad = signature.tensor(0), signature.operand(1).numbers
    if source is None:
        return None
    if not pad:
        return finish("copy", 0, [source, dense(source.shape, source.type)], hints, missing=UNSIZED)
    shape = list(source.shape)
    for at in range(min(len(pad) // 2, len(shape))):
        shape[-1 - at] = max(0, shape[-1 - at] + pad[2 * at] + pad[2 * at + 1])
    return finish("copy", 0, [source, dense(shape, source.type)], hints)


def _repeat(signature: Signature, hints: Hints) -> Work | None:
    """repeat(self, repeats)."""
    source, times = signature.tensor(0), signature.operand(1).numbers
    if source is None:
        return None
    shape: Shape | None = (source.elements * math.prod(times),) if times else next(iter(hints.near), None)
    result = None if shape is None else dense(shape, source.type)
    return finish("copy", 0, [source, result], hints, missing=None if result else UNSIZED)


def _dropout(signature: Signature, hints: Hints) -> Work | None:
    """native_dropout(input, p, train): the output, and a mask of a byte an element. Source: native_functions.yaml."""
    source = signature.tensor(0)
    if source is None:
        return None
    results = [dense(source.shape, source.type), dense(source.shape, "bool")]
    return finish("pointwise", 2 * source.elements, [source, *results], hints, arithmetic=source.type)


def _made(signature: Signature, hints: Hints) -> Work | None:
    """arange(…, out): the operand that is a tensor is written."""
    target = next((operand.tensor for operand in signature.operands[::-1] if operand.tensor is not None), None)
    return None if target is None or not target.shape else finish("fill", 0, [target], hints)


def _unfold(signature: Signature, hints: Hints) -> Work | None:
    """im2col and col2im: the larger side was not recorded; each side holds the other's elements at least once."""
    source = signature.tensor(0)
    if source is None:
        return None
    return finish("copy", 0, [source], hints, missing=UNSIZED)


def _transform_qkv(signature: Signature, hints: Hints) -> Work | None:
    """_transform_bias_rescale_qkv(qkv, bias, heads): adds a bias, scales the queries, and writes all in another order."""
    source, bias = signature.tensor(0), signature.tensor(1)
    if source is None:
        return None
    tensors: list[Tensor | None] = [source, bias, dense(source.shape, source.type)]
    return finish("pointwise", source.elements * 4 // 3, tensors, hints, arithmetic=source.type)


def _triangle(signature: Signature, hints: Hints) -> Work | None:
    """tril(self), triu(self): all is written, and of a square no more than half has to be read."""
    source = signature.tensor(0)
    if source is None:
        return None
    half = dense((source.elements // 2,), source.type)
    return finish("copy", 0, [half, dense(source.shape, source.type)], hints, exact=False)


_SAME = """bernoulli clone contiguous flip roll rot90 pixel_shuffle pixel_unshuffle channel_shuffle _pin_memory view_as_real_copy
permute_copy transpose_copy expand_copy _reshape_copy _conj_copy movedim_copy"""
_FILLS = """fill_ zero_ uniform_ normal_ random_ exponential_ bernoulli_ cauchy_ geometric_ log_normal_ eye"""

FORMULAS: dict[str, Formula] = {
    "aten::copy_": _copy,
    "aten::_copy_from": _copy,
    "aten::_to_copy": _cast,
    **{f"aten::{word}": _same for word in _SAME.split()},
    **{f"aten::{word}": _fill for word in _FILLS.split()},
    "aten::_local_scalar_dense": _scalar,
    "aten::cat": _join,
    "aten::_cat": _join,
    "aten::concat": _join,
    "aten::stack": _join,
    "aten::_stack": _join,
    "aten::constant_pad_nd": _pad,
    "aten::repeat": _repeat,
    "aten::native_dropout": _dropout,
    "aten::_fused_dropout": _dropout,
    "aten::arange": _made,
    "aten::linspace": _made,
    "aten::tril": _triangle,
    "aten::triu": _triangle,
    "aten::im2col": _unfold,
    "aten::col2im": _unfold,
    "aten::_transform_bias_rescale_qkv": _transform_qkv,
}
