"""Fourier transforms, distances, and factorizations of matrices.

Sources: the customary 5·n·log2(n) operations of a complex transform of n points, half of it for real ones
(https://www.fftw.org/speed); Golub and Van Loan, Matrix Computations: Cholesky n³/3, LU 2·n³/3, a triangular system of m columns
n²·m, an inverse 2·n³. Distances: subtract, square, add for each pair and dimension.
"""

from __future__ import annotations

import math

from advisor.roofline.signature import Signature, Tensor
from advisor.roofline.work import UNSIZED, Formula, Hints, Work, dense, finish


def _fourier(real: bool) -> Formula:
    """Return the formula of _fft_c2c(self, dim, …), or of a transform from or to real numbers."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        source, dims = signature.tensor(0), signature.operand(1).numbers
        if source is None:
            return None
        if not dims:
            return finish("transform", None, [source], hints, arithmetic=source.type, missing=UNSIZED)
        points = math.prod(source.shape[dim] for dim in dims)
        flops = round(5 * source.elements * math.log2(max(points, 1)) / (2 if real else 1))
        # From real numbers to half as many complex ones, which are twice as large, and back.
        return finish("transform", flops, [source, source], hints, arithmetic=source.type, exact=not real)

    return formula


def _distances(signature: Signature, hints: Hints) -> Work | None:
    """_cdist_forward(x1, x2, p, …)."""
    a, b = signature.tensor(0), signature.tensor(1)
    if a is None or b is None or len(a.shape) < 2 or a.shape[-1] != b.shape[-1]:
        return None
    result = dense((*a.shape[:-1], b.shape[-2]), a.type)
    return finish("pointwise", 3 * result.elements * a.shape[-1], [a, b, result], hints, arithmetic=a.type)


def _factorization(cubes: float) -> Formula:
    """Return the formula of an operator on square matrices that takes *cubes*·n³ operations each."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        source = signature.tensor(0)
        if source is None or len(source.shape) < 2 or source.shape[-1] != source.shape[-2]:
            return None
        n = source.shape[-1]
        flops = round(cubes * source.elements * n)
        return finish("factorization", flops, [source, dense(source.shape, source.type)], hints, arithmetic=source.type)

    return formula


def _triangular(matrix: int, right: int) -> Formula:
    """Return the formula of a triangular system, with the places of the matrix and the right side."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        a, b = signature.tensor(matrix), signature.tensor(right)
        if a is None or b is None or len(a.shape) < 2:
            return None
        tensors: list[Tensor | None] = [dense((a.elements // 2,), a.type), b, dense(b.shape, b.type)]
        return finish("factorization", b.elements * a.shape[-1], tensors, hints, arithmetic=a.type, exact=False)

    return formula


FORMULAS: dict[str, Formula] = {
    "aten::_fft_c2c": _fourier(real=False),
    "aten::_fft_r2c": _fourier(real=True),
    "aten::_fft_c2r": _fourier(real=True),
    "aten::_cdist_forward": _distances,
    "aten::linalg_cholesky_ex": _factorization(1 / 3),
    "aten::cholesky": _factorization(1 / 3),
    "aten::linalg_lu_factor_ex": _factorization(2 / 3),
    "aten::linalg_inv_ex": _factorization(2),
    "aten::linalg_solve_triangular": _triangular(0, 1),
    "aten::triangular_solve": _triangular(1, 0),
}
