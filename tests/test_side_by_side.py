"""Two calls side by side: results in order, errors where they belong, at the same time."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any

import msgspec
import pytest
from support.attention import attention_by_hand

from advisor import analyze, cli, pipeline, read
from advisor.errors import AdvisorError
from advisor.reading import machine
from advisor.threads import Ahead, both, each, once_property
from advisor.timeline.context import Context
from advisor.trace import Trace


@pytest.mark.parametrize("beside", [False, True])
def test_results_come_in_the_order_of_the_calls(beside: bool) -> None:
    assert both(lambda: 1, lambda: "two", beside=beside) == (1, "two")


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("fails", [0, 1])
def test_an_error_of_either_call_is_raised(fails: int, beside: bool) -> None:
    def fail() -> None:
        raise KeyError(fails)

    calls = [lambda: None, fail] if fails else [fail, lambda: None]
    with pytest.raises(KeyError):
        both(*calls, beside=beside)


@pytest.mark.parametrize("beside", [False, True])
def test_results_of_many_calls_come_in_their_order(beside: bool) -> None:
    pauses = [0.02, 0.0, 0.01, 0.0]

    def call(at: int) -> int:
        Event().wait(pauses[at])
        return at

    assert each([partial(call, at) for at in range(4)], beside=beside) == [0, 1, 2, 3]
    assert each([], beside=beside) == []
    with pytest.raises(IndexError):
        each([partial(call, at) for at in range(5)], beside=beside)


def test_calls_beside_one_another_run_at_the_same_time() -> None:
    meeting = Barrier(2, timeout=20)  # one alone would wait in vain
    both(meeting.wait, meeting.wait, beside=True)
    assert not [thread for thread in _named("advisor-beside") if thread.is_alive()]


class _Asked:
    """An object whose value takes until others have asked for it as well."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.begun = Event()

    @once_property
    def value(self) -> int:
        self.begun.set()
        self.made.append(len(self.made))
        Event().wait(0.05)
        return self.made[-1]


def test_a_value_that_two_threads_ask_for_is_made_once() -> None:
    asked, other = _Asked(), _Asked()
    assert both(lambda: asked.value, lambda: asked.begun.wait(20) and asked.value, beside=True) == (0, 0)
    assert (asked.made, other.made) == ([0], [])
    assert (asked.value, asked.made) == (0, [0])


def test_a_result_and_a_frame_that_two_threads_ask_for_are_made_once(trace: Trace) -> None:
    begun, made = Event(), []

    def find(_context: Context) -> int:
        begun.set()
        made.append(len(made))
        Event().wait(0.05)
        return made[-1]

    context = trace.context
    assert both(lambda: context.once(find), lambda: begun.wait(20) and context.once(find), beside=True) == (0, 0)
    frames = both(lambda: trace.frame("gaps"), lambda: trace.frame("gaps"), beside=True)
    assert frames[0] is frames[1]


def test_calls_ahead_are_made_in_order_and_errors_left_to_whoever_asks() -> None:
    done: list[int] = []
    over = Event()
    with Ahead([lambda: done.append(1), lambda: 1 // 0, lambda: done.append(2), over.set]):
        assert over.wait(20)
    assert done == [1, 2]


def test_calls_that_have_not_begun_are_let_go() -> None:
    begun, go_on, done = Event(), Event(), []

    def first() -> None:
        begun.set()
        go_on.wait(20)
        done.append(1)

    ahead = Ahead([first, lambda: done.append(2)])
    with ahead:
        assert begun.wait(20)
        Thread(target=lambda: (Event().wait(0.05), go_on.set())).start()
    assert done == [1]


def test_who_interrupts_does_not_wait_for_calls_ahead() -> None:
    go_on, over = Event(), Event()

    def call() -> None:
        go_on.wait(20)
        over.set()

    with pytest.raises(KeyboardInterrupt), Ahead([call]):
        raise KeyboardInterrupt
    assert not over.is_set()
    go_on.set()
    assert over.wait(20)


@pytest.fixture
def trace(path: Path) -> Trace:
    return read(str(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return attention_by_hand(tmp_path / "trace.json")


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 2)


@pytest.mark.usefixtures("two_cores")
def test_what_a_second_thread_works_out_ahead_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where all of it is done before the rules are asked, nor where it goes on beside them."""
    alone = analyze(str(path))
    assert alone.findings
    assert alone.plan
    monkeypatch.setattr(machine, "LEAST_ROWS", 1)
    made: list[int] = []

    class Before:
        def __init__(self, calls: Sequence[Callable[[], object]]) -> None:
            for call in calls:
                call()
            made.append(len(calls))

        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    beside = analyze(str(path))
    monkeypatch.setattr(pipeline, "Ahead", Before)
    before = analyze(str(path))
    assert made == [3]  # patterns, gaps, and the replay
    assert msgspec.json.encode(beside) == msgspec.json.encode(before) == msgspec.json.encode(alone)


@pytest.mark.usefixtures("two_cores")
def test_nothing_is_let_go_of_while_a_second_thread_is_at_work(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps its results where they are let go of: a dictionary that grows while it is gone through is an error."""
    monkeypatch.setattr(machine, "LEAST_ROWS", 1)
    begun, asked = Event(), Event()
    prepare, ask, let_go = pipeline.plans.prepare, pipeline.run, Trace.let_go
    at_work: list[bool] = []

    def slow_prepare(trace: Trace) -> object:
        begun.set()
        asked.wait(20)
        Event().wait(0.05)  # and goes on when the rules are asked
        return prepare(trace)

    def patient_ask(*args: Any, **options: Any) -> object:
        assert begun.wait(20)
        try:
            return ask(*args, **options)
        finally:
            asked.set()

    def watched_let_go(trace: Trace) -> None:
        at_work.append(any(thread.is_alive() for thread in _named("advisor-ahead")))
        let_go(trace)

    monkeypatch.setattr(pipeline.plans, "prepare", slow_prepare)
    monkeypatch.setattr(pipeline, "run", patient_ask)
    monkeypatch.setattr(Trace, "let_go", watched_let_go)
    assert analyze(str(path), views=False).plan
    assert at_work == [False]


@pytest.mark.usefixtures("two_cores")
def test_nothing_is_worked_out_ahead_of_a_small_trace(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(pipeline, "Ahead", lambda ahead: calls.append(len(ahead)) or Ahead(ahead))
    analyze(str(path))
    assert calls == [0]


@pytest.mark.usefixtures("two_cores")
def test_frames_that_no_rule_is_asked_on_are_not_built_ahead(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "LEAST_ROWS", 1)
    calls: list[int] = []
    monkeypatch.setattr(pipeline, "Ahead", lambda ahead: calls.append(len(ahead)) or Ahead(()))
    analyze(str(path), only=["kernels/attention-backend"])
    assert calls == [1]  # the replay


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Options of the C library's allocator that are set meanwhile."""
    found: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, option: int, value: int) -> int:
            found.append((option, value))
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda _name: Library())
    return found


def test_a_program_that_analyzes_keeps_the_heaps_of_its_threads(options: list[tuple[int, int]]) -> None:
    """A training may analyze its own recording, and goes on for days."""
    both(lambda: 1, lambda: 2, beside=True)
    with pytest.raises(AdvisorError):
        cli.main(["analyze", "missing.json"], standalone_mode=False)
    assert options == []


@pytest.mark.parametrize(("words", "set_options"), [
    (["analyze", "missing.json"], [(-8, 1)]),
    (["missing.json"], [(-8, 1)]),
    (["record", "missing.py"], []),
])  # fmt: skip
def test_the_command_that_analyzes_has_one_heap(
    words: list[str], set_options: list[tuple[int, int]], options: list[tuple[int, int]]
) -> None:
    """M_ARENA_MAX is -8 in malloc.h."""
    with pytest.raises(SystemExit):
        cli.main(words)
    assert options == set_options


def _named(name: str) -> list[Thread]:
    import threading

    return [thread for thread in threading.enumerate() if thread.name == name]
