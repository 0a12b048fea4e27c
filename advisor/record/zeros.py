"""Matrices that products are given and that are nearly all zeros: adjacencies of graphs, of a batch of them, counts of words.

:class:`advisor.record.constants.Constants` shows each operator with what it is given. Zeros are counted in rows that are spread
over the matrix, in a few calls of a line, of each step that is watched: a graph that is thinned out now and then is full in others.
What learns its zeros, as a gradient tells, is left out, and so is a matrix without any
other number: a state that nothing was written to yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from advisor.reading.program_settings import MOST_ENTRIES, Zeros
from advisor.record.known import is_plain

_PRODUCTS = {"aten::mm": 0, "aten::bmm": 0, "aten::matmul": 0, "aten::addmm": 1, "aten::baddbmm": 1, "aten::einsum": 1,
             "aten::linear": 0}  # fmt: skip
"""Products, and the place of their first factor; einsum has a list of them there."""
_LEAST_SIDE, _LEAST_SIZE = 256, 1 << 18
_LEAST_COLUMNS = 4
LEAST_SHARE = 0.99
"""Part that is zero, from which on it is told of."""
_MOST_CALLS = 8
"""Calls of a line whose matrices are looked at."""
_ROWS = 128
"""Rows of a matrix that are looked at, spread over it."""


@dataclass
class _Seen:
    """A factor of the products of one line: how many a step, and of those that were looked at the least part of zeros."""

    calls: int = 0
    size: int = 0
    columns: int = 0
    share: float = 1.0
    full: bool = False
    looked: int = 0
    """Calls of this step that were looked at."""


class ZeroFactors:
    """Shown operators by :meth:`see`; :meth:`summary` are the factors of products that are nearly all zeros."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._found: dict[tuple[str, int, str, int], _Seen] = {}
        self._first = True

    def see(self, name: str, args: Any, place: tuple[str, int]) -> None:
        """Note an operator that ran at *place*, outside of a backward pass. Where a GPU is used no rule asks, and nothing waits."""
        if name not in _PRODUCTS or not place[0] or self._torch.cuda.is_initialized():
            return
        factors = args[1] if name == "aten::einsum" else args[_PRODUCTS[name] :][:2]
        if len(factors) != 2:
            return
        for at, factor in enumerate(factors):
            if self._is_matrix(factor):
                self._look((*place, name, at), factor, factors[1 - at])

    def end(self) -> None:
        """Note the end of a step: those behind it tell whether its matrices stay as empty."""
        self._first = False
        for seen in self._found.values():
            seen.looked = 0

    def summary(self) -> tuple[Zeros, ...]:
        """Return one for each line, operator and factor."""
        return tuple(
            Zeros(operator, seen.calls, seen.size, seen.columns, round(seen.share, 5), file=file, line=line)
            for (file, line, operator, _), seen in self._found.items()
            if not seen.full
        )[:MOST_ENTRIES]

    def _is_matrix(self, value: Any) -> bool:
        """Tell whether a factor is large enough, and learns nothing."""
        if not isinstance(value, self._torch.Tensor) or not is_plain(self._torch, value):
            return False
        if value.dim() < 2 or value.requires_grad or not value.is_floating_point():
            return False
        rows, columns = value.shape[-2:]
        return bool(value.numel() and min(rows, columns) >= _LEAST_SIDE and rows * columns >= _LEAST_SIZE)

    def _look(self, key: tuple[str, int, str, int], matrix: Any, other: Any) -> None:
        seen = self._found.get(key)
        if seen is None:
            if len(self._found) >= MOST_ENTRIES or not self._first:
                return
            seen = self._found[key] = _Seen()
        seen.calls += self._first
        seen.looked += 1
        if seen.full or seen.looked > _MOST_CALLS:
            return
        for at in range(matrix.dim() - 2):
            if matrix.stride(at) == 0:
                matrix = matrix.narrow(at, 0, 1)
        matrix = matrix.detach()
        # Thinned out before they are laid out anew: a transposed batch would be copied whole.
        every = max(-(-(matrix.numel() // matrix.shape[-1]) // _ROWS), 1)
        rows = matrix[..., :: min(every, matrix.shape[-2]), :].reshape(-1, matrix.shape[-1])
        rows = rows[:: max(-(-rows.shape[0] // _ROWS), 1)]
        kept = int(self._torch.count_nonzero(rows))
        share = 1 - kept / rows.numel()
        # Each number of the other factor meets a row, or a column, of this one.
        inner = matrix.shape[-1] if key[3] == 0 else matrix.shape[-2]
        columns = other.numel() // (inner * max(matrix.numel() // (matrix.shape[-2] * matrix.shape[-1]), 1))
        seen.size, seen.columns = max(seen.size, matrix.numel()), max(seen.columns, columns)
        seen.share = min(seen.share, share)
        seen.full = share < LEAST_SHARE or not kept or columns < _LEAST_COLUMNS
