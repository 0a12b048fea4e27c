"""Losses, forward and backward.

Sources: torch.nn.functional and the schemas in native_functions.yaml. A pointwise loss takes an operation or some an element (the
squared error two), and one more where it is summed up. The negative log-likelihood reads one element a row; backward it
writes a gradient as large as its input.
"""

from __future__ import annotations

from advisor.roofline.signature import Signature, Tensor
from advisor.roofline.work import Formula, Hints, Work, dense, finish

_NONE = 0  # reduction, as at::Reduction numbers it


def _pointwise(operations: int, reduction: int) -> Formula:
    """Return the formula of a loss (self, target, …) whose kind of reduction stands at *reduction*."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        source, target = signature.tensor(0), signature.tensor(1)
        if source is None or target is None:
            return None
        summed = signature.operand(reduction).number
        each = operations + (summed != _NONE)
        result = dense(source.shape if summed == _NONE else (), source.type)
        return finish("loss", each * source.elements, [source, target, result], hints, arithmetic=source.type)

    return formula


def _backward(operations: int) -> Formula:
    """Return the formula of the gradient of a pointwise loss (grad_output, self, target, …)."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        grad, source, target = (signature.tensor(at) for at in range(3))
        if source is None or target is None:
            return None
        tensors: list[Tensor | None] = [grad, source, target, dense(source.shape, source.type)]
        return finish("loss", operations * source.elements, tensors, hints, arithmetic=source.type)

    return formula


def _likelihood(signature: Signature, hints: Hints) -> Work | None:
    """nll_loss_forward(self, target, weight, reduction, ignore_index)."""
    source, target = signature.tensor(0), signature.tensor(1)
    if source is None or target is None:
        return None
    return finish(
        "loss", 2 * target.elements, [target, dense(target.shape, source.type)], hints, arithmetic=source.type
    )


def _likelihood_backward(signature: Signature, hints: Hints) -> Work | None:
    """nll_loss_backward(grad_output, self, target, …)."""
    source, target = signature.tensor(1), signature.tensor(2)
    if source is None or target is None:
        return None
    return finish("loss", target.elements, [target, dense(source.shape, source.type)], hints, arithmetic=source.type)


FORMULAS: dict[str, Formula] = {
    "aten::mse_loss": _pointwise(2, 2),
    "aten::l1_loss": _pointwise(2, 2),
    "aten::smooth_l1_loss": _pointwise(4, 2),
    "aten::huber_loss": _pointwise(4, 2),
    "aten::soft_margin_loss": _pointwise(4, 2),
    "aten::binary_cross_entropy": _pointwise(6, 3),
    "aten::binary_cross_entropy_with_logits": _pointwise(6, 4),
    "aten::kl_div": _pointwise(4, 2),
    "aten::mse_loss_backward": _backward(3),
    "aten::smooth_l1_loss_backward": _backward(4),
    "aten::huber_loss_backward": _backward(4),
    "aten::soft_margin_loss_backward": _backward(4),
    "aten::binary_cross_entropy_backward": _backward(6),
    "aten::nll_loss_forward": _likelihood,
    "aten::nll_loss2d_forward": _likelihood,
    "aten::nll_loss_backward": _likelihood_backward,
    "aten::nll_loss2d_backward": _likelihood_backward,
}
