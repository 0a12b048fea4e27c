"""Lines that a step calls again and again, and whether what they compute in one turn needs what they computed in the one before.

:class:`advisor.record.constants.Constants` shows each operator with what it is given. Memory has a depth: how many operators lead
to it, one behind the other. Along a recurrence each turn lies deeper than all before it; in a loop over users or boxes none does
but by chance, and where many sequences go one by one through a recurrence, few. What adds a turn's result to that of all, or puts
it in its place, makes nothing deeper: in whatever order, the sum is the same. Sums of least numbers are not, as of shortest paths.

To read a number into Python leads there as well. What is picked by a number behind that, ``x[i]``, lies as deep as what was read,
unless the numbers of its line count up or down, as a loop's own do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Any

from advisor.reading.program_settings import MOST_ENTRIES, Chain
from advisor.record.known import components, reference, storage_key

_GATHERS = frozenset(
    f"aten::{name}{end}"
    for name in ("add", "sub", "index_add", "index_put", "index_copy", "index_fill", "scatter", "scatter_add", "scatter_reduce",
                 "copy", "masked_scatter", "maximum", "minimum", "logical_or", "logical_and", "bitwise_or", "bitwise_and")
    for end in ("", "_")
) | {
    "aten::cat", "aten::stack", "aten::_index_put_impl_", "aten::slice_scatter", "aten::select_scatter", "aten::lift_fresh",
    "aten::detach", "aten::clone", "aten::_to_copy",
}  # fmt: skip
"""Operators that collect results, or hand them on."""
_GROUPS = {
    f"aten::{name}{end}": group
    for group, names in {
        "sum": ("add", "sub", "index_add", "scatter_add"), "maximum": ("maximum",), "minimum": ("minimum",),
        "or": ("logical_or", "bitwise_or"), "and": ("logical_and", "bitwise_and"), "reduce": ("scatter_reduce",),
    }.items()
    for name in names
    for end in ("", "_")
}  # fmt: skip
"""Of these the kinds whose order is the same to the result, as long as no other kind comes between."""
_FEW_NUMBERS = 4
"""Different numbers that an operator is given on one line, from which on they may come from one that Python read."""
_READS = frozenset({"aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal"})
_PICKS = frozenset({"aten::select", "aten::slice", "aten::narrow"})
_MOST_STRIDES = 2
"""Different steps from one number to the next on a line that counts: a loop's in another, which begins again, has two."""
_OF_NUMBERS = frozenset({"aten::lift_fresh", "aten::scalar_tensor", "aten::full", "aten::fill_"})
"""Operators whose tensors hold what Python gives, which may come from a number that it read."""
LEAST_TURNS = 20
"""Calls of an operator on one line in a step, from which on that is a loop."""


class Chains:
    """Shown the operators of a step by :meth:`see`; :meth:`summary` are the lines that it calls again and again."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._depth: dict[int, tuple[Any, int, str]] = {}
        self._numbers: dict[tuple[tuple[str, int], str], set[tuple[float, ...]]] = {}
        self._picked: dict[tuple[Any, ...], int] = {}
        """Depths of views that were picked by numbers, where their memory does not lie as deep."""
        self._strides: dict[tuple[Any, ...], tuple[tuple[int, ...], set[tuple[int, ...]]]] = {}
        self._python = 0
        self._met: dict[tuple[str, int], dict[str, list[int]]] = {}

    def see(
        self, name: str, view: bool, given: Iterable[Any], made: tuple[Iterable[Any], Any], place: tuple[str, int]
    ) -> None:
        """Note an operator that ran at *place*, "" in a backward pass, with what it wrote into and what it returned.

        *view*: it returns a view of what it is given.
        """
        written, result = made
        group, depth, last = _GROUPS.get(name, ""), 0, ""
        for part in self._parts(given):
            at, kind = self._of(part)
            depth = max(depth, at + bool(group and kind and kind != group))
            last = kind if at == depth else last
        if name in _PICKS and not self._counts(name, given, place) and self._python > depth:
            depth = self._python
        if name in _READS:
            self._python = max(self._python, depth + 1)
        if name in _OF_NUMBERS or (self._python > depth and self._varies(name, given, place)):
            depth = max(depth, self._python)
        group = group or (last if name in _GATHERS else "")
        depth += not view and name not in _GATHERS
        if place[0]:
            self._met.setdefault(place, {}).setdefault(name, []).append(depth)
        if view:
            self._pick(result, depth)
            return
        for part in self._parts(written):
            self._set(part, max(depth, self._of(part)[0]), group)
        for part in self._parts((result,)):
            if storage_key(part) not in self._depth:
                self._set(part, depth, group)

    def end(self) -> None:
        """Hold nothing of the step's memory."""
        self._depth, self._numbers, self._picked, self._strides = {}, {}, {}, {}

    def summary(self) -> tuple[Chain, ...]:
        """Return one for each line, those of most calls first."""
        found = []
        for (file, line), depths in self._met.items():
            turns = max(map(len, depths.values()))
            if turns >= LEAST_TURNS:
                often = [each for each in depths.values() if 2 * len(each) >= turns or len(each) >= LEAST_TURNS]
                calls = sum(map(len, depths.values()))
                found.append(Chain(turns, round(max(map(_deeper, often)), 3), calls=calls, file=file, line=line))
        return tuple(sorted(found, key=lambda each: -each.calls)[:MOST_ENTRIES])

    def _parts(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            if isinstance(value, self._torch.Tensor):
                yield from components(self._torch, value)
            elif isinstance(value, list | tuple):
                yield from self._parts(value)

    def _varies(self, name: str, given: Iterable[Any], place: tuple[str, int]) -> bool:
        """Tell whether numbers that an operator is given are others than those before on its line, more than a few in all."""
        numbers = tuple(
            value for part in given if isinstance(part, list | tuple) for value in part if type(value) is float
        )
        known = self._numbers.setdefault((place, name), set())
        if not numbers or numbers in known:
            return False
        known.add(numbers)
        return len(known) > _FEW_NUMBERS

    def _counts(self, name: str, given: Iterable[Any], place: tuple[str, int]) -> bool:
        """Tell whether the numbers of a pick go on as before on its line, by one of two differences."""
        values = [value for part in given if isinstance(part, list | tuple) for value in part]
        numbers = tuple(value for value in values if type(value) is int)
        dims = next((value.dim() for value in values if isinstance(value, self._torch.Tensor)), 0)
        key = place, name, dims, len(numbers)
        last, strides = self._strides.get(key, (numbers, set()))
        if key in self._strides and len(strides) <= _MOST_STRIDES:
            strides.add(tuple(one - other for one, other in zip(numbers, last, strict=True)))
        self._strides[key] = numbers, strides
        return len(strides) <= _MOST_STRIDES

    def _pick(self, views: Any, depth: int) -> None:
        """Note the depth of views, where it is not that of their memory."""
        for part in self._parts((views,)):
            if depth > self._of(part)[0]:
                self._picked[_region(part)] = depth

    def _of(self, tensor: Any) -> tuple[int, str]:
        """Return the depth of a tensor, and the kind of operator that collected results in its memory.

        What was met first behind a number that Python read may come from that.
        """
        key = storage_key(tensor)
        if key not in self._depth:
            self._set(tensor, self._python)
        _, depth, group = self._depth[key]
        return max(depth, self._picked.get(_region(tensor), 0) if self._picked else 0), group

    def _set(self, tensor: Any, depth: int, group: str = "") -> None:
        self._depth[storage_key(tensor)] = reference(self._torch, tensor), depth, group


def _region(tensor: Any) -> tuple[Any, ...]:
    return storage_key(tensor), tensor.storage_offset(), *tensor.shape


def _deeper(depths: list[int]) -> float:
    """Return the part of calls that lie deeper than all before them."""
    highest = list(accumulate(depths, max))
    return sum(later > earlier for earlier, later in pairwise(highest)) / len(depths)
