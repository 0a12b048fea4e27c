"""Python of steps that need not run again: functions whose arguments, numbers and words, came in an earlier step as well, and draws
that prepare all candidates each time.

What a function is given must tell all of what it makes: methods, what draws random numbers or reads a clock or a file, what reads
globals that can change and what returns nothing are left out, and so is what a step begins or ends in. All of this its code tells,
which is read once the steps are over. Until then a function goes by the id of its code: the code's own hash goes over all of it.
"""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

from advisor.reading.program_settings import WorkerLine
from advisor.record import drawing
from advisor.record.places import is_library, trace_path
from advisor.record.sample_work import MOST_CODES, MOST_DEEP, arguments, called, draws, given, made, named
from advisor.record.workers import Place
from advisor.regex import regex

_LEAST_SHARE = 0.02
_LEAST_LOOKS = 10
_MOST_OTHERS = 3
"""Looks at a function that was given something else than numbers and words, and never these alone, from which on it is not asked
again."""
_CHANGES = regex(
    r"^(?:time|perf_counter|monotonic|process_time|now|today|sleep|open|read\w*|load\w*|recv|get|put|input|environ|getenv|print|next"
    r"|urlopen|glob|listdir|stat|exists|globals|exec|eval|log|info|debug|warning|error|exception|critical|write\w*|flush|save\w*"
    r"|collect|barrier|synchronize|wait\w*|run|system|send\w*)(?:_ns)?$"
)
"""Names of what looks at something else than its arguments."""


class _Function:
    """A function of the user's: its calls by what they were given, each with the step of the first and the seconds of all."""

    def __init__(self, frame: FrameType) -> None:
        self.code, self.scope = frame.f_code, frame.f_globals
        # One that asks for its own variables holds all that it is asked for (`let_go`).
        self.is_out = not arguments(self.code) or "locals" in self.code.co_names or is_library(self.code.co_filename)
        self.others = 0
        self.calls: dict[Any, list[float]] = {}
        self.place: Place = ("", 0, "")
        """The line that calls it, and its name."""
        self.kind: type | None = None
        """The class of what it makes, where it is an ``__init__``."""

    def again(self) -> float:
        """Return the seconds of calls that came with the same arguments in several steps."""
        return sum(spent for first, spent in self.calls.values() if first < 0)

    def is_steady(self) -> bool:
        """Tell whether its arguments tell all of what it returns."""
        if not _returns(self.code) or draws(self.code, self.scope, self.kind):
            return False
        return not _changes(self.code, self.scope)


class _Call(NamedTuple):
    """An instruction of a function of the user's, at which it may draw, and the line of that."""

    code: CodeType
    last: int
    line: int
    scope: dict[str, Any]
    known: dict[str, int]
    """Numbers and lengths among its variables, as :mod:`advisor.record.drawing` reads them."""


class Stepping:
    """Looks at what is no batch in the making, in one recording; :meth:`turn` tells of each end of a step."""

    def __init__(self) -> None:
        self._looks = self._step = self._calls = 0
        self._total = 0.0
        self._around: dict[int, CodeType] = {}
        """Functions in which a step ends: the training itself, whatever it is given."""
        self._functions: dict[int, _Function] = {}
        self._drawing: dict[int, tuple[CodeType, bool]] = {}
        """Code of the user's, and whether it names a function that draws."""
        self._drawn: dict[tuple[int, int], tuple[_Call, float]] = {}

    def turn(self, frame: FrameType | None) -> None:
        """Note the end of a step, at *frame*."""
        self._step += 1
        while frame is not None:
            self._around[id(frame.f_code)] = frame.f_code
            frame = frame.f_back

    def add(self, frames: list[FrameType], spent: float) -> None:
        """Count a look: all frames of the thread, from the innermost on; none where it puts a batch together."""
        self._looks += 1
        self._total += spent
        self._draw(frames, spent)
        seen = set[int]()
        for at, frame in enumerate(frames):
            key = id(frame.f_code)
            if key in seen or key in self._around:
                continue
            seen.add(key)
            function = self._functions.get(key)
            if function is None:
                function = self._functions[key] = _Function(frame)
            if not function.is_out:
                self._count(function, frames, at, spent)

    def _count(self, function: _Function, frames: list[FrameType], at: int, spent: float) -> None:
        values = given(frames[at])
        if values is None:
            function.others += 1
            function.is_out = function.others >= _MOST_OTHERS and not function.calls
            return
        call = function.calls.get(values)
        if call is None:
            if self._calls >= MOST_CODES:
                return
            if not function.calls:
                function.place, function.kind = _called_from(frames, at), made(frames[at])
            self._calls += 1
            call = function.calls[values] = [self._step, 0.0]
        elif call[0] != self._step:
            call[0] = -1
        call[1] += spent

    def _draw(self, frames: list[FrameType], spent: float) -> None:
        own = next((each for each in frames if not is_library(each.f_code.co_filename)), None)
        if own is None:
            return
        code = own.f_code
        known = self._drawing.get(id(code))
        if known is None:
            known = self._drawing[id(code)] = code, not drawing.NAMES.isdisjoint(code.co_names)
        if known[1]:
            key = id(code), own.f_lasti
            found = self._drawn.get(key)
            if found is None:
                call, before = _Call(code, own.f_lasti, own.f_lineno, own.f_globals, drawing.sizes(own)), 0.0
            else:
                call, before = found
            self._drawn[key] = call, before + spent

    def summary(self) -> dict[str, Any]:
        """Return the fields ``step_looks``, ``step_repeat`` and ``step_draws`` of ``Recorded``."""
        if self._looks < _LEAST_LOOKS:
            return {}
        found: dict[str, Any] = {"step_looks": self._looks}
        for name, of in (("step_repeat", self._repeated()), ("step_draws", self._draws())):
            if of is not None:
                (file, line, function), spent = of
                share = round(min(spent / self._total, 1.0), 3)
                found[name] = WorkerLine(share=share, function=function, file=file, line=line)
        return found

    def _repeated(self) -> tuple[Place, float] | None:
        """Return the function that took most of the time with the same arguments as before, and how long."""
        functions = [(each.again(), each) for key, each in self._functions.items() if key not in self._around]
        for spent, function in sorted(functions, key=lambda of: -of[0]):
            if spent <= 0.0 or spent < _LEAST_SHARE * self._total:
                return None
            if function.is_steady():
                return function.place, spent
        return None

    def _draws(self) -> tuple[Place, float] | None:
        """Return the call that draws and took most of the time, and how long."""
        took: dict[Place, float] = {}
        for call, spent in self._drawn.values():
            told = drawing.draw(call.code, call.last, called(call.code, call.last), call.known, call.scope)
            if told:
                place = trace_path(call.code.co_filename)[0], call.line, told
                took[place] = took.get(place, 0.0) + spent
        place, spent = max(took.items(), key=lambda of: of[1], default=(("", 0, ""), 0.0))
        return (place, spent) if spent > 0.0 and spent >= _LEAST_SHARE * self._total else None


def _returns(code: CodeType) -> bool:
    """Tell whether a function returns anything but None: one that does not is called for something else."""
    instructions = list(dis.get_instructions(code))
    for before, each in zip([None, *instructions], instructions, strict=False):
        none = before is not None and before.opname == "LOAD_CONST" and before.argval is None
        if (each.opname == "RETURN_VALUE" and not none) or (each.opname == "RETURN_CONST" and each.argval is not None):
            return True
    return False


def _called_from(frames: list[FrameType], at: int) -> Place:
    """Return the user's line that calls a frame's function, and the function's name."""
    own = next((each for each in frames[at + 1 :] if not is_library(each.f_code.co_filename)), frames[at])
    return trace_path(own.f_code.co_filename)[0], own.f_lineno, frames[at].f_code.co_name


def _changes(first: CodeType, known: dict[str, Any]) -> bool:
    """Tell whether a function, or one that it may call, reads or writes what can change between two calls."""
    waiting, seen = [(first, known, 0)], {first}
    while waiting:
        code, scope, deep = waiting.pop()
        if any(_CHANGES.match(name) for name in code.co_names) or _writes_globals(code):
            return True
        if any(not _is_fixed(scope[name]) for name in code.co_names if name in scope):
            return True
        waiting += [(each, scope, deep) for each in code.co_consts if isinstance(each, CodeType)]
        if deep >= MOST_DEEP or len(seen) >= MOST_CODES:
            continue
        for each in named(code, scope):
            if each.__code__ not in seen and not is_library(each.__code__.co_filename):
                seen.add(each.__code__)
                waiting.append((each.__code__, each.__globals__, deep + 1))
    return False


def _is_fixed(value: object) -> bool:
    """Tell whether a global stays what it is as long as nobody assigns to its name."""
    if isinstance(value, tuple | frozenset):
        return all(map(_is_fixed, value))
    if isinstance(value, type | ModuleType):  # attributes of the user's own may be assigned
        module = value if isinstance(value, ModuleType) else sys.modules.get(value.__module__)
        file = getattr(module, "__file__", None)
        return file is None or is_library(file)
    plain = value is None or isinstance(value, bool | int | float | complex | str | bytes)
    return plain or isinstance(value, FunctionType | BuiltinFunctionType)


@lru_cache(maxsize=1024)
def _writes_globals(code: CodeType) -> bool:
    return any(each.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") for each in dis.get_instructions(code))
