"""Matrices that one step decomposes more than once, and inverses that are only multiplied.

Shown each operator with what it is given (:class:`advisor.record.constants.Constants` sees them), it compares the bytes of what is
decomposed, and follows what an inverse goes into.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from advisor.reading.program_settings import MOST_ENTRIES, Factor
from advisor.record.known import fetched, is_plain, is_told, reference, sampled, storage_key

LEAST_SIZE = 64
"""Rows of a matrix from which on its decomposition takes longer than calling it."""
_MOST_CALLS = 1000
_INVERSES = frozenset({"aten::inverse", "aten::linalg_inv", "aten::linalg_inv_ex", "aten::cholesky_inverse"})
_TRIANGULAR = frozenset({"aten::cholesky_inverse"})
"""Inverses that are given a factor, and decompose nothing."""
_SQUARE = _INVERSES - _TRIANGULAR | {
    f"aten::{name}"
    for name in (
        "_linalg_slogdet", "slogdet", "linalg_slogdet", "logdet", "_linalg_det", "det", "linalg_det", "_linalg_solve_ex",
        "linalg_solve", "linalg_solve_ex", "linalg_lu_factor", "linalg_lu_factor_ex", "_lu_with_info", "linalg_cholesky",
        "linalg_cholesky_ex", "cholesky", "linalg_eigh", "_linalg_eigh", "linalg_eigvalsh",
    )
}  # fmt: skip
"""Decompositions of square matrices: one factor does for all."""
_OTHERS = frozenset(
    f"aten::{name}" for name in ("linalg_svd", "_linalg_svd", "linalg_svdvals", "linalg_qr", "linalg_lstsq", "linalg_pinv")
)  # fmt: skip
_PRODUCTS = {"aten::mm": 0, "aten::bmm": 0, "aten::mv": 0, "aten::matmul": 0, "aten::linear": 0, "aten::addmm": 1, "aten::addmv": 1,
             "aten::baddbmm": 1}  # fmt: skip
"""Products, and the place of their first factor."""
_HANDS_ON = frozenset(
    f"aten::{name}" for name in ("clone", "_to_copy", "contiguous", "to", "mT", "t", "transpose", "reshape")
)


@dataclass
class _Call:
    """A decomposition: of a matrix that *matrix* tells from others, and for an inverse the columns that it multiplies.

    -1 where something else is done with it.
    """

    place: tuple[str, int]
    name: str
    matrix: tuple[Any, ...]
    size: int
    batch: int
    gradient: bool
    columns: int = 0


class Factors:
    """Shown operators by :meth:`see`; :meth:`summary` are the places of decompositions that need not be, or not so."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._calls: list[_Call] = []
        self._inverses: dict[int, tuple[Any, _Call]] = {}

    def see(self, name: str, view: bool, args: Any, result: Any, place: tuple[str, int]) -> None:
        """Note an operator that ran, outside of a backward pass."""
        if self._inverses:
            self._follow(name, view, args, result)
        known = name in _SQUARE or name in _OTHERS or name in _TRIANGULAR
        if not known or len(self._calls) >= _MOST_CALLS or not args:
            return
        matrix = args[0]
        if not is_told(self._torch, matrix) or matrix.dim() < 2 or min(matrix.shape[-2:]) < LEAST_SIZE:
            return
        size = int(matrix.shape[-1])
        gradient = bool(matrix.requires_grad and self._torch.is_grad_enabled())
        family = "" if name in _SQUARE else name
        # Of a large matrix blocks are read: that something was added to the diagonal shows in the diagonal.
        whole = (family, str(matrix.dtype), tuple(matrix.shape), matrix.stride(), self._read(matrix))
        diagonal = self._read(matrix.detach().diagonal(dim1=-2, dim2=-1).contiguous())
        batch = max(int(matrix.numel()) // (int(matrix.shape[-2]) * size), 1)
        call = _Call(place, name, (*whole, diagonal), size, batch, gradient, 0 if name in _INVERSES else -1)
        self._calls.append(call)
        if name in _INVERSES:
            for part in _tensors(self._torch, result):
                if tuple(part.shape) == tuple(matrix.shape):
                    self._keep(part, call)

    def summary(self) -> tuple[Factor, ...]:
        """Return the places of all that was found, one for each place and operator."""
        count: dict[tuple[Any, ...], int] = {}
        for call in self._calls:
            if call.name not in _TRIANGULAR:
                count[call.matrix] = count.get(call.matrix, 0) + 1
        places: dict[tuple[str, int, str], list[_Call]] = {}
        for call in self._calls:
            places.setdefault((*call.place, call.name), []).append(call)
        found = []
        for (file, line, name), calls in places.items():
            again = min(count.get(call.matrix, 1) for call in calls)
            columns = max(call.columns for call in calls) if all(call.columns > 0 for call in calls) else 0
            if file and (again > 1 or columns):
                size, gradient = min(call.size for call in calls), any(call.gradient for call in calls)
                found.append(Factor(name, len(calls), size, again, columns, gradient, file=file, line=line))
        return tuple(found[:MOST_ENTRIES])

    def _follow(self, name: str, view: bool, args: Any, result: Any) -> None:
        """Note what an operator does with inverses that it is given."""
        tensors = list(_tensors(self._torch, args))
        for at, tensor in enumerate(tensors):
            entry = self._inverses.get(storage_key(tensor)) if is_told(self._torch, tensor) else None
            if entry is None or entry[1].columns < 0:
                continue
            call = entry[1]
            if view or name in _HANDS_ON:
                for part in _tensors(self._torch, result):
                    self._keep(part, call)
            elif name in _PRODUCTS and at >= _PRODUCTS[name]:
                others = [
                    each.numel() for place, each in enumerate(tensors) if place != at and place >= _PRODUCTS[name]
                ]
                call.columns += max(max(others, default=0) // (call.size * call.batch), 1)
            else:
                call.columns = -1

    def _keep(self, tensor: Any, call: _Call) -> None:
        if is_told(self._torch, tensor):
            self._inverses[storage_key(tensor)] = reference(self._torch, tensor), call

    def _read(self, tensor: Any) -> bytes:
        return sampled(tensor) if is_plain(self._torch, tensor) else fetched(self._torch, tensor)


def _tensors(torch: Any, value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(torch, part)
