"""Operators on lists of tensors: foreach and fused optimizers, gradient clipping and scaling.

Sources: native_functions.yaml, and torch.optim's algorithms: Adam reads parameter, gradient and two moments and writes all but the
gradient (AMSGrad one moment more), with some twelve operations an element; SGD with momentum four. Lists of older traces hold
no shapes: then nothing is known. The type of a list's tensors is never recorded; the caller may know it.
"""

from __future__ import annotations

from advisor.roofline.signature import Signature, Tensor
from advisor.roofline.work import UNLISTED, Formula, Hints, Work, finish

_UNARY = """abs acos asin atan ceil clamp_max clamp_min cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg pow
reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"""
_BINARY = """add sub mul div maximum minimum clamp_max clamp_min pow"""


def _list(signature: Signature, place: int) -> list[Tensor]:
    return list(signature.operand(place).tensors or ())


def _each(operations: int, lists: int, writes: bool = True, reads: bool = True) -> Formula:
    """Return the formula of _foreach_*: so many operations an element; up to so many operands are lists."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        first = _list(signature, 0)
        if not first:
            return Work("foreach", None, None, None, False, UNLISTED)
        count = sum(tensor.elements for tensor in first)
        tensors = first if reads else []
        for place in range(1, lists):
            tensors = tensors + _list(signature, place)
            single = signature.tensor(place)
            tensors = [*tensors, single] if single is not None else tensors
        written = first if writes else []
        return finish(
            "foreach", operations * count, [*tensors, *written], hints, arithmetic=first[0].type or hints.type
        )

    return formula


def _fused(operations: int, lists: int, unwritten: int) -> Formula:
    """Return the formula of a fused optimizer: *lists* first operands, all read, and written but for the one at *unwritten*."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        first = _list(signature, 0)
        if not first:
            return Work("optimizer", None, None, None, False, UNLISTED)
        tensors: list[Tensor] = []
        for place in range(lists):
            tensors += _list(signature, place) * (1 if place == unwritten else 2)
        count = sum(tensor.elements for tensor in first)
        return finish("optimizer", operations * count, tensors, hints, arithmetic=first[0].type or hints.type)

    return formula


def _unscale(signature: Signature, hints: Hints) -> Work | None:
    """_amp_foreach_non_finite_check_and_unscale_(tensors, found_inf, inv_scale): read, multiplied, written."""
    return _each(2, 1)(signature, hints)


FORMULAS: dict[str, Formula] = {}
for _word in (_UNARY + " " + _BINARY).split():
    FORMULAS[f"aten::_foreach_{_word}"] = _each(1, 2)
    FORMULAS[f"aten::_foreach_{_word}_"] = _each(1, 2)
for _word in ("addcdiv", "addcmul", "lerp"):
    FORMULAS[f"aten::_foreach_{_word}"] = _each(3, 3)
    FORMULAS[f"aten::_foreach_{_word}_"] = _each(3, 3)
FORMULAS |= {
    "aten::_foreach_norm": _each(2, 1, writes=False),
    "aten::_foreach_max": _each(1, 1, writes=False),
    "aten::_foreach_zero_": _each(0, 1, reads=False),
    "aten::_foreach_copy_": _each(0, 2, reads=False),
    "aten::_amp_foreach_non_finite_check_and_unscale_": _unscale,
    "aten::_fused_adam_": _fused(12, 5, unwritten=1),
    "aten::_fused_adamw_": _fused(13, 5, unwritten=1),
    "aten::_fused_sgd_": _fused(4, 3, unwritten=1),
    "aten::_fused_adagrad_": _fused(6, 3, unwritten=1),
}
