"""The thread that is recorded: the one that began, or that of a server, where the first one only waits."""

from __future__ import annotations

import os
import threading
from typing import Any

from advisor.record.steps import UNITS, Steps

_ENOUGH_CALLS = 3
"""Calls of modules in another thread after which that one is listened to."""


class Listening:
    """Tells which thread of which process is heard: that in which it is made, until :meth:`takes_over`."""

    def __init__(self) -> None:
        self._pid, self._home = os.getpid(), threading.get_ident()
        self._thread = self._home
        self._elsewhere: dict[int, int] = {}

    def here(self) -> bool:
        """Tell whether this is the process and the thread that are recorded."""
        return threading.get_ident() == self._thread and os.getpid() == self._pid

    def takes_over(self, module: Any, steps: Steps[Any]) -> bool:
        """Listen to this thread, which is not heard and calls modules, where the first one has shown no sign of a step; tell
        whether it does.

        Not for modules without parameters, as transforms of samples in a thread that loads ahead, nor in a program that trains.
        """
        if os.getpid() != self._pid or steps.trains or any(map(steps.count, UNITS)):
            return False
        if next(module.parameters(), None) is None:
            return False
        thread = threading.get_ident()
        self._elsewhere[thread] = self._elsewhere.get(thread, 0) + 1
        if self._elsewhere[thread] < _ENOUGH_CALLS:
            return False
        self._elsewhere.clear()
        self._thread = thread
        return True

    def comes_back(self) -> bool:
        """Listen to the first thread again, if this is it: it shows a sign of a step itself; tell whether that is a change."""
        back = self._thread != self._home and threading.get_ident() == self._home and os.getpid() == self._pid
        if back:
            self._thread = self._home
        return back
