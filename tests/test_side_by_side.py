"""Two calls side by side: results in order, errors where they belong, at the same time."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest

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


def _named(name: str) -> list[Thread]:
    import threading

    return [thread for thread in threading.enumerate() if thread.name == name]
