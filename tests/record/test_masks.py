"""Masks of attention scores: what a softmax is given, and which part of it is ruled out, padding left aside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.recording import REASON, needs_torch

from advisor.reading.program_settings import Mask
from advisor.record import constants, places

pytestmark = needs_torch
torch = pytest.importorskip("torch", reason=REASON)

N, INF = 128, float("-inf")
AT = torch.arange(N)
EDGES = (AT[:, None] - AT) % 64 == 0  # two in each row, scattered over all tiles
OUT = torch.zeros(N, N).masked_fill(~EDGES, INF)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    places.begin()
    torch.manual_seed(0)


def masks(attend: Callable[[Any], Any], size: int = N) -> tuple[Mask, ...]:
    """Return the masks of a step that attends to two sequences."""
    watch = constants.Constants(torch)
    scores = torch.randn(2, size, size, requires_grad=True)
    watch.start()
    try:
        attend(scores * 1).sum().backward()
    finally:
        watch.stop()
    assert watch.masks is not None
    return watch.masks


@pytest.mark.parametrize(
    "attend",
    [
        lambda s: s.masked_fill(~EDGES, INF).softmax(-1),
        lambda s: s.masked_fill_(EDGES.logical_not(), -9e15).softmax(-1),
        lambda s: torch.where(EDGES, s, -1e9 * torch.ones(N, N)).softmax(1),
        lambda s: torch.where(~EDGES, torch.tensor(INF), s).softmax(-1),
        lambda s: (s + OUT).log_softmax(-1).exp(),
        lambda s: torch.baddbmm(OUT.expand(2, N, N), s, s).softmax(-1),
    ],
)
def test_the_part_that_is_ruled_out_is_counted_however_a_mask_is_written(attend: Callable[[Any], Any]) -> None:
    (mask,) = masks(attend)
    assert (mask.rows, mask.columns, mask.share, mask.tiles) == (N, N, round(1 - 2 / N, 4), 1.0)


def test_without_gradients_a_softmax_is_one_operator_of_another_name() -> None:
    watch = constants.Constants(torch)
    with torch.inference_mode():
        watch.start()
        (torch.randn(2, N, N) + OUT).softmax(-1)
        watch.stop()
    assert watch.masks is not None
    assert len(watch.masks) == 1


def test_tiles_without_anything_kept_are_counted() -> None:
    """Four sequences of 128 in a packed batch: two by two tiles of eight by eight for each."""
    owner = torch.arange(4 * N) // N
    (mask,) = masks(lambda s: s.masked_fill(owner[:, None] != owner, INF).softmax(-1), 4 * N)
    assert (mask.rows, mask.share, mask.tiles) == (4 * N, 0.75, 0.25)


def test_of_several_calls_the_least_part_counts() -> None:
    def attend(scores: Any) -> Any:
        # 3 and 15 of 128 are kept, less at the ends
        return sum(scores.masked_fill((AT[:, None] - AT).abs() > wide, INF).softmax(-1) for wide in (1, 7))

    (mask,) = masks(attend)
    assert mask.share == round(1 - (15 * N - 56) / N**2, 4)


@pytest.mark.parametrize(
    "attend",
    [
        lambda s: s.masked_fill((AT > 9)[None, None], INF).softmax(-1),  # the same for each row: padding
        lambda s: s.masked_fill(~((AT < 20)[:, None] & (AT < 20)), -1e9).softmax(-1),  # and for each column
        lambda s: s.masked_fill(AT[:, None] < AT, INF).softmax(-1),  # what lies ahead
        lambda s: s.masked_fill(~EDGES, 0.0).softmax(-1),  # rules nothing out
        lambda s: s.masked_fill(~EDGES, INF).amax(-1),  # a search, and no softmax
    ],
)
def test_padding_causal_masks_and_other_fills_are_not_told_of(attend: Callable[[Any], Any]) -> None:
    assert masks(attend) == ()
