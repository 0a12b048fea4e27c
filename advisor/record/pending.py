"""Calls that another thread asks the main thread for: made between two instructions of the program, wherever it is then.

A signal would do the same, and break off what the program waits for. They wait until no operator is looked at, as a mode of torch's
that is taken away meanwhile would be put back. And Python is asked for one at a time: where another one is asked for as one runs,
Python 3.11 never gets into the next function while a thread is traced.
"""

from __future__ import annotations

import _thread
import ctypes
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

_SOON_S = 0.01
_waiting: deque[Callable[[], None]] = deque()
_asked = False


def _run(_argument: Any) -> int:
    global _asked
    if not _looks_at_operator(sys._getframe(1)):
        try:
            while _waiting:
                _waiting.popleft()()
        except KeyboardInterrupt:
            _thread.start_new_thread(_interrupt, ())  # nothing raised in here reaches the program
    _asked = bool(_waiting) and not _add(_CALLBACK, None)  # no function may be called behind this
    return 0


def _interrupt() -> None:
    time.sleep(_SOON_S)
    _thread.interrupt_main()


def _looks_at_operator(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "__torch_dispatch__" and frame.f_globals.get("__name__", "").startswith("advisor."):
            return True
        frame = frame.f_back
    return False


_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_CALLBACK = _PROTOTYPE(_run)
"""Held for as long as the process lives: a call may come late."""
_add: Any = getattr(getattr(ctypes, "pythonapi", None), "Py_AddPendingCall", None)


def in_main_thread(action: Callable[[], None]) -> bool:
    """Have *action*, which raises nothing, called in the main thread; False where that cannot be asked for now."""
    global _asked
    if _add is None:
        return False
    _waiting.append(action)
    if _asked:
        return True
    _asked = True
    if _add(_CALLBACK, None) == 0:
        return True
    _asked = False
    with suppress(ValueError):
        _waiting.remove(action)
    return False
