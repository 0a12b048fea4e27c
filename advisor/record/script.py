"""Running somebody's script as if Python ran it: its own name, arguments, folder, exit status and traceback."""

from __future__ import annotations

import io
import os
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType

from advisor.errors import UsageError


def check(target: str, *, module: bool) -> None:
    """Raise UsageError where there is no such script or module to run."""
    if module:
        from importlib.util import find_spec

        sys.path.insert(0, os.getcwd())
        try:
            exists = find_spec(target) is not None
        except (ImportError, ValueError):
            exists = False
        finally:
            del sys.path[0]
        if not exists:
            raise UsageError(f"no module named {target}. Run it from the folder that python -m {target} runs in.")
    elif not Path(target).exists():
        raise UsageError(f"{target}: no such script. advisor record [options] SCRIPT [arguments of the script]")


def prepare(target: str, arguments: Sequence[str], *, module: bool) -> None:
    """Set sys.argv and sys.path as Python has them for a script: its folder comes first, for a module the working directory."""
    sys.argv = [target, *arguments]
    folder = os.getcwd() if module else os.path.dirname(os.path.abspath(target))
    if getattr(sys.flags, "safe_path", False):
        return
    # What is there now is the folder of the command that started us.
    sys.path[:1] = [folder]


def run(target: str, *, module: bool) -> int:
    """Run a script (or a module) as ``__main__``; returns its exit status.

    Its errors end up where Python's own would: in sys.excepthook, with the traceback of the script alone. SystemExit and
    KeyboardInterrupt are raised here too.
    """
    try:
        if module:
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        elif Path(target).is_dir() or target.endswith((".zip", ".pyz", ".pyc")):
            runpy.run_path(target, run_name="__main__")
        else:
            _run_file(os.path.abspath(target))
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001  (as Python's own main does)
        shortened = _from_script(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(shortened), shortened)
        return 1
    return 0


def _run_file(path: str) -> None:
    """Run a script as the module ``__main__``, which stays: threads and exit handlers outlive the script."""
    with io.open_code(path) as file:
        source = file.read()
    main = ModuleType("__main__")
    vars(main).update(
        __file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path), __builtins__=__builtins__
    )
    sys.modules["__main__"] = main
    exec(compile(source, path, "exec", dont_inherit=True), vars(main))  # noqa: S102


def _from_script(traceback: TracebackType | None) -> TracebackType | None:
    """Cut the frames that lead to the script off *traceback*."""
    full = traceback
    while traceback is not None and _leads(traceback.tb_frame.f_code.co_filename):
        traceback = traceback.tb_next
    return traceback if traceback is not None or _is_syntax(full) else full


def _is_syntax(traceback: TracebackType | None) -> bool:
    """Tell whether the script did not even compile: then no frame is its own."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_code.co_filename == __file__


def _leads(file: str) -> bool:
    return file == __file__ or file.startswith("<frozen") or os.path.basename(file) == "runpy.py"
