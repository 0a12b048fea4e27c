"""The thread that looks at what ends the steps: how often, at what, and what it keeps."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from support.recording import needs_torch

from advisor.record import looks
from advisor.record.fetching import Fetching
from advisor.record.stepping import Stepping

pytestmark = needs_torch


class Sample:
    """Part of a batch."""


class Rests:
    """An event that notes for how long it is waited, and is set at the end."""

    def __init__(self, count: int) -> None:
        self.seconds: list[float] = []
        self._count = count

    def wait(self, seconds: float) -> bool:
        self.seconds.append(round(seconds, 9))
        return len(self.seconds) > self._count


def test_looks_that_take_long_come_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take 0.3 % at most: behind 20 µs the usual 10 ms, behind 150 µs 50 ms; behind 8 ms it would be 2.7 s.

    The first of them, of which a short recording has no others, take 1 %.
    """
    took, clock = iter([20e-6, 150e-6] * 20 + [150e-6, 8e-3]), [0.0]

    def look(*_: object) -> None:
        clock[0] += next(took)

    monkeypatch.setattr(looks, "look", look)
    monkeypatch.setattr(looks.time, "thread_time", lambda: clock[0])
    rests: Any = Rests(42)
    looks.Looks()._watch(threading.get_ident(), rests, Fetching(), Stepping())
    assert rests.seconds[:3] == [0.01, 0.01, 0.015]
    assert rests.seconds[-3:] == [0.05, 0.05, 0.1]


def fetch(source: str, **scope: Any) -> Any:
    """Return torch's function that fetches a batch, which runs *source*."""
    text = f"def fetch(possibly_batched_index):\n{source}"
    exec(compile(text, "/lib/torch/utils/data/_utils/fetch.py", "exec"), scope)  # noqa: S102
    return scope["fetch"]


def taps(width: int, look: Callable[[], None]) -> int:
    look()
    return width


@pytest.mark.parametrize("fetches", [True, False])
def test_batches_in_the_making_are_told_of_where_this_process_makes_them(fetches: bool) -> None:
    """Five batches of two samples, of which each is looked at once; the first of the same numbers in another batch counts both."""
    fetching, stepping = Fetching(), Stepping()

    def look() -> None:
        looks.look(sys._getframe(1), 0.01, fetching if fetches else None, stepping)

    make = fetch("    return [taps(65, look) for _ in possibly_batched_index]", taps=taps, look=look)
    for batch in range(5):
        make([2 * batch, 2 * batch + 1])
        stepping.turn(sys._getframe())
    assert stepping.summary() == {"step_looks": 10}
    assert ("fetch_repeat" in fetching.summary()) == fetches
    if fetches:
        found = fetching.summary()["fetch_repeat"]
        assert (found.function, found.share) == ("taps", 1.0)


def test_a_second_recording_knows_nothing_of_the_first() -> None:
    watch = looks.Looks()
    watch.fetching._looks, watch.fetching._total = 20, 1.0
    watch.fetching._same[0] = (("job.py", 3, "taps"), 0.5)
    watch.stepping._looks, watch.stepping._total = 20, 1.0
    assert watch.summary().keys() == {"fetch_repeat", "step_looks"}
    watch.begin()
    watch.end()
    assert watch.summary() == {}


def test_a_look_that_fails_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()

    def look(*_: object) -> None:
        failed.set()
        raise KeyError("a frame that is gone")

    monkeypatch.setattr(looks, "look", look)
    watch = looks.Looks()
    watch.begin()
    thread = watch._thread
    assert thread is not None
    thread.join(20)
    watch.stepping._looks = 20
    assert failed.is_set()
    assert watch.summary() == {}


def test_code_that_cannot_be_read_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def summary(_: Stepping) -> dict[str, Any]:
        raise AttributeError("a module that is loaded at its first use")

    monkeypatch.setattr(Stepping, "summary", summary)
    assert looks.Looks().summary() == {}


def test_threads_take_turns_as_before_once_nobody_looks() -> None:
    usual = sys.getswitchinterval()
    one, other = looks.Looks(), looks.Looks()
    one.begin()
    one.begin()  # the first thread ends with it
    other.begin()
    one.end()
    other.end()
    assert sys.getswitchinterval() == usual
    assert not [thread for thread in threading.enumerate() if thread.name == "advisor-looks"]


def test_a_thread_that_has_not_ended_when_the_next_begins_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, on = threading.Event(), threading.Event()

    def slow(*_: object) -> None:
        inside.set()
        on.wait(20)

    monkeypatch.setattr(looks, "look", slow)
    watch = looks.Looks()
    watch.begin()
    first = watch._thread
    assert first is not None
    assert inside.wait(20)
    watch.end()
    watch.begin()
    second = watch._thread
    on.set()
    first.join(20)
    assert not first.is_alive()
    assert second is not None
    assert second.is_alive()
    watch.end()
    second.join(20)
    assert not second.is_alive()


def test_what_a_batch_is_made_of_is_not_held_until_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "_LOOK_S", 5.0)
    monkeypatch.setattr(looks, "_LONGEST_REST_S", 5.0)
    looked, run = threading.Event(), looks.look

    def look(*given: Any) -> None:
        run(*given)
        looked.set()

    monkeypatch.setattr(looks, "look", look)
    make = fetch(
        "    sample = Sample()\n    looked.wait(20)\n    return weakref.ref(sample)",
        Sample=Sample,
        looked=looked,
        weakref=weakref,
    )
    watch = looks.Looks()
    watch.fetches = True
    watch.begin()
    sample = make([1, 2])
    time.sleep(1.0)  # the thread goes back to its rest of five seconds
    held = sample()
    watch.end()
    assert looked.is_set()
    assert watch.fetching._looks == 1
    assert held is None
