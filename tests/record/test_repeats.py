"""Modules that compute again what is there: found where input, parameters and output are the same, and only there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.recording import REASON, needs_torch

from advisor.record import places, repeats

pytestmark = needs_torch
torch = pytest.importorskip("torch", reason=REASON)
nn = torch.nn


class Net(nn.Module):  # type: ignore[misc, name-defined]
    """An encoder and a decoder; ``share`` says whether the caller keeps what the encoder returned."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(dropout))
        self.decoder = nn.Linear(8, 8)

    def forward(self, source: Any, target: Any) -> Any:
        memory = self.encoder(source)
        return self.decoder(target + memory)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    places.begin()


def watched(act: Callable[[], Any]) -> list[tuple[str, int, int]]:
    """Class, calls and repeats of each place that computes again."""
    watch = repeats.Repeats(torch)
    before = torch.nn.Module.__call__
    watch.start()
    try:
        act()
    finally:
        watch.stop()
    assert torch.nn.Module.__call__ is before
    return [(found.module, found.calls, found.repeats) for found in watch.found]


def test_an_encoder_that_runs_again_for_each_token() -> None:
    model, source = Net(), torch.ones(2, 8)
    with torch.no_grad():
        found = watched(lambda: [model(source, torch.full((2, 8), float(token))) for token in range(4)])
    # Line 29 alone: what runs inside the encoder is no place of its own, and the decoder's input differs.
    assert found == [("Sequential", 4, 3)]


def test_the_place_is_that_of_the_calls_and_the_share_is_of_their_time() -> None:
    model, x = Net(), torch.ones(2, 8)
    watch = repeats.Repeats(torch)
    watch.start()
    model(x, x)
    model(x, x)
    watch.stop()
    assert [(entry.file, entry.repeats, entry.calls, entry.share) for entry in watch.found] == [
        (Path(__file__).name, 1, 1, 1.0)
    ]
    assert watch.found[0].module == "Net"


def test_calls_that_compute_the_same_count_by_their_mean_time() -> None:
    def call(key: str, seconds: float, *, again: bool) -> Any:
        return repeats._Call("Net", ("net.py", 3), -1, key=(key,), seconds=seconds, again=again)

    # The first of three took 4 s of the 6, another input 2 s: two of three calls are 4 s of 8.
    calls = [call("a", 4, again=False), call("a", 1, again=True), call("b", 2, again=False), call("a", 1, again=True)]
    found = repeats._repeat([each for each in calls if each.again], calls, 8.0)
    assert found is not None
    seconds, entry = found
    assert seconds == 4.0
    assert (entry.calls, entry.repeats, entry.share) == (4, 2, 0.5)


def test_equal_values_in_another_tensor_are_the_same_input() -> None:
    model = Net()
    assert watched(lambda: [model(torch.ones(2, 8), torch.ones(2, 8)) for _ in range(2)]) == [("Net", 2, 1)]


def test_another_value_is_another_input() -> None:
    """A megabyte and more is compared by samples of it, a small one whole."""
    model, x, wide = Net(), torch.ones(2, 8), torch.ones(1 << 16, 8)
    assert watched(lambda: [model(x + 1e-6 * at, x) for at in range(2)]) == []
    assert watched(lambda: [model(wide + at, wide) for at in range(2)]) == []
    assert watched(lambda: [model(wide, wide) for _ in range(2)]) == [("Net", 2, 1)]


def test_parameters_that_were_updated_give_another_output() -> None:
    model, x = Net(), torch.ones(2, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(2):
            model(x, x).sum().backward()
            optimizer.step()

    assert watched(train) == []


def test_parameters_that_were_written_through_data_give_another_output() -> None:
    """The version that torch counts says nothing of those: the output does."""
    model, x = Net(), torch.ones(2, 8)

    def train() -> None:
        for _ in range(2):
            model(x, x)
            model.encoder[0].weight.data.add_(1.0)
            model.decoder.weight.data.add_(1.0)

    assert watched(train) == []


def test_dropout_gives_another_output() -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), torch.ones(64, 8)
    found = watched(lambda: [model(x) for _ in range(2)])
    # Its first layer has no dropout, and computes again.
    assert [name for name, _, _ in found] == ["Linear"]


def test_checkpointing_computes_again_on_purpose() -> None:
    model, x = Net(), torch.ones(2, 8, requires_grad=True)
    checkpoint = torch.utils.checkpoint.checkpoint
    assert watched(lambda: checkpoint(model, x, x, use_reentrant=False).sum().backward()) == []


def test_what_cannot_be_compared_is_left_out() -> None:
    class Odd(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, tag: Any) -> Any:
            return x

    odd, x = Odd(), torch.ones(2)
    assert watched(lambda: [odd(x, object()) for _ in range(2)]) == []
    assert watched(lambda: [odd(x.to_sparse(), 1) for _ in range(2)]) == []
    assert watched(lambda: [odd(torch.empty(2, device="meta"), 1) for _ in range(2)]) == []


def test_a_call_that_raises_raises_as_it_would() -> None:
    model = Net()

    def act() -> None:
        with pytest.raises(RuntimeError):
            model(torch.ones(2, 3), torch.ones(2, 8))
        model(torch.ones(2, 8), torch.ones(2, 8))
        model(torch.ones(2, 8), torch.ones(2, 8))

    assert watched(act) == [("Net", 1, 1)]


def test_a_call_for_a_jacobian_is_no_repetition_of_an_earlier_one() -> None:
    model, x = nn.Linear(8, 8), torch.ones(2, 8)
    assert watched(lambda: [model(x), model(x)]) == [("Linear", 2, 1)]
    assert watched(lambda: [model(x), torch.autograd.functional.jacobian(model, x)]) == []


def test_a_call_without_gradients_leaves_no_graph_to_a_later_one() -> None:
    """A policy played under no_grad, and is trained on what it saw: a backward pass goes through the second call."""
    model, x = Net(), torch.ones(2, 8)

    def play() -> Any:
        with torch.no_grad():
            return model(x, x)

    def learn() -> Any:
        return model(x, x).sum()

    assert watched(lambda: [play(), learn().backward()]) == []
    assert watched(lambda: [learn().backward(), play()]) == [("Net", 1, 1)]
    assert watched(lambda: [play(), play()]) == [("Net", 2, 1)]
