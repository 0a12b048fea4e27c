"""Bursts of an optimizer's steps, and the iterations that are steps where much lies between bursts: no torch is needed to tell."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from advisor.record.bursts import Bursts, Iteration
from advisor.record.measured import Followed
from advisor.record.steps import Steps


def found(intervals: list[float], others: list[int] | None = None) -> Iteration | None:
    """The last iterations of steps of one optimizer so many seconds apart; *others*: steps that other optimizers step before."""
    bursts, now, last = Bursts(1), 0.0, None
    bursts.stepped(now, others=False)
    for number, interval in enumerate(intervals, 1):
        now += interval
        last = bursts.stepped(now, others=number in (others or ())) or last
    return last


def test_a_rollout_between_four_updates_and_the_next_four() -> None:
    # Updates take 1 s each, a rollout 10: an interval of 11. Of 14 s an iteration 10 lie between bursts.
    iteration = found([1, 1, 1, 11] * 4)
    assert iteration is not None
    assert (iteration.steps, iteration.seconds) == (4, 14)
    assert iteration.share == pytest.approx(10 / 14)
    assert iteration.worthwhile


@pytest.mark.parametrize(("validation", "worthwhile"), [(5, False), (12, True)])
def test_a_validation_is_the_steps_only_where_it_takes_long(validation: int, worthwhile: bool) -> None:
    """Epochs of twenty steps of 1 s: the end of one that takes 5 s is 20 % of the time, one of 12 s 37.5 %."""
    iteration = found([*[1.0] * 19, 1.0 + validation] * 3)
    assert iteration is not None
    assert iteration.share == pytest.approx(validation / (20 + validation))
    assert iteration.worthwhile == worthwhile


def test_a_critic_of_a_gan_steps_five_times_for_one_step_of_the_generator() -> None:
    """A sixth of the time lies between the critic's bursts: the generator's step."""
    iteration = found([1, 1, 1, 1, 2] * 3, others=[5, 10, 15])
    assert iteration is not None
    assert (iteration.steps, iteration.worthwhile) == (5, True)
    assert iteration.share == pytest.approx(1 / 6)


def test_two_optimizers_that_step_in_turn_come_in_no_bursts() -> None:
    assert found([2.0] * 12, others=list(range(1, 13))) is None


def test_two_optimizers_that_step_in_turn_in_each_update_come_in_bursts_by_time() -> None:
    """A critic and an actor update four times behind each rollout: an interval of 11 s, else of 1 s."""
    iteration = found([1, 1, 1, 11] * 5, others=list(range(1, 21)))
    assert iteration is not None
    assert (iteration.steps, iteration.seconds, iteration.others) == (4, 14, False)
    assert iteration.share == pytest.approx(10 / 14)


def test_forty_updates_of_two_optimizers_in_turn_are_a_burst() -> None:
    """More than are kept of the steps that may begin one, were each of them such a step."""
    iteration = found([*[1] * 39, 60] * 4, others=list(range(1, 161)))
    assert iteration is not None
    assert iteration.steps == 40


def test_a_long_step_within_a_burst_begins_none_where_others_step_between() -> None:
    """A critic's bursts of five; the third step of the last burst comes 9 s behind the second."""
    bursts, now = Bursts(1), 0.0
    told = [bursts.stepped(now, others=False)]
    for number, interval in enumerate([1, 1, 1, 1, 2] * 3 + [1, 9], 1):
        now += interval
        told.append(bursts.stepped(now, others=number in (5, 10, 15)))
    assert told[15] is not None
    assert told[17] is None


def test_the_usual_interval_is_told_while_another_thread_notes_a_step() -> None:
    bursts = Bursts(1)

    class Noting(tuple[float, bool]):
        """An interval; to look at it takes so long that another thread notes a step."""

        def __iter__(self) -> Iterator[float | bool]:
            bursts._recent.append((2.0, False))
            return super().__iter__()

    bursts._recent.extend([Noting((1.0, False)), Noting((1.0, False))])
    assert bursts.usual == 1.0


@pytest.mark.parametrize(
    "intervals",
    [
        [1.0] * 40,
        [1, 1, 9, 1, 1, 1, 1, 1, 9, 1, 1, 1],  # a log line, a collection of garbage: now and then
        [1, 4, 1, 3, 1, 2.5, 1, 3.5, 2.2, 1, 1, 4, 1, 2.1, 1, 3, 1, 1] * 4,
        [1, 2, 1.5, 3, 1, 2.5, 1, 1.2, 3.5, 1, 2, 1, 3],  # sequences of differing length
    ],
)
def test_steps_that_come_in_no_bursts(intervals: list[float]) -> None:
    assert found(intervals) is None


def test_a_chance_between_bursts_does_not_hide_them() -> None:
    """A step of 30 s among the first, and one of 4 s within a burst."""
    iteration = found([1, 30, 1, 1, 1, 11, 1, 1, 4, 1, 1, 11, 1, 1, 1, 1, 1, 11, 1, 1, 1, 1, 1, 11])
    assert iteration is not None
    assert iteration.steps == 6


def test_bursts_of_differing_length_are_told_where_they_are_far_apart() -> None:
    """Updates that end early: bursts of 3, 5, 2, 4 and 3 steps."""
    lengths = [3, 5, 2, 4, 3]
    iteration = found([each for length in lengths for each in [*[1.0] * (length - 1), 40.0]])
    assert iteration is not None
    assert iteration.steps is None
    assert iteration.worthwhile
    assert 3 < iteration.apart < 13  # in the middle of 1 and 40 s, as factors go


class Loop:
    """Plays bursts of an optimizer's steps to ``steps``; ``log`` holds ``o`` for a step, ``.`` for a second of other work and ``|``
    where a step begins."""

    def __init__(
        self, skip: int = 2, unit: str | None = None, burst: int | None = None, second: float = 1.0, **more: Any
    ) -> None:
        self.log, self.now, self.second = "", 0.0, second
        ticks = count()
        self.steps: Steps[int] = Steps(
            skip, self._boundary, lambda: next(ticks), unit, now=lambda: self.now, burst=burst, **more
        )
        self.steps.trains = True

    def _boundary(self) -> None:
        self.log += "|"

    def play(self, text: str) -> str:
        for letter in text:
            self.now += self.second if letter == "." else 0.1 * self.second
            self.log += letter
            if letter in "op":
                self.steps.stepped("op".index(letter))
        return self.log


@pytest.mark.parametrize(("second", "watched"), [(0.1, 12), (1.0, 7)])
def test_an_iteration_ends_with_its_burst(second: float, watched: int) -> None:
    """Eleven iterations are watched, between the ends of twelve bursts; of long ones what makes 5 s."""
    loop = Loop(skip=11, second=second)
    log = loop.play("..ooo" * 12)
    assert loop.steps.unit == "iterations"
    parts = log.split("|")
    assert parts[0].count("ooo") == watched
    assert all(part.endswith(".ooo") and part.count("ooo") == 1 for part in parts[1:-1])
    assert len(loop.steps.stamps) == watched


def test_bursts_of_differing_length_end_an_iteration_with_the_first_step_of_the_next() -> None:
    loop = Loop(skip=30)
    bursts = [3, 5, 2, 4, 3, 4, 2, 3] * 6
    log = loop.play("".join("....." + "o" * length for length in bursts))
    assert loop.steps.unit == "iterations"
    assert loop.steps.burst is None
    assert log.count("|") > 5
    assert all(part.startswith("o") and ".....o" in part for part in log.split("|")[1:-1])


def test_bursts_that_were_equal_by_chance_are_told_to_differ() -> None:
    loop = Loop(skip=30, second=0.1)
    bursts = [5, 5, 5, 3, 6, 4, 5, 2, 7, 3, 4] * 5
    log = loop.play("".join("....." + "o" * length for length in bursts))
    assert loop.steps.burst is None
    assert all(part.startswith("o") and ".....o" in part for part in log.split("|")[1:-1])


def test_iterations_that_a_recording_found_are_found_again() -> None:
    """A fix makes the rollout short; what an iteration is stays."""
    log = Loop(skip=2, unit="iterations", burst=3).play("ooo" * 5)
    assert log == "ooo" * 3 + "|" + "ooo|" * 2
    followed = Followed("iterations", None, 2, burst=3)
    assert followed.options() == ["--skip", "2", "--by", "iterations", "--burst", "3"]


def test_an_epoch_of_plain_steps_stays_one() -> None:
    """Ten steps and a second of validation: half as much as they take at most."""
    loop = Loop(skip=5)
    log = loop.play(("o" * 30 + ".") * 5)
    assert loop.steps.unit == "optimizer"
    assert log.startswith("ooooo|o|o")
    assert loop.steps.around is not None
    assert loop.steps.around.share == pytest.approx(1 / 4)


def test_bursts_that_show_behind_a_recording_are_recorded_in_its_place() -> None:
    first, later = Loop(skip=2), Loop(unit="iterations", burst=12)
    later.play("")
    first.steps.look_for_iterations(lambda iteration: later.steps)
    first.play("....." + "o" * 12)
    assert first.steps.unit == "optimizer"
    first.play(("....." + "o" * 12) * 2)
    assert later.steps.unit == "iterations"
    assert later.steps.burst == 12
    assert later.steps.count("optimizer") == 0  # the first of its burst told of it


def test_a_rollout_as_long_as_the_first_is_no_end_of_the_training() -> None:
    """The rollout before the first burst took 2 s and its first step 0.1 s: twice that is waited for the next.

    Five times is waited once a pause between steps was seen: before the first lies what a program begins with, too.
    """
    loop = Loop(skip=2)
    loop.play("..oooo")
    loop.now += 4.1
    assert not loop.steps.quiet
    loop.now += 0.2
    assert loop.steps.quiet
    loop.play("oooo")  # 4.4 s, of which 3 count
    loop.now += 14.9
    assert not loop.steps.quiet
    loop.now += 0.2
    assert loop.steps.quiet


def test_a_pause_like_one_before_is_waited_for() -> None:
    loop = Loop(skip=20)
    assert not loop.steps.may_iterate
    loop.play("..oooo")
    loop.now += 10.1  # the rollout and the first step took 2.1 s, and 0.3 s have passed since
    assert loop.steps.may_iterate
    loop.now += 0.2
    assert not loop.steps.may_iterate


def test_a_clock_that_goes_back_ends_nothing() -> None:
    """A wait for a batch and one for a core at the same time are both taken off."""
    bursts = Bursts(0)
    for at in (0.0, 1.0, 0.9, 0.8, 2.0, 1.9, 1.8, 3.0, 2.9, 2.8, 4.0, 3.9):
        bursts.stepped(at, others=False)
    assert bursts.count == 12


def test_an_error_where_bursts_are_told_ends_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Bursts, "stepped", fail)
    loop = Loop(skip=2)
    assert loop.play("..ooo" * 2) == "..oo|o|..o|o|o|"
    assert not loop.steps.may_iterate


def test_a_marker_is_the_optimizer_that_takes_a_burst_of_steps_in_a_row() -> None:
    """A generator steps first in each iteration, and is not the one that a recording found in bursts of three."""
    log = Loop(skip=2, unit="iterations", burst=3).play("pooo" * 5)
    assert log == "pooo" * 3 + "|" + "pooo|" * 2


def test_a_marker_of_steps_in_turn_with_others_stays() -> None:
    """An actor's and a critic's steps, two of each in an iteration: none takes two in a row."""
    log = Loop(skip=2, unit="iterations", burst=2).play("opop" * 4)
    assert log == "opopopopopo|popo|p"


def test_bursts_of_another_optimizer_than_the_marker_are_not_those_of_the_steps() -> None:
    """The generator, which steps first, marks the steps; the critic's bursts are of its own steps."""
    loop = Loop(skip=2, fits=lambda _: False)
    loop.play("opppp" * 8)
    assert loop.steps.unit == "optimizer"
    assert loop.steps.around is None


def test_an_evaluation_that_waits_for_its_batches_is_no_training() -> None:
    """All of the 1.1 s behind the last step are waited for batches, which count in no burst."""
    fetched = 0.0
    loop = Loop(skip=2, fetched=lambda: fetched)
    loop.play("oooo")
    fetched += 1.1
    loop.now += 1.1
    assert loop.steps.quiet


def test_a_wait_for_a_core_is_no_end_of_a_training() -> None:
    waited = 0.0
    loop = Loop(skip=2)
    loop.steps = Steps(2, lambda: None, lambda: 0, now=lambda: loop.now, working=lambda: loop.now - waited)
    loop.play("oooo")
    waited += 5.0
    loop.now += 5.0
    assert not loop.steps.quiet


def test_a_pause_is_waited_for_as_long_as_it_takes_for_the_user() -> None:
    """Without a core for most of it: nobody is to wait for 20 s of work."""
    waited = 0.0
    loop = Loop(skip=20)
    loop.steps = Steps(20, lambda: None, lambda: 0, now=lambda: loop.now, working=lambda: loop.now - waited)
    loop.steps.trains = True
    loop.play("..oooo")
    loop.now += 10.4
    waited += 10.4
    assert not loop.steps.may_iterate


def test_a_wait_for_a_batch_without_a_core_counts_once_and_the_steps_behind_it_take_their_time() -> None:
    """Steps of 1 s; before the third one the thread waited 5 s for a batch, and for a core at the same time."""
    fetched = waited = 0.0
    loop = Loop(skip=20)
    loop.steps = Steps(
        20, lambda: None, lambda: 0, now=lambda: loop.now, working=lambda: loop.now - waited, fetched=lambda: fetched
    )
    loop.steps.trains = True
    for number in range(7):
        loop.now += 1.0
        if number == 2:
            loop.now, fetched, waited = loop.now + 5.0, fetched + 5.0, waited + 5.0
        loop.steps.stepped(0)
    (bursts,) = (loop.steps._bursts or {}).values()
    assert [interval for interval, _ in bursts._recent] == [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
