"""Products of matrices and vectors: m·k times k·n takes m·n·k multiply–adds, two operations each.

Sources: torch.utils.flop_counter (mm_flop, addmm_flop, bmm_flop, baddbmm_flop; a bias is not counted, here neither), the
operators' schemas in aten/src/ATen/native/native_functions.yaml. A vector is a matrix with one row or column. Bytes: both
factors and the bias as they are stored, and the product. A product in a format of its own is named by its operand ``out``.
"""

from __future__ import annotations

import math

from advisor.regex import regex
from advisor.roofline.pointwise import broadcast
from advisor.roofline.signature import Signature, Tensor
from advisor.roofline.types import SIZES
from advisor.roofline.work import Formula, Hints, Sizes, Work, dense, finish

ALIGNED = 16
"""Bytes of which the addresses of rows have to be multiples for the loads of matrix units (cuBLAS, CUTLASS)."""


def product(a: Tensor, b: Tensor, others: list[Tensor | None], hints: Hints, out: Tensor | None = None) -> Work | None:
    """The work of a @ b by the rules of torch.matmul; *others* (a bias) are read too. None where the sizes do not fit."""
    if not a.shape or not b.shape:
        return None
    columns = b.shape[-1] if len(b.shape) > 1 else 1
    inner = b.shape[-2] if len(b.shape) > 1 else b.shape[0]
    rows = a.shape[-2] if len(a.shape) > 1 else 1
    if a.shape[-1] != inner:
        return None
    batch = broadcast([a.shape[:-2], b.shape[:-2]])
    if batch is None:
        return None
    count = math.prod(batch) * rows * columns
    result = out or dense((count,), a.type)
    found = finish("matmul", 2 * count * inner, [a, b, *others, result], hints, arithmetic=a.type or hints.type)
    traits = ("misaligned",) if _misaligned(a, b, columns, hints) else ()
    return found._replace(sizes=Sizes(math.prod(batch), rows, columns, inner, traits))


def _misaligned(a: Tensor, b: Tensor, columns: int, hints: Hints) -> bool:
    """Tell whether rows of a factor or of the product start at addresses that are no multiples of 16 bytes.

    Which dimension of a factor lies along its rows only strides tell; the product's rows are its columns, one behind another.
    """
    kind = a.type or hints.type
    size = SIZES.get(kind or "", 0)
    if not size or size >= ALIGNED:
        return False
    if columns > 1 and columns * size % ALIGNED:
        return True
    return any(
        stride * size % ALIGNED
        for factor in (a, b)
        if factor.strides is not None and len(factor.strides) == len(factor.shape) >= 2
        for stride, length in zip(factor.strides[-2:], factor.shape[-2:], strict=True)
        if stride > 1 and length > 1
    )


def _plain(first: int, bias: int | None = None, out: int | None = None) -> Formula:
    """Return the formula of an operator whose factors stand at *first* and behind it."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        a, b = signature.tensor(first), signature.tensor(first + 1)
        if a is None or b is None:
            return None
        added = None if bias is None else signature.tensor(bias)
        # beta = 0 says that what would be added is not read.
        if bias is not None and signature.operand(first + 2).number == 0:
            added = None
        return product(a, b, [added], hints, None if out is None else signature.tensor(out))

    return formula


def _linear(signature: Signature, hints: Hints) -> Work | None:
    """linear(input, weight, bias): the weight lies transposed."""
    a, weight = signature.tensor(0), signature.tensor(1)
    if a is None or weight is None or not a.shape or not weight.shape or a.shape[-1] != weight.shape[-1]:
        return None
    rows, outputs = math.prod(a.shape[:-1]), weight.elements // max(weight.shape[-1], 1)
    result = dense((rows, outputs), a.type)
    tensors = [a, weight, signature.tensor(2), result]
    found = finish("matmul", 2 * rows * weight.elements, tensors, hints, arithmetic=a.type or hints.type)
    return found._replace(sizes=Sizes(1, rows, outputs, weight.shape[-1]))


def _linear_backward(signature: Signature, hints: Hints) -> Work | None:
    """linear_backward(input, grad_output, weight, output_mask): two products of the forward's size."""
    a, grad, weight = signature.tensor(0), signature.tensor(1), signature.tensor(2)
    if a is None or grad is None or weight is None:
        return None
    mask = signature.operand(3).flags or (True, True, True)
    products = sum(mask[:2])
    tensors: list[Tensor | None] = [grad, weight if mask[0] else None, a if mask[1] else None]
    tensors += [dense(a.shape, a.type) if mask[0] else None, dense(weight.shape, weight.type) if mask[1] else None]
    flops = 2 * math.prod(a.shape[:-1]) * weight.elements * products
    return finish("matmul", flops, tensors, hints, arithmetic=grad.type, missing=None)


def _dot(signature: Signature, hints: Hints) -> Work | None:
    a, b = signature.tensor(0), signature.tensor(1)
    if a is None or b is None or a.elements != b.elements:
        return None
    return finish("matmul", 2 * a.elements, [a, b, dense((), a.type)], hints, arithmetic=a.type or hints.type)


def _outer(first: int) -> Formula:
    """Return the formula of an outer product: one multiplication an element, and an addition where something is added."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        a, b = signature.tensor(first), signature.tensor(first + 1)
        if a is None or b is None:
            return None
        result = dense((a.elements, b.elements), a.type)
        added = signature.tensor(0) if first else None
        flops = (2 if first else 1) * result.elements
        return finish("matmul", flops, [a, b, added, result], hints, arithmetic=a.type or hints.type)

    return formula


def _addbmm(signature: Signature, hints: Hints) -> Work | None:
    """addbmm(self, batch1, batch2): products of a batch, summed."""
    added, a, b = signature.tensor(0), signature.tensor(1), signature.tensor(2)
    if a is None or b is None or len(a.shape) != 3 or len(b.shape) != 3:
        return None
    flops = 2 * a.elements * b.shape[2]
    result = dense((a.shape[1], b.shape[2]), a.type)
    return finish("matmul", flops, [added, a, b, result], hints, arithmetic=a.type or hints.type)


_NAMES = regex(r"(?:^|_)(?:[shdb]?gemm|mat(?:rix)?_?mul(?:t|tiply)?|b?mm)(?:\d*_|\d*$)")
# MyMatmul, TiledGEMM, matMulNaive: where a word begins, in names without underlines.
_WORDS = regex(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_OTHERS = (
    "scale", "quant", "fp8", "fp4", "int8", "int4", "w8", "w4", "moe", "expert", "group", "sparse", "backward", "reduce",
    "gather", "all_",
)  # fmt: skip
"""Parts of names of products whose operands hold more than their factors."""
_LONGEST = 200


def named(name: str) -> Formula | None:
    """The formula of an operator that is no library's, and whose name says that it multiplies its first two operands.

    None for other names, and for products whose operands hold more than their factors.
    """
    short = name.lower()
    if len(short) > _LONGEST or short.startswith("aten::") or any(part in short for part in _OTHERS):
        return None
    return _own if multiplies(name.rpartition("::")[2]) else None


def multiplies(name: str) -> bool:
    """Tell whether a name says that what it names multiplies matrices: my_matmul, TiledGemm, sgemm_naive."""
    return _NAMES.search(_WORDS.sub("_", name).lower()) is not None


def _own(signature: Signature, hints: Hints) -> Work | None:
    a, b = signature.tensor(0), signature.tensor(1)
    if a is None or b is None or len(a.shape) < 2 or len(b.shape) < 2:
        return None
    return product(a, b, [], hints)


FORMULAS: dict[str, Formula] = {
    "aten::mm": _plain(0, out=2),
    "aten::bmm": _plain(0, out=2),
    "aten::mv": _plain(0, out=2),
    "aten::matmul": _plain(0, out=2),
    "aten::addmm": _plain(1, bias=0),
    "aten::addmm_": _plain(1, bias=0),
    "aten::_addmm_activation": _plain(1, bias=0),
    "aten::baddbmm": _plain(1, bias=0),
    "aten::baddbmm_": _plain(1, bias=0),
    "aten::addmv": _plain(1, bias=0),
    "aten::addmv_": _plain(1, bias=0),
    "aten::addbmm": _addbmm,
    "aten::addbmm_": _addbmm,
    "aten::dot": _dot,
    "aten::vdot": _dot,
    "aten::ger": _outer(0),
    "aten::outer": _outer(0),
    "aten::addr": _outer(1),
    "aten::addr_": _outer(1),
    "aten::linear": _linear,
    "aten::mkldnn_linear": _linear,
    "aten::_mkl_linear": _linear,
    "aten::_mps_linear": _linear,
    "mkl::_mkl_linear": _linear,
    "mkldnn::_linear_pointwise": _linear,
    "aten::linear_backward": _linear_backward,
    "aten::mkldnn_linear_backward": _linear_backward,
}
