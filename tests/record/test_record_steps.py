"""What the recorder takes for a step, from what a program does: no torch is needed to tell."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from advisor.record.steps import PATIENCE, Steps


class Program:
    """Plays what a program does, in letters, to ``steps``; ``log`` holds the letters with ``|`` where a step begins.

    B asks for a batch, E finds the iterator at its end, w is a backward pass, O and P are steps of two optimizers, T makes
    an optimizer, M and N are calls of two modules.
    """

    def __init__(self, skip: int = 2, unit: str | None = None) -> None:
        self.log = ""
        ticks = count()
        self.steps: Steps[int] = Steps(skip, self._boundary, lambda: next(ticks), unit)

    def _boundary(self) -> None:
        self.log += "|"

    def play(self, text: str) -> str:
        acts: dict[str, Any] = {
            "B": self.steps.batch,
            "w": self.steps.backward,
            "O": lambda: self.steps.stepped(1),
            "P": lambda: self.steps.stepped(2),
            "M": lambda: self.steps.call(3),
            "N": lambda: self.steps.call(4),
        }
        for letter in text:
            if letter in "OP":
                # The optimizer's step is over as it tells.
                self.log += letter
                acts[letter]()
                continue
            if letter == "T":
                self.steps.trains = True
            elif letter == "E":
                self.steps.batch()
                self.steps.exhausted()
            else:
                acts[letter]()
            self.log += letter
        return self.log


@pytest.mark.parametrize(
    ("text", "log"),
    [
        # Two steps are skipped. The third begins with the request for its batch.
        ("TBwOBwOBwOBwO", "TBwOBwO|BwO|BwO"),
        # Gradients of two batches for one step of the optimizer.
        ("TBwBwOBwBwOBwBwO", "TBwBwOBwBwO|BwBwO"),
        # No loader: a step ends with the optimizer's.
        ("TwOwOwOwO", "TwOwO|wO|wO|"),
        # One batch for the whole run is no loader that feeds.
        ("TBwOwOwOwO", "TBwOwO|wO|wO|"),
        # Two optimizers in one iteration: the first that steps marks it.
        ("TBwOwPBwOwPBwOwP", "TBwOwPBwOwP|BwOwP"),
        # The end of an epoch is where the next step begins; the first batch of the next epoch is in it.
        ("TBwOBwOEBwOBwO", "TBwOBwO|EBwO|BwO"),
        # Inference by batches.
        ("BBBB", "BB|B|B"),
        ("BBEBB", "BB|EB|B"),
        # Inference without a loader: calls of the module that is called most.
        ("MMMM", "MM|M|M"),
        ("MNNMNNMNN", "MNNM|N|NM|N|N"),
    ],
)
def test_where_steps_begin(text: str, log: str) -> None:
    assert Program().play(text) == log


def test_an_evaluation_before_the_training_is_not_taken_for_inference() -> None:
    assert Program().play("T" + "B" * 20 + "BwO" * 3) == "T" + "B" * 20 + "BwOBwO|BwO"


def test_training_that_nobody_sees_is_counted_by_batches() -> None:
    """A CUDA graph steps the optimizer once, while it is captured; after some patience batches are all there is."""
    program = Program()
    log = program.play("TBwO" + "B" * (PATIENCE + 4))
    assert program.steps.unit == "batches"
    assert log.index("|") == 4 + PATIENCE + 2


@pytest.mark.parametrize("unit", [None, "optimizer"])
def test_an_optimizer_that_stops_leaves_the_steps_to_the_next(unit: str | None) -> None:
    """A teacher is prepared with two steps of its own; of the other optimizer's the tenth makes it the program's."""
    program = Program(skip=12, unit=unit)
    log = program.play("TwOwO" + "BwP" * 14)
    assert log == "TwOwO" + "BwP" * 12 + "|BwP|BwP"
    assert not program.steps.has_others
    # The requests for a batch after the tenth, the eleventh and the twelfth step.
    assert len(program.steps.stamps) == 3
    assert program.steps.count("optimizer") == 14


def test_a_critic_with_five_steps_to_one_does_not_mark_them() -> None:
    program = Program(skip=2)
    log = program.play("T" + ("BwO" + "BwP" * 5) * 4)
    turn = "BwO" + "BwP" * 5
    assert log == "T" + turn + "BwO|" + "BwP" * 5 + "BwO|" + "BwP" * 5 + "BwO|" + "BwP" * 5


def test_a_unit_that_was_asked_for_is_not_questioned() -> None:
    assert Program(unit="batches").play("TBwOBwOBwO") == "TBwOBwO|BwO"
    assert Program(unit="calls").play("TBMwOBMwOBMwO") == "TBMwOBMwOB|MwO"
    assert Program(unit="optimizer").play("BBBBBBwOBwOBwO") == "BBBBBBwOBwO|BwO"


def test_skipped_steps_are_stamped_by_the_same_boundaries() -> None:
    """Every request for a batch and every optimizer step takes a tick for each boundary that it may turn out to be."""
    program = Program(skip=3)
    program.play("TBwOBwOBwOB")
    assert program.steps.unit == "optimizer"
    assert program.steps.fed
    # B: batches 0. O: optimizer 1. B: batches 2, fed 3. O: 4. B: 5, fed 6. O: 7. B: 8, fed 9, and the step begins.
    assert program.steps.stamps == [3, 6, 9]


def test_nothing_is_decided_of_a_program_that_ends_early() -> None:
    program = Program(skip=5)
    program.play("TBwOBwO")
    assert program.steps.unit is None
    assert program.steps.stamps == []
    assert (program.steps.count("optimizer"), program.steps.count("batches")) == (2, 2)


class Nested:
    """Plays calls inside loops, in words: ``E`` a turn of the loop of epochs, ``s`` of the steps', ``t`` of the innermost.

    Each turn of the innermost calls a module, of the steps' loop one more if ``encodes``. ``log`` holds ``|`` where a step begins.
    """

    def __init__(self, skip: int = 2, unit: str | None = None, encodes: bool = False) -> None:
        self.log, self.seconds, self.encodes = "", 0.0, encodes
        ticks = count()
        self.steps: Steps[int] = Steps(skip, self._boundary, lambda: next(ticks), unit, lambda: self.seconds)

    def _boundary(self) -> None:
        self.log += "|"

    def play(self, text: str, seconds: float = 0.0) -> str:
        turned: set[str] = set()
        for letter in text:
            turned.add(letter)
            if letter == "s" and self.encodes:
                self.steps.call(2, [("E", "E" in turned), ("s", True)])
                turned = set()
            if letter == "t":
                self.steps.call(1, [(loop, loop in turned) for loop in "Est"])
                turned = set()
            self.log += letter
            self.seconds += seconds
        return self.log


@pytest.mark.parametrize("encodes", [False, True])
def test_a_turn_of_the_outer_loop_is_the_step(encodes: bool) -> None:
    program = Nested(encodes=encodes)
    log = program.play("E" + "sttt" * 40, seconds=0.02)
    # The loop of the epochs does not turn within the 50 letters that make 1 s; the steps' next turn decides, and the one
    # behind it begins the first step that is recorded.
    assert 54 < log.index("|") <= 58
    begun = log.replace("s|t", "|st")
    assert begun[begun.index("|") :].startswith("|sttt|sttt|sttt")
    assert program.steps.unit == "turns"
    # One tick for each turn of each loop, where they all turn; the stamps are of the turns of the steps' loop.
    assert len(program.steps.stamps) == begun[: begun.index("|") + 2].count("s")


def test_a_loop_over_epochs_that_turns_soon_is_the_step() -> None:
    program = Nested(skip=2)
    assert program.play("Estst" * 5).count("|") == 3
    assert program.steps.unit == "turns"


def test_turns_that_call_a_module_once_are_calls() -> None:
    program = Nested(skip=2)
    program.play("E" + "st" * 80, seconds=0.05)
    assert program.steps.unit == "calls"
    assert not program.steps.waits


def test_a_loop_that_turned_is_waited_for() -> None:
    program = Nested(skip=5)
    program.play("Esttttttttt" * 3, seconds=0.1)
    assert program.steps.unit is None
    assert program.steps.waits
    assert Nested(skip=2, unit="calls").play("Esttst") == "Estts|t"


def test_a_gallery_that_is_filled_before_the_loop_is_no_step() -> None:
    program = Nested(skip=2)
    for at in range(6):
        program.steps.call(1, [("g", at > 0)], ahead=True)
    assert program.steps.unit is None
    for at in range(40):
        program.steps.call(1, [("s", at % 4 == 0), ("g", at % 4 > 0)])
        program.seconds += 0.05
    assert program.steps.unit == "turns"


def test_a_loop_still_to_come_is_waited_for_a_while() -> None:
    program = Nested(skip=2)
    for at in range(45):
        program.steps.call(1, [("g", at > 0)], ahead=True)
    assert program.steps.unit == "calls"
    program = Nested(skip=2)
    for at in range(5):
        program.steps.call(1, [("g", at > 0)], ahead=True)
        program.seconds += 0.4
    assert program.steps.unit == "calls"


def test_turns_that_were_asked_for_are_taken_in_training_too() -> None:
    program = Nested(skip=2, unit="turns")
    program.steps.trains = True
    assert program.play("Estttsttt" * 4).count("|") == 2


def test_training_that_nothing_came_before_is_no_stronger_sign() -> None:
    """While nothing is decided there is nothing to take the place of."""
    program = Program()
    program.steps.follow(lambda: pytest.fail("nothing was recorded"))
    assert program.play("TBwOBwOBwO") == "TBwOBwO|BwO"


def test_batches_behind_calls_go_to_who_follows() -> None:
    program, later = Program(), Program()
    program.steps.follow(lambda: later.steps)
    program.play("MMMMBBBO")
    assert (later.steps.count("batches"), later.steps.count("optimizer")) == (3, 1)


@pytest.mark.parametrize(
    ("waited", "quiet"),
    [
        (
            3.5,
            False,
        ),  # the training took 4 s: from the first batch at 0 to the third step at 6, without 2 s of recording
        (4.5, True),
    ],
)
def test_a_training_has_ended_once_nothing_stepped_for_longer_than_it_took(waited: float, quiet: bool) -> None:
    now = 0.0

    def boundary() -> None:
        nonlocal now
        now += 2.0  # recording a step ends

    steps: Steps[float] = Steps(2, boundary, lambda: now, now=lambda: now)
    for _ in range(2):
        steps.batch()
        now += 1.5
        steps.stepped(1)
    steps.batch()
    now += 1.0
    steps.stepped(1)
    now += waited
    assert steps.trained_for == 4.0
    assert steps.quiet == quiet
    later: Steps[float] = Steps(2, boundary, lambda: now, now=lambda: now)
    steps.follow(lambda: later)
    steps.call(3)
    assert later.count("calls") == int(quiet)


def test_one_step_of_an_optimizer_is_no_training_that_ended() -> None:
    now = 0.0
    steps: Steps[float] = Steps(5, lambda: None, lambda: now, now=lambda: now)
    steps.stepped(1)
    now = 100.0
    assert not steps.quiet


def test_steps_are_watched_on_while_they_are_held() -> None:
    """Batches that lie ready feed the first six steps, of which two would be skipped."""
    log, ticks = [], count()
    steps: Steps[int] = Steps(
        2, lambda: log.append(steps.count("batches")), lambda: next(ticks), hold=lambda: steps.count("batches") < 7
    )
    steps.trains = True
    for _ in range(9):
        steps.batch()
        steps.stepped(1)
    assert log == [7, 8, 9]
    assert len(steps.stamps) == 6  # of the batches from the second to the seventh


@pytest.mark.parametrize(("waited", "watched", "quiet"), [(5.0, False, True), (5.0, True, False), (13.0, True, True)])
def test_a_step_in_which_each_operator_is_looked_at_takes_longer(waited: float, watched: bool, quiet: bool) -> None:
    """A training of 2 s; the step behind it takes 5 s as the recorder compares what its operators are given."""
    now = 0.0
    steps: Steps[float] = Steps(5, lambda: None, lambda: now, now=lambda: now, watched=lambda: watched)
    for _ in range(3):
        steps.stepped(1)
        now += 1.0
    now += waited - 1.0
    assert steps.quiet == quiet
