"""For the tests of the recorder: where torch is needed, and how a script is recorded."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Timer

import pytest

from support.paths import ROOT

SCRIPTS = ROOT / "tests" / "scripts"
REASON = "torch is not installed here; .ci/run runs this against the torch it names"

if importlib.util.find_spec("torch") is None and os.environ.get("ADVISOR_TORCH") == "1":
    raise RuntimeError(f"ADVISOR_TORCH is set, and {REASON}")
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason=REASON)


SECONDS = 300.0
"""A command that takes longer is ended."""


def environment() -> dict[str, str]:
    """Variables of a process that records: this checkout's code, and one thread."""
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def checked(done: subprocess.CompletedProcess[str], code: int | None) -> subprocess.CompletedProcess[str]:
    """Return *done*; fails where it did not end with *code*."""
    assert code is None or done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def advisor(*arguments: str, cwd: Path, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run ``advisor`` with *arguments* in *cwd*; fails where it does not end with *code*."""
    return checked(_interpreted("advisor", *arguments, cwd=cwd), code)


def run_module(module: str, *arguments: str, cwd: Path, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run *module*, as ``python -m`` does, in a fork of a process that has imported torch, where the system can fork."""
    run = forked().run if hasattr(os, "fork") else _interpreted
    return checked(run(module, *arguments, cwd=cwd), code)


def _interpreted(module: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


class Forked:
    """A process that runs modules in its children, as ``python -m`` does (``support/forked.py``), and ends with this one."""

    def __init__(self) -> None:
        command = [sys.executable, str(ROOT / "tests" / "support" / "forked.py")]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, env=environment(), start_new_session=True, **pipes)  # type: ignore[call-overload]
        atexit.register(self.end)

    def end(self) -> None:
        """End the process and, where one hangs, its child."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def run(self, module: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run *module* with *words* in the folder *cwd*."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with NamedTemporaryFile("r") as out, NamedTemporaryFile("r") as errors:
            task = [module, words, str(cwd), out.name, errors.name]
            print(json.dumps(task), file=self._process.stdin, flush=True)
            bound = Timer(SECONDS, self.end)
            bound.start()
            code = self._process.stdout.readline()
            bound.cancel()
            said = (out.read(), errors.read())
        assert code, f"{module} {' '.join(words)}: ended after {SECONDS:g} s\n{said}"
        return subprocess.CompletedProcess([module, *words], int(code), *said)


@cache
def forked() -> Forked:
    """The one of this process."""
    return Forked()


def record_script(
    text: str, folder: Path, *options: str, code: int | None = 0, anew: bool = False
) -> subprocess.CompletedProcess[str]:
    """Record the script *text*, called job.py, into job.trace.json.gz in *folder*.

    The process is a fork of one that has imported torch; with *anew* it is an interpreter of its own, for tests of how one
    begins, ends, is told to end, or starts others.
    """
    (folder / "job.py").write_text(text)
    words = ("record", *options, "job.py")
    return advisor(*words, cwd=folder, code=code) if anew else run_module("advisor", *words, cwd=folder, code=code)
