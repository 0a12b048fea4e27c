"""Loops of plain tensor code: no module is called in them, no optimizer steps and no loader is asked, and yet they are the program.

A thread looks at what the main one runs as long as none of these was seen. Loops that most looks lie in, and functions, have their
turns counted; the outermost one that turns a few times in a second is taken for the step. In one turn of it a mode of torch's looks
whether any operator runs at all. Behind a loop that was recorded another one is looked for once it may have lasted longer.

To count turns slows all of the program's Python. It ends where something else tells of steps, and where nothing turns.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType, FrameType
from typing import Any, NamedTuple

from advisor.record import modes
from advisor.record.loops import Loop, loops_of
from advisor.record.pending import in_main_thread
from advisor.record.places import is_library, trace_path
from advisor.record.turning import CALL, Key, Turning

_LOOK_S = 0.02
_MOST_SHARE = 0.003
"""Share of the time that looks take at most."""
_LONGEST_REST_S = 0.1
_LEAST_LOOKS, _RECENT = 10, 50
"""Looks from which on it is known where the time goes, and those that tell it."""
_MOST_OF_TIME = 0.5
"""Share of the looks that lie in a loop which may be the step."""
_WATCHED_S = 0.7
"""Seconds for which turns of a loop are counted before it, or one inside it, is taken."""
_LONGEST_WATCHED_S = 2.0
"""The same of a loop that has turned already, and not often enough."""
_LEAST_TURNS = 3
_UNTURNED_S, _REST_S = 5.0, 100.0
"""Seconds without a turn after which one of what is counted is no reason to count, and for how long, at the least."""
_MOST_STAMPS = 64
_DEEPEST = 12
"""Loops and functions whose turns are counted at once, the outermost."""
_GONE_S, _GONE_TURNS = 1.0, 5.0
"""Seconds, and times the usual turn, without a turn of a loop that is not on the stack either, after which it has ended."""
_RESUMED = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


class Found(NamedTuple):
    """A loop, or a function that is called again and again: its file as a trace names it, its line and its function's name."""

    file: str
    line: int
    function: str
    calls: bool


class Plain:
    """Looks for such a loop from :meth:`begin` to :meth:`end`, as long as *needed* says so.

    *chosen* is called in the main thread with the stamps (of *clock*) of the turns that were counted, as a turn begins, *turned* as
    each of the next does, and *over* once the loop has ended.
    """

    def __init__(
        self,
        torch: Any,
        needed: Callable[[], bool],
        clock: Callable[[], Any],
        chosen: Callable[[list[Any]], None],
        turned: Callable[[], None],
        over: Callable[[], None],
    ) -> None:
        self.found: Found | None = None
        self.without_tensors: Found | None = None
        """A loop in which no operator ran."""
        self._torch, self._clock = torch, clock
        self._needed, self._chosen, self._turned, self._over = needed, chosen, turned, over
        self._looks: deque[tuple[Key, ...]] = deque(maxlen=_RECENT)
        self._loops: dict[int, tuple[CodeType, tuple[Loop, ...]]] = {}
        self._since: dict[Key, float] = {}
        self._stamps: dict[Key, list[Any]] = {}
        self._counts: Counter[Key] = Counter()
        self._turned_at: dict[Key, tuple[int, float]] = {}
        self._resting: dict[Key, float] = {}
        """Until when nothing is counted for what did not turn."""
        self._rejected: set[Key] = set()
        self._key: Key | None = None
        self._seen: _Seen | None = None
        self._taken: Key | None = None
        self._spent = self._elsewhere = self._looked = 0.0
        """Seconds in the loop that was taken for the step, those outside it since, and when the latest look was."""
        self._begun = False
        """The turns of a loop are taken for steps."""
        self._last, self._on_stack = 0.0, 0.0
        self._usual = 0.0
        self._asked = self._armed = False
        self._began = time.monotonic()
        self._closed = threading.Event()
        self._main, self._pid = threading.main_thread().ident, os.getpid()
        self.turning = Turning(self._on_turn)

    def begin(self) -> None:
        """Begin to look, where this is the main thread."""
        if threading.get_ident() == self._main:
            threading.Thread(target=self._run, name="advisor-plain", daemon=True).start()

    def end(self) -> None:
        """Look no more."""
        self._closed.set()
        if os.getpid() != self._pid:
            return
        if threading.get_ident() == self._main:
            self._stop()
        elif self._asked:
            in_main_thread(self._stop)

    def release(self) -> None:
        """Take the loop that was taken for the step as any other: nothing of it was recorded."""
        self.found = self._taken = None

    def rest(self) -> None:
        """Tell of no more turns, and look for a loop that lasts longer where that is needed; in the main thread."""
        self._end_seeing()
        self._forget()
        self._armed = False
        self.turning.stop()

    @property
    def name(self) -> str | None:
        """The name of the loop whose turns are the steps."""
        found = self.found
        return None if found is None else f"{found.function}:{found.line}"

    # ---- the thread that looks

    def _run(self) -> None:
        rest = _LOOK_S
        try:
            while not self._closed.wait(rest):
                begun = time.thread_time()
                self._look()
                rest = min(max(_LOOK_S, (time.thread_time() - begun) / _MOST_SHARE), _LONGEST_REST_S)
        except Exception:  # noqa: BLE001  (the program goes on, whatever fails in here)
            self.end()

    def _look(self) -> None:
        if self._key is None and not self._needed():
            self._looks.clear()
            self._disarm()
            return
        around = tuple(self._around(sys._current_frames().get(self._main or 0)))
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, 2 * _LONGEST_REST_S), now
        if self._key is not None:
            self._spent += passed if self._key == self._taken and self._key in around else 0.0
            self._await_end(around, now)
            return
        if self._taken is not None and not self._outlasts(self._taken in around, passed):
            return
        self._looks.append(around)
        if len(self._looks) >= _LEAST_LOOKS:
            self._count_turns(around, now)

    def _count_turns(self, around: tuple[Key, ...], now: float) -> None:
        """Have the turns counted of what most looks lie in, and take one where these tell."""
        counts = Counter(key for look in self._looks for key in set(look))
        least = _MOST_OF_TIME * len(self._looks)
        wanted = [key for key in around if counts[key] >= least and key not in self._rejected][:_DEEPEST]
        self._note_turns(now)
        if not any(now >= self._resting.get(key, 0.0) for key in wanted):
            self._disarm()
        elif set(wanted) <= self._since.keys():
            self._choose(wanted, now)
        else:
            for key in set(wanted) - self._since.keys():
                self._counts.pop(key, None)
                self._stamps.pop(key, None)
                self._turned_at[key] = 0, now
            self._since = {key: self._since.get(key, now) for key in wanted}
            self.turning.watch(wanted)
            self._asked = self._armed = True
            if not in_main_thread(self._arm):
                self._closed.set()

    def _note_turns(self, now: float) -> None:
        """Note what turned; count for nothing that did not for long."""
        for key in self._since:
            turns, since = self._turned_at.get(key, (0, now))
            if self._counts[key] != turns:
                self._turned_at[key] = self._counts[key], now
            elif now - since > _UNTURNED_S:
                self._resting[key] = now + max(_REST_S, now - self._began)

    def _disarm(self) -> None:
        """Count no turns until there is a reason to."""
        self._since = {}
        if self._armed and in_main_thread(self._end_tracing):
            self._armed = False

    def _outlasts(self, inside: bool, passed: float) -> bool:
        """Note a look *inside* the loop that was recorded, or outside; tell whether what came behind it lasts longer."""
        self._spent += passed if inside else 0.0
        self._elsewhere = 0.0 if inside else self._elsewhere + passed
        return self._elsewhere > self._spent

    def _choose(self, keys: list[Key], now: float) -> None:
        """Take the outermost loop that turns, once it had the time to."""
        for key in keys:
            turns, seconds = self._counts[key], now - self._since[key]
            if seconds < _WATCHED_S or (turns and turns < _LEAST_TURNS and seconds < _LONGEST_WATCHED_S):
                return
            if turns >= _LEAST_TURNS:
                self._last = self._on_stack = now
                self._usual = (now - self._since[key]) / self._counts[key]
                self.turning.watch([key])
                self._key = key
                return

    def _await_end(self, around: tuple[Key, ...], now: float) -> None:
        if self._key in around:
            self._on_stack = now
        quiet = now - max(self._on_stack, self._last)
        if quiet > max(_GONE_S, _GONE_TURNS * self._usual):
            self._on_stack = now  # it is asked for once
            in_main_thread(self._ended)

    def _around(self, frame: FrameType | None) -> Iterator[Key]:
        """Yield the loops and functions around *frame*, outermost first, without those of a function that calls itself."""
        chain: list[FrameType] = []
        while frame is not None:
            if not is_library(frame.f_code.co_filename):
                chain.append(frame)
            frame = frame.f_back
        times = Counter(id(each.f_code) for each in chain)
        for each in reversed(chain):
            code = each.f_code
            if times[id(code)] > 1:
                continue
            if code.co_name != "<module>" and not code.co_flags & _RESUMED:
                yield Key(code, CALL)
            yield from (Key(code, loop.first) for loop in self._of(code) if loop.first <= each.f_lasti <= loop.last)

    def _of(self, code: CodeType) -> tuple[Loop, ...]:
        known = self._loops.get(id(code))
        if known is None:
            known = self._loops[id(code)] = code, loops_of(code)
        return known[1]

    # ---- the main thread

    def _arm(self) -> None:
        if not self._closed.is_set() and not self.turning.start():
            self._closed.set()

    def _end_tracing(self) -> None:
        if not self._armed and self._key is None:
            self.turning.stop()

    def _stop(self) -> None:
        self._end_seeing()
        self.turning.stop()

    def _on_turn(self, key: Key) -> None:
        """Note a turn; what is called for it is traced as it would be if the program called it."""
        if self._key is None:
            self._counts[key] += 1
            stamps = self._stamps.setdefault(key, [])
            if len(stamps) < _MOST_STAMPS:
                stamps.append(self._clock())
        elif key == self._key:
            self._last = time.monotonic()
            sys.call_tracing(self._turns, ())

    def _turns(self) -> None:
        key = self._key
        if key is None:
            return
        if self._begun:
            self._turned()
        elif self._seen is None:
            stamps = self._stamps.setdefault(key, [])
            if len(stamps) < _MOST_STAMPS:
                stamps.append(self._clock())
            self._seen = _Seen(self._torch)
            self._seen.start()
        elif self._end_seeing():
            self.found, self._begun = self._place(key), True
            self._taken, self._elsewhere = key, 0.0
            self._spent = time.monotonic() - self._since.get(key, self._last)
            self._chosen(self._stamps.pop(key, []))
            self._stamps.clear()
        else:
            self.without_tensors = self.without_tensors or self._place(key)
            self._rejected.add(key)
            self._forget()

    def _end_seeing(self) -> bool:
        seen, self._seen = self._seen, None
        return seen is not None and seen.stop()

    def _ended(self) -> None:
        if self._key is None or self._closed.is_set():
            return
        begun = self._begun
        self._end_seeing()
        self._forget()
        if begun:
            self._over()

    def _forget(self) -> None:
        """Look for a loop again."""
        self._begun = False
        self._since, self._counts, self._stamps = {}, Counter(), {}
        self._looks.clear()
        self.turning.watch(())
        self._key = None

    def _place(self, key: Key) -> Found:
        code, first = key
        line = code.co_firstlineno
        if first != CALL:
            last = next(loop.last for loop in self._of(code) if loop.first == first)
            lines = [at for low, high, at in code.co_lines() if at and (low <= first < high or low <= last < high)]
            line = min(lines, default=line)
        return Found(trace_path(code.co_filename)[0], line, code.co_name, first == CALL)


class _Seen:
    """A mode of torch's for one turn: whether any operator runs."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._mode: Any = None
        self._any = True

    def start(self) -> None:
        """Begin to look, in this thread; where the program has modes of its own, operators are taken for seen."""
        if not modes.stacked(self._torch):
            self._any = False
            self._mode = modes.put(self._torch, self._see)

    def stop(self) -> bool:
        """Look no more; tell whether any operator ran."""
        if self._mode is not None:
            modes.take(self._torch, self._mode)
            self._mode = None
        return self._any

    def _see(self, function: Any, args: Any, kwargs: Any) -> Any:
        self._any = True
        return function(*args, **kwargs)
