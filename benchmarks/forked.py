"""Runs of scripts in children of one process that has imported torch: what the import costs is paid once.
``ADVISOR_FORKED_IMPORTS`` names further modules, between blanks.

A child begins before CUDA does, so each has a context of its own, as a process started anew has. One JSON object a line on
stdin (``script``, ``folder``, ``arguments``, ``limit``), one a line on stdout.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import signal
import sys
import tempfile
import threading
import time

import torch  # noqa: F401

for name in ("torchvision", *os.environ.get("ADVISOR_FORKED_IMPORTS", "").split()):
    with contextlib.suppress(ImportError):
        importlib.import_module(name)


def child(task: dict[str, object], out: int, errors: int) -> None:
    """Run the script as if Python had been started with it."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(errors, 2)
    os.chdir(str(task["folder"]))
    sys.argv = [str(task["script"]), *map(str, task["arguments"])]  # type: ignore[call-overload]
    sys.path[0] = str(task["folder"])
    runpy.run_path(str(task["script"]), run_name="__main__")


def run(task: dict[str, object]) -> dict[str, object]:
    """Exit status, output, wall and processor time of one script."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        number = os.fork()
        if number == 0:
            code = 1
            try:
                child(task, out.fileno(), errors.fileno())
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1 if end.code else 0
            except BaseException:  # noqa: BLE001 - as Python itself ends: the traceback, and status 1
                import traceback

                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        late = threading.Event()

        def stop() -> None:
            late.set()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(number, signal.SIGKILL)

        timer = threading.Timer(float(task["limit"]), stop)  # type: ignore[arg-type]
        timer.start()
        _, status, usage = os.wait4(number, 0)
        timer.cancel()
        wall = time.perf_counter() - begin
        out.seek(0)
        errors.seek(0)
        return {
            "rc": os.waitstatus_to_exitcode(status),
            "timed_out": late.is_set(),
            "wall_s": round(wall, 3),
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
            "stdout": out.read().decode(errors="replace"),
            "stderr": errors.read().decode(errors="replace"),
        }


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
