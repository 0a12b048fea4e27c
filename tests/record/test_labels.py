"""Labels that a loss leaves out, counted as they come to it: wherever they are made, whatever the number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.recording import REASON, needs_torch

from advisor.record import constants, places

pytestmark = needs_torch
torch = pytest.importorskip("torch", reason=REASON)
F = torch.nn.functional


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    places.begin()
    torch.manual_seed(0)


def share(*steps: Callable[[], Any]) -> float | None:
    """Return the least part of the labels that losses in the steps left out."""
    watch = constants.Constants(torch)
    for step in steps:
        watch.start()
        try:
            step()
        finally:
            watch.stop()
    found: float | None = watch.labels.share()
    return found


def labels(count: int, ignored: int = -100) -> Any:
    """Ten labels of which *count* are to be left out."""
    out = torch.arange(10)
    out[:count] = ignored
    return out


def test_labels_that_the_step_makes_itself() -> None:
    logits = torch.randn(10, 20, requires_grad=True)
    assert share(lambda: F.cross_entropy(logits, labels(8)).backward()) == 0.8


def test_another_number_and_rows_of_words() -> None:
    logits = torch.randn(2, 5, 20)
    step = lambda: F.cross_entropy(logits.mT, labels(3, 7).view(2, 5), ignore_index=7)  # noqa: E731
    assert share(step) == 0.4  # places 0 to 2, and the label 7 itself


def test_the_least_of_two_steps() -> None:
    logits = torch.randn(10, 20)
    assert share(*(lambda count=count: F.cross_entropy(logits, labels(count)) for count in (8, 5))) == 0.5


def test_a_small_loss_beside_a_large_one_says_nothing() -> None:
    words, classes = torch.randn(10, 200), torch.randn(4, 3)

    def step() -> Any:
        return F.cross_entropy(words, labels(9)) + F.cross_entropy(classes, torch.tensor([0, 1, 2, 0]))

    assert share(step) == 0.9


def test_losses_of_other_kinds() -> None:
    logits, chances = torch.randn(10, 20), torch.rand(10, 20)
    assert share(lambda: F.cross_entropy(logits, chances) + F.mse_loss(logits, chances)) is None
