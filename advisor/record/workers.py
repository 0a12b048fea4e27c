"""Lines of the user's code at which a loader's workers spend their processor time, while steps are recorded.

A thread in each worker looks at what the worker's main thread runs, some fifty times a second, and counts the processor time
since its last look for the innermost line of the user's. The counts lie in memory that is shared with workers by fork: started
in any other way they do not have it, and nothing is known of them.
"""

from __future__ import annotations

import functools
import mmap
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from advisor.reading.program_settings import WorkerLine
from advisor.record.places import trace_path

_LOOK_S, _REST_S = 0.02, 0.05
_SWITCH_S = 2e-4
"""Time for which a worker may keep the thread from its look: with Python's 5 ms it would mostly see lines that let others run, as
torch's operators do, and not those that compute in Python."""
_FLAG = struct.Struct("i")
"""The recording that goes on, numbered from 1; 0 while there is none, -1 where none will come."""
_HEAD = struct.Struct("iid")
"""Of a worker: the recording that it counted, its lines, and its processor time in s."""
_LINE = struct.Struct("dH")
"""Of a line: its processor time in s, and the bytes of its text behind it."""
_MOST_WORKERS, _MOST_LINES, _BYTES = 64, 63, 512
_SLOT = (_MOST_LINES + 1) * _BYTES
_LEAST_SHARE, _MOST_NAMED = 0.02, 8

Line = tuple[str, int, str]


class Workers:
    """Counts of all workers: made in the process that is recorded, inherited by those that it forks."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._recording = 0
        self._first = self._next = 0  # slots: of the loader that starts its workers now, and of the one after
        try:
            self._memory: mmap.mmap | None = mmap.mmap(-1, (_MOST_WORKERS + 1) * _SLOT)
        except (OSError, ValueError):
            self._memory = None

    # ---- in the process that is recorded

    def starts(self, workers: int) -> None:
        """Keep room for the *workers* that a loader is about to start."""
        self._first, self._next = self._next, (self._next + workers) % _MOST_WORKERS

    def begin(self) -> None:
        """Have workers count from here on, from nothing."""
        self._recording += 1
        self._tell(self._recording)

    def end(self) -> None:
        """Have workers count no more."""
        self._tell(0)

    def stop(self) -> None:
        """Have no worker look for what to count any more."""
        self._tell(-1)

    def _tell(self, flag: int) -> None:
        if self._memory is not None and os.getpid() == self._pid:
            _FLAG.pack_into(self._memory, 0, flag)

    def lines(self) -> tuple[WorkerLine, ...] | None:
        """Return the lines that took most of the workers' processor time; None where no worker counted."""
        spent, total, counted = dict[Line, float](), 0.0, False
        for slot in range(_SLOT, (_MOST_WORKERS + 1) * _SLOT, _SLOT) if self._memory is not None else ():
            assert self._memory is not None
            recording, lines, seconds = _HEAD.unpack_from(self._memory, slot)
            if not self._recording or recording != self._recording:
                continue
            counted, total = True, total + seconds
            for at in range(slot + _BYTES, slot + (min(lines, _MOST_LINES) + 1) * _BYTES, _BYTES):
                took, size = _LINE.unpack_from(self._memory, at)
                text = self._memory[at + _LINE.size : at + _LINE.size + size].decode(errors="replace")
                number, _, rest = text.partition("\n")
                function, _, file = rest.partition("\n")
                place = (file, int(number or 0), function)
                spent[place] = spent.get(place, 0.0) + took
        if not counted:
            return None
        named = sorted(spent.items(), key=lambda item: -item[1])[:_MOST_NAMED]
        return tuple(
            WorkerLine(share=round(min(took / total, 1.0), 3), function=function, file=file, line=line)
            for (file, line, function), took in named
            if took >= _LEAST_SHARE * total > 0
        )

    # ---- in a worker

    def watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return torch's function that runs in a worker, with a thread beside it that counts."""

        @functools.wraps(original)
        def _worker_loop(*args: Any, **options: Any) -> Any:
            ended = threading.Event()
            if self._memory is not None and os.getpid() != self._pid:
                _Counter(self._memory, self._first, ended, _worker_code).start()
            try:
                return original(*args, **options)
            finally:
                ended.set()

        replaced: Any = _worker_loop
        _worker_code = replaced.__code__
        return _worker_loop


class _Counter(threading.Thread):
    """The thread in a worker. It ends with the worker, or once no recording will come."""

    def __init__(self, memory: mmap.mmap, first: int, ended: threading.Event, outermost: CodeType) -> None:
        super().__init__(daemon=True, name="advisor-worker")
        self._memory, self._first, self._ended, self._outermost = memory, first, ended, outermost
        self._watched = threading.get_ident()
        self._slot = 0
        self._recording = 0
        self._lines: dict[Line, int] = {}
        self._seconds: list[float] = []
        self._total = self._last = 0.0

    def run(self) -> None:
        usual = sys.getswitchinterval()
        try:
            self._count(usual)
        except Exception:  # noqa: BLE001  (a worker goes on, whatever fails in here)
            return
        finally:
            sys.setswitchinterval(usual)

    def _count(self, usual: float) -> None:
        wait = _REST_S
        while not self._ended.wait(wait):
            flag = _FLAG.unpack_from(self._memory, 0)[0]
            if flag < 0:
                return
            if wait != (wait := _LOOK_S if flag else _REST_S):
                sys.setswitchinterval(min(usual, _SWITCH_S) if flag else usual)
            if flag and flag != self._recording:
                if not self._begin(flag):
                    return
            elif flag:
                self._look()

    def _begin(self, recording: int) -> bool:
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        if info is None:
            return True  # not yet: asked again
        if info.num_workers > _MOST_WORKERS:
            return False
        self._slot = ((self._first + info.id) % _MOST_WORKERS + 1) * _SLOT
        self._recording, self._total, self._last = recording, 0.0, time.process_time()
        self._lines.clear()
        self._seconds.clear()
        _HEAD.pack_into(self._memory, self._slot, recording, 0, 0.0)
        return True

    def _look(self) -> None:
        now = time.process_time()
        spent, self._last = now - self._last, now
        self._total += spent
        place = self._place(sys._current_frames().get(self._watched))
        at = self._lines.get(place, -1) if place is not None else -1
        if place is not None and at < 0:
            at = self._add(place)
        if at >= 0:
            self._seconds[at] += spent
            struct.pack_into("d", self._memory, self._slot + (at + 1) * _BYTES, self._seconds[at])
        _HEAD.pack_into(self._memory, self._slot, self._recording, len(self._lines), self._total)

    def _place(self, frame: FrameType | None) -> Line | None:
        """Return the innermost line of the user's that the worker was given to run; None where it is in none."""
        while frame is not None and frame.f_code is not self._outermost:
            path, is_own = trace_path(frame.f_code.co_filename)
            if is_own:
                return path, frame.f_lineno, frame.f_code.co_name
            frame = frame.f_back
        return None

    def _add(self, place: Line) -> int:
        """Write a line's text, and return its number; -1 where there is no room for it."""
        file, line, function = place
        text = f"{line}\n{function}\n{file}".encode(errors="replace")
        if len(text) > _BYTES - _LINE.size or len(self._lines) >= _MOST_LINES:
            return -1
        at = self._slot + (len(self._lines) + 1) * _BYTES
        _LINE.pack_into(self._memory, at, 0.0, len(text))
        self._memory[at + _LINE.size : at + _LINE.size + len(text)] = text
        self._seconds.append(0.0)
        return self._lines.setdefault(place, len(self._lines))
