"""The end of a process that analyzed a trace: everything is written and done, and nothing is taken apart for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from advisor.testing import TraceBuilder

_PROGRAM = """
import atexit, sys, threading
from advisor.cli import program

class Taken:
    def __del__(self, write=sys.__stderr__.write):
        write("taken apart;")

kept = Taken()
atexit.register(lambda: sys.stderr.write("at exit;"))
{before}
sys.argv[1:] = {words!r}
program()
"""


def _run(*words: str, before: str = "") -> subprocess.CompletedProcess[str]:
    code = _PROGRAM.format(words=list(words), before=before)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def path(tmp_path: Path) -> str:
    builder = TraceBuilder()
    builder.kernel("gemm", us=10)
    builder.write(tmp_path / "trace.json")
    return str(tmp_path / "trace.json")


def test_an_analysis_ends_with_all_written_and_nothing_taken_apart(path: str) -> None:
    done = _run("analyze", path, "-q", "-f", "json")
    assert done.returncode == 0
    assert done.stdout.rstrip().endswith("}")
    assert done.stderr == "at exit;"


def test_its_exit_code_is_that_of_the_command(path: str) -> None:
    done = _run("analyze", f"{path}.missing")
    assert done.returncode == 3
    assert "no such file" in done.stderr.lower()
    assert done.stderr.endswith("at exit;")


def test_other_commands_end_as_python_does() -> None:
    done = _run("--version")
    assert done.returncode == 0
    assert done.stderr.endswith("at exit;taken apart;")


def test_a_thread_that_goes_on_is_waited_for(path: str) -> None:
    """A program's own thread, which is no daemon, writes after the analysis is over."""
    begin = "threading.Timer(3, lambda: sys.stderr.write('thread;')).start()"
    done = _run("analyze", path, "-q", "-f", "json", before=begin)
    assert done.returncode == 0
    assert done.stderr == "thread;at exit;taken apart;"
