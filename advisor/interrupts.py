"""Ctrl-C from the first moment of a command on: it ends the process, without a traceback.

Python's own handler raises ``KeyboardInterrupt`` wherever the program stands. In the middle of an import that is a traceback
before any command could catch it, an abort of a C++ library, or an import that passes it over and a command that goes on.
This module, the first that a command imports, handles it from its own import on. While modules are imported nothing is under
way yet that would have to be tidied up, so there the process ends at once.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # built in: signal itself would have to be found and read first
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

EXIT_INTERRUPTED = 130
_IMPORT = "<frozen importlib"
"""Begin of the file names of Python's own import."""


def _begin() -> None:
    """Handle Ctrl-C, where this process is the command and not a program that imports it, and nobody else handles it."""
    if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def usual() -> None:
    """Give Ctrl-C back to Python, for a program or a server that has its own way with it."""
    if signal.getsignal(signal.SIGINT) in (_interrupt, _leave):
        signal.signal(signal.SIGINT, signal.default_int_handler)


def over() -> None:
    """End the process at once at the next Ctrl-C: everything is written."""
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, _leave)


def _is_command() -> bool:
    """Tell whether the process runs the script that an installer wrote, or ``python -m advisor``."""
    path = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    folder, name = os.path.split(path)
    name = os.path.basename(folder) if name == "__main__.py" else name  # on Windows advisor.exe holds one, too
    return os.path.splitext(name)[0] == "advisor"


def _interrupt(number: int, frame: FrameType | None) -> None:
    caller = frame
    while caller is not None:
        if caller.f_code.co_filename.startswith(_IMPORT):
            _leave(number, frame)
        caller = caller.f_back
    over()
    signal.default_int_handler(number, frame)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(EXIT_INTERRUPTED)


_begin()
