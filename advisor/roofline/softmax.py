"""Softmax, forward and backward: five operations an element (maximum, subtract, exponential, sum, divide), backward four.

Sources: torch.nn.functional.softmax and the schemas in native_functions.yaml; Megatron's masked kernels (scaled_masked_softmax.h,
scaled_upper_triang_masked_softmax.h: of a causal mask only the lower triangle is read, and all is written).
"""

from __future__ import annotations

from advisor.roofline.signature import Signature, Tensor
from advisor.roofline.work import Formula, Hints, Work, dense, finish

_FORWARD, _BACKWARD = 5, 4


def _forward(signature: Signature, hints: Hints) -> Work | None:
    """_softmax(self, dim, half_to_float)."""
    source = signature.tensor(0)
    if source is None:
        return None
    kind = "float32" if signature.operand(2).flag and source.type is not None else source.type
    result = dense(source.shape, kind)
    return finish("softmax", _FORWARD * source.elements, [source, result], hints, arithmetic=source.type)


def _backward(signature: Signature, hints: Hints) -> Work | None:
    """_softmax_backward_data(grad_output, output, dim, input_dtype)."""
    grad, output = signature.tensor(0), signature.tensor(1)
    if grad is None or output is None:
        return None
    return finish(
        "softmax", _BACKWARD * grad.elements, [grad, output, dense(grad.shape, grad.type)], hints, arithmetic=grad.type
    )


def _masked(signature: Signature, hints: Hints) -> Work | None:
    """_masked_softmax(self, mask, …), ScaledMaskedSoftmax(input, mask, scale)."""
    source, mask = signature.tensor(0), signature.tensor(1)
    if source is None:
        return None
    tensors: list[Tensor | None] = [source, mask, dense(source.shape, source.type)]
    return finish("softmax", _FORWARD * source.elements, tensors, hints, arithmetic=source.type)


def _triangle(backward: bool) -> Formula:
    def formula(signature: Signature, hints: Hints) -> Work | None:
        source = signature.tensor(0)
        if source is None:
            return None
        half = dense((source.elements // 2,), source.type)
        read = [half, half] if backward else [half]
        flops = (_BACKWARD if backward else _FORWARD) * source.elements // 2
        return finish(
            "softmax", flops, [*read, dense(source.shape, source.type)], hints, arithmetic=source.type, exact=False
        )

    return formula


FORMULAS: dict[str, Formula] = {
    "aten::_softmax": _forward,
    "aten::_log_softmax": _forward,
    "aten::_safe_softmax": _forward,
    "aten::_softmax_backward_data": _backward,
    "aten::_log_softmax_backward_data": _backward,
    "aten::_masked_softmax": _masked,
    "aten::_masked_softmax_backward": _backward,
    "ScaledMaskedSoftmax": _masked,
    "ScaledSoftmax": _forward,
    "ScaledUpperTriangMaskedSoftmax": _triangle(backward=False),
    "ScaledUpperTriangMaskedSoftmaxBackward": _triangle(backward=True),
}
