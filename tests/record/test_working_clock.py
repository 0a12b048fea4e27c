"""The clock that stands still while a thread has no core: one file a thread, a child's own, and no step back."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from advisor.record import load

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="the system does not say what threads wait for a core"
)


def opened() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_thread_that_asks_again_opens_no_second_file() -> None:
    load.working_clock()
    before = opened()
    clocks = [load.working_clock() for _ in range(3)]
    assert opened() == before
    assert abs(clocks[0]() - clocks[2]()) < 60


def test_a_child_reads_what_it_waits_itself() -> None:
    load.working_clock()
    child = os.fork()
    if child == 0:
        load.working_clock()
        places = [
            str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink() and link.exists()
        ]
        os._exit(0 if any(place.endswith(f"/{os.getpid()}/schedstat") for place in places) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_wait_for_a_core_between_the_two_readings_sets_the_clock_back_in_no_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread looks at the clock, which says 10 s, and waits 5 s for a core before it looks at its waits."""
    clock = load.working_clock()
    seconds, waited = [10.0, 15.0], [0.0, 5.0]

    def monotonic() -> float:
        del waited[:-1]
        return seconds.pop(0) if len(seconds) > 1 else seconds[0]

    monkeypatch.setattr(time, "monotonic", monotonic)
    monkeypatch.setattr(os, "pread", lambda *_: f"1 {waited[0] * 1e9:.0f} 1".encode())
    assert clock() == 10.0
