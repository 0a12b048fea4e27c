"""The end of a process that analyzed a trace: everything is written and done, and nothing is taken apart for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.testing import TraceBuilder

_PROGRAM = """
import atexit, sys, threading
sys.path[:] = {paths!r}
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


def _run(*words: str, script: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run a script such as an installer writes, which is called advisor."""
    script.write_text(_PROGRAM.format(words=list(words), before=before, paths=sys.path))
    return _python(str(script))


def _python(*words: str, typed: str = "", **also: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        input=typed, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **also},
    )  # fmt: skip


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "advisor"


@pytest.fixture
def path(tmp_path: Path) -> str:
    builder = TraceBuilder()
    builder.kernel("gemm", us=10)
    builder.write(tmp_path / "trace.json")
    return str(tmp_path / "trace.json")


def test_an_analysis_ends_with_all_written_and_nothing_taken_apart(path: str, script: Path) -> None:
    done = _run("analyze", path, "-q", "-f", "json", script=script)
    assert done.returncode == 0
    assert done.stdout.rstrip().endswith("}")
    assert done.stderr == "at exit;"


def test_nobody_waits_for_a_database_in_memory_to_be_closed(path: str, script: Path) -> None:
    told = (
        "from advisor.reading import machine; machine.cores = lambda: 1; "  # else it is closed before a fork
        "from advisor.rulebook import conditions; conditions.close = lambda: sys.stderr.write('closed;')"
    )
    assert _run("analyze", path, "-q", "-f", "json", script=script, before=told).stderr == "at exit;"


def test_its_exit_code_is_that_of_the_command(path: str, script: Path) -> None:
    done = _run("analyze", f"{path}.missing", script=script)
    assert done.returncode == 3
    assert "no such file" in done.stderr.lower()
    assert done.stderr.endswith("at exit;")


def test_other_commands_end_as_python_does(script: Path) -> None:
    done = _run("--version", script=script)
    assert done.returncode == 0
    assert done.stderr.endswith("at exit;taken apart;")


def test_a_thread_that_goes_on_is_waited_for(path: str, script: Path) -> None:
    """A program's own thread, which is no daemon, writes after the analysis is over."""
    begin = "threading.Thread(target=lambda: (threading.main_thread().join(), sys.stderr.write('thread;'))).start()"
    done = _run("analyze", path, "-q", "-f", "json", script=script, before=begin)
    assert done.returncode == 0
    assert done.stderr == "thread;at exit;taken apart;"


def test_a_profiler_writes_what_it_measured(path: str, tmp_path: Path) -> None:
    written = tmp_path / "prof.out"
    done = _python("-m", "cProfile", "-o", str(written), "-m", "advisor", "analyze", path, "-q", "-f", "json")
    assert done.returncode == 0
    assert written.stat().st_size


@pytest.mark.parametrize("watch", ["sys.setprofile(lambda *_: None)", "sys.settrace(lambda *_: None)"])
def test_whatever_watches_the_process_has_its_end(watch: str, path: str, script: Path) -> None:
    done = _run("analyze", path, "-q", "-f", "json", script=script, before=watch)
    assert done.returncode == 0
    assert done.stderr == "at exit;taken apart;"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of Python 3.12")
def test_a_tool_that_monitors_the_process_has_its_end(path: str, script: Path) -> None:
    done = _run("analyze", path, "-q", "-f", "json", script=script, before="sys.monitoring.use_tool_id(3, 'tool')")
    assert done.stderr == "at exit;taken apart;"


def test_a_prompt_behind_the_command_comes(path: str) -> None:
    done = _python("-i", "-m", "advisor", "analyze", path, "-q", "-f", "json", typed="print('typed')")
    assert done.stdout.endswith("typed\n")


def test_a_program_that_runs_the_advisor_goes_on(path: str) -> None:
    code = f"""
import gc, runpy, sys
sys.argv = ["advisor", "analyze", {path!r}, "-q", "-f", "json"]
try:
    runpy.run_module("advisor", run_name="__main__")
except SystemExit as end:
    sys.stderr.write(f"goes on;{{end.code}};{{gc.isenabled()}}")
"""
    done = _python("-c", code)
    assert (done.returncode, done.stderr) == (0, "goes on;0;True")


def test_a_script_that_calls_the_command_goes_on(path: str, tmp_path: Path) -> None:
    code = "\ntry:\n    program()\nexcept SystemExit:\n    sys.stderr.write('goes on;')\n"
    script = tmp_path / "nightly.py"
    script.write_text(
        _PROGRAM.format(words=["analyze", path, "-q", "-f", "json"], before="", paths=sys.path).replace(
            "\nprogram()\n", code
        )
    )
    assert _python(str(script)).stderr == "goes on;at exit;taken apart;"


def test_python_m_advisor_ends_alone(path: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nclass Taken:\n"
        "    def __del__(self, write=sys.__stderr__.write):\n        write('taken apart;')\nsys.kept = Taken()\n"
    )
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    assert _python("-m", "advisor", "--version", PYTHONPATH=paths).stderr == "taken apart;"
    assert _python("-m", "advisor", "analyze", path, "-q", "-f", "json", PYTHONPATH=paths).stderr == ""
