"""Kinds of work in a worker's frames: told from frames that really run, held by hand."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from support.recording import needs_torch

pytestmark = needs_torch


def frames_at(call: Any) -> list[FrameType]:
    """Return the frames, from the innermost on, at which *call*, given a function that holds them, calls it."""
    held: list[FrameType] = []

    def hold() -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not frames_at.__code__:
            held.append(frame)
            frame = frame.f_back

    call(hold)
    return held


class Picture:
    """An array, by its module and its shape."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape


Picture.__module__ = "numpy"


def jitter(image: Picture, hold: Any) -> None:
    image = (image, hold())[0]


def crop(image: Picture, hold: Any) -> None:
    small = Picture(8, 8, 3) if image else image
    small = (small, hold())[0]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((300, 400, 3), "large16"), ((3, 512, 512), "large18"), ((1, 8, 8), ""), ((40, 100), ""), ((9, 300, 400), "")],
)
def test_a_picture_is_told_by_its_channels_and_its_sides(shape: tuple[int, ...], expected: str) -> None:
    from advisor.record.sample_work import kind

    assert kind(frames_at(lambda hold: jitter(Picture(*shape), hold)), 0) == expected


def test_a_picture_that_the_line_does_not_read_is_none_that_it_works_on() -> None:
    from advisor.record.sample_work import kind

    assert kind(frames_at(lambda hold: crop(Picture(300, 400, 3), hold)), 0) == ""


def test_a_function_in_c_is_known_by_its_name_at_the_call() -> None:
    from advisor.record.sample_work import called

    held: list[tuple[Any, int]] = []

    def hold(_: object) -> int:
        frame = sys._getframe(1)
        held.append((frame.f_code, frame.f_lasti))
        return 0

    for rows in [[3], [4]]:
        list(map(str, rows)).sort(key=hold)
    assert [called(*each) for each in held] == ["sort", "sort"]


def kernel(hold: Any, width: int, sigma: float) -> None:
    width = width // 2  # an argument that is another number now
    hold()


def noise(hold: Any, width: int) -> None:
    hold()
    random.random()


def load(hold: Any, path: Any) -> None:
    hold()


def batches(monkeypatch: pytest.MonkeyPatch, *calls: Any) -> list[float]:
    """Return the time counted as repeated after each call, one in each batch, of 1 s each; *hold* is a plain argument here."""
    from advisor.record import sample_work

    found, total, batch = [], 0.0, [0]
    monkeypatch.setattr(sample_work, "_batch", lambda frames: batch[0])
    repeats = sample_work.Repeats()
    for call in calls:
        batch[0] += 1
        frames = frames_at(lambda hold, call=call: call(hold))[:1]
        total += sum(spent for _, spent in repeats.add(frames, 1.0))
        found.append(total)
    return found


def called(function: Any, *given: Any) -> Any:
    return lambda hold: function(hold, *given)


@pytest.fixture(autouse=True)
def plain_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    from advisor.record import sample_work

    known = sample_work._plain

    def plain(value: object, deep: int = 0) -> Any:
        return "hold" if getattr(value, "__name__", "") == "hold" else known(value, deep)

    monkeypatch.setattr(sample_work, "_plain", plain)


def test_arguments_that_come_again_in_another_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sets of numbers in turns: each counts from its second batch on, with the first."""
    one, other = called(kernel, 9, 1.5), called(kernel, 65, 8.0)
    assert batches(monkeypatch, one, other, one, one, other) == [0.0, 0.0, 2.0, 3.0, 5.0]


def test_each_sample_its_own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert batches(monkeypatch, *(called(load, f"{at}.wav") for at in range(4))) == [0.0] * 4


def test_what_draws_random_numbers_is_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert batches(monkeypatch, *[called(noise, 9)] * 3) == [0.0] * 3


def test_a_function_that_is_given_a_sample_once_is_not_counted_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    same, sample = called(load, "mean.npy"), called(load, Picture(3, 8, 8))
    assert batches(monkeypatch, same, same, sample, same) == [0.0, 2.0, 0.0, 0.0]


def test_without_a_batch_nothing_is_counted(tmp_path: Path) -> None:
    from advisor.record.sample_work import Repeats

    assert list(Repeats().add(frames_at(lambda hold: load(hold, "a")), 1.0)) == []
