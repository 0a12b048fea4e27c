"""Programs that tools run, where the server may: in a process group of their own, ended after a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from advisor.errors import UsageError

LINES = 30
"""Last lines of a program that an answer shows."""


class Ended(NamedTuple):
    """Exit status of a program, and the lines that it printed."""

    status: int
    lines: list[str]

    @property
    def tail(self) -> list[str]:
        """The last of its lines, under a heading that counts all."""
        if not self.lines:
            return ["the script printed nothing"]
        return [f"the script's last lines, of {len(self.lines)}:", *self.lines[-LINES:]]


def advisor(words: Sequence[str], folder: Path, seconds: float, advice: str) -> Ended:
    """Run a command of the advisor in a folder. Raises ``UsageError`` with *advice* where it takes longer."""
    process = subprocess.Popen(
        [sys.executable, "-m", "advisor", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        raise UsageError(advice) from None
    return Ended(process.returncode, printed.decode("utf-8", "replace").splitlines())


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program and all that it started."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
