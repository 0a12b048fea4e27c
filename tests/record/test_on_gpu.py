"""Tensors that lie on a GPU, as they are watched: calls of modules are told by memory and the writes into it, and no byte is read.

Sums of rows, and bytes of constants and of matrices, are: the program waits for the device then, in steps that are not timed.
Tensors of float64 stand for those on a GPU here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.recording import REASON, needs_torch

from advisor.record import constants, draws, factors, known, places, repeats, rows, singles

pytestmark = needs_torch
torch = pytest.importorskip("torch", reason=REASON)
watching = pytest.importorskip("advisor.record.watching", reason=REASON)
nn = torch.nn
GPU = torch.float64


@pytest.fixture(autouse=True)
def _on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    places.begin()
    torch.manual_seed(0)

    def unread(original: Callable[..., bytes]) -> Callable[..., bytes]:
        def read(tensor: Any, *args: Any) -> bytes:
            assert tensor.dtype is not GPU, "this would wait for the device"
            return original(tensor, *args)

        return read

    monkeypatch.setattr(known, "on_host", lambda tensor: tensor.dtype is not GPU)
    for module in (known, repeats, rows):
        monkeypatch.setattr(module, "on_gpu", lambda tensor: tensor.dtype is GPU)
    monkeypatch.setattr(rows, "_is_plain", lambda tensor: tensor.dtype is not GPU)
    for name, modules in (("digest", (known, singles)), ("sampled", (known, repeats, constants, factors))):
        original = unread(getattr(known, name))
        for module in modules:
            monkeypatch.setattr(module, name, original)
    monkeypatch.setattr(repeats, "drawn", lambda torch, devices: draws.drawn(torch, ()))


def watched(act: Callable[[], Any], updates: Callable[[], int] = int) -> repeats.Repeats:
    watch = repeats.Repeats(torch, updates=updates)
    watch.start()
    try:
        act()
    finally:
        watch.stop()
    return watch


def one_by_one(act: Callable[[], Any]) -> list[tuple[str, int, int]]:
    """Class, calls and loops of each place whose calls could be one."""
    return [(found.module, found.calls, found.loops) for found in watched(act).singles or ()]


def again(act: Callable[[], Any], updates: Callable[[], int] = int) -> list[tuple[str, int, int]]:
    """Class, calls and repeats of each place whose calls compute again."""
    return [(found.module, found.calls, found.repeats) for found in watched(act, updates).found or ()]


def net(*layers: Any) -> Any:
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), *layers).to(GPU).eval()


# ---- rows of a batch


def of_rows(act: Callable[[], Any], *, waits: bool = True) -> tuple[bool | None, list[tuple[str, float]]]:
    """True where rows were compared, and the class and share of each place whose rows are the same."""
    watch = repeats.Repeats(torch, waits=waits)
    watch.start()
    try:
        act()
    finally:
        watch.stop()
    return watch.rows, [(found.module, found.share) for found in watch.found or () if found.rows]


def test_rows_that_were_repeated_before_a_module() -> None:
    model, users = net(), torch.randn(8, 16, dtype=GPU)
    before = torch.random.get_rng_state()

    def step() -> None:
        model(users.repeat_interleave(4, 0)).sum().backward()

    assert of_rows(step) == (True, [("Sequential", 0.75)])
    assert torch.equal(torch.random.get_rng_state(), before)


def test_rows_that_differ_in_one_number() -> None:
    model, batch = net(), torch.randn(1, 16, dtype=GPU).repeat(32, 1)
    batch[:, 11] = torch.arange(32)

    assert of_rows(lambda: model(batch)) == (True, [])


def test_rows_of_which_a_module_makes_something_else() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5)).to(GPU)
    batch = torch.randn(1, 16, dtype=GPU).repeat(32, 1)

    assert of_rows(lambda: model[1](batch)) == (True, [])


def test_long_rows_are_added_up_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_CHUNK", 64)
    batch = torch.randn(2, 100, dtype=GPU).repeat(4, 1)
    layer = nn.Linear(100, 4).to(GPU)

    assert of_rows(lambda: layer(batch)) == (True, [("Linear", 0.75)])
    batch[5, 77] += 1
    assert of_rows(lambda: layer(batch)) == (True, [("Linear", 0.625)])


def test_rows_of_ranks_and_of_graphs_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = net(), torch.randn(1, 16, dtype=GPU).repeat(32, 1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)

    assert of_rows(lambda: model(batch)) == (True, [])
    assert of_rows(lambda: model(batch), waits=False) == (False, [])


# ---- one sample after another


def test_samples_of_the_host_that_are_sent_one_by_one() -> None:
    model, crops, labels = net(), [torch.randn(16) for _ in range(6)], []

    def read() -> None:
        for crop in crops:
            with torch.no_grad():
                labels.append(model(crop.unsqueeze(0).to(GPU)).argmax(-1).item())

    assert one_by_one(read) == [("Sequential", 6, 1)]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_slices_of_a_batch_that_was_sent_at_once(mode: Any) -> None:
    model, batch = net(), torch.randn(6, 16)

    def read() -> None:
        with mode():
            sent = batch.to(GPU)
            for at in range(6):
                model(sent[at : at + 1])

    assert one_by_one(read) == [("Sequential", 6, 1)]


def test_a_list_without_a_name_that_the_loop_goes_through() -> None:
    model = net()

    def read() -> None:
        for crop, _ in [(torch.randn(1, 16, dtype=GPU), at) for at in range(6)]:
            model(crop)

    assert one_by_one(read) == [("Sequential", 6, 1)]


class Spiking(nn.Module):  # type: ignore[misc, name-defined]
    """A neuron that keeps its charge: anew in each call, or in place."""

    def __init__(self, *, in_place: bool, buffer: bool) -> None:
        super().__init__()
        self.in_place = in_place
        charge = torch.zeros(1, 16, dtype=GPU)
        if buffer:
            self.register_buffer("charge", charge)
        else:
            self.charge = charge

    def forward(self, x: Any) -> Any:
        if self.in_place:
            self.charge.add_(x)
        else:
            self.charge = self.charge + x
        return self.charge > 1


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("buffer", [True, False])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_module_that_keeps_a_state(in_place: bool, buffer: bool, mode: Any) -> None:
    model, inputs = Spiking(in_place=in_place, buffer=buffer), torch.randn(6, 1, 16, dtype=GPU)

    def run() -> None:
        with mode():
            for x in inputs:
                model(x)

    assert one_by_one(run) == []


def test_a_state_that_was_made_in_inference_mode() -> None:
    """Nothing counts the writes into it."""
    with torch.inference_mode():
        model, inputs = Spiking(in_place=True, buffer=False), torch.randn(6, 1, 16, dtype=GPU)

    def run() -> None:
        with torch.inference_mode():
            for x in inputs:
                model(x)

    assert one_by_one(run) == []


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_what_depends_on_what_a_call_returned(mode: Any) -> None:
    model, start = net(), torch.randn(1, 16, dtype=GPU)
    held, buffer = torch.randn(1, 16, dtype=GPU), torch.randn(10, 16, dtype=GPU)

    def run() -> None:
        with mode():
            token, refined = start, held.clone()
            for _ in range(8):
                token = model(token)
            for _ in range(8):
                held.sub_(0.1 * model(held))
            for _ in range(8):
                refined.sub_(0.1 * model(refined))
            for at in range(8):
                buffer[at + 1] = model(buffer[at : at + 1])[0]

    assert one_by_one(run) == []


def test_the_same_sample_again_and_again() -> None:
    model, x = net(), torch.randn(1, 16, dtype=GPU)
    assert one_by_one(lambda: [model(x) for _ in range(8)]) == []


# ---- the same again


def test_a_metric_that_calls_the_model_again() -> None:
    model, x = net(), torch.randn(8, 16, dtype=GPU)

    def train() -> None:
        model(x).sum().backward()
        with torch.no_grad():
            model(x).argmax(1)

    assert again(train) == [("Sequential", 1, 1)]


def test_layers_without_parameters() -> None:
    pool, x = nn.AvgPool1d(2), torch.randn(8, 2, 16, dtype=GPU)
    assert again(lambda: [pool(x), pool(x)]) == [("AvgPool1d", 2, 1)]


def test_dropout_draws_anew() -> None:
    model, x = net(nn.Dropout(0.5)), torch.randn(8, 16, dtype=GPU)
    assert again(lambda: [model(x), model(x)]) == [("Sequential", 2, 1)]
    model.train()
    # The layers before the dropout compute the same again.
    assert again(lambda: [model(x), model(x)]) == [("Linear", 2, 1)]


def test_numbers_that_python_or_numpy_draw() -> None:
    import random

    numpy = pytest.importorskip("numpy")

    class Depth(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, draw: Callable[[], float]) -> None:
            super().__init__()
            self.draw = draw

        def forward(self, x: Any) -> Any:
            return x * (self.draw() > 0.5)

    x = torch.randn(8, 16, dtype=GPU)
    for draw in (random.random, numpy.random.rand):
        model = Depth(draw)
        assert again(lambda model=model: [model(x), model(x)]) == []


def test_a_write_into_the_input() -> None:
    model, x = net(), torch.randn(8, 16, dtype=GPU)

    def run() -> None:
        with torch.no_grad():
            model(x)
            x.add_(1)
            model(x)

    assert again(run) == []


def test_a_write_into_a_part_of_it() -> None:
    model, x = net(), torch.randn(8, 16, dtype=GPU)

    def run() -> None:
        with torch.no_grad():
            model(x)
            x[0].zero_()
            model(x)

    assert again(run) == []


def test_another_part_of_the_same_memory() -> None:
    model, x = net(), torch.randn(8, 16, dtype=GPU)
    assert again(lambda: [model(x[:4]), model(x[4:])]) == []


def test_memory_that_another_tensor_had() -> None:
    """Each is gone before the next is made."""
    model = net()
    assert again(lambda: [model(torch.randn(8, 16, dtype=GPU)).sum() for _ in range(4)]) == []


def test_parameters_that_were_updated() -> None:
    model, x = net(), torch.randn(8, 16, dtype=GPU)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train() -> None:
        model(x).sum().backward()
        optimizer.step()
        with torch.no_grad():
            model(x)

    assert again(train) == []


def test_parameters_that_were_updated_unseen() -> None:
    """Some optimizers write past torch: their steps are counted."""
    model, x, steps = net(), torch.randn(8, 16, dtype=GPU), [0]

    def train() -> None:
        model(x)
        for parameter in model.parameters():
            parameter.data.add_(1)
        steps[0] += 1
        model(x)

    assert again(train, lambda: steps[0]) == []


def test_other_parameters_for_one_call() -> None:
    model, x = net(), torch.randn(8, 16, dtype=GPU)

    def adapt() -> None:
        weights = dict(model.named_parameters())
        for _ in range(4):
            weights = {name: weight - 0.1 for name, weight in weights.items()}
            torch.func.functional_call(model, weights, (x,))

    assert again(adapt) == []


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("buffer", [True, False])
def test_a_state_that_changes(in_place: bool, buffer: bool) -> None:
    model, x = Spiking(in_place=in_place, buffer=buffer), torch.randn(1, 16, dtype=GPU)

    def run() -> None:
        with torch.no_grad():
            for _ in range(4):
                model(x)

    assert again(run) == []


def test_another_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x, autocast = net(), torch.randn(8, 16, dtype=GPU), [False]
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda: autocast[0])

    def run() -> None:
        model(x)
        autocast[0] = True
        model(x)

    assert again(run) == []


def test_inference_mode_counts_no_writes() -> None:
    model = net()

    def run() -> None:
        with torch.inference_mode():
            x = torch.randn(8, 16, dtype=GPU)
            model(x)
            model(x)

    assert again(run) == []


# ---- programs that are not watched


def test_programs_that_compile_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that was compiled for calls of modules as they are would be compiled again."""
    counters = {"stats": {"unique_graphs": 1}}
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace(counters=counters))
    assert watching._compiles()
    counters["stats"].clear()
    assert not watching._compiles()
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils")
    assert not watching._compiles()


# ---- constants, and matrices that are decomposed


def constant_lines(step: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> list[int] | None:
    """Lines of the step's function whose operators make constants, in two steps; None where watching failed."""
    monkeypatch.setattr(constants, "LEAST_SHARE", 0.0)
    monkeypatch.setattr(constants, "_LEAST_ENTRY", 0.0)
    watch = constants.Constants(torch)
    for _ in range(2):
        watch.start()
        try:
            step()
        finally:
            watch.stop()
    if watch.found is None:
        return None
    return sorted(found.line - step.__code__.co_firstlineno for found in watch.found)


def test_constants_are_read_from_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    table = nn.Module()
    table.register_buffer("scale", torch.arange(300_000, dtype=GPU))

    def step() -> Any:
        mask = torch.full((64, 64), float("-inf"), dtype=GPU).triu(1)
        scale = table.scale / 3
        return torch.rand(64, 64, dtype=GPU) + mask, torch.rand(300_000, dtype=GPU) * scale

    assert constant_lines(step, monkeypatch) == [1, 2]


def test_memory_that_a_kernel_fills_unseen_is_no_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(10))

    def step() -> Any:
        made = torch.zeros(64, 64, dtype=GPU)
        made.numpy()[:] = next(numbers)  # as a kernel of one's own does: torch sees no write
        return made * 2

    assert constant_lines(step, monkeypatch) == []


def test_nothing_is_read_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)

    def step() -> Any:
        return torch.arange(64, dtype=GPU).cos()

    assert constant_lines(step, monkeypatch) is None


def test_a_matrix_that_is_decomposed_twice_and_an_inverse() -> None:
    kernel = torch.eye(64, dtype=GPU) + 0.1
    watch = constants.Constants(torch)
    watch.start()
    try:
        fit = torch.linalg.inv(kernel) @ torch.ones(64, 1, dtype=GPU)
        fit + torch.logdet(kernel)
        torch.logdet(kernel + torch.eye(64, dtype=GPU))
    finally:
        watch.stop()
    assert [(found.size, found.again, found.columns) for found in watch.factors or ()] == [(64, 2, 1), (64, 2, 0)]
