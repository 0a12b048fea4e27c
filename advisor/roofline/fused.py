"""Triton kernels of Inductor, recorded as operators ``triton_<kind>_fused_<operators>_<n>`` with their arguments.

Source: torch/_inductor/codegen/triton.py. The arguments are the buffers that the kernel reads or writes, each at least once, and
then its extents (xnumel, rnumel) as numbers; it touches no more elements of a buffer than their product, unless it loops. What
is computed on them is not in the arguments, except for a template of a product (``triton_tem_fused_mm``), whose three
last matrices are its factors and its product.
"""

from __future__ import annotations

import math
import re

from advisor.regex import regex
from advisor.roofline.signature import Signature, Tensor
from advisor.roofline.work import Formula, Hints, Work, finish

_NAME = regex(r"^triton_(?P<kind>poi|red|per|tem|mm|for|split_scan)_(?:fused_)?(?P<operators>.*?)(?:_\d+)?$")
_ARITHMETIC = "the arithmetic of the fused operators"


def find(name: str) -> Formula | None:
    """The formula of a Triton kernel by Inductor; None for other names."""
    match = _NAME.match(name)
    if match is None:
        return None
    return _template if match["kind"] in ("tem", "mm") else _buffers


def _extent(signature: Signature) -> int | None:
    """Return the product of the extents at the end of the arguments; None where they were not recorded."""
    numbers = []
    for operand in reversed(signature.operands):
        if operand.tensor is not None:
            break
        value = operand.numbers
        if value is None or len(value) != 1:
            return None
        numbers.append(value[0])
    return math.prod(numbers) if numbers else None


def _buffers(signature: Signature, hints: Hints) -> Work | None:
    extent = _extent(signature)
    tensors = [
        tensor if extent is None or tensor.stored <= extent else Tensor((extent,), tensor.type)
        for tensor in signature.tensors
    ]
    if not tensors:
        return None
    kind = next((tensor.type for tensor in tensors if tensor.type), None)
    return finish("fused", None, tensors, hints, arithmetic=kind, missing=_ARITHMETIC)


def _template(signature: Signature, hints: Hints) -> Work | None:
    if not re.search(r"mm", signature.name):
        return _buffers(signature, hints)
    matrices = [tensor for tensor in signature.tensors if len(tensor.shape) in (2, 3)]
    if len(matrices) < 3:
        return _buffers(signature, hints)
    a, b, out = matrices[-3:]
    fits = a.shape[-1] == b.shape[-2] and out.shape[-2:] == (a.shape[-2], b.shape[-1])
    if not fits:
        return _buffers(signature, hints)
    return finish("matmul", 2 * out.elements * a.shape[-1], signature.tensors, hints, arithmetic=a.type, exact=False)
