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
    done = subprocess.run(
        [sys.executable, "-m", "advisor", *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return checked(done, code)


class Forked:
    """A process that runs ``advisor`` in its children (``support/forked.py``), and ends with this one."""

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

    def run(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run ``advisor`` with *words* in the folder *cwd*."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with NamedTemporaryFile("r") as out, NamedTemporaryFile("r") as errors:
            task = [words, str(cwd), out.name, errors.name]
            print(json.dumps(task), file=self._process.stdin, flush=True)
            bound = Timer(SECONDS, self.end)
            bound.start()
            code = self._process.stdout.readline()
            bound.cancel()
            said = (out.read(), errors.read())
        assert code, f"advisor {' '.join(words)}: ended after {SECONDS:g} s\n{said}"
        return subprocess.CompletedProcess(["advisor", *words], int(code), *said)


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
    if anew or not hasattr(os, "fork"):
        return advisor(*words, cwd=folder, code=code)
    return checked(forked().run(*words, cwd=folder), code)
