"""Products in 8 and 4 bits, and grouped products.

Sources: native_functions.yaml (_scaled_mm, _scaled_grouped_mm, _grouped_mm, _int_mm, _weight_int4pack_mm); vLLM's
csrc/torch_bindings.cpp (cutlass_scaled_mm, marlin and AWQ kernels); AITER's aiter/ops/gemm_op_*.py (weights as [n, k]). Arithmetic
is that of the plain product; scales are read, and multiplying by them is not counted. The output's type is an argument that
releases number differently: 16 bits stand for it. Weights of 4 bits lie two a byte. Which rows go to which group of a
grouped product is not recorded, and does not matter: each row meets one group's matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.roofline.signature import Signature, Tensor
from advisor.roofline.work import Formula, Hints, Work, dense, finish

_OUTPUT = "bfloat16"


def _packing(tensor: Tensor) -> int:
    """Return the numbers that an element holds."""
    return 2 if tensor.type == "float4_e2m1fn_x2" else 1


def _scaled(signature: Signature, hints: Hints) -> Work | None:
    """_scaled_mm(self, mat2, scale_a, scale_b, bias, …)."""
    a, b = signature.tensor(0), signature.tensor(1)
    if a is None or b is None or len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        return None
    return _product(
        a, b, a.shape[0], b.shape[1], a.shape[1] * _packing(a), [signature.tensor(at) for at in (2, 3, 4)], hints
    )


def _product(
    a: Tensor,
    b: Tensor,
    m: int,
    n: int,
    k: int,
    others: Sequence[Tensor | None],
    hints: Hints,
    out: str | None = _OUTPUT,
) -> Work:
    return finish("matmul", 2 * m * n * k, [a, b, *others, dense((m, n), out)], hints, arithmetic=a.type)


def _grouped(signature: Signature, hints: Hints) -> Work | None:
    """_grouped_mm(self, mat2, offs, bias), _scaled_grouped_mm(self, mat2, scale_a, scale_b, offs, bias)."""
    a, b = signature.tensor(0), signature.tensor(1)
    if a is None or b is None or not {len(a.shape), len(b.shape)} <= {2, 3} or a.shape[-1] != b.shape[-2]:
        return None
    m, k, n = a.shape[-2], a.shape[-1] * _packing(a), b.shape[-1]
    batch = a.shape[0] if len(a.shape) == 3 else 1
    flops = 2 * m * n * k * batch
    both_flat = len(a.shape) == len(b.shape) == 2
    offsets = next(
        (o.tensor for o in signature.operands[2:] if o.tensor is not None and o.tensor.type == "int32"), None
    )
    # Flat factors are cut along k into groups, each with a product of its own.
    copies = offsets.elements if both_flat and offsets is not None else batch
    result = dense((copies, m, n), a.type if signature.name == "aten::_grouped_mm" else _OUTPUT)
    return finish("matmul", flops, [a, b, result], hints, arithmetic=a.type)


def _integers(signature: Signature, hints: Hints) -> Work | None:
    """_int_mm(self, mat2): sums of products of bytes, in 32 bits."""
    a, b = signature.tensor(0), signature.tensor(1)
    if a is None or b is None or len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        return None
    return _product(a, b, a.shape[0], b.shape[1], a.shape[1], [], hints, "int32")


def _packed_weight(signature: Signature, hints: Hints) -> Work | None:
    """_weight_int8pack_mm(self, mat2 [n, k], scales); _weight_int4pack_mm(self, mat2, group, scales): all of k for each n."""
    a, b = signature.tensor(0), signature.tensor(1)
    if a is None or b is None or len(a.shape) != 2:
        return None
    m, k = a.shape
    if len(b.shape) == 4:
        n = b.shape[0] * 8  # [n/8, k/(tiles·16), 32, tiles/2] of 32 bits: eight rows a tile
    else:
        n = b.shape[0]
    others = [operand.tensor for operand in signature.operands[2:] if operand.tensor is not None]
    return _product(a, b, m, n, k, others, hints, a.type)


def _with_output(out: int, a: int, b: int) -> Formula:
    """Return the formula of an operator that writes [m, n] to the operand at *out*; a is [m, k] (or packed)."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        result, left, right = signature.tensor(out), signature.tensor(a), signature.tensor(b)
        if result is None or left is None or right is None or len(left.shape) < 2 or not result.shape:
            return None
        m, n = math.prod(result.shape[:-1]), result.shape[-1]
        if math.prod(left.shape[:-1]) != m:
            return None
        scales = [o.tensor for at, o in enumerate(signature.operands) if at not in (out, a, b) and o.tensor is not None]
        tensors = [left, right, result, *(scale for scale in scales if scale.elements <= right.elements)]
        halves = "fp4" in signature.name and left.type == "uint8"
        inner = left.shape[-1] * (2 if halves else _packing(left))
        kind = "float4_e2m1fn_x2" if halves else left.type
        return finish("matmul", 2 * m * n * inner, tensors, hints, arithmetic=kind)

    return formula


def _rows(signature: Signature, hints: Hints) -> Work | None:
    """gemm_a8w8(XQ [m, k], WQ [n, k], scales …): weights lie as rows; a byte of a 4-bit product holds two numbers."""
    a, b = signature.tensor(0), signature.tensor(1)
    if a is None or b is None or len(a.shape) != 2 or len(b.shape) != 2:
        return None
    halves = "a4w4" in signature.name and a.type == "uint8"
    if a.shape[1] != b.shape[1]:
        return None
    k = a.shape[1] * (2 if halves else _packing(a))
    work = _product(a, b, a.shape[0], b.shape[0], k, [signature.tensor(2), signature.tensor(3)], hints)
    return work._replace(arithmetic="float4_e2m1fn_x2") if halves else work


def _sized(signature: Signature, hints: Hints) -> Work | None:
    """gptq_marlin_gemm and its like: packed weights, with size_m, size_n and size_k as the last three whole numbers in a row."""
    numbers = [operand.numbers for operand in signature.operands]
    sizes = [number[0] if number and len(number) == 1 else None for number in numbers]
    a = next((operand.tensor for operand in signature.operands if operand.tensor is not None), None)
    if a is None or len(a.shape) != 2:
        return None
    for at in range(len(sizes) - 2):
        m, n, k = sizes[at : at + 3]
        if m == a.shape[0] and k == a.shape[1] and n:
            tensors = [operand.tensor for operand in signature.operands if operand.tensor is not None]
            result = dense((m, n), a.type)
            return finish("matmul", 2 * m * n * k, [*tensors, result], hints, arithmetic=a.type, exact=False)
    return Work("matmul", None, None, a.type, False, "the sizes among its arguments")


FORMULAS: dict[str, Formula] = {
    "aten::_scaled_mm": _scaled,
    "aten::_scaled_grouped_mm": _grouped,
    "aten::_grouped_mm": _grouped,
    "aten::_int_mm": _integers,
    "aten::_weight_int8pack_mm": _packed_weight,
    "aten::_weight_int4pack_mm": _packed_weight,
    "_C::cutlass_scaled_mm": _with_output(0, 1, 2),
    "_C::cutlass_scaled_mm_azp": _with_output(0, 1, 2),
    "_C::cutlass_scaled_fp4_mm": _with_output(0, 1, 2),
    **{f"{space}::gptq_marlin_gemm": _sized for space in ("_C", "sgl_kernel", "vllm")},
    **{f"{space}::marlin_gemm": _sized for space in ("_C", "sgl_kernel", "vllm")},
    **{
        f"aiter::{name}": _rows
        for name in (
            "gemm_a8w8",
            "gemm_a8w8_CK",
            "gemm_a8w8_bpreshuffle",
            "gemm_a8w8_blockscale",
            "gemm_a4w4",
            "gemm_a4w4_asm",
        )
    },
}
