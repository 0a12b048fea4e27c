"""Matrices that are nearly all zeros, as products of a step are given them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.recording import REASON, needs_torch

from advisor.reading.program_settings import Zeros
from advisor.record import constants, places

pytestmark = needs_torch
torch = pytest.importorskip("torch", reason=REASON)

N, WIDTH = 1024, 8
AT = torch.arange(N)
RING = ((AT[:, None] - AT) % N == 1).float()
"""One value in each row: 1023 of 1024 are zero."""
KEPT = round(1 - 1 / N, 5)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    places.begin()
    torch.manual_seed(0)


def zeros(step: Callable[[Any], Any], gradient: bool = True, width: int = WIDTH) -> tuple[Zeros, ...]:
    """Return what is told of a step that is given features of all rows."""
    watch = constants.Constants(torch)
    features = torch.randn(N, width, requires_grad=gradient)
    watch.start()
    try:
        result = step(features)
        if gradient:
            result.sum().backward()
    finally:
        watch.stop()
    assert watch.zeros is not None
    return watch.zeros


@pytest.mark.parametrize(
    ("step", "operator"),
    [
        (lambda x: RING @ x, "aten::mm"),
        (lambda x: RING.t() @ x, "aten::mm"),
        (lambda x: x.t() @ RING, "aten::mm"),
        (lambda x: torch.addmm(x.detach(), RING, x), "aten::addmm"),
        (lambda x: torch.matmul(RING, torch.stack([x, x])), "aten::bmm"),
        (lambda x: torch.einsum("ij,jf->if", RING, x), "aten::bmm"),
        (lambda x: torch.block_diag(RING, RING) @ torch.cat([x, x]), "aten::mm"),
    ],
)
def test_zeros_of_a_factor_are_counted_however_the_product_is_written(
    step: Callable[[Any], Any], operator: str
) -> None:
    (found,) = zeros(step)
    assert found.operator == operator
    assert found.share >= KEPT
    assert found.columns % WIDTH == 0
    assert found.file == "test_zeros.py"


def test_rows_columns_and_calls_of_a_line() -> None:
    (found,) = zeros(lambda x: RING @ x + RING @ x)
    assert (found.calls, found.size, found.columns, found.share) == (2, N * N, WIDTH, KEPT)


def test_a_matrix_that_is_full_in_another_step_is_not_nearly_all_zeros() -> None:
    """A graph that is thinned out now and then."""
    watch = constants.Constants(torch)
    features = torch.randn(N, WIDTH)
    shares = []
    for matrix in (RING, RING, torch.ones(N, N)):
        watch.start()
        _ = matrix @ features
        watch.stop()
        assert watch.worthwhile
        shares.append([(each.calls, each.share) for each in watch.zeros or ()])
    assert shares == [[(1, KEPT)], [(1, KEPT)], []]


def test_a_batch_of_none_is_counted_as_nothing() -> None:
    """An expert without tokens."""
    found = zeros(lambda x: RING @ x + torch.bmm(torch.zeros(0, N, N), torch.zeros(0, N, WIDTH)).sum())
    assert [each.columns for each in found] == [WIDTH]


def test_a_batch_that_lies_otherwise_is_thinned_out_before_it_is_copied() -> None:
    """Four transposed matrices with a value in each row."""
    (found,) = zeros(lambda x: torch.bmm(torch.stack([RING] * 4).transpose(1, 2), torch.stack([x] * 4)))
    assert found.share >= KEPT


def test_without_gradients_a_product_is_one_operator_of_another_name() -> None:
    with torch.inference_mode():
        found = zeros(RING.matmul, gradient=False)
    assert [(each.columns, each.share) for each in found] == [(WIDTH, KEPT)]


def half(x: Any) -> Any:
    return sum(matrix @ x for matrix in (RING, torch.ones(N, N)))


@pytest.mark.parametrize(
    "step",
    [
        lambda x: torch.ones(N, N).triu() @ x,  # half of it
        lambda x: torch.zeros(N, N) @ x,  # a state that nothing was written to yet
        half,  # a line that multiplies a full matrix as well
        lambda x: RING[:200, :200] @ x[:200],  # so small that a product takes no longer than its call
        lambda x: RING.requires_grad_(False).clone().requires_grad_() @ x,  # its zeros have gradients
        lambda x: RING @ x[:, :1],  # a vector
    ],
)
def test_of_others_nothing_is_told(step: Callable[[Any], Any]) -> None:
    assert zeros(step) == ()


def test_in_a_backward_pass_nothing_is_counted() -> None:
    assert len(zeros(lambda x: RING @ x)) == 1
