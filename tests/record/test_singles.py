"""Samples that go through a module one by one: told where they were there before the second call, and only there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.recording import REASON, needs_torch

from advisor.record import places, repeats

pytestmark = needs_torch
torch = pytest.importorskip("torch", reason=REASON)
nn = torch.nn


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    monkeypatch.setattr(repeats, "_MOST_SECONDS", 60.0)  # a busy machine is not what these are about
    places.begin()
    torch.manual_seed(0)


def watched(act: Callable[[], Any], batches: Callable[[], int] = int) -> list[tuple[str, int, int, float]]:
    """Class, calls, loops and share of each place whose calls could be one."""
    watch = repeats.Repeats(torch, batches)
    engine = torch.autograd._engine_run_backward
    watch.start()
    try:
        act()
    finally:
        watch.stop()
    assert torch.autograd._engine_run_backward is engine
    assert watch.singles is not None
    return [(found.module, found.calls, found.loops, round(found.share, 3)) for found in watch.singles]


def net() -> Any:
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU()).eval()


def test_tensors_in_a_list() -> None:
    model, crops = net(), [torch.randn(16) for _ in range(6)]

    def read() -> None:
        for crop in crops:
            model(crop.unsqueeze(0))

    assert watched(read) == [("Sequential", 6, 1, 1.0)]


def test_a_list_without_a_name_that_the_loop_goes_through() -> None:
    model = net()

    def read() -> None:
        for crop, _ in [(torch.randn(16), at) for at in range(6)]:
            model(crop[None])

    assert watched(read) == [("Sequential", 6, 1, 1.0)]


def test_slices_of_one_tensor_under_inference_mode() -> None:
    model, page = nn.Conv2d(1, 2, 3), torch.randn(1, 40, 40)

    def read() -> None:
        with torch.inference_mode():
            for at in range(5):
                model(page[:, 4 * at : 4 * at + 8, 4 * at : 4 * at + 8].unsqueeze(0))

    assert watched(read) == [("Conv2d", 5, 1, 1.0)]


def test_arrays_of_numpy_and_copies_of_them() -> None:
    numpy = pytest.importorskip("numpy")
    model, rows = net(), [numpy.random.rand(16).astype("float32") for _ in range(5)]

    def read() -> None:
        for row in rows:
            model(torch.from_numpy(row)[None])
        for row in rows:
            model(torch.tensor(row)[None])

    assert watched(read) == [("Sequential", 5, 1, 1.0), ("Sequential", 5, 1, 1.0)]


def test_losses_of_samples_added_up_and_a_vector_without_a_batch() -> None:
    model, x = net(), torch.randn(8, 16)

    def train() -> None:
        loss = torch.zeros(())
        for at in range(8):
            loss = loss + model(x[at]).sum()
        loss.backward()

    assert watched(train) == [("Sequential", 8, 1, 1.0)]


def test_inside_of_a_module_and_in_two_loops() -> None:
    class Outer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = net()

        def forward(self, x: Any) -> Any:
            return torch.stack([self.inner(row[None]) for row in x])

    model, pages = Outer(), torch.randn(2, 4, 16)
    assert watched(lambda: [model(page) for page in pages]) == [("Sequential", 8, 2, 1.0)]


def test_what_is_decoded_one_after_another() -> None:
    model, cell, start = net(), nn.GRUCell(16, 16), torch.randn(1, 16)
    steps = torch.randn(8, 1, 16)

    def decode() -> None:
        token, h = start, torch.zeros(1, 16)
        for _ in range(8):
            token = model(token)
        for step in steps:
            h = cell(step, h)

    assert watched(decode) == []


def test_what_is_written_into_memory_that_was_there() -> None:
    model, x, buffer = net(), torch.randn(1, 16), torch.randn(10, 16)

    def refine() -> None:
        with torch.inference_mode():
            for _ in range(8):
                x.sub_(0.1 * model(x))
            for at in range(9):
                buffer[at + 1] = model(buffer[at : at + 1])[0]

    assert watched(refine) == []


def test_an_environment_that_answers() -> None:
    numpy = pytest.importorskip("numpy")
    model, state = net(), numpy.ones(16, "float32")

    def play() -> None:
        for _ in range(8):
            answer = model(torch.from_numpy(state)[None])
            numpy.add(state, float(answer.detach().sum()), out=state)

    assert watched(play) == []


def rounds(count: int, environments: int) -> Callable[[], None]:
    """Return a program of environments side by side that answer once all of them were asked, *count* times."""
    numpy = pytest.importorskip("numpy")
    model = net()
    states = [numpy.random.rand(16).astype("float32") for _ in range(environments)]

    def play() -> None:
        for _ in range(count):
            answers = [float(model(torch.from_numpy(state)[None]).detach().sum()) for state in states]
            for at, answer in enumerate(answers):
                states[at] = states[at] * 0.9 + answer

    return play


@pytest.mark.parametrize(("count", "loops"), [(1, 1), (3, 3), (8, 8), (20, 20)])
def test_environments_that_answer_in_rounds(count: int, loops: int) -> None:
    """The observations of a round are there before its first call. Only the first four rounds are compared."""
    assert watched(rounds(count, 5)) == [("Sequential", 5 * count, loops, 1.0)]


def test_rounds_are_told_of_where_the_rest_of_the_step_takes_too_long_to_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is up within the sixth of forty rounds: the five before it are whole."""
    play, calls = rounds(40, 5), 0
    enter = repeats.Repeats._enter

    def entered(self: Any, *given: Any) -> Any:
        nonlocal calls
        calls += 1
        self._worked = 0.0 if calls < 84 else 61.0  # three modules a call: 5 x 5 x 3 are 75
        return enter(self, *given)

    monkeypatch.setattr(repeats.Repeats, "_enter", entered)
    ((kind, calls_of, loops, share),) = watched(play)
    assert (kind, calls_of, loops) == ("Sequential", 25, 5)
    assert share < 1.0  # the round that was begun is no part of it


def test_calls_in_one_round_are_not_told_of_where_watching_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "_MOST_SECONDS", -1.0)
    model, crops = net(), [torch.randn(16) for _ in range(6)]
    watch = repeats.Repeats(torch, int)
    watch.start()
    for crop in crops:
        model(crop[None])
    watch.stop()
    assert watch.singles is None


@pytest.mark.parametrize(("numbers", "found"), [(3, 1), (2, 0)])
def test_small_observations(numbers: int, found: int) -> None:
    model, states = nn.Linear(numbers, 4), torch.randn(6, numbers)
    assert len(watched(lambda: [model(state) for state in states])) == found


def test_rounds_of_three() -> None:
    """Of so few calls it is not known whether their samples were there."""
    assert watched(rounds(4, 3)) == []


def test_a_round_and_then_calls_that_need_one_another() -> None:
    model, crops = net(), [torch.randn(16) for _ in range(6)]

    def refine() -> None:
        found = crops[0]
        for at in range(20):
            found = model((crops[at] if at < 6 else found).unsqueeze(0))[0]

    ((kind, calls, loops, share),) = watched(refine)
    assert (kind, calls, loops) == ("Sequential", 6, 1)
    assert share < 0.7


def test_a_module_that_keeps_a_state() -> None:
    class Spiking(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.kept: Any = None
            self.layer = nn.Linear(16, 16)

        def forward(self, x: Any) -> Any:
            self.kept = self.layer(x) + (0 if self.kept is None else self.kept)
            return self.kept

    model, x = Spiking(), torch.randn(8, 1, 16)
    found = watched(lambda: [model(step) for step in x])
    assert [entry[0] for entry in found] == []


def test_batch_norm_in_training_and_in_inference() -> None:
    model, x = nn.Sequential(nn.Conv1d(1, 2, 3), nn.BatchNorm1d(2)), torch.randn(6, 1, 1, 16)
    assert watched(lambda: [model(row) for row in x]) == []
    model.eval()
    assert watched(lambda: [model(row) for row in x]) == [("Sequential", 6, 1, 1.0)]


def test_other_shapes_and_the_same_sample() -> None:
    model, x = nn.GRU(4, 4, batch_first=True), torch.randn(8, 20, 4)
    assert watched(lambda: [model(row[None, : 5 + at]) for at, row in enumerate(x)]) == []
    same = x[:1]
    assert watched(lambda: [model(same) for _ in range(8)]) == []


def test_some_of_another_shape_are_no_part_of_it() -> None:
    model, x = nn.GRU(4, 4, batch_first=True), torch.randn(8, 20, 4)
    ((module, calls, loops, share),) = watched(lambda: [model(row[None, : 20 - at // 6]) for at, row in enumerate(x)])
    assert (module, calls, loops) == ("GRU", 6, 1)
    assert 0.5 < share < 1.0


def test_few_calls_and_larger_batches() -> None:
    model, x = net(), torch.randn(12, 16)
    assert watched(lambda: [model(x[at : at + 1]) for at in range(3)]) == []
    assert watched(lambda: [model(x[at : at + 3]) for at in range(0, 12, 3)]) == []


def test_a_backward_pass_between_the_calls() -> None:
    model, x = net(), torch.randn(8, 16)
    assert watched(lambda: [model(row[None]).sum().backward() for row in x]) == []


def test_a_loader_that_gives_them_one_by_one() -> None:
    model, x, asked = net(), torch.randn(8, 16), [0]

    def samples() -> Iterator[Any]:
        for row in x:
            asked[0] += 1
            yield row[None].clone()

    assert watched(lambda: [model(row) for row in samples()], lambda: asked[0]) == []


def test_parameters_that_are_updated_between_them() -> None:
    model, x = net(), torch.randn(8, 16)

    def learn() -> None:
        for row in x:
            model(row[None])
            with torch.no_grad():
                model[0].weight.add_(1.0)

    assert watched(learn) == []
