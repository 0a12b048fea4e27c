"""Kinds of work that a loader's worker is at, told from its frames: decoding, resizing, pictures larger than those delivered, and
calls whose arguments come again from batch to batch.

A claim needs its evidence in the frames: what shows none of these is only its line.
"""

from __future__ import annotations

import dis
import enum
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from advisor.record.places import trace_path
from advisor.record.samples import FILES
from advisor.regex import regex

DECODES, RESIZES, LARGE, SAME = "decodes", "resizes", "large", "same"
_READS = regex(r"^(?:im(?:read|decode)|open|loads?|fromfile|decompress|decode\w*|read\w*)$")
"""Functions in C that read or decode, by the name at the call."""
_SHRINKS = regex(r"^(?:resize|thumbnail|interpolate)$")
_DRAWS = regex(
    r"rand|shuffle|choice|uniform|bernoulli|multinomial|exponential|poisson|permutation|dropout|rng|integers"
    r"|^(?:normal_?|sample|gauss|beta)$",
    re.IGNORECASE,
)
_LEAST_SIDE = 16
MOST_DEEP, MOST_CODES, _MOST_TEXT, _MOST_ITEMS = 4, 300, 200, 32
_FETCH = "_utils/fetch.py"


def kind(frames: list[FrameType], own: int) -> str:
    """Return what the innermost line of the user's is at; *frames* from the innermost on, of which *own* is that line's.

    A power of two behind ``large`` is the pixels of a picture that the line works on, rounded down.
    """
    names = [frame.f_code.co_name for frame in frames[:own]]
    calls = called(frames[0].f_code, frames[0].f_lasti)
    for frame in frames[:own]:
        path = trace_path(frame.f_code.co_filename)[0]
        if FILES.search(f"{path}({frame.f_lineno}): {frame.f_code.co_name}"):
            return DECODES
    if _READS.match(calls):
        return DECODES
    if any(_SHRINKS.match(name) for name in (*names, calls)):
        return RESIZES
    pixels = _pixels(frames[own])
    return f"{LARGE}{pixels.bit_length() - 1}" if pixels else ""


@lru_cache(maxsize=256)
def _instructions(code: CodeType) -> dict[int, dis.Instruction]:
    return {each.offset: each for each in dis.get_instructions(code)}


@lru_cache(maxsize=4096)
def called(code: CodeType, last: int) -> str:
    """Return the name by which the instruction at *last* calls a function; empty where it calls none."""
    found, end = "", (-1, -1)
    instructions = _instructions(code)
    call = instructions.get(last)
    if call is None or "CALL" not in call.opname or call.positions is None:
        return ""
    begin = (call.positions.lineno, call.positions.col_offset)
    for at, each in instructions.items():
        where = each.positions
        if (
            at < last
            and isinstance(each.argval, str)
            and where is not None
            and (where.lineno, where.col_offset) == begin
        ):
            here = (where.end_lineno or 0, where.end_col_offset or 0)
            found, end = (each.argval, here) if here >= end else (found, end)
    return found


@lru_cache(maxsize=4096)
def _variables(code: CodeType, line: int) -> tuple[str, ...]:
    """Return the local variables that a line of a function reads."""
    return tuple(
        {
            str(each.argval)
            for each in dis.get_instructions(code)
            if each.opname.startswith("LOAD_FAST")
            and isinstance(each.argval, str)
            and each.positions is not None
            and each.positions.lineno == line
        }
    )


def _pixels(frame: FrameType) -> int:
    """Return the pixels of the largest picture that a frame's line reads; 0 without one."""
    code = frame.f_code
    names = _variables(code, frame.f_lineno) if code.co_flags & 1 else ()  # a function's variables, not a class's
    if not names:
        return 0
    known = frame.f_locals
    return max((_area(known[name]) for name in names if name in known), default=0)


def _area(value: object) -> int:
    """Return the pixels of a picture: of Pillow's, or an array or tensor with one, three or four channels; else 0."""
    library = type(value).__module__.partition(".")[0]
    if library not in ("PIL", "numpy", "torch", "torchvision"):
        return 0
    given: Any = getattr(value, "size" if library == "PIL" else "shape", ())
    sides = tuple(given) if isinstance(given, tuple) else ()
    if library != "PIL" and len(sides) == 3:
        sides = sides[1:] if sides[0] in (1, 3, 4) else sides[:2] if sides[2] in (1, 3, 4) else ()
    if len(sides) != 2 or min(sides) < _LEAST_SIDE or (library != "PIL" and len(given) != 3):
        return 0
    return int(sides[0]) * int(sides[1])


# ---- arguments that come again


class Repeats:
    """Time of a worker in calls whose arguments are numbers, words and the like, and came in an earlier batch as well."""

    def __init__(self) -> None:
        # A function goes by the id of its code, which is kept: the code's own hash goes over all of it.
        self._codes = dict[int, CodeType]()
        self._seen = dict[tuple[int, Any], tuple[float, int]]()
        self._counted = dict[int, float]()
        self._left_out = set[int]()

    def add(self, frames: list[FrameType], spent: float) -> Iterator[tuple[int, float]]:
        """Yield, for each of *frames* (the innermost first) that came with these arguments before, its index and time to add.

        The time is negative where a function turns out to be given something else as well: what was counted of it goes.
        """
        batch = _batch(frames)
        if batch is None:
            return
        codes = set[int]()
        for at, frame in enumerate(frames):
            code = id(frame.f_code)
            if code in codes or code in self._left_out:
                continue
            codes.add(code)
            self._codes[code] = frame.f_code
            values = given(frame)
            if values is None:
                self._left_out.add(code)
                if counted := self._counted.pop(code, 0.0):
                    yield at, -counted
                continue
            more = self._again((code, values), batch, spent)
            if more and code not in self._counted and draws(frame.f_code, frame.f_globals, made(frame)):
                self._left_out.add(code)
            elif more:
                self._counted[code] = self._counted.get(code, 0.0) + more
                yield at, more

    def _again(self, key: tuple[int, Any], batch: int, spent: float) -> float:
        """Return the time to count for a call with these arguments: nothing before they come in a second batch."""
        if key not in self._seen and len(self._seen) >= MOST_CODES:
            return 0.0
        before, first = self._seen.get(key, (0.0, batch))
        if first == _AGAIN:
            return spent
        again = first != batch
        self._seen[key] = (before + spent, _AGAIN if again else batch)
        return before + spent if again else 0.0


_AGAIN = -1


def is_fetch(frame: FrameType) -> bool:
    """Tell whether a frame is torch's function that fetches the samples of a batch."""
    return frame.f_code.co_name == "fetch" and frame.f_code.co_filename.endswith(_FETCH)


def _batch(frames: list[FrameType]) -> int | None:
    """Return a number that tells the batch of the frames from others, by its samples; None outside of any."""
    for frame in reversed(frames):
        if is_fetch(frame):
            return hash(repr(frame.f_locals.get("possibly_batched_index"))[:500]) & sys.maxsize
    return None


def arguments(code: CodeType) -> tuple[str, ...] | None:
    """Return the names of a function's arguments, of an ``__init__`` those behind what it makes.

    None where they are not all that it works on: a method's, a generator's, those of a function in another.
    """
    inner = set(code.co_freevars) - {"__class__"}  # which `super()` asks for
    if not code.co_flags & 1 or code.co_flags & 0x2A0 or inner or code.co_name[:1] == "<":
        return None
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    names = code.co_varnames[:count]
    if "self" not in names[:1]:
        return names
    return names[1:] if code.co_name == "__init__" else None


def given(frame: FrameType) -> Any:
    """Return a frame's arguments, those that it was called with or what they are now, if each is plain; None else."""
    names = arguments(frame.f_code)
    if not names:
        return names
    known, values = frame.f_locals, []
    for name in names:
        if name not in known or (value := _plain(known[name])) is None:
            break
        values.append(value)
    let_go(frame, known)
    return tuple(values) if len(values) == len(names) else None


def made(frame: FrameType) -> type | None:
    """Return the class of what an ``__init__`` makes; None for other functions."""
    if frame.f_code.co_name != "__init__":
        return None
    known = frame.f_locals
    kind = type(known["self"]) if "self" in known else None
    let_go(frame, known)
    return kind


def let_go(frame: FrameType, known: Any) -> None:
    """Let go of what a frame showed of its variables: before Python 3.13 it would hold that until it returns."""
    if sys.version_info < (3, 13) and frame.f_trace is None and "locals" not in frame.f_code.co_names:
        known.clear()


def _plain(value: object, deep: int = 0) -> Any:
    """Return a hashable value that stands for an argument; None for what may change or is no plain value."""
    if value is None or isinstance(value, bool | int | float | complex | enum.Enum):
        return type(value).__name__, value
    if isinstance(value, str | bytes):
        return ("text", value) if len(value) <= _MOST_TEXT else None
    if isinstance(value, FunctionType | BuiltinFunctionType | type | ModuleType):
        return "named", id(value)
    if isinstance(value, tuple | list | dict) and len(value) <= _MOST_ITEMS and deep < 2:
        flat = [part for pair in value.items() for part in pair] if isinstance(value, dict) else value
        parts = [_plain(part, deep + 1) for part in flat]
        return None if None in parts else (type(value).__name__, *parts)
    if (kind := type(value)).__module__ in ("torch", "numpy") and getattr(value, "shape", ()) == ():
        return (kind.__name__, str(value)) if kind.__name__ != "Tensor" else None
    return None


def draws(first: CodeType, scope: dict[str, Any], makes: type | None = None) -> bool:
    """Tell whether a function, or one that it may call, names what draws random numbers.

    *scope* are its globals; *makes* is the class whose ``__init__`` it is, which may call any of its methods.
    """
    kinds = reversed(makes.__mro__) if makes is not None else ()
    methods = {name: each for kind in kinds for name, each in vars(kind).items()}
    waiting: list[tuple[CodeType, dict[str, Any], int]] = [(first, scope, 0)]
    seen = {first}
    while waiting:
        code, known, deep = waiting.pop()
        if any(_DRAWS.search(name) for name in (*code.co_names, code.co_name)):
            return True
        waiting += [(each, known, deep) for each in code.co_consts if isinstance(each, CodeType)]
        if deep >= MOST_DEEP or len(seen) >= MOST_CODES:
            continue
        for each in named(code, known | methods):
            if each.__code__ not in seen:
                seen.add(each.__code__)
                waiting.append((each.__code__, each.__globals__, deep + 1))
    return False


def named(code: CodeType, known: dict[str, Any]) -> Iterator[FunctionType]:
    """Yield the functions that a function's names may stand for: of its module, and of the modules that it names."""
    modules = [vars(each) for name in code.co_names if isinstance(each := known.get(name), ModuleType)]
    for name in code.co_names:
        for scope in (known, *modules):
            found = scope.get(name)
            found = vars(found).get("__init__") if isinstance(found, type) else found
            if isinstance(found, FunctionType):
                yield found
