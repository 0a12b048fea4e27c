"""Looks at a thread that is traced: the variables of its functions stay what they are."""

from __future__ import annotations

import sys
import threading
import time

from advisor.record.looks import Looks, look
from advisor.record.stepping import Stepping
from advisor.record.turning import Turning


def sum_of(first: int, second: int) -> int:
    return first + second


def test_no_variable_is_lost() -> None:
    """Python 3.11 writes what a frame showed of its variables back into it behind each call of a trace function."""
    main, ended, stepping, turning = threading.get_ident(), threading.Event(), Stepping(), Turning(lambda _: None)

    def watch() -> None:
        while not ended.wait(0.0002):
            look(sys._current_frames().get(main), 0.0, None, stepping)

    thread = threading.Thread(target=watch)
    interval, before = sys.getswitchinterval(), sys.gettrace()
    sys.setswitchinterval(1e-5)
    sys.settrace(None)
    thread.start()
    lost = 0
    try:
        assert turning.start()
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            try:
                sum_of(1, second=2)
            except UnboundLocalError:
                lost += 1
    finally:
        turning.stop()
        ended.set()
        thread.join()
        sys.settrace(before)
        sys.setswitchinterval(interval)
    assert not lost


def test_a_thread_that_a_debugger_traces_is_not_looked_at() -> None:
    before, looks = sys.gettrace(), Looks()
    sys.settrace(lambda *_: None)
    try:
        looks.begin()
        assert looks._thread is None
    finally:
        sys.settrace(before)
        looks.end()
