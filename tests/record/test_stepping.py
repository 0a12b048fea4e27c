"""Python of a step that need not run again: functions whose arguments come again, and draws that go over all candidates."""

from __future__ import annotations

import builtins
import functools
import linecache
import random
import sys
import time
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from support.recording import needs_torch

from advisor.reading.program_settings import WorkerLine
from advisor.record import looks, places, sample_work, stepping

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
    monkeypatch.setattr(builtins, "look", lambda: looks.look(sys._getframe(1), 0.01, None, watch), raising=False)
    return watch


def steps(watch: stepping.Stepping, *does: Callable[[int], Any]) -> None:
    for step in range(5):
        for do in does:
            do(step)
            do(step)
        watch.turn(sys._getframe())


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
        learn(0.1, lambda: watch.turn(sys._getframe()))
    assert "step_repeat" not in watch.summary()


def test_arguments_that_come_again_in_one_step_alone(watch: stepping.Stepping) -> None:
    steps(watch, lambda step: [bank(4, step) for _ in range(3)])
    assert "step_repeat" not in watch.summary()


@pytest.mark.parametrize(
    ("call", "function"),
    [
        ("rng.choice(5000, size=2, p=p)", "choice(p=…)"),
        ("rng.choice(len(p), size=few, p=p / p.sum())", "choice(p=…)"),
        ("rng.choice(p, p=numpy.exp(p))", "choice(p=…)"),
        ("rng.choice(unknown(), size=(few, 2), p=p)", "choice(p=…)"),
        ("rng.choice(5000, size=unknown(), p=p)", "choice(p=…)"),
        ("rng.choice(5, 2, replace=False)", ""),
        ("rng.choice(5, 1, replace=False)", "choice(replace=…)"),
        ("rng.choice(5, 1, replace=True)", ""),
        ("rng.choice(5, size=2, p=p[:5])", ""),
        ("rng.choice(len(p), size=(few, 100), p=p)", ""),
        ("rng.choice(5000, size=100 * few, p=p)", ""),
        ("rng.choices(p, weights=p, k=few)", "choices(weights=…)"),
        ("rng.choices(p, weights=p, k=100)", ""),
        ("rng.choice(5, 2)", ""),
        ("rng.integers(5, size=2)", ""),
    ],
)
@pytest.mark.parametrize("where", ["module", "function"])
def test_draws_that_go_over_all_candidates(
    watch: stepping.Stepping, monkeypatch: pytest.MonkeyPatch, call: str, function: str, where: str
) -> None:
    """With so many drawn that the draws take the time they are left alone."""

    def look(*given: Any, **named: Any) -> None:
        for _ in range(10):
            looks.look(sys._getframe(1), 0.01, None, watch)

    # As NumPy's, whose functions are written in C: the innermost frame is the caller's.
    rng = types.SimpleNamespace(**dict.fromkeys(("choice", "choices", "integers"), functools.partial(look)))
    scope = {"rng": rng, "p": numpy.ones(5000), "few": 4, "numpy": numpy, "unknown": lambda: None}
    text = (
        f"\n\n{call}"
        if where == "module"
        else f"def draw(few, p):\n    if p is not None:\n        {call}\ndraw(few, p)"
    )
    monkeypatch.setitem(linecache.cache, "drawn.py", (len(text), None, text.splitlines(keepends=True), "drawn.py"))
    exec(compile(text, "drawn.py", "exec"), scope)  # noqa: S102
    expected = {
        "step_looks": 10,
        "step_draws": WorkerLine(share=1.0, function=function, file="drawn.py", line=3),
    }
    assert watch.summary() == (expected if function else {"step_looks": 10})


def test_too_few_looks_tell_nothing(watch: stepping.Stepping) -> None:
    for _ in range(9):
        bank(4, 5)
        watch.turn(sys._getframe())
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


def test_a_look_reads_no_code_which_takes_long(watch: stepping.Stepping, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are timed while it looks; what it saw is told from code behind them."""

    def read(*_: object) -> None:
        raise AssertionError("code is read")

    with monkeypatch.context() as patch:
        for module, names in ((stepping, ("draws", "named", "called")), (sample_work, ("draws", "named"))):
            for name in names:
                patch.setattr(module, name, read)
        patch.setattr(stepping.dis, "get_instructions", read)
        steps(watch, lambda step: bank(4, 5), weighted)
    assert watch.summary()["step_repeat"].function == "bank"


def test_a_function_that_is_never_given_numbers_alone_is_not_asked_again(
    watch: stepping.Stepping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its variables are shown at its first three looks, and at no other of twenty."""
    asked, plain = [], sample_work._plain
    monkeypatch.setattr(sample_work, "_plain", lambda value, deep=0: (asked.append(value), plain(value, deep))[1])
    large = Large()

    def steps_of(one: Large) -> None:
        steps(watch, lambda step: of_one(one))

    steps_of(large)
    steps_of(large)
    assert asked.count(large) == 3


def of_one(one: Large) -> Large:
    look()  # noqa: F821
    return one


def test_two_functions_of_which_the_larger_may_return_something_else(watch: stepping.Stepping) -> None:
    """Two looks of three are at one that draws: the other, a third of the time, is told."""
    steps(watch, lambda step: (shaken(4), shaken(4), bank(4, 5)))
    found = watch.summary()["step_repeat"]
    assert (found.function, found.share) == ("bank", 0.333)
