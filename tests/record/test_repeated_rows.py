"""Rows of a batch that a module computes more than once: found where all it is given of them and all it returns is the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.recording import REASON, needs_torch

from advisor.record import places, repeats, rows

pytestmark = needs_torch
torch = pytest.importorskip("torch", reason=REASON)
nn = torch.nn


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    places.begin()
    torch.manual_seed(0)


def share(module: Any, *inputs: Any) -> float:
    """The share of repeated rows of one call."""
    return rows.repeated(torch, (inputs, {}), module(*inputs))


def watched(act: Callable[[], Any]) -> list[tuple[str, int, int, float]]:
    """Class, calls, calls with repeated rows, and their share, of each place."""
    watch = repeats.Repeats(torch)
    watch.start()
    try:
        act()
    finally:
        watch.stop()
    assert all(found.rows for found in watch.found)
    return [(found.module, found.calls, found.repeats, round(found.share, 3)) for found in watch.found]


def test_copies_of_each_row_and_of_the_whole_batch() -> None:
    layer, x = nn.Linear(32, 8), torch.randn(6, 32)
    assert share(layer, x.repeat_interleave(4, 0)) == 0.75
    assert share(layer, x.repeat(4, 1)) == 0.75
    assert share(layer, x.unsqueeze(1).expand(6, 4, 32).reshape(24, 32)) == 0.75
    assert share(layer, x[torch.tensor([0, 3, 3, 0, 5, 0, 3, 5, 5, 0])]) == 0.7
    assert share(layer, x) == 0.0


def test_few_copies_do_not_count() -> None:
    layer, x = nn.Linear(32, 8), torch.randn(8, 32)
    assert share(layer, torch.cat([x, x[:2]])) == 0.0


def test_rows_that_differ_in_one_place_are_different_rows() -> None:
    """Of a long row some numbers are looked at first, and all of them before it counts."""
    layer, x = nn.Linear(1000, 4), torch.randn(1, 1000).repeat(8, 1)
    assert share(layer, x) == 0.875
    x[:, 777] = torch.arange(8.0)
    assert share(layer, x) == 0.0


def test_every_input_of_the_rows_counts() -> None:
    class Noisy(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, t: Any) -> Any:
            return x * t[:, None]

    x = torch.randn(2, 32).repeat(4, 1)
    assert share(Noisy(), x, torch.arange(8.0)) == 0.0
    assert share(Noisy(), x, torch.arange(2.0).repeat(4)) == 0.75


def test_results_that_differ_are_different_rows() -> None:
    x = torch.randn(2, 64).repeat(8, 1)
    assert share(nn.Dropout(0.5), x) == 0.0
    recurrent, states = nn.GRU(64, 8, batch_first=True), torch.randn(1, 16, 8)
    assert share(recurrent, x.unsqueeze(1), states) == 0.0
    assert share(recurrent, x.unsqueeze(1)) == 0.875


def test_rows_of_one_number_and_small_ones_stand_for_nothing() -> None:
    assert share(nn.Linear(32, 8), torch.ones(16, 32)) == 0.0
    assert share(nn.Linear(32, 8), torch.zeros(16, 32)) == 0.0
    assert share(nn.Linear(4, 8), torch.randn(2, 4).repeat(8, 1)) == 0.0
    assert share(nn.Embedding(4, 8), torch.tensor([[1, 2], [1, 2], [1, 2]])) == 0.0


def test_what_cannot_be_compared_is_left_out() -> None:
    x = torch.randn(2, 64).repeat(8, 1)
    assert rows.repeated(torch, (x.to(torch.complex64),), x) == 0.0
    assert rows.repeated(torch, (x,), x.to_sparse()) == 0.0
    assert rows.repeated(torch, (x,), None) == 0.0
    assert rows.repeated(torch, (x,), x.new_full((16, 4), float("nan"))) == 0.0
    assert rows.repeated(torch, (torch.empty(16, 64, device="meta"),), torch.empty(16, 64, device="meta")) == 0.0


def test_the_place_is_the_outermost_call_with_such_rows() -> None:
    model, x = nn.Sequential(nn.Linear(32, 8), nn.ReLU()), torch.randn(2, 32)
    found = watched(lambda: (model(x.repeat(4, 1)), model(x)))
    assert [entry[:3] for entry in found] == [("Sequential", 2, 1)]
    assert 0.0 < found[0][3] <= 0.75


def test_a_call_in_which_the_watching_ends_belongs_to_the_next_step() -> None:
    layer, x = nn.Linear(32, 8), torch.randn(2, 32).repeat(4, 1)
    watch = repeats.Repeats(torch)
    watch.start()
    layer(x)
    layer.register_forward_pre_hook(lambda *_: watch.stop())
    layer(x)
    assert watch.found is not None
    assert [(entry.module, entry.calls, entry.repeats, entry.share) for entry in watch.found] == [
        ("Linear", 1, 1, 0.75)
    ]
