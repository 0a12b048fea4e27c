"""Large tensors of the step before that a step reads and lets go of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.recording import REASON, needs_torch

from advisor.reading.program_settings import Carried
from advisor.record import constants

pytestmark = needs_torch
torch = pytest.importorskip("torch", reason=REASON)

SIZE = [512, 512]
WHOLE = Carried(512 * 512, 4)


class Program:
    """A step by its name; ``state`` is what is there before it, and ``input`` is never let go of."""

    def __init__(self) -> None:
        self.state: Any = torch.zeros(SIZE)
        self.input = torch.ones(SIZE)
        self.small = torch.zeros(8)

    def goes_on(self) -> None:
        self.state = self.state * 0.9 + self.input

    def is_replaced(self) -> None:
        self.state = self.input * 0.9

    def is_written_in_place(self) -> None:
        self.state.mul_(0.9).add_(self.input)

    def is_small(self) -> None:
        self.small = self.small * 0.9

    def is_a_batch(self) -> None:
        batch, self.state = self.state, None
        self.small = (batch * 2).sum().expand(8)

    def is_read_through_a_list(self) -> None:
        self.state = torch.stack([self.state, self.input])[0].clone()


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (Program.goes_on, (WHOLE,)),
        (Program.is_read_through_a_list, (WHOLE,)),
        (Program.is_replaced, ()),
        (Program.is_a_batch, ()),
        (Program.is_written_in_place, ()),
        (Program.is_small, ()),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_a_step_reads_of_the_one_before_and_lets_go_of(
    step: Callable[[Program], None], expected: tuple[Any, ...]
) -> None:
    program, watch = Program(), constants.Constants(torch)
    watch.start()
    try:
        step(program)
    finally:
        watch.stop()
    assert watch.carried == expected
    assert watch._goers._there == {}
