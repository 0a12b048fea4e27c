"""Python of steps that need not run again: functions whose arguments, numbers and words, came in an earlier step as well, and draws
that prepare all candidates each time.

While the profiler times steps, a thread looks at what the thread that ends them runs, a hundred times a second. What a function is
given must tell all of what it makes: methods, what draws random numbers or reads a clock or a file, what reads globals that can
change and what returns nothing are left out, and so is what a step begins or ends in.
"""

from __future__ import annotations

import dis
import re
import sys
import threading
import time
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from advisor.reading.program_settings import WorkerLine
from advisor.record.places import is_library, trace_path
from advisor.record.sample_work import MOST_CODES, MOST_DEEP, called, draws, given, is_fetch, named
from advisor.record.workers import QUICK_SWITCHES, Place

_LOOK_S = 0.01
_MOST_TIMES = 3
"""Times the rest between two looks that are counted for one: where the thread got no turn for longer, that is not known."""
_LEAST_SHARE = 0.02
_LEAST_LOOKS = 10
_CHANGES = re.compile(
    r"^(?:time|perf_counter|monotonic|process_time|now|today|sleep|open|read\w*|load\w*|recv|get|put|input|environ|getenv|print|next"
    r"|urlopen|glob|listdir|stat|exists|globals|exec|eval|log|info|debug|warning|error|exception|critical|write\w*|flush|save\w*"
    r"|collect|barrier|synchronize|wait\w*|run|system|send\w*)(?:_ns)?$"
)
"""Names of what looks at something else than its arguments."""
_DRAWN = {"choice": {"p", "replace"}, "choices": {"weights"}}
"""Functions that draw, and the arguments for which they go over all candidates in each call."""


class Stepping:
    """The Python of the main thread, from :meth:`begin` to :meth:`end`; :meth:`turn` tells of each end of a step."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._reset()

    def _reset(self) -> None:
        self._failed = False
        self._looks = self._step = 0
        self._total = 0.0
        self._around = set[CodeType]()
        """Functions in which a step ends: the training itself, whatever it is given."""
        self._first: dict[tuple[CodeType, Any], int] = {}
        self._spent: dict[tuple[CodeType, Any], float] = {}
        self._steady: dict[CodeType, bool] = {}
        self._places: dict[CodeType, Place] = {}
        self._drawn: dict[Place, float] = {}

    def begin(self) -> None:
        """Look from here on at the thread that calls this: the one that ends the steps."""
        self.end()
        self._reset()
        self.turn()
        self._ended = threading.Event()
        seen = threading.get_ident(), self._ended
        self._thread = threading.Thread(target=self._run, args=seen, daemon=True, name="advisor-stepping")
        self._thread.start()

    def turn(self) -> None:
        """Note the end of a step, in the thread that ends it."""
        self._step += 1
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            self._around.add(frame.f_code)
            frame = frame.f_back

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(10 * _LOOK_S)
            self._thread = None

    def summary(self) -> dict[str, Any]:
        """Return the fields ``step_looks``, ``step_repeat`` and ``step_draws`` of ``Recorded``."""
        if self._looks < _LEAST_LOOKS or self._failed:
            return {}
        took: dict[CodeType, float] = {}
        for key, spent in self._spent.items():
            if self._first[key] < 0 and key[0] not in self._around:
                took[key[0]] = took.get(key[0], 0.0) + spent
        found: dict[str, Any] = {"step_looks": self._looks}
        for name, of in (
            ("step_repeat", [(self._places[code], spent) for code, spent in took.items()]),
            ("step_draws", list(self._drawn.items())),
        ):
            (file, line, function), spent = max(of, key=lambda each: each[1], default=(("", 0, ""), 0.0))
            if file and spent >= _LEAST_SHARE * self._total:
                share = round(min(spent / self._total, 1.0), 3)
                found[name] = WorkerLine(share=share, function=function, file=file, line=line)
        return found

    def _run(self, thread: int, ended: threading.Event) -> None:
        last = time.perf_counter()
        try:
            with QUICK_SWITCHES:
                while not ended.wait(_LOOK_S):
                    now = time.perf_counter()
                    spent, last = min(now - last, _MOST_TIMES * _LOOK_S), now
                    self._look(sys._current_frames().get(thread), spent)
        except Exception:  # noqa: BLE001  (the program goes on, whatever fails in here)
            self._failed = True

    def _look(self, frame: FrameType | None, spent: float) -> None:
        """Count what the thread is in; its frames, which hold its variables, are let go of at the end."""
        self._looks += 1
        self._total += spent
        frames = []
        while frame is not None:
            if is_fetch(frame):
                return  # of samples that a loader fetches others tell
            frames.append(frame)
            frame = frame.f_back
        self._draw(frames, spent)
        seen = set[CodeType]()
        for at, each in enumerate(frames):
            code = each.f_code
            if code in seen or code in self._around or is_library(code.co_filename):
                continue
            seen.add(code)
            # By its code first: what a frame shows of its variables it also holds.
            values = given(each) if code.co_varnames[: code.co_argcount] and self._is_steady(each) else None
            _let_go(each)
            if not values:
                continue
            key = code, values
            if key not in self._first and len(self._first) >= MOST_CODES:
                continue
            if self._first.setdefault(key, self._step) != self._step:
                self._first[key] = -1
            self._spent[key] = self._spent.get(key, 0.0) + spent
            self._places.setdefault(code, _called_from(frames, at))

    def _draw(self, frames: list[FrameType], spent: float) -> None:
        own = next((each for each in frames if not is_library(each.f_code.co_filename)), None)
        if own is None or _DRAWN.keys().isdisjoint(own.f_code.co_names):
            return
        name = called(own.f_code, own.f_lasti)
        words = _DRAWN[name] & set(_words(own.f_code, own.f_lasti)) if name in _DRAWN else set[str]()
        if words:
            place = trace_path(own.f_code.co_filename)[0], own.f_lineno, f"{name}({', '.join(sorted(words))}=…)"
            self._drawn[place] = self._drawn.get(place, 0.0) + spent

    def _is_steady(self, frame: FrameType) -> bool:
        code = frame.f_code
        if code not in self._steady:
            steady = _returns(code) and not draws(frame) and not _changes(code, frame.f_globals)
            self._steady[code] = steady and "locals" not in code.co_names
        return self._steady[code]


def _let_go(frame: FrameType) -> None:
    """Let go of what a frame was asked to show of its variables: before Python 3.13 it would hold that until it returns."""
    if sys.version_info < (3, 13) and frame.f_code.co_flags & 1 and frame.f_trace is None:
        if "locals" not in frame.f_code.co_names:
            frame.f_locals.clear()


@lru_cache(maxsize=1024)
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


@lru_cache(maxsize=1024)
def _words(code: CodeType, last: int) -> tuple[str, ...]:
    """Return the names of the arguments that the call at *last* is given by name."""
    before = [
        each for each in dis.get_instructions(code) if each.offset <= last and each.opname not in ("PRECALL", "CACHE")
    ]
    if len(before) < 2 or before[-1].offset != last:
        return ()
    names, call = before[-2:]
    if names.opname == "KW_NAMES" and names.arg is not None:  # before Python 3.13
        return tuple(map(str, code.co_consts[names.arg]))
    return (
        tuple(map(str, names.argval)) if call.opname.startswith("CALL_KW") and isinstance(names.argval, tuple) else ()
    )
