"""Lines of the user's code at which a loader's workers spend their processor time, while steps are recorded, and on what.

A thread in each worker looks at what the worker's main thread runs, some fifty times a second, and counts the processor time
since its last look for the innermost line of the user's. The counts lie in memory that is shared with workers by fork: started
in any other way they do not have it, and nothing is known of them.
"""

from __future__ import annotations

import functools
import mmap
import os
import statistics
import struct
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from advisor.reading.program_settings import WorkerLine
from advisor.record.places import trace_path
from advisor.record.sample_work import DECODES, LARGE, RESIZES, SAME, Repeats, kind

_LOOK_S, _REST_S = 0.02, 0.05
SWITCH_S = 2e-4
"""Time for which a worker may keep the thread from its look: with Python's 5 ms it would mostly see lines that let others run, as
torch's operators do, and not those that compute in Python."""


class _QuickSwitches:
    """Python's threads take turns every :data:`SWITCH_S` as long as any of those that look is within; then as they did before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._within, self._usual = 0, 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._within:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, SWITCH_S))
            self._within += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._within -= 1
            if not self._within:
                sys.setswitchinterval(self._usual)


QUICK_SWITCHES = _QuickSwitches()
_FLAG = struct.Struct("i")
"""The recording that goes on, numbered from 1; 0 while there is none, -1 where none will come."""
_HEAD = struct.Struct("iid")
"""Of a worker: the recording that it counted, its lines, and its processor time in s."""
_LINE = struct.Struct("dH")
"""Of a line: its processor time in s, and the bytes of its text behind it."""
_FETCHES = struct.Struct("q")
"""Of a worker, behind its head: the batches that it has put together, and behind that the ms of the last of them."""
_FETCHES_AT, _MOST_FETCHES = 64, 32
_MOST_WORKERS, _MOST_LINES, _BYTES = 64, 63, 512
_SLOT = (_MOST_LINES + 1) * _BYTES
_LEAST_SHARE, _MOST_NAMED = 0.02, 8
_LEAST_FETCHES = 8
"""Batches of all workers from which on the median is told."""

_LARGER = 2
"""Times the pixels that are delivered, from which on a picture is larger: half of the work on it and more is not kept."""

Line = tuple[str, int, str, str]
"""File, line and function, and the kind of work there."""
Place = tuple[str, int, str]


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

    def summary(self, pixels: int | None) -> dict[str, Any]:
        """Return the fields of ``Recorded``; *pixels* are those of a picture as it is delivered, None without any.

        ``worker_lines`` are the lines that took most of the workers' processor time, None where no worker counted;
        ``worker_fetch_ms`` is what a worker takes for a batch, in the median, None likewise.
        """
        spent, total = self._spent()
        fetched = self._fetched()
        took = round(statistics.median(fetched), 4) if len(fetched) >= _LEAST_FETCHES else None
        if spent is None:
            return {"worker_lines": None, "worker_fetch_ms": took}
        return {"worker_fetch_ms": took} | self._lines(spent, total, pixels)

    def _lines(self, spent: dict[Line, float], total: float, pixels: int | None) -> dict[str, Any]:
        lines, same = dict[Place, dict[str, float]](), dict[Place, float]()
        for (file, line, function, work), took in spent.items():
            place = (file, line, function)
            if work == SAME:
                same[place] = took
                continue
            of = lines.setdefault(place, {})
            of["all"] = of.get("all", 0.0) + took
            large = bool(pixels) and work.startswith(LARGE) and 1 << int(work[len(LARGE) :]) >= _LARGER * (pixels or 0)
            name = LARGE if large else work
            of[name] = of.get(name, 0.0) + took
        named = sorted(lines.items(), key=lambda item: -item[1]["all"])[:_MOST_NAMED]
        (file, line, function), took = max(same.items(), key=lambda item: item[1], default=(("", 0, ""), 0.0))

        def share(seconds: float) -> float:
            return round(min(max(seconds, 0.0) / total, 1.0), 3) if total > 0 else 0.0

        return {
            "worker_lines": tuple(
                WorkerLine(
                    share=share(of["all"]),
                    decodes=share(of.get(DECODES, 0.0)),
                    resizes=share(of.get(RESIZES, 0.0)),
                    large=share(of.get(LARGE, 0.0)),
                    function=function,
                    file=file,
                    line=line,
                )
                for (file, line, function), of in named
                if of["all"] >= _LEAST_SHARE * total > 0
            ),
            "worker_repeat": WorkerLine(share=share(took), function=function, file=file, line=line)
            if took >= _LEAST_SHARE * total > 0
            else None,
        }

    def _spent(self) -> tuple[dict[Line, float] | None, float]:
        """Return the seconds of each line and kind, and of all; None where no worker counted."""
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
                number, function, kind, file = text.split("\n", 3)
                place = (file, int(number), function, kind)
                spent[place] = spent.get(place, 0.0) + took
        return spent if counted else None, total

    def _fetched(self) -> list[float]:
        """Return the ms of the batches that workers have put together last."""
        found = list[float]()
        for slot in range(_SLOT, (_MOST_WORKERS + 1) * _SLOT, _SLOT) if self._memory is not None else ():
            assert self._memory is not None
            count = min(_FETCHES.unpack_from(self._memory, slot + _FETCHES_AT)[0], _MOST_FETCHES)
            found += struct.unpack_from(f"{count}d", self._memory, slot + _FETCHES_AT + _FETCHES.size)
        return found

    # ---- in a worker

    def watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return torch's function that runs in a worker, with a thread beside it that counts."""

        @functools.wraps(original)
        def _worker_loop(*args: Any, **options: Any) -> Any:
            ended = threading.Event()
            if self._memory is not None and os.getpid() != self._pid:
                _Counter(self._memory, self._first, ended, _worker_code).start()
                _time_fetches(self._memory, self._first)
            try:
                return original(*args, **options)
            finally:
                ended.set()

        replaced: Any = _worker_loop
        _worker_code = replaced.__code__
        return _worker_loop


def _time_fetches(memory: mmap.mmap, first: int) -> None:
    """Have this worker write down what it takes for each batch but the first, which finds caches cold and memory new."""
    from torch.utils.data import get_worker_info
    from torch.utils.data._utils import fetch

    count = -1

    def timed(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def _fetch(*args: Any, **options: Any) -> Any:
            nonlocal count
            begun = time.perf_counter()
            batch = original(*args, **options)
            took, info, count = time.perf_counter() - begun, get_worker_info(), count + 1
            if count > 0 and info is not None and info.num_workers <= _MOST_WORKERS:
                at = ((first + info.id) % _MOST_WORKERS + 1) * _SLOT + _FETCHES_AT
                place = (count - 1) % _MOST_FETCHES
                struct.pack_into("d", memory, at + _FETCHES.size + 8 * place, 1e3 * took)
                _FETCHES.pack_into(memory, at, count)
            return batch

        return _fetch

    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        kind: Any = getattr(fetch, name, None)
        if kind is not None:
            kind.fetch = timed(kind.fetch)


class _Counter(threading.Thread):
    """The thread in a worker. It ends with the worker, or once no recording will come."""

    def __init__(self, memory: mmap.mmap, first: int, ended: threading.Event, outermost: CodeType) -> None:
        super().__init__(daemon=True, name="advisor-worker")
        self._memory, self._first, self._ended, self._outermost = memory, first, ended, outermost
        self._watched = threading.get_ident()
        self._slot = 0
        self._recording = 0
        self._lines: dict[Line, int] = {}
        self._repeats = Repeats()
        self._same: dict[CodeType, int] = {}
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
                sys.setswitchinterval(min(usual, SWITCH_S) if flag else usual)
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
        self._repeats, self._same = Repeats(), {}
        self._seconds.clear()
        _HEAD.pack_into(self._memory, self._slot, recording, 0, 0.0)
        return True

    def _look(self) -> None:
        now = time.process_time()
        spent, self._last = now - self._last, now
        self._total += spent
        frames = self._frames(sys._current_frames().get(self._watched))
        own = next((at for at, frame in enumerate(frames) if trace_path(frame.f_code.co_filename)[1]), -1)
        if own >= 0:
            self._count_at(self._number((*_place(frames[own]), kind(frames, own))), spent)
            for at, again in self._repeats.add(frames, spent):
                code = frames[at].f_code
                if code not in self._same:
                    self._same[code] = self._number((*origin(frames, at), SAME))
                self._count_at(self._same[code], again)
        _HEAD.pack_into(self._memory, self._slot, self._recording, len(self._lines), self._total)

    def _frames(self, frame: FrameType | None) -> list[FrameType]:
        """Return the frames that the worker was given to run, from the innermost on."""
        frames = []
        while frame is not None and frame.f_code is not self._outermost:
            frames.append(frame)
            frame = frame.f_back
        return frames

    def _number(self, line: Line) -> int:
        """Return the number of a line that is counted; -1 where there is no room for it."""
        at = self._lines.get(line, -1)
        return self._add(line) if at < 0 else at

    def _count_at(self, at: int, seconds: float) -> None:
        if at >= 0:
            self._seconds[at] += seconds
            struct.pack_into("d", self._memory, self._slot + (at + 1) * _BYTES, self._seconds[at])

    def _add(self, place: Line) -> int:
        """Write a line's text, and return its number; -1 where there is no room for it."""
        file, line, function, what = place
        text = f"{line}\n{function}\n{what}\n{file}".encode(errors="replace")
        if len(text) > _BYTES - _LINE.size or len(self._lines) >= _MOST_LINES:
            return -1
        at = self._slot + (len(self._lines) + 1) * _BYTES
        _LINE.pack_into(self._memory, at, 0.0, len(text))
        self._memory[at + _LINE.size : at + _LINE.size + len(text)] = text
        self._seconds.append(0.0)
        return self._lines.setdefault(place, len(self._lines))


def _place(frame: FrameType) -> Place:
    """Return the place of a frame: its method with the class, ``Jitter.__call__``; of a comprehension what it stands in."""
    name = frame.f_code.co_qualname
    while name.endswith(">") and ".<locals>." in name:
        name = name.rpartition(".<locals>.")[0]
    return trace_path(frame.f_code.co_filename)[0], frame.f_lineno, name.rpartition("<locals>.")[2]


def origin(frames: list[FrameType], at: int) -> Place:
    """Return the place that a frame is the user's own at, or is called from; the function is the frame's."""
    function = _place(frames[at])[2].removesuffix(".__init__")
    own = next((frame for frame in frames[at:] if trace_path(frame.f_code.co_filename)[1]), frames[at])
    return _place(own)[0], own.f_lineno, function
