"""Pooling, resampling and padding of images.

Sources: torch.nn.MaxPool2d and AvgPool2d (their formulas for the output's size), torch.nn.functional.interpolate, the schemas in
native_functions.yaml. A window takes an operation an element of it. Resampling to the next pixel computes nothing, linear
in d dimensions takes 2·2^d operations an output, bicubic 2·16.
"""

from __future__ import annotations

import math

from advisor.roofline.signature import Shape, Signature, Tensor
from advisor.roofline.work import UNSIZED, Formula, Hints, Work, dense, finish


def _numbers(signature: Signature, place: int, rank: int, default: Shape | None) -> Shape | None:
    numbers = signature.operand(place).numbers
    if numbers is None:
        return None
    if not numbers:
        return default
    return numbers * rank if len(numbers) == 1 else numbers if len(numbers) == rank else None


def _size(signature: Signature, source: Tensor, rank: int, dilated: bool) -> tuple[Shape, Shape] | None:
    """Return the output's spatial sizes and the window; None where they were not recorded."""
    window = _numbers(signature, 1, rank, None)
    if window is None:
        return None
    stride = _numbers(signature, 2, rank, window)
    padding = _numbers(signature, 3, rank, (0,) * rank)
    dilation = _numbers(signature, 4, rank, (1,) * rank) if dilated else (1,) * rank
    ceiling = signature.operand(5 if dilated else 4).flag or False
    if stride is None or padding is None or dilation is None or 0 in stride:
        return None
    out = []
    for size, k, s, p, d in zip(source.shape[-rank:], window, stride, padding, dilation, strict=True):
        span = size + 2 * p - d * (k - 1) - 1
        places = (-(-span // s) if ceiling else span // s) + 1
        # The last window begins inside the image or its left padding.
        out.append(places - 1 if ceiling and (places - 1) * s >= size + p else places)
    return tuple(out), window


def _pool(rank: int, maximum: bool) -> Formula:
    def formula(signature: Signature, hints: Hints) -> Work | None:
        source = signature.tensor(0)
        if source is None or len(source.shape) <= rank:
            return None
        found = _size(signature, source, rank, dilated=maximum)
        lead = source.shape[:-rank]
        if found is None:
            near = next((s for s in hints.near if _may_be_pooled(s, source, rank)), None)
            if near is None:
                return finish("pooling", None, [source], hints, arithmetic=source.type, missing=UNSIZED)
            results = [dense(near, source.type), *([dense(near, "int64")] if maximum else [])]
            return finish("pooling", source.elements, [source, *results], hints, arithmetic=source.type, exact=False)
        sizes, window = found
        shape = (*lead, *sizes)
        results = [dense(shape, source.type)]
        results += [dense(shape, "int64")] if "with_indices" in signature.name else []
        flops = math.prod(shape) * math.prod(window)
        return finish("pooling", flops, [source, *results], hints, arithmetic=source.type)

    return formula


def _may_be_pooled(shape: Shape, source: Tensor, rank: int) -> bool:
    """Tell whether a shape has the source's batch and channels, and a smaller image."""
    if len(shape) != len(source.shape) or shape[:-rank] != source.shape[:-rank]:
        return False
    return all(0 < size < whole for size, whole in zip(shape[-rank:], source.shape[-rank:], strict=True))


def _adaptive(rank: int, maximum: bool) -> Formula:
    """Return the formula of adaptive pooling (self, output_size): windows share edges at most, so each element counts once."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        source = signature.tensor(0)
        if source is None or len(source.shape) <= rank:
            return None
        sizes = _numbers(signature, 1, rank, None)
        results = [dense((*source.shape[:-rank], *sizes), source.type)] if sizes else []
        results += [dense(results[0].shape, "int64")] if maximum and results else []
        missing = None if results else UNSIZED
        return finish("pooling", source.elements, [source, *results], hints, arithmetic=source.type, missing=missing)

    return formula


def _backward(with_indices: bool) -> Formula:
    """Return the formula of a backward operator (grad_output, self, …): the input is written; its values are not read."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        grad, source = signature.tensor(0), signature.tensor(1)
        if grad is None or source is None:
            return None
        indices = (
            next((o.tensor for o in signature.operands[2:] if o.tensor is not None), None) if with_indices else None
        )
        tensors = [grad, indices, dense(source.shape, grad.type)]
        flops = max(grad.elements, 0 if with_indices else source.elements)
        return finish("pooling", flops, tensors, hints, arithmetic=grad.type)

    return formula


def _resample(rank: int, operations: int, backward: bool) -> Formula:
    """Return the formula of upsample_*(self, output_size, …) and its backward (grad_output, output_size, input_size, …)."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        source = signature.tensor(0)
        if source is None or len(source.shape) != rank + 2:
            return None
        numbers = signature.operand(2 if backward else 1).numbers
        shape: Shape | None = None
        if numbers and len(numbers) == (rank + 2 if backward else rank):
            shape = numbers if backward else (*source.shape[:2], *numbers)
        shape = shape or next((s for s in hints.near if len(s) == rank + 2 and s[:2] == source.shape[:2]), None)
        result = None if shape is None else dense(shape, source.type)
        larger = source.elements if backward or result is None else result.elements
        missing = None if result else UNSIZED
        flops = operations * larger if result or backward or not operations else None
        return finish("resampling", flops, [source, result], hints, arithmetic=source.type, missing=missing)

    return formula


def _grid(signature: Signature, hints: Hints) -> Work | None:
    """grid_sampler(input, grid, …): an output for each place of the grid, of four neighbours each."""
    source, grid = signature.tensor(0), signature.tensor(1)
    if source is None or grid is None or len(source.shape) < 3:
        return None
    rank = len(source.shape) - 2
    result = dense((*source.shape[:2], *grid.shape[1:-1]), source.type)
    flops = 2 * 2**rank * result.elements
    return finish("resampling", flops, [grid, result], hints, arithmetic=source.type, exact=False)


def _pad(signature: Signature, hints: Hints) -> Work | None:
    """reflection_pad*d, replication_pad*d (self, padding)."""
    source, pad = signature.tensor(0), signature.operand(1).numbers
    if source is None:
        return None
    shape = list(source.shape)
    for at in range(min(len(pad or ()) // 2, len(shape))):
        shape[-1 - at] += (pad or ())[2 * at] + (pad or ())[2 * at + 1]
    missing = None if pad else UNSIZED
    return finish("copy", 0, [source, dense(shape, source.type)], hints, missing=missing)


FORMULAS: dict[str, Formula] = {}
for _rank in (1, 2, 3):
    FORMULAS[f"aten::max_pool{_rank}d_with_indices"] = _pool(_rank, maximum=True)
    FORMULAS[f"aten::max_pool{_rank}d"] = _pool(_rank, maximum=True)
    FORMULAS[f"aten::mkldnn_max_pool{_rank}d"] = _pool(_rank, maximum=True)
    FORMULAS[f"aten::avg_pool{_rank}d"] = _pool(_rank, maximum=False)
    FORMULAS[f"aten::_adaptive_avg_pool{_rank}d"] = _adaptive(_rank, maximum=False)
    FORMULAS[f"aten::mkldnn_adaptive_avg_pool{_rank}d"] = _adaptive(_rank, maximum=False)
    FORMULAS[f"aten::adaptive_max_pool{_rank}d"] = _adaptive(_rank, maximum=True)
    FORMULAS[f"aten::max_pool{_rank}d_with_indices_backward"] = _backward(with_indices=True)
    FORMULAS[f"aten::adaptive_max_pool{_rank}d_backward"] = _backward(with_indices=True)
    FORMULAS[f"aten::avg_pool{_rank}d_backward"] = _backward(with_indices=False)
    FORMULAS[f"aten::_adaptive_avg_pool{_rank}d_backward"] = _backward(with_indices=False)
    FORMULAS[f"aten::reflection_pad{_rank}d"] = _pad
    FORMULAS[f"aten::replication_pad{_rank}d"] = _pad
_RESAMPLING = (
    [(f"nearest{rank}d", rank, 0) for rank in (1, 2, 3)]
    + [(f"nearest_exact{rank}d", rank, 0) for rank in (1, 2, 3)]
    + [("linear1d", 1, 4), ("bilinear2d", 2, 8), ("trilinear3d", 3, 16), ("bicubic2d", 2, 32)]
    + [("bilinear2d_aa", 2, 8), ("bicubic2d_aa", 2, 32)]
)
for _name, _rank, _operations in _RESAMPLING:
    for _prefix in ("", "_"):
        FORMULAS[f"aten::{_prefix}upsample_{_name}"] = _resample(_rank, _operations, backward=False)
        FORMULAS[f"aten::{_prefix}upsample_{_name}_backward"] = _resample(_rank, max(_operations, 1), backward=True)
FORMULAS |= {"aten::grid_sampler_2d": _grid, "aten::grid_sampler_3d": _grid, "aten::cudnn_grid_sampler": _grid}
