"""Python of a step that need not run again: functions whose arguments come again, and draws that go over all candidates."""

from __future__ import annotations

import builtins
import functools
import random
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.recording import needs_torch

from advisor.reading.program_settings import WorkerLine
from advisor.record import places, stepping

pytestmark = needs_torch
EDGES = (20.0, 4000.0)
WEIGHTS = [1.0, 2.0]
COUNTED = 0


def bank(rows: int, columns: int) -> list[float]:
    look()  # noqa: F821
    return [EDGES[0] * row * columns for row in range(rows)]


def shaken(rows: int) -> list[float]:
    look()  # noqa: F821
    return [random.random() for _ in range(rows)]


def through(rows: int) -> list[float]:
    look()  # noqa: F821
    return shaken(rows)


def weighted(rows: int) -> list[float]:
    look()  # noqa: F821
    return [each * rows for each in WEIGHTS]


def counted(rows: int) -> int:
    global COUNTED
    look()  # noqa: F821
    COUNTED += rows
    return COUNTED


def since(rows: int) -> float:
    look()  # noqa: F821
    return rows * time.perf_counter()


def nothing() -> None:
    look()  # noqa: F821


class Bank:
    scale = 1.0

    def make(self, rows: int) -> float:
        look()  # noqa: F821
        return rows * self.scale


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> stepping.Stepping:
    """A watch that is shown the stack wherever a function says so."""
    monkeypatch.chdir(Path(__file__).parent)
    places.begin()
    watch = stepping.Stepping()
    # Among the builtins, so that no function of this file reads a global for it.
    monkeypatch.setattr(builtins, "look", lambda: watch._look(sys._getframe(1), 0.01), raising=False)
    return watch


def steps(watch: stepping.Stepping, *does: Callable[[int], Any]) -> None:
    for step in range(5):
        for do in does:
            do(step)
            do(step)
        watch.turn()


def test_a_function_of_the_same_numbers_in_each_step(watch: stepping.Stepping) -> None:
    steps(watch, lambda step: bank(4, 5), lambda step: shaken(4))
    found = watch.summary()["step_repeat"]
    assert (found.share, found.function, found.file) == (0.5, "bank", "test_stepping.py")
    assert (
        Path(__file__).read_text().splitlines()[found.line - 1].startswith("    steps(watch, lambda step: bank(4, 5)")
    )


@pytest.mark.parametrize(
    "do",
    [
        lambda step: bank(4, step),  # other numbers each time
        lambda step: shaken(4),
        lambda step: through(4),  # what it calls draws
        lambda step: weighted(4),  # of a list that may change
        lambda step: counted(4),
        lambda step: since(4),
        lambda step: nothing(),  # of nothing: all that it does is with globals
        lambda step: Bank().make(4),
    ],
)
def test_others_may_return_something_else(watch: stepping.Stepping, do: Callable[[int], Any]) -> None:
    steps(watch, do)
    assert "step_repeat" not in watch.summary()


def test_what_a_step_ends_in_is_the_training(watch: stepping.Stepping) -> None:
    def learn(rate: float, turn: Callable[[], None]) -> None:
        look()  # type: ignore[name-defined]  # noqa: F821
        turn()

    for _ in range(12):
        learn(0.1, watch.turn)
    assert "step_repeat" not in watch.summary()


def test_arguments_that_come_again_in_one_step_alone(watch: stepping.Stepping) -> None:
    steps(watch, lambda step: [bank(4, step) for _ in range(3)])
    assert "step_repeat" not in watch.summary()


@pytest.mark.parametrize(
    ("call", "function"),
    [
        ("rng.choice(5, size=2, p=p)", "choice(p=…)"),
        ("rng.choice(5, 2, replace=False)", "choice(replace=…)"),
        ("rng.choice(5, 2)", ""),
        ("rng.integers(5, size=2)", ""),
    ],
)
def test_draws_that_go_over_all_candidates(watch: stepping.Stepping, call: str, function: str) -> None:
    def look(*given: Any, **named: Any) -> None:
        for _ in range(10):
            watch._look(sys._getframe(1), 0.01)

    # As NumPy's, whose functions are written in C: the innermost frame is the caller's.
    rng = types.SimpleNamespace(choice=functools.partial(look), integers=functools.partial(look))
    scope = {"rng": rng, "p": None}
    exec(compile(f"\n\n{call}", __file__, "exec"), scope)  # noqa: S102
    expected = {
        "step_looks": 10,
        "step_draws": WorkerLine(share=1.0, function=function, file="test_stepping.py", line=3),
    }
    assert watch.summary() == (expected if function else {"step_looks": 10})


def test_too_few_looks_tell_nothing(watch: stepping.Stepping) -> None:
    for _ in range(9):
        bank(4, 5)
        watch.turn()
    assert watch.summary() == {}


def told(message: str, times: int) -> None:
    look()  # noqa: F821


def test_what_returns_nothing_is_called_for_something_else(watch: stepping.Stepping) -> None:
    steps(watch, lambda step: told("epoch", 3))
    assert "step_repeat" not in watch.summary()


class Large:
    """Something that can be seen to be gone."""


def held(rows: int) -> int:
    large = Large()
    seen = weakref.ref(large)
    look()  # noqa: F821
    del large
    assert seen() is None
    return rows


def test_a_look_holds_nothing_of_what_a_function_lets_go_of(watch: stepping.Stepping) -> None:
    steps(watch, lambda step: held(4))
    assert watch._looks == 10


def test_threads_take_turns_as_before_once_nobody_looks() -> None:
    usual = sys.getswitchinterval()
    one, other = stepping.Stepping(), stepping.Stepping()
    one.begin()
    one.begin()  # the first thread ends with it
    other.begin()
    one.end()
    other.end()
    assert sys.getswitchinterval() == usual
    assert not [thread for thread in threading.enumerate() if thread.name == "advisor-stepping"]


def test_a_second_recording_knows_nothing_of_the_first(watch: stepping.Stepping) -> None:
    steps(watch, lambda step: bank(4, 5))
    watch.begin()
    watch.end()
    assert "step_repeat" not in watch.summary()
