"""The loops that a call runs inside, and which of them turned since the call before: read from frames and their bytecode.

A loop is a range of bytecode that a jump goes back over. One that a frame stands in turned where its variable has another
value than at the call before, or, without a variable, where the frame came back to the same place or to an earlier one.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Hashable, Iterator
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any, NamedTuple

from advisor.record.places import is_library

_JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
# What awaiting compiles to waits, and repeats nothing: a jump of its own, and one behind the end of an exception.
_WAITS, _THROWN = "JUMP_BACKWARD_NO_INTERRUPT", "CLEANUP_THROW"

Key = tuple[CodeType, int]


class Turn(NamedTuple):
    """A loop around a call, by its code and where it begins, and whether it turned since the call before."""

    loop: Key
    turned: bool


class Loop(NamedTuple):
    """A loop of a function: its first and last offset in the bytecode, and the variables that ``for`` sets, none for ``while``."""

    first: int
    last: int
    variables: tuple[str, ...]


class _Standing(NamedTuple):
    """A frame at a call: its offset, and the values of its loops' variables, by the loop's first offset."""

    frame: FrameType
    offset: int
    values: dict[int, tuple[Hashable, ...]]


class Loops:
    """Told of calls one after another by :meth:`look`. Frames of the latest call are kept until the next one."""

    def __init__(self) -> None:
        self._loops: dict[CodeType, tuple[Loop, ...]] = {}
        self._before: list[_Standing] = []
        self._names: dict[Key, str] = {}

    def look(self, frame: FrameType | None) -> tuple[Turn, ...]:
        """Return the loops around *frame*, which calls, outermost first. Torch's, the standard library's and ours are left out."""
        chain: list[FrameType] = []
        while frame is not None:
            if not is_library(frame.f_code.co_filename):
                chain.append(frame)
            frame = frame.f_back
        now = [_Standing(each, each.f_lasti, self._values(each)) for each in reversed(chain)]
        turns = [turn for depth in range(len(now)) for turn in self._turns(now, depth)]
        self._before = now
        return tuple(turns)

    def ahead(self) -> bool:
        """Tell whether a function around all loops that the latest call ran inside has a loop still to come."""
        for frame, offset, _ in self._before:
            loops = self._of(frame.f_code)
            if any(loop.first <= offset <= loop.last for loop in loops):
                return False
            if any(loop.first > offset for loop in loops):
                return True
        return False

    def name(self, key: Key) -> str:
        """Name a loop so that it is found again where other lines of its file changed: by its function, and its variables.

        Of loops of a function that set the same ones, the second and further ones are numbered.
        """
        if key not in self._names:
            code, first = key
            alike: dict[tuple[str, ...], list[int]] = {}
            for loop in self._of(code):
                alike.setdefault(loop.variables, []).append(loop.first)
            variables, number = next((names, at.index(first)) for names, at in alike.items() if first in at)
            self._names[key] = f"{code.co_qualname}({', '.join(variables)})" + (f"#{number + 1}" if number else "")
        return self._names[key]

    def forget(self) -> None:
        """Let go of the frames."""
        self._before = []

    def _turns(self, now: list[_Standing], depth: int) -> Iterator[Turn]:
        here = now[depth]
        before = self._before[depth] if depth < len(self._before) else None
        inside = [loop for loop in self._of(here.frame.f_code) if loop.first <= here.offset <= loop.last]
        if before is None or before.frame is not here.frame:
            yield from (Turn((here.frame.f_code, loop.first), False) for loop in inside)
            return
        # An inner loop that turned leads back, too: a loop without a variable turned only where none did, or one began anew.
        turned: list[bool] = []
        anew = True
        for loop in reversed(inside):
            if not loop.first <= before.offset <= loop.last:
                turned.append(False)
            elif loop.variables:
                values = here.values[loop.first], before.values.get(loop.first, ())
                turned.append(values[0] != values[1])
                anew = anew and (not turned[-1] or _began_anew(*values))
            else:
                turned.append(anew and self._came_back(now, depth))
                anew = anew and not turned[-1]
        for loop, has_turned in zip(inside, reversed(turned), strict=True):
            yield Turn((here.frame.f_code, loop.first), has_turned)

    def _came_back(self, now: list[_Standing], depth: int) -> bool:
        here, before = now[depth], self._before[depth]
        if here.offset != before.offset:
            return here.offset < before.offset
        below = [chain[depth + 1].frame if depth + 1 < len(chain) else None for chain in (now, self._before)]
        return below[0] is None or below[0] is not below[1]

    def _values(self, frame: FrameType) -> dict[int, tuple[Hashable, ...]]:
        found: dict[int, tuple[Hashable, ...]] = {}
        for loop in self._of(frame.f_code):
            if loop.variables and loop.first <= frame.f_lasti <= loop.last:
                names = frame.f_locals
                found[loop.first] = tuple(
                    _identity(names[name] if name in names else frame.f_globals.get(name)) for name in loop.variables
                )
        return found

    def _of(self, code: CodeType) -> tuple[Loop, ...]:
        loops = self._loops.get(code)
        if loops is None:
            loops = self._loops[code] = loops_of(code)
        return loops


def _identity(value: Any) -> Hashable:
    """Return what tells a value from the next one without keeping it."""
    return value if isinstance(value, int | float | str | bytes) else (id(value),)


def _began_anew(now: tuple[Hashable, ...], before: tuple[Hashable, ...]) -> bool:
    """Tell whether a loop's variables went back: a number that counts up is smaller than at the turn before."""
    pairs = zip(now, before, strict=False)
    return any(here < then for here, then in pairs if isinstance(here, int) and isinstance(then, int))


def loops_of(code: CodeType) -> tuple[Loop, ...]:
    """Return the loops of a function, outermost first."""
    instructions = list(dis.get_instructions(code))
    ends: dict[int, int] = {}
    for before, each in pairwise(instructions):
        waits = each.opname == _WAITS or before.opname == _THROWN
        if each.opcode in _JUMPS and not waits and each.argval <= each.offset:
            ends[each.argval] = max(each.offset, ends.get(each.argval, 0))
    at = {each.offset: index for index, each in enumerate(instructions)}
    loops = [
        Loop(first, last, _variables(instructions, at[first]))
        for first, last in sorted(ends.items(), key=lambda entry: (entry[0], -entry[1]))
        if first in at
    ]
    return tuple(loop._replace(variables=_unshared(loop, loops)) for loop in loops)


def _unshared(loop: Loop, loops: list[Loop]) -> tuple[str, ...]:
    """Return the variables of a loop that no loop inside it sets as well, as both are often called ``_``."""
    inner = {name for other in loops if loop.first < other.first <= loop.last for name in other.variables}
    return tuple(name for name in loop.variables if name not in inner)


def _variables(instructions: list[dis.Instruction], at: int) -> tuple[str, ...]:
    """Return the names that the ``for`` at *at* stores its next value into."""
    if instructions[at].opname != "FOR_ITER":
        return ()
    names: list[str] = []
    for each in instructions[at + 1 :]:
        if each.opname.startswith("STORE_"):
            # Two names in one instruction: of some versions both are stored, of others the second is loaded.
            names += each.argval[:1] if isinstance(each.argval, tuple) else [each.argval]
        elif each.opname not in ("UNPACK_SEQUENCE", "UNPACK_EX", "EXTENDED_ARG", "CACHE"):
            break
    return tuple(name for name in names if isinstance(name, str))


def caller() -> FrameType | None:
    """Return the frame around the function that asks."""
    return sys._getframe(2)
