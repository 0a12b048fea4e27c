"""Two calls side by side: results in order, errors where they belong, at the same time."""

from __future__ import annotations

import ctypes
from threading import Barrier, Thread

import pytest

from advisor import cli
from advisor.errors import AdvisorError
from advisor.threads import both


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


def test_calls_beside_one_another_run_at_the_same_time() -> None:
    meeting = Barrier(2, timeout=20)  # one alone would wait in vain
    both(meeting.wait, meeting.wait, beside=True)
    assert not [thread for thread in _named("advisor-beside") if thread.is_alive()]


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
