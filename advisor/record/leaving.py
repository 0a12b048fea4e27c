"""Ending a program once enough was seen of it, from whichever of its threads is watched."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

_SIGNAL: signal.Signals | None = getattr(signal, "SIGUSR2", None)
"""The signal that reaches a main thread which waits for another one: an exception set from there would wait with it."""


STARTED_BY = "ADVISOR_STARTED_BY"
"""Variable of the environment with the process for which a program is run: killed, it leaves no run behind."""
_LOOK_S = 0.5


def end_with_starter() -> None:
    """End this process, at once, when the one that had it run is gone; ranks that torchrun started look beyond that."""
    starter = os.environ.get(STARTED_BY, "")
    if not starter.isdigit() or os.name != "posix":
        return

    def watch() -> None:
        while _is_running(int(starter)):
            time.sleep(_LOOK_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="advisor-starter").start()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"  # killed, and not taken note of
    except (OSError, IndexError):
        return True


class Finished(SystemExit):
    """Ends a script once its recording is done, with exit status 0."""

    def __init__(self) -> None:
        super().__init__(0)
        self.from_elsewhere = False
        """True where another thread than the main one was watched: it may still compute, or wait for ever."""


def _raise(number: int, _frame: Any) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # once: what ends the program must not be ended
    finished = Finished()
    finished.from_elsewhere = True
    raise finished


@contextmanager
def endable() -> Iterator[None]:
    """Let :func:`leave` end the block, which runs in the main thread, from other threads as well."""
    if _SIGNAL is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(_SIGNAL, _raise)
    try:
        yield
    finally:
        if signal.getsignal(_SIGNAL) in (_raise, signal.SIG_IGN):
            signal.signal(_SIGNAL, signal.SIG_DFL if before is None else before)


def leave() -> None:
    """End the program: raise Finished in the main thread. From another one it returns; where the signal is in use, for nothing."""
    main = threading.main_thread()
    if threading.current_thread() is main:
        raise Finished
    if _SIGNAL is not None and signal.getsignal(_SIGNAL) is _raise and main.ident is not None:
        signal.pthread_kill(main.ident, _SIGNAL)


def end_process(status: int = 0) -> NoReturn:
    """End this process at once: its other threads are not waited for."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
