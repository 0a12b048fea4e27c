"""The second process: an analysis comes to the same with it, without it and whatever befalls it, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.attention import attention_by_hand
from support.traces import real_trace

from advisor import analyze, cli, read
from advisor.execution import aside, messages, run
from advisor.execution.aside import Aside
from advisor.execution.inputs import Inputs
from advisor.reading import machine
from advisor.rulebook import builtin_rules_dir, conditions, load
from advisor.timeline.context import Context

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")

# A step of inference, of training, of the CPU alone, and of an engine.
SOME = ["h100_bert_small.json.gz", "v100_resnet50_workers0.json.gz", "cpu_only.json.gz", "mi300_sglang_decode.json.gz"]
HERE = os.getpid()


@pytest.fixture
def possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it be forked from here, though tests run in threads, and have asked the database."""
    monkeypatch.setattr(aside, "_is_possible", lambda: True)
    conditions.close()


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """By name of a result that was asked for, whether it came from the process."""
    found: dict[str, bool] = {}
    take = Aside.take

    def spy(self: Aside, find: Callable[[Context], Any]) -> Any:
        found[find.__qualname__] = False
        result = take(self, find)
        found[find.__qualname__] = True
        return result

    monkeypatch.setattr(Aside, "take", spy)
    return found


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(attention_by_hand(tmp_path / "trace.json"))


@pytest.fixture
def context(path: str) -> Context:
    return read(path).context


@contextmanager
def working(context: Context, *finds: Callable[[Context], Any], over: bool = False) -> Iterator[Aside]:
    """Have a process work out *finds*; *over*: it has, before anybody asks."""
    process = Aside(context, finds)
    context.aside = process
    try:
        if over:
            os.waitid(os.P_PID, process._process, os.WEXITED | os.WNOWAIT)
        yield process
    finally:
        process.close()
        context.aside = None


# ---- the same results


@pytest.mark.usefixtures("possible")
@pytest.mark.parametrize("name", ["by hand", *SOME])
def test_an_analysis_comes_to_the_same(name: str, path: str, answered: dict[str, bool]) -> None:
    address = path if name == "by hand" else str(real_trace(name))
    alone = msgspec.json.encode(analyze(address))
    trace = read(address)
    conditions.close()
    with aside.beside(trace):
        assert trace.context.aside is not None
        beside = msgspec.json.encode(analyze(trace))
    assert trace.context.aside is None
    assert beside == alone
    assert any(answered.values())


def test_each_result_that_is_asked_for_can_be_sent(path: str) -> None:
    for address in (path, str(real_trace("h100_bert_small.json.gz"))):
        context = read(address).context
        finds = aside._asked_for()
        assert len(set(finds)) == len(finds)
        with working(context, *finds, over=True) as process:
            for find in finds:
                assert type(process.take(find)) is type(find(context)), find


def test_a_result_is_taken_from_there(context: Context) -> None:
    with working(context, _pid, over=True) as process:
        assert context.once(_pid) == process._process != HERE
        assert context.found(_other) == HERE  # nobody asked for it there
    assert context.once(_pid) == process._process  # which is kept
    assert context.found(_pid) == HERE


# ---- whatever befalls the process


def test_what_fails_there_is_worked_out_here(context: Context) -> None:
    """One that raises, one that cannot be sent, and one of which only this process can make anything."""
    with working(context, _raises_there, _function, _not_read_here, _pid, over=True) as process:
        assert context.once(_raises_there) == HERE
        assert context.once(_function)() == HERE
        assert context.once(_not_read_here).value == 1
        assert context.once(_pid) == process._process


def test_an_error_is_raised_where_the_result_is_asked_for(context: Context) -> None:
    with working(context, _fails, over=True), pytest.raises(ZeroDivisionError):
        context.once(_fails)


def test_a_process_that_is_killed_costs_nothing(context: Context) -> None:
    with working(context, _pid, _is_killed_there, _other, over=True) as process:
        assert context.once(_other) == HERE
        assert context.once(_is_killed_there) == HERE
        assert context.once(_pid) == process._process  # it was done before


def test_nobody_waits_for_what_is_not_begun(context: Context, tmp_path: Path) -> None:
    """And what is worked out here is not worked out there as well."""
    begun, go_on, made = (tmp_path / name for name in ("begun", "go on", "made"))

    def first(_context: Context) -> int:
        begun.touch()
        _until(go_on.exists)
        return os.getpid()

    def second(_context: Context) -> int:
        with made.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return os.getpid()

    with working(context, first, second) as process:
        _until(begun.exists)
        assert context.once(second) == HERE
        go_on.touch()
        assert context.once(first) == process._process
        os.waitid(os.P_PID, process._process, os.WEXITED | os.WNOWAIT)
    assert made.read_text() == f"{HERE}\n"


def test_a_process_that_stands_still_is_not_waited_for(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "_PATIENCE_S", 0.05)
    with working(context, _sleeps_there) as process:
        _until(lambda: process._marks[0] != 0)
        assert context.once(_sleeps_there) == HERE
    assert _is_gone(process._process)


@pytest.mark.usefixtures("possible")
def test_where_the_system_has_no_room_for_it_there_is_none(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> int:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", full)
    files = len(os.listdir("/proc/self/fd"))
    trace = read(path)
    with aside.beside(trace):
        assert trace.context.aside is None
    assert len(os.listdir("/proc/self/fd")) == files


# ---- where there is none


def _no_fork() -> int:
    raise AssertionError("forked")


def test_a_program_that_analyzes_is_not_forked(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "_is_possible", lambda: True)
    monkeypatch.setattr(os, "fork", _no_fork)
    rules = load([builtin_rules_dir()]).rules
    for begin in (
        lambda: analyze(path),
        lambda: run.run(Inputs([path]), messages.Settings(rules=rules)),
        lambda: cli.main(["analyze", path, "-f", "json", "-o", str(tmp_path / "a.json")], standalone_mode=False),
    ):
        conditions.close()
        begin()


@pytest.mark.parametrize("why", ["large", "one core", "a thread", "an old libc"])
def test_a_process_that_is_not_to_be_forked_is_not(path: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large trace has a second thread. What others have under way here would be left in pieces."""
    monkeypatch.setattr(machine, "cores", lambda: 1 if why == "one core" else 2)
    monkeypatch.setattr("threading.active_count", lambda: 2 if why == "a thread" else 1)
    monkeypatch.setattr(os, "fork", _no_fork)
    if why == "large":
        monkeypatch.setattr(machine, "LEAST_ROWS", 1)
    if why == "an old libc":
        monkeypatch.delattr(os, "memfd_create")
    conditions.close()
    trace = read(path)
    with aside.beside(trace):
        assert trace.context.aside is None


def test_a_database_that_rules_were_checked_in_is_closed_before_the_fork(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has threads of its own, which a fork would leave in pieces."""
    monkeypatch.setattr(aside, "_is_possible", lambda: True)
    threads: list[int] = []

    def fork() -> int:
        threads.append(len(os.listdir("/proc/self/task")))
        raise OSError

    monkeypatch.setattr(os, "fork", fork)
    conditions.close()
    trace, before = read(path), len(os.listdir("/proc/self/task"))
    conditions.session().close()
    assert len(os.listdir("/proc/self/task")) > before
    with aside.beside(trace):
        assert threads == [before]


# ---- the command

_PROGRAM = """
import os, pathlib, sys, time
sys.path[:] = {paths!r}
from advisor.cli import program
from advisor.execution import aside
from advisor.reading import machine
machine.cores = lambda: 2
told = pathlib.Path({told!r})

def fork(fork=os.fork):
    with told.open("a") as file:
        file.write("forked\\n")
    return fork()

def sleeps(context):
    told.write_text(str(os.getpid()))
    time.sleep(60)

os.fork = fork
{before}
sys.argv[1:] = {words!r}
program()
"""
_STOPPED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from advisor import interrupts, pipeline
interrupts._begin()
aside._asked_for = lambda: [sleeps]

def run(*_, **__):
    while not told.read_text().isdigit():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.{number})
    time.sleep(60)

pipeline.run = run
"""


def _command(script: Path, path: str, told: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command that an installer writes, with rules that are in the cache."""
    words = ["analyze", path, "-q", "-f", "json", "-o", str(script.parent / "report.json"), "--force"]
    script.write_text(_PROGRAM.format(paths=sys.path, told=str(told), before=before, words=words))
    return subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "ADVISOR_CACHE": str(script.parent / "cache")},
    )  # fmt: skip


def test_the_command_s_own_process_is_forked_once_and_no_other(path: str, tmp_path: Path) -> None:
    told = tmp_path / "told"
    for name in ("advisor", "advisor", "program"):
        _command(tmp_path / name, path, told)
    assert told.read_text() == "forked\n" * 2


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGKILL", -signal.SIGKILL)])
def test_a_command_that_is_stopped_leaves_no_process_behind(number: str, code: int, path: str, tmp_path: Path) -> None:
    told = tmp_path / "told"
    _command(tmp_path / "advisor", path, told)  # which keeps the rules
    done = _command(tmp_path / "advisor", path, told, _STOPPED.format(number=number))
    assert (done.returncode, done.stderr.strip()) == (code, "")
    process = int(told.read_text())
    _until(lambda: _is_gone(process))


# ---- what is worked out


def _pid(_context: Context) -> int:
    return os.getpid()


def _other(_context: Context) -> int:
    return os.getpid()


def _raises_there(_context: Context) -> int:
    if os.getpid() != HERE:
        raise KeyError("there")
    return os.getpid()


def _fails(_context: Context) -> float:
    return 1 / 0


def _function(_context: Context) -> Callable[[], int]:
    def own() -> int:
        return os.getpid()

    return own


class _Fragile:
    """Something that is sent, and not read."""

    value = 1

    def __setstate__(self, state: object) -> None:
        raise ValueError(state)


def _not_read_here(_context: Context) -> _Fragile:
    found = _Fragile()
    vars(found)["there"] = True
    return found


def _is_killed_there(_context: Context) -> int:
    if os.getpid() != HERE:
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def _sleeps_there(_context: Context) -> int:
    if os.getpid() != HERE:
        time.sleep(60)
    return os.getpid()


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def _is_gone(process: int) -> bool:
    """Tell whether a process has ended, though nobody may have asked how."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
