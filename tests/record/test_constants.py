"""Constants that every step computes again: told by what operators are given in two steps, and by nothing else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.recording import REASON, needs_torch

from advisor.record import constants, places

pytestmark = needs_torch
torch = pytest.importorskip("torch", reason=REASON)
nn = torch.nn
SIZE = 50_000


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    monkeypatch.setattr(constants, "LEAST_SHARE", 0.0)
    monkeypatch.setattr(constants, "_LEAST_ENTRY", 0.0)
    places.begin()
    torch.manual_seed(0)


def watched(step: Callable[[], Any], between: Callable[[], Any] = lambda: None) -> list[tuple[int, str, float]]:
    """Line of the step's function, operator and share of each place that was found, in order of lines."""
    watch = constants.Constants(torch)
    for act in (step, step):
        watch.start()
        try:
            act()
        finally:
            watch.stop()
        between()
    assert torch._C._len_torch_dispatch_stack() == 0
    assert watch.found is not None
    first = step.__code__.co_firstlineno
    return sorted((found.line - first, found.operator, found.share) for found in watch.found)


def test_a_chain_of_numbers() -> None:
    def step() -> Any:
        t = torch.arange(SIZE, dtype=torch.float64) / 3
        w = torch.cos(t * math.pi) ** 2
        return torch.rand(SIZE) * w

    assert watched(step) == [(1, "", 1.0), (2, "", 1.0)]


def test_a_list_in_the_code_and_what_is_written_into_a_constant() -> None:
    def step() -> Any:
        taps = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0])
        kernel = taps[:, None] * taps
        kernel /= kernel.sum()
        return torch.rand(5, 5) * kernel

    assert [line for line, _, _ in watched(step)] == [1, 2, 3]


def test_a_table_of_a_buffer() -> None:
    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("frequencies", 1.0 / 10 ** torch.linspace(0, 4, 32))

    model = Rotary()

    def step() -> Any:
        angles = torch.outer(torch.arange(100.0), model.frequencies)
        return torch.rand(100, 32) * angles.cos()

    # The cosine shares its line with what varies.
    assert watched(step) == [(1, "", 1.0), (2, "aten::cos", 1.0)]

    def anneal() -> None:
        model.frequencies.mul_(0.9)

    assert watched(step, anneal) == [(1, "aten::arange", 1.0), (1, "aten::view", 1.0)]


def test_positions_that_change_with_the_step() -> None:
    count = itertools.count()

    def step() -> Any:
        t = torch.arange(SIZE) + next(count)
        return torch.sin(t / 7)

    assert watched(step) == [(1, "aten::arange", 1.0)]


def test_some_of_the_calls_of_a_line() -> None:
    lengths = itertools.cycle([1000, 2000, 3000, 1000, 2000, 4000])

    def step() -> Any:
        for _ in range(3):
            torch.hann_window(next(lengths))

    ((line, operator, share),) = watched(step)
    assert (line, operator) == (2, "aten::hann_window")
    assert 0 < share < 1


def test_what_is_random_or_comes_from_outside() -> None:
    data = torch.rand(SIZE)

    def step() -> Any:
        noise = torch.randn(SIZE).abs()
        mask = torch.empty(SIZE).bernoulli_(0.5)
        kept = nn.functional.dropout(torch.ones(SIZE))
        return noise * mask * kept + data.exp()

    assert watched(step) == []


def test_memory_that_is_filled_and_then_written() -> None:
    def step() -> Any:
        counts = torch.zeros(SIZE)
        counts.scatter_add_(0, torch.randint(0, SIZE, (9,)), torch.ones(9))
        hidden = torch.zeros(1, SIZE)
        return counts, hidden + torch.rand(SIZE)

    assert watched(step) == []


def test_memory_that_is_filled_and_then_computed_with() -> None:
    def step() -> Any:
        full = torch.full((200, 200), -math.inf)
        mask = torch.triu(full, 1)
        return torch.rand(200, 200) + mask

    assert watched(step) == [(1, "", 1.0), (2, "", 1.0)]


def test_what_is_made_to_be_written_into_by_what_varies() -> None:
    def step() -> Any:
        grid = torch.linspace(0, 1, SIZE)
        grid += torch.rand(SIZE)
        return grid

    assert watched(step) == []


def test_what_numpy_writes_into() -> None:
    numpy = pytest.importorskip("numpy")

    def step() -> Any:
        grid = torch.linspace(0, 1, SIZE)
        grid.numpy()[:] = numpy.random.rand(SIZE)
        return grid * 2

    # The second line is a view, which costs nothing.
    assert watched(step) == [(1, "", 1.0), (2, "", 1.0)]


def test_leaves_of_a_gradient() -> None:
    weight = torch.rand(SIZE, requires_grad=True)

    def step() -> Any:
        points = torch.linspace(0, 1, SIZE).requires_grad_()
        (torch.sin(points * weight) * points).sum().backward()
        weight.grad = None

    assert watched(step) == []


def test_a_step_that_the_second_one_does_not_repeat() -> None:
    count = itertools.count()

    def step() -> Any:
        return torch.sin(torch.arange(10.0)) if next(count) == 0 else None

    assert watched(step) == []


def test_modes_of_the_program() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    watch, mode = constants.Constants(torch), Mode()
    watch.start()
    mode.__enter__()
    torch.arange(3)
    watch.stop()
    assert torch._C._len_torch_dispatch_stack() == 1
    watch.start()  # nothing is watched inside the mode of another
    assert torch._C._len_torch_dispatch_stack() == 1
    mode.__exit__(None, None, None)
    assert watch.found is None


def test_an_error_inside_ends_nothing() -> None:
    watch = constants.Constants(torch)
    watch.start()
    watch._made = None  # type: ignore[assignment]
    assert float(torch.arange(3).sum()) == 3
    watch.stop()
    assert watch.found is None


def test_little_that_is_constant_is_no_reason_for_another_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "LEAST_SHARE", 1.0)
    watch = constants.Constants(torch)
    watch.start()
    torch.sin(torch.arange(10.0))
    watch.stop()
    assert not watch.worthwhile
    assert watch.found == ()
