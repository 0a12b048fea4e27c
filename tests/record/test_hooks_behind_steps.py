"""Hooks behind optimizers' steps: a recorder that rests begins to listen, or stops to, in the middle of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.recording import needs_torch

pytestmark = needs_torch


class Told:
    """Stands in for steps: counts what it is told of, and acts as an optimizer steps while nothing listens."""

    unit = "optimizer"
    trains = False
    loop = None

    def __init__(self) -> None:
        self.stepped_count = self.trained_count = 0
        self.act: Callable[[], object] = lambda: None

    def stepped(self, _optimizer: int) -> None:
        self.stepped_count += 1

    def trains_on(self, _optimizer: int) -> None:
        self.trained_count += 1
        self.act()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def hooks(told: Told) -> Iterator[Any]:
    from advisor.record.hooks import Hooks
    from advisor.record.settings import Settings

    hooks = Hooks(Settings(), told)  # type: ignore[arg-type]
    hooks.install(calls=False)
    yield hooks
    hooks.remove()


def optimizer(device: str = "cpu") -> Any:
    """An optimizer of a class of its own: torch wraps the step of each class once in a process."""
    import torch

    class Optimizer(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> None: ...

    return Optimizer([torch.zeros(2, device=device, requires_grad=True)], {"lr": 0.1})


def test_a_step_that_ends_a_rest_is_counted_once_with_a_scheduler(hooks: Any, told: Told) -> None:
    """The scheduler holds the method that stood there as it was made."""
    import torch

    own = optimizer()
    scheduler = torch.optim.lr_scheduler.StepLR(own, 10)
    hooks.rest()
    told.act = lambda: hooks.install(calls=False)
    own.step()
    scheduler.step()
    assert (hooks.updates, told.trained_count, told.stepped_count) == (1, 1, 0)
    own.step()
    assert (hooks.updates, told.trained_count, told.stepped_count) == (2, 1, 1)


@pytest.mark.parametrize("act", ["install", "remove"])
def test_a_program_with_hooks_of_its_own_steps_on_where_ours_begin_or_end(hooks: Any, told: Told, act: str) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    own, heard = optimizer(), []
    hooks.rest()
    other = register_optimizer_step_post_hook(lambda *_: heard.append(True))
    told.act = getattr(hooks, act)
    own.step()
    own.step()
    other.remove()
    assert heard == [True, True]
    assert told.stepped_count == (act == "install")
    assert told.trained_count == 1


@pytest.mark.parametrize(("device", "on_device"), [("cpu", False), ("meta", True)])
def test_parameters_elsewhere_than_in_the_hosts_memory_are_noted(hooks: Any, device: str, on_device: bool) -> None:
    optimizer(device).step()
    assert hooks.on_device == on_device
