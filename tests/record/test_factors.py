"""Decompositions of one matrix, and inverses that are only multiplied: told by the bytes, and by what an inverse goes into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.recording import REASON, needs_torch

from advisor.record import constants, places

pytestmark = needs_torch
torch = pytest.importorskip("torch", reason=REASON)
N = 64


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    places.begin()
    torch.manual_seed(0)


def watched(step: Callable[[], Any]) -> list[tuple[int, int, int, bool]]:
    """Line of the step's function, decompositions of the same matrix, columns and gradient of each place that was found."""
    watch = constants.Constants(torch)
    watch.start()
    try:
        step()
    finally:
        watch.stop()
    assert watch.factors is not None
    first = step.__code__.co_firstlineno
    return sorted((found.line - first, found.again, found.columns, found.gradient) for found in watch.factors)


def kernel(*batch: int, size: int = N) -> Any:
    root = torch.randn(*batch, size, size, dtype=torch.float64)
    return root @ root.mT + torch.eye(size)


def test_an_inverse_between_two_vectors_and_a_determinant() -> None:
    matrix, r = kernel().requires_grad_(), torch.rand(N, dtype=torch.float64)

    def step() -> Any:
        fit = r @ torch.inverse(matrix) @ r
        log_det = torch.logdet(matrix)
        (fit + log_det).backward()

    assert watched(step) == [(1, 2, 1, True), (2, 2, 0, True)]


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_copies_of_a_matrix_and_views_of_an_inverse(mode: Callable[[], Any]) -> None:
    matrix, data = kernel(), torch.rand(20, N, dtype=torch.float64)

    def step() -> Any:
        with mode():
            inverse = torch.linalg.inv(matrix).T.contiguous()
            out = data @ inverse
            return out, torch.linalg.cholesky(matrix.clone())

    assert watched(step) == [(2, 2, 20, False), (4, 2, 0, False)]


def test_a_batch() -> None:
    matrix, data = kernel(5), torch.rand(5, N, 3, dtype=torch.float64)

    def step() -> Any:
        return torch.inverse(matrix) @ data

    assert watched(step) == [(1, 1, 3, False)]


def test_the_inverse_of_a_factor() -> None:
    factor, data = torch.linalg.cholesky(kernel()), torch.rand(N, 2, dtype=torch.float64)

    def step() -> Any:
        return torch.cholesky_inverse(factor) @ data + torch.cholesky_solve(data, factor)

    assert watched(step) == [(1, 1, 2, False)]


def test_inverses_of_which_something_else_is_read() -> None:
    matrix, data = kernel(), torch.rand(N, dtype=torch.float64)

    def step() -> Any:
        inverse = torch.inverse(matrix)
        kept = torch.inverse(matrix + torch.eye(N))
        return inverse @ data + inverse.diagonal().sqrt() + (kept + 1)[0]

    assert watched(step) == []


def test_matrices_that_differ_in_their_diagonal() -> None:
    matrix = kernel(size=800)

    def step() -> Any:
        return torch.logdet(matrix), torch.linalg.cholesky(matrix + 1e-9 * torch.eye(800))

    assert watched(step) == []


def test_a_factor_that_is_used_and_small_matrices() -> None:
    matrix, small, data = kernel(), kernel(size=16), torch.rand(N, 1, dtype=torch.float64)

    def step() -> Any:
        factor = torch.linalg.cholesky(matrix)
        solved = torch.cholesky_solve(data, factor), torch.linalg.solve_triangular(factor, data, upper=False)
        return solved, torch.inverse(small) @ data[:16], torch.logdet(small)

    assert watched(step) == []


def test_the_same_line_twice() -> None:
    matrix = kernel()

    def step() -> Any:
        return [torch.linalg.eigvalsh(matrix) for _ in range(3)]

    assert watched(step) == [(1, 3, 0, False)]
