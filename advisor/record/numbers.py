"""Numbers that a function is given beside tensors: whether they stand in the program, or count up from call to call.

Others may come from what a model returned, once that was read.
"""

from __future__ import annotations

import dis
import math
import sys
from collections.abc import Iterable
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

from advisor.record.loops import loops_of
from advisor.record.places import is_library

_Numbers = tuple[float, ...]
_CONSTANT = frozenset({"LOAD_CONST", "LOAD_SMALL_INT"})


class Numbers:
    """Numbers of each place that calls a function, and how they went on there."""

    def __init__(self, torch: Any) -> None:
        self._plain = (
            bool,
            str,
            type(None),
            type(...),
            torch.dtype,
            torch.device,
            torch.memory_format,
            torch.layout,
            torch.Tensor,
        )
        self._constants: dict[CodeType, frozenset[Any]] = {}
        self._literal: dict[CodeType, frozenset[int]] = {}
        self._variables: dict[CodeType, frozenset[str]] = {}
        self._places: dict[Any, tuple[_Numbers, _Numbers | None, bool]] = {}

    def trust(self, name: str, args: Any, parts: list[Any], frame: FrameType | None) -> bool | None:
        """Tell whether the numbers among *parts* come from no tensor; None where they seem to, as far as two calls show."""
        numbers = [part for part in parts if not isinstance(part, self._plain)]
        if not numbers:
            return True
        while frame is not None and is_library(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None or not all(type(number) in (int, float) for number in numbers):
            return False
        constants = self._of(frame)
        chosen = _chosen(args) if name == "__getitem__" else []
        names = self._loop_variables(frame.f_code)
        counted = {frame.f_locals.get(each) for each in names if type(frame.f_locals.get(each)) is int}
        # One that chooses a part may be what a model answers: 0 or 1 stands in most functions.
        free = [number for number in chosen if number not in counted] if not self._is_literal(frame) else []
        if not free and all((type(number), number) in constants or number in counted for number in numbers):
            return True
        return self._goes_on((frame.f_code, frame.f_lasti, name), tuple(numbers), bool(free))

    def _is_literal(self, frame: FrameType) -> bool:
        """Tell whether the index that a frame takes a part by stands in the program."""
        code = frame.f_code
        if code not in self._literal:
            pairs = pairwise(each for each in dis.get_instructions(code) if each.opname != "CACHE")
            self._literal[code] = frozenset(each.offset for before, each in pairs if before.opname in _CONSTANT)
        return frame.f_lasti in self._literal[code]

    def _of(self, frame: FrameType) -> frozenset[Any]:
        """Return the numbers that stand in a function, and those of the globals that it names."""
        code = frame.f_code
        if code not in self._constants:
            named = [frame.f_globals.get(name) for name in code.co_names]
            self._constants[code] = frozenset((type(number), number) for number in _flat((*code.co_consts, *named)))
        return self._constants[code]

    def _loop_variables(self, code: CodeType) -> frozenset[str]:
        if code not in self._variables:
            self._variables[code] = frozenset(name for loop in loops_of(code) for name in loop.variables)
        return self._variables[code]

    def _goes_on(self, place: Any, now: _Numbers, chooses: bool) -> bool | None:
        """Tell whether numbers go on as before, by the same difference; one that chooses a part must not stay the same."""
        before = self._places.get(place)
        if before is None:
            self._places[place] = now, None, True
            return None
        last, step, good = before
        same = len(last) == len(now)
        here = tuple(one - other for one, other in zip(now, last, strict=True)) if same else ()
        good = good and same and (step is None or all(map(_close, here, step))) and not (chooses and not any(here))
        self._places[place] = now, here, good
        return False if not good else None if step is None else True


def _flat(values: Iterable[Any], depth: int = 0) -> Iterable[int | float]:
    for value in values:
        if type(value) in (int, float):
            yield value
        elif isinstance(value, list | tuple) and depth < 2:
            yield from _flat(value, depth + 1)


def _chosen(args: Any) -> list[int]:
    """Return the whole numbers that stand in an index by themselves, and not in a slice."""
    index = args[1] if len(args) > 1 else ()
    return [part for part in (index if isinstance(index, tuple) else (index,)) if type(part) is int]


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=sys.float_info.epsilon)
