"""Normalizations, forward and backward.

Sources: torch.nn.LayerNorm, BatchNorm2d, GroupNorm, RMSNorm (their formulas), and the schemas in native_functions.yaml. Operations
an element: layer, group and batch norm 8 (add for the mean; subtract, square, add for the variance; subtract, multiply; multiply,
add for weight and bias), 2 where the statistics are given, RMS norm 4 (square, add, multiply, multiply). Backward 13 and 10:
the normalized value 2, times the weight 1, the two sums 3, those of the weight and the bias 3, the result 4; RMS norm has
one sum and no bias. Bytes: input and output once, although a batch norm that does not fit the cache reads its input twice.
"""

from __future__ import annotations

from advisor.roofline.signature import Signature, Tensor
from advisor.roofline.work import Formula, Hints, Work, dense, finish

_FULL, _GIVEN, _RMS = 8, 2, 4
_FULL_BACK, _RMS_BACK = 13, 10


def _forward(operations: int, parameters: tuple[int, ...], training: int | None = None) -> Formula:
    """Return the formula of a forward operator: places of its weights, and of the flag that says if it takes statistics."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        source = signature.tensor(0)
        if source is None:
            return None
        each, missing = operations, None
        if training is not None:
            flag = signature.operand(training).flag
            each = _GIVEN if flag is not True else operations
            missing = None if flag is not None else "training or evaluation"
        weights = [signature.tensor(at) for at in parameters]
        result = dense(source.shape, source.type)
        return finish(
            "normalization",
            each * source.elements,
            [source, *weights, result],
            hints,
            arithmetic=source.type,
            missing=missing,
        )

    return formula


def _backward(grad: int, source: int, parameters: tuple[int, ...], mask: int | None, operations: int) -> Formula:
    """Return the formula of a backward operator: the places of the gradient, the input, the weights, and the mask."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        out, given = signature.tensor(grad), signature.tensor(source)
        if out is None or given is None:
            return None
        wanted = (signature.operand(mask).flags if mask is not None else None) or (True, True, True)
        weights = [signature.tensor(at) for at in parameters]
        first = weights[-1]
        results: list[Tensor | None] = [dense(given.shape, given.type)] if wanted[0] else []
        results += [dense(first.shape, first.type) for flag in wanted[1:] if flag and first is not None]
        each = operations if wanted[0] else operations // 2
        return finish(
            "normalization", each * given.elements, [out, given, *weights, *results], hints, arithmetic=given.type
        )

    return formula


def _statistics(signature: Signature, hints: Hints) -> Work | None:
    """batch_norm_stats(input, eps): mean and variance alone."""
    source = signature.tensor(0)
    return (
        None
        if source is None
        else finish("normalization", 4 * source.elements, [source], hints, arithmetic=source.type)
    )


def _reduce(signature: Signature, hints: Hints) -> Work | None:
    """batch_norm_backward_reduce(grad_out, input, mean, invstd, weight, …): the sums alone."""
    grad, source = signature.tensor(0), signature.tensor(1)
    if grad is None or source is None:
        return None
    return finish("normalization", 5 * source.elements, [grad, source], hints, arithmetic=source.type)


def _elements(signature: Signature, hints: Hints) -> Work | None:
    """batch_norm_elemt(input, …) and batch_norm_backward_elemt(grad_out, input, …): the output alone."""
    read = [
        tensor for tensor in (signature.tensor(0), signature.tensor(1)) if tensor is not None and len(tensor.shape) > 1
    ]
    if not read:
        return None
    tensors = [*read, dense(read[0].shape, read[0].type)]
    return finish("normalization", 5 * read[0].elements, tensors, hints, arithmetic=read[0].type)


def _weight(signature: Signature, hints: Hints) -> Work | None:
    """_weight_norm_interface(v, g, dim): square, add, multiply; and the norms."""
    source, gain = signature.tensor(0), signature.tensor(1)
    if source is None or gain is None:
        return None
    tensors = [source, gain, dense(source.shape, source.type), dense(gain.shape, gain.type)]
    return finish("normalization", 3 * source.elements, tensors, hints, arithmetic=source.type)


def _apex(signature: Signature, hints: Hints) -> Work | None:
    """FusedLayerNormAffineFunction(input, weight, bias) of Apex and Megatron, an autograd function."""
    return _forward(_FULL, (1, 2))(signature, hints)


FORMULAS: dict[str, Formula] = {
    "aten::native_layer_norm": _forward(_FULL, (2, 3)),
    "aten::native_group_norm": _forward(_FULL, (1, 2)),
    "aten::_fused_rms_norm": _forward(_RMS, (2,)),
    "aten::rms_norm": _forward(_RMS, (2,)),
    **{
        f"aten::{maker}_batch_norm": _forward(_FULL, (1, 2, 3, 4), training=5)
        for maker in ("native", "cudnn", "miopen", "mkldnn")
    },
    "aten::_native_batch_norm_legit": _forward(_FULL, (1, 2, 3, 4), training=5),
    "aten::_batch_norm_with_update": _forward(_FULL, (1, 2, 3, 4)),
    "aten::_batch_norm_no_update": _forward(_GIVEN, (1, 2, 3, 4)),
    "aten::batch_norm_stats": _statistics,
    "aten::batch_norm_elemt": _elements,
    "aten::batch_norm_backward_reduce": _reduce,
    "aten::batch_norm_backward_elemt": _elements,
    "aten::native_layer_norm_backward": _backward(0, 1, (3, 4, 5), 7, _FULL_BACK),
    "aten::native_group_norm_backward": _backward(0, 1, (2, 3, 4), 9, _FULL_BACK),
    "aten::_fused_rms_norm_backward": _backward(0, 1, (3, 4), 5, _RMS_BACK),
    "aten::native_batch_norm_backward": _backward(0, 1, (5, 6, 2), 9, _FULL_BACK),
    "aten::batch_norm_backward": _backward(0, 1, (5, 6, 2), 9, _FULL_BACK),
    "aten::cudnn_batch_norm_backward": _backward(1, 0, (5, 6, 2), None, _FULL_BACK),
    "aten::miopen_batch_norm_backward": _backward(1, 0, (5, 6, 2), None, _FULL_BACK),
    "aten::_weight_norm_interface": _weight,
    "FusedLayerNormAffineFunction": _apex,
    "FusedRMSNormAffineFunction": _forward(_RMS, (1,)),
    "MixedFusedLayerNorm": _apex,
}
