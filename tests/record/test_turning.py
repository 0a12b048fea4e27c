"""Turns of loops and calls of functions, told by tracing; and what that costs and leaves behind."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import pytest

from advisor.record.loops import loops_of
from advisor.record.turning import CALL, Key, Turning


def rounds(turns: int) -> int:
    total = 0
    for turn in range(turns):
        total += turn
    return total


@pytest.fixture
def turning() -> Iterator[tuple[Turning, Counter[Key]]]:
    counts: Counter[Key] = Counter()

    def turn(key: Key) -> None:
        counts[key] += 1

    made = Turning(turn)
    before = sys.gettrace()
    sys.settrace(None)
    yield made, counts
    made.stop()
    sys.settrace(before)


def long(lines: int) -> Callable[[], None]:
    """A function of many lines, of which a call runs one."""
    text = "def long():\n    if here:\n        return\n" + "".join(f"    x = {line}.5\n" for line in range(lines))
    scope: dict[str, Any] = {"here": True}
    exec(text, scope)  # noqa: S102
    made: Callable[[], None] = scope["long"]
    return made


def seconds(function: Callable[[], None]) -> float:
    best = 9.0
    for _ in range(5):
        begun = time.thread_time()
        for _ in range(300):
            function()
        best = min(best, time.thread_time() - begun)
    return best


def test_turns_and_calls_are_counted(turning: tuple[Turning, Counter[Key]]) -> None:
    made, counts = turning
    (loop,) = loops_of(rounds.__code__)
    keys = [Key(rounds.__code__, CALL), Key(rounds.__code__, loop.first)]
    made.watch(keys)
    assert made.start()
    rounds(7)
    rounds(3)
    made.stop()
    rounds(100)
    assert counts[keys[0]] == 2
    assert counts[keys[1]] in (10, 12)  # where the loop asks for what is none
    assert sys.gettrace() is None


@pytest.mark.parametrize("watched", [False, True])
def test_long_functions_cost_no_more_than_short_ones(watched: bool) -> None:
    made = Turning(lambda _: None)
    few, many = long(3), long(2000)
    codes: list[CodeType] = [few.__code__, many.__code__] if watched else []
    made.watch((code, CALL) for code in codes)
    before = sys.gettrace()
    sys.settrace(None)
    try:
        assert made.start()
        assert seconds(many) < 4 * seconds(few)
    finally:
        made.stop()
        sys.settrace(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_is_not_traced(turning: tuple[Turning, Counter[Key]]) -> None:
    made, _ = turning
    assert made.start()
    child = os.fork()
    if not child:
        os._exit(sys.gettrace() is not None)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sys.gettrace() is not None
