"""A second process that works out what will be asked for, beside the one that asks the rules.

Of a trace of ordinary size most of the analysis is Python, and of that one thread runs at a time. Once the recording is linked
a process is forked that works through results that follow from the recording alone. Whoever asks for one that it has begun takes
it from there, and whatever it has not begun, or does not answer for, is worked out where it is asked for: with it or without it
an analysis comes to the same.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import struct
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from mmap import mmap
from typing import TYPE_CHECKING, Any, NoReturn

from advisor.reading import machine

if TYPE_CHECKING:
    from advisor.timeline.context import Context
    from advisor.trace import Trace

Find = Callable[["Context"], Any]

_ANSWER = struct.Struct("<IQ")
"""A result that is there: its place among those asked for, and its bytes; 0 of one that could not be worked out, or sent."""
_FREE, _BEGUN, _TAKEN = range(3)
_PATIENCE_S = 10.0
"""So long a result is waited for that others have begun; the longest takes a tenth of a second."""
_END_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl.h."""


@contextmanager
def beside(trace: Trace) -> Iterator[None]:
    """Inside, a second process works out what an analysis of *trace* will ask for, where that is worth while and can be done.

    This process must be the command's own: what another program has under way in threads and libraries would not survive a fork.
    A large trace has a second thread instead: numpy lets go of the interpreter there, and two processes would take the memory.
    """
    from advisor.rulebook import conditions

    context = trace.context
    if machine.has_room_for_threads(trace.events) or not _is_possible():
        yield
        return
    conditions.close()  # rules that were not in the cache left it open, with threads of its own
    with suppress(Exception):  # whoever asks for it has the error
        _ = context.recording.work, context.kernel_names, context.ledger  # nearly all else needs them
    try:
        context.aside = Aside(context, _asked_for())
    except OSError:  # as where the system has no room for another process
        yield
        return
    try:
        yield
    finally:
        context.aside.close()
        context.aside = None


def _is_possible() -> bool:
    """Tell whether there is a core for another process, and no thread in this one that a fork would leave behind.

    Linux has what it takes; Pythons that were built for an old one lack it.
    """
    return hasattr(os, "memfd_create") and machine.has_cores() and threading.active_count() == 1


def _asked_for() -> list[Find]:
    """Return what most of the time of an analysis goes into, of what follows from the recording alone, in the order of asking."""
    from advisor.frames import FRAMES
    from advisor.frames.families import families
    from advisor.frames.patterns.find import find
    from advisor.frames.patterns.late_pick import picked_late
    from advisor.frames.patterns.updates import recorded_updates
    from advisor.pipeline import OF_SUMMARY
    from advisor.roofline.limits import limits, modelled_work
    from advisor.timeline.owners import telling_nodes
    from advisor.timeline.program import program_of

    facts = [recorded_updates, program_of]
    rows = [modelled_work, limits, picked_late, find, telling_nodes, FRAMES["gaps"].build]
    return [*facts, *rows, families, *OF_SUMMARY]


class Aside:
    """The process, and what it has come to: it says through a pipe which results are there, and leaves them in memory of both."""

    def __init__(self, context: Context, finds: Sequence[Find]) -> None:
        self._places = {find: at for at, find in enumerate(finds)}
        self._marks = mmap(-1, len(finds))  # of both processes: who has begun with which
        self._there: dict[int, tuple[int, int]] = {}
        self._end = 0
        self._answers, self._tell = os.pipe()
        try:
            self._results = os.memfd_create("advisor-aside")
        except OSError:
            os.close(self._answers)
            os.close(self._tell)
            raise
        parent = os.getpid()
        # Ctrl-C between the fork and the child's first line would go on there with what is the parent's.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            with warnings.catch_warnings():
                # Python counts the threads of numpy's BLAS, which end before a fork by themselves.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process = os.fork()
            if not self._process:
                self._work(context, finds, parent)
        except OSError:
            self._close_files()
            os.close(self._tell)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        os.close(self._tell)

    def take(self, find: Find) -> Any:
        """Return a result that the process has begun with. Raises ``LookupError`` where it has not, or does not answer for it.

        For one thread: a large trace, of which two ask, is not forked for.
        """
        at = self._places[find]
        if self._marks[at] == _FREE:
            self._marks[at] = _TAKEN  # where both begin at once, both come to the same
        if self._marks[at] == _TAKEN:
            raise LookupError("it is left to whoever asks")
        try:
            while at not in self._there:
                self._listen()
            start, size = self._there[at]
            return pickle.loads(os.pread(self._results, size, start))  # of this process's own fork, and of nobody else
        except Exception as error:
            raise LookupError("it could not be sent") from error

    def _listen(self) -> None:
        """Wait for an answer. Raises ``LookupError`` where none comes."""
        ready, _, _ = select.select([self._answers], [], [], _PATIENCE_S)
        answer = os.read(self._answers, _ANSWER.size) if ready else b""
        if len(answer) < _ANSWER.size:
            raise LookupError("the process has ended, or does not run")
        at, size = _ANSWER.unpack(answer)
        self._there[at] = self._end, size
        self._end += size

    def close(self) -> None:
        """End the process, wherever it is."""
        with suppress(OSError):
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
        self._close_files()

    def _close_files(self) -> None:
        for number in (self._results, self._answers):
            os.close(number)
        self._marks.close()

    def _work(self, context: Context, finds: Sequence[Find], parent: int) -> NoReturn:
        """Work out what nobody else has begun with, one result after the other, and end: nothing of the parent's goes on here."""
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends both, and the parent says so
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
            os.close(self._answers)
            for at, find in enumerate(finds):
                if os.getppid() != parent:
                    break
                if self._marks[at] == _FREE:
                    self._marks[at] = _BEGUN
                    os.write(self._tell, _ANSWER.pack(at, self._leave(context, find)))
        finally:
            os._exit(0)

    def _leave(self, context: Context, find: Find) -> int:
        """Work out a result and leave it where the parent finds it; returns its bytes, 0 where that does not work out."""
        try:
            data = pickle.dumps(context.once(find), pickle.HIGHEST_PROTOCOL)
        except Exception:  # noqa: BLE001  (whoever asks for it has the error)
            return 0
        return os.write(self._results, data)
