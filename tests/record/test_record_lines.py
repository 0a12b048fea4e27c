"""The lines that run, marked: spans of lines nest as the calls do, and only the user's own code is marked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from advisor.record import lines as module
from advisor.record.lines import MARK, Lines


class Log:
    """Stands in for the profiler: what is open when something happens."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.events: list[tuple[str, list[str]]] = []

    def span(self, name: str) -> Any:
        log = self

        class Span:
            def __enter__(self) -> None:
                log.open.append(name)

            def __exit__(self, *_: object) -> None:
                assert log.open.pop() == name

        return Span()

    def op(self, name: str) -> None:
        self.events.append((name, list(self.open)))


@pytest.fixture
def run() -> Iterator[Any]:
    """``run(source)`` marks the lines of *source* between start() and stop(), and gives what was open at each op()."""
    before = sys.gettrace()
    sys.settrace(None)

    def play(source: str) -> list[tuple[str, list[int]]]:
        log = Log()
        lines = Lines(log.span)
        code = compile(source, "/somewhere/job.py", "exec")
        exec(code, {"op": log.op, "start": lines.start, "stop": lines.stop})  # noqa: S102
        assert log.open == []
        assert sys.gettrace() is None
        number = {f"{MARK}{at}": int(text.partition("(")[2].partition(")")[0]) for at, text in enumerate(lines.frames)}
        job = {f"{MARK}{at}" for at, text in enumerate(lines.frames) if text.partition("(")[0].endswith("job.py")}
        return [(name, [number[mark] for mark in marks if mark in job]) for name, marks in log.events]

    yield play
    sys.settrace(before)


def test_an_operator_lies_in_the_line_that_runs_it(run: Any) -> None:
    assert run("start()\nop('a')\nop('b')\nstop()\nop('c')") == [("a", [2]), ("b", [3]), ("c", [])]


def test_lines_of_a_function_lie_in_the_line_that_called_it(run: Any) -> None:
    source = "def f():\n    op('in')\n    return 1\nstart()\nf()\nop('after')\nstop()"
    assert run(source) == [("in", [5, 2]), ("after", [6])]


def test_marking_may_begin_deep_in_calls(run: Any) -> None:
    source = "def f():\n    start()\n    op('in')\ndef g():\n    f()\n    op('between')\ng()\nop('out')\nstop()"
    assert run(source) == [("in", [7, 5, 3]), ("between", [7, 6]), ("out", [8])]


def test_exceptions_and_generators_leave_nothing_open(run: Any) -> None:
    source = (
        "def f():\n    op('raising')\n    raise ValueError\n"
        "def g():\n    yield 1\n    op('resumed')\n    yield 2\n"
        "start()\ntry:\n    f()\nexcept ValueError:\n    op('caught')\n"
        "for _ in g():\n    op('body')\n"
        "stop()"
    )
    assert run(source) == [
        ("raising", [10, 2]),
        ("caught", [12]),
        ("body", [14]),
        ("resumed", [13, 6]),
        ("body", [14]),
    ]


def test_after_so_many_lines_no_more_are_marked(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 50)
    found = run("start()\nop('first')\nfor i in range(100):\n    pass\nop('last')\nstop()")
    assert found == [("first", [2]), ("last", [])]


def test_a_loop_on_one_line_is_marked_once(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 50)
    found = run("start()\ncounts = [n / 2 for n in range(100)]\nop('behind')\nstop()")
    assert found == [("behind", [3])]


def test_a_debugger_is_left_alone() -> None:
    log = Log()
    before = sys.gettrace()

    def theirs(*_: Any) -> None:
        return None

    sys.settrace(theirs)
    try:
        lines = Lines(log.span)
        lines.start()
        seen = sys.gettrace()
        lines.stop()
    finally:
        sys.settrace(before)
    assert seen is theirs
    assert lines.frames == []


def test_a_forked_child_marks_nothing() -> None:
    log = Log()
    lines = Lines(log.span)
    before = sys.gettrace()
    sys.settrace(None)
    reader, writer = os.pipe()

    def work() -> None:
        log.op("child")

    try:
        lines.start()
        child = os.fork()
        if child == 0:
            marked = len(lines.frames)
            work()
            traced = sys.gettrace() is not None or len(lines.frames) > marked + 1
            os.write(writer, b"traced" if traced else b"free")
            os._exit(0)
        os.waitpid(child, 0)
    finally:
        lines.stop()
        sys.settrace(before)
    assert os.read(reader, 10) == b"free"
