"""Ranks that end together: none before all of those that record are done, and all with the same step."""

from __future__ import annotations

import pytest

from advisor.record.ranks import LONGEST, Ranks


class Shared:
    """A store of several ranks in this process."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.fails = False

    def set(self, key: str, value: str) -> None:
        self._look()
        self.values[key] = value.encode()

    def get(self, key: str) -> bytes:
        self._look()
        return self.values[key]

    def check(self, keys: list[str]) -> bool:
        self._look()
        return all(key in self.values for key in keys)

    def _look(self) -> None:
        if self.fails:
            raise RuntimeError("Connection reset by peer")


class Program:
    """Ranks that take steps in turn; ``ended`` is with which step each ended."""

    def __init__(self, count: int, recording: tuple[int, ...] | None = None) -> None:
        self.store, self.now = Shared(), 0.0
        self.ranks = [Ranks(self.store, rank, count, lambda: self.now) for rank in range(count)]
        self.ended: dict[int, int] = {}
        self.step = 0
        for rank in range(count) if recording is None else recording:
            self.ranks[rank].begin()

    def play(self, steps: int, order: tuple[int, ...] = (0, 1)) -> None:
        for _ in range(steps):
            self.step += 1
            for rank in order:
                if rank not in self.ended and self.ranks[rank].may_end(self.step):
                    self.ended[rank] = self.step


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("first", [0, 1])
def test_a_rank_that_is_done_waits_for_the_other_and_both_end_with_one_step(first: int, order: tuple[int, ...]) -> None:
    program = Program(2)
    program.ranks[first].done()
    program.play(10, order)
    assert program.ended == {}
    program.ranks[1 - first].done()
    program.play(3, order)
    # Rank 0 decides with step 11 that step 13 is the last.
    assert program.ended == {0: 13, 1: 13}


def test_a_rank_that_is_not_done_does_not_end() -> None:
    assert not Program(1).ranks[0].may_end(100)


def test_a_rank_that_records_alone_ends_at_once() -> None:
    program = Program(2, recording=(1,))
    program.ranks[1].done()
    program.play(1, order=(1,))
    assert program.ended == {1: 1}


def test_a_rank_that_never_comes_to_its_end_is_waited_for_a_while() -> None:
    program = Program(2)
    program.ranks[0].done()
    program.now = LONGEST[0] + 1
    program.play(LONGEST[1])
    assert program.ended == {}  # the first of these steps may have taken all that time, as the other wrote its file
    program.play(1)
    assert program.ended == {0: LONGEST[1] + 1}


def test_a_store_that_is_gone_keeps_no_rank() -> None:
    program = Program(2)
    program.ranks[0].done()
    program.store.fails = True
    program.play(1, order=(0,))
    assert program.ended == {0: 1}
