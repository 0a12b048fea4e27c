"""What two threads make together: each value once, in both the same, errors where they belong."""

from __future__ import annotations

import time
from threading import Barrier, Thread

import pytest

from advisor.once import Locks, once_property
from advisor.threads import both


class Counted:
    """Counts how often its value is worked out."""

    def __init__(self) -> None:
        self.times = 0

    @once_property
    def value(self) -> object:
        """A value of its own each time."""
        time.sleep(0.05)  # the other thread asks meanwhile
        self.times += 1
        return object()


def test_two_threads_get_the_same_value_that_is_worked_out_once() -> None:
    counted, start = Counted(), Barrier(2)

    def ask() -> object:
        start.wait()
        return counted.value

    first, second = both(ask, ask, beside=True)
    assert first is second
    assert counted.times == 1


def test_a_value_of_one_instance_is_not_that_of_another() -> None:
    one, other = Counted(), Counted()
    assert one.value is not other.value
    assert one.value is one.value


def test_a_property_keeps_its_docstring_and_is_itself_on_the_class() -> None:
    assert Counted.value.__doc__ == "A value of its own each time."
    assert isinstance(Counted.value, once_property)


def test_what_fails_is_worked_out_again() -> None:
    class Failing:
        times = 0

        @once_property
        def value(self) -> int:
            self.times += 1
            if self.times == 1:
                raise ValueError("the first time")
            return self.times

    failing = Failing()
    with pytest.raises(ValueError, match="the first time"):
        _ = failing.value
    assert failing.value == 2


def test_a_thread_may_ask_for_a_key_that_it_holds() -> None:
    locks = Locks()
    with locks["a"], locks["b"], locks["a"]:
        assert locks["a"] is locks["a"]


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
