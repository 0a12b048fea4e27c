"""Calls that operators run in, by the frames that are on the stack."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator

import pytest

from advisor.record import callers, places


@pytest.fixture(autouse=True)
def _here() -> Iterator[None]:
    places.begin()
    yield
    places.begin()


def inner(calls: callers.Calls) -> callers.Callers:
    return calls.at(sys._getframe())


def test_two_calls_of_one_line_are_two() -> None:
    calls = callers.Calls()
    one, other = (inner(calls) for _ in range(2))
    assert one.places[-1] == other.places[-1]
    assert callers.shared(one, other) < len(one.calls) == len(other.calls)


def test_two_operators_of_one_call_share_it() -> None:
    calls = callers.Calls()
    frame = sys._getframe()
    one, other = calls.at(frame), calls.at(frame)
    assert callers.shared(one, other) == len(one.calls)
    assert one.places[one.first_below(len(one.calls))] == one.places[-1]


def test_a_call_that_has_ended_holds_no_number() -> None:
    """Arguments of a call between the two are let go: its frame may be taken again."""
    calls = callers.Calls()
    one = inner(calls)
    calls.at(sys._getframe())
    other = inner(calls)
    assert callers.shared(one, other) == len(one.calls) - 1
    calls.clear()
    assert callers.shared(one, inner(calls)) == 0


class Value:
    """A value of a variable."""


def computed(calls: callers.Calls) -> tuple[callers.Callers, weakref.ref[Value]]:
    value = Value()
    return calls.at(sys._getframe()), weakref.ref(value)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_variables_of_calls_that_have_ended_are_let_go(elsewhere: bool) -> None:
    """A backward pass, on the CPU in the thread that calls it and else in another, begins behind a call that has returned."""
    calls = callers.Calls()
    one, value = computed(calls)
    assert value() is not None
    if elsewhere:
        thread = threading.Thread(target=calls.prune)
        thread.start()
        thread.join()
    else:
        calls.prune()
    assert value() is None
    other = calls.at(sys._getframe())
    assert callers.shared(one, other) == len(other.calls) == len(one.calls) - 1


@pytest.mark.parametrize(("shared", "place"), [(1, 0), (2, 1), (3, 1), (4, None)])
def test_the_first_line_below_what_is_shared(shared: int, place: int | None) -> None:
    """Of the calls the second and the fourth are a library's."""
    assert callers.Callers((("a.py", 1), ("b.py", 2)), (7, 8, 9, 10), (0, 2)).first_below(shared) == place
