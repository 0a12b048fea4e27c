"""Ctrl-C at any moment of a command: exit code 130, and nothing on stderr that reads like a bug."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.testing import TraceBuilder

_SITE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it starts in the background ignore it

class Presser:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["PRESSED_AT"]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Presser())
"""
_SCRIPT = """
import sys
from advisor.cli import program
sys.exit(program())
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    builder = TraceBuilder()
    builder.kernel("gemm", us=10)
    builder.write(tmp_path / "trace.json")
    return str(tmp_path / "trace.json")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "sitecustomize.py").write_text(_SITE)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}


def _pressed(at: str, words: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command in which somebody presses Ctrl-C while the module *at* is imported."""
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=60, check=False,
        env={**environment, "PRESSED_AT": at},
    )  # fmt: skip


@pytest.mark.parametrize("at", ["click", "advisor.errors", "advisor.cli.query", "duckdb", "pandas", "advisor.trace"])
def test_ctrl_c_in_an_import_ends_the_command(at: str, path: str, environment: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "advisor"
    script.write_text(_SCRIPT)
    for begin in (["-m", "advisor"], [str(script)]):
        done = _pressed(at, [*begin, "query", path, "SELECT count(*) FROM kernels"], environment)
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_program_that_imports_the_command_keeps_its_own_way(environment: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "nightly.py"
    script.write_text(
        "import signal\ntry:\n    import advisor.cli\nexcept KeyboardInterrupt:\n    print('caught')\n"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    )
    assert _pressed("click", [str(script)], environment).stdout == "caught\nTrue\n"
    code = """
import runpy, signal, sys
sys.argv = ["advisor", "--version"]
try:
    runpy.run_module("advisor", run_name="__main__", alter_sys=True)
except SystemExit:
    print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    assert _pressed("", ["-c", code], environment).stdout.endswith("True\n")


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_behind_the_answer_changes_nothing_that_was_written(path: str, environment: dict[str, str]) -> None:
    """Python's own end, module by module, takes a tenth of a second."""
    Path(environment["PYTHONPATH"].split(os.pathsep)[0], "sitecustomize.py").write_text(
        _SITE + "import atexit\natexit.register(os.kill, os.getpid(), signal.SIGINT)\n"
    )
    done = _pressed("", ["-m", "advisor", "query", path, "SELECT count(*) AS n FROM kernels", "-f", "csv"], environment)
    assert (done.returncode, done.stdout.split(), done.stderr) == (signal.SIGINT + 128, ["n", "1"], "")


def test_a_command_that_ctrl_c_is_not_for_stays_so(path: str, environment: dict[str, str]) -> None:
    """As under nohup, and in what a shell starts in the background."""
    Path(environment["PYTHONPATH"].split(os.pathsep)[0], "sitecustomize.py").write_text(
        _SITE.replace("signal.default_int_handler", "signal.SIG_IGN")
    )
    done = _pressed("duckdb", ["-m", "advisor", "query", path, "SELECT 1 AS n FROM kernels", "-f", "csv"], environment)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["n", "1"], "")
