"""Samples that are made in the loop itself: told where no call needs what another one returned, and only there."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.recording import REASON, needs_torch

from advisor.record import places, repeats

pytestmark = needs_torch
torch = pytest.importorskip("torch", reason=REASON)
nn, F = torch.nn, torch.nn.functional
MEAN = 0.4


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    places.begin()
    torch.manual_seed(0)


def depth() -> int:
    return int(torch._C._len_torch_function_stack())


def watched(act: Callable[[], Any]) -> list[tuple[str, int, int]]:
    """Class, calls and loops of each place whose calls could be one; nothing is left behind."""
    watch = repeats.Repeats(torch)
    before = depth(), torch.from_numpy, torch.Tensor.backward
    watch.start()
    try:
        act()
    finally:
        watch.stop()
    assert (depth(), torch.from_numpy, torch.Tensor.backward) == before
    assert watch.singles is not None
    return sorted((found.module, found.calls, found.loops) for found in watch.singles)


def net(out: int = 16) -> Any:
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, out)).eval()


SIX = [("Sequential", 6, 1)]


# ---- independent


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_crops_that_are_scaled_in_the_loop(mode: Any) -> None:
    model, crops = net(), [torch.rand(16) for _ in range(6)]

    def embed() -> Any:
        features = []
        with mode():
            for crop in crops:
                crop = (crop - 0.5) / 0.25
                features.append(model(crop.unsqueeze(0)).squeeze(0))
        return torch.stack(features)

    assert watched(embed) == SIX


def test_answers_that_are_read_while_the_numbers_stand_in_the_program() -> None:
    model, crops, std = net(), [torch.rand(16) for _ in range(6)], torch.tensor(0.2)

    def scaled(crop: Any) -> Any:
        return ((crop * 2 - MEAN) / std).view(1, -1)

    def classify() -> None:
        labels = []
        for crop in crops:
            label = model(scaled(crop)).argmax(-1).item()
            labels.append(label)

    assert watched(classify) == SIX


def test_windows_that_are_cut_by_a_counter() -> None:
    model, series = net(), torch.randn(200)

    def score() -> None:
        found = []
        for at in range(6):
            window = series[at * 8 : at * 8 + 16]
            window = window - window.mean()
            found.append(float(model(window[None]).sum().detach()))

    assert watched(score) == SIX


def test_sentences_that_are_made_of_lists() -> None:
    embed = nn.EmbeddingBag(100, 8)
    sentences = [[at, at + 1, at + 2, at + 5] for at in range(6)]
    assert watched(lambda: [embed(torch.tensor([ids])) for ids in sentences]) == [("EmbeddingBag", 6, 1)]


def test_rows_of_an_array_that_are_scaled_and_written_into_a_buffer() -> None:
    numpy = pytest.importorskip("numpy")
    model, rows = net(), numpy.random.rand(6, 16).astype("float32")

    def run() -> None:
        out = torch.empty(6, 16)
        with torch.inference_mode():
            for at, row in enumerate(rows):
                out[at] = model(torch.from_numpy((row - row.mean()) / row.std()).unsqueeze(0))[0]

    assert watched(run) == SIX


def test_losses_of_scaled_samples_added_up() -> None:
    model, rows, labels = net(3), torch.randn(6, 16), torch.arange(6) % 3

    def train() -> None:
        loss = 0
        for row, label in zip(rows, labels, strict=True):
            loss = loss + F.cross_entropy(model((row / 10).unsqueeze(0)), label.unsqueeze(0))
        loss.backward()

    assert watched(train) == SIX


def test_a_module_that_prepares_and_buffers_of_one() -> None:
    class Reader(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net, self.prepare = net(), nn.LayerNorm(16)
            self.register_buffer("mean", torch.randn(16))

        def forward(self, page: Any) -> Any:
            found = []
            for row in page:
                row = self.prepare(row - self.mean)
                found.append(self.net(row[None]))
            return torch.cat(found)

    model, page = Reader(), torch.randn(6, 16)
    assert watched(lambda: model(page)) == [("LayerNorm", 6, 1), ("Sequential", 6, 1)]


# ---- dependent


def test_what_is_decoded_with_functions_between() -> None:
    model, table, start = net(), torch.randn(16, 16), torch.randn(16)

    def decode() -> None:
        token = start
        for _ in range(8):
            token = table[model((token / 2).unsqueeze(0)).argmax(-1)][0] + 0.1
        token = start
        for _ in range(8):
            label = model((token / 2).unsqueeze(0)).argmax(-1).item()
            token = table[label] + 0.1 * start
        token = start
        for _ in range(8):
            label = model((token / 2).unsqueeze(0)).argmax(-1).item()
            token = F.one_hot(torch.tensor(label), 16).float() + start

    assert watched(decode) == []


def test_rows_that_an_output_chooses() -> None:
    model, rows = net(64), torch.randn(64, 16)

    def walk() -> None:
        node = torch.tensor(0)
        for _ in range(8):
            node = model(rows[node][None]).argmax()
        at = 0
        for _ in range(8):
            at = (at + 7 + model(rows[at][None]).argmax().item() ** 2) % 64

    assert watched(walk) == []


def test_what_is_refined_in_place_and_through_another_module() -> None:
    model, other, x = net(), nn.Linear(16, 16), torch.randn(1, 16)

    def refine() -> None:
        with torch.inference_mode():
            y = x.clone()
            for _ in range(8):
                y -= 0.1 * model(y * 1.0)
            z = x.clone()
            for _ in range(8):
                z = other(model(z)) + 0.5
            w = x.clone()
            for _ in range(8):
                torch.add(w, model(w / 2), out=w)

    assert watched(refine) == []


def test_a_step_width_that_was_read() -> None:
    model, x = net(), torch.randn(1, 16)

    def search() -> None:
        scale = 1.0
        for _ in range(8):
            scale = model(x * scale).sigmoid().mean().item()

    assert watched(search) == []


def test_an_environment_that_makes_its_state_anew() -> None:
    numpy = pytest.importorskip("numpy")
    model = net(2)

    def play() -> None:
        state = numpy.zeros(16, "float32")
        for at in range(8):
            action = int(model(torch.from_numpy(state).unsqueeze(0)).argmax())
            state = (state + numpy.float32(0.1) * (at + action)).astype("float32")
        values = [0.0] * 16
        for at in range(8):
            out = model(torch.tensor(values)[None])
            values = [value + 0.1 * at if out[0, 0] > 0 else value - 0.1 * at - 1 for value in values]

    assert watched(play) == []


def test_an_array_that_shares_the_memory_of_a_tensor() -> None:
    numpy = pytest.importorskip("numpy")
    model, state = net(), numpy.zeros((1, 16), "float32")

    def fill() -> None:
        shared = torch.from_numpy(state)
        with torch.no_grad():
            for _ in range(8):
                shared.copy_(model(torch.from_numpy(state + 1)))

    assert watched(fill) == []


def test_a_module_that_keeps_what_it_was_given() -> None:
    class Memory(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.kept = torch.zeros(1, 16)

        def forward(self, x: Any = None) -> Any:
            if x is not None:
                self.kept = x
            return self.kept * 1.0

    model, memory = net(), Memory()

    def run() -> None:
        with torch.no_grad():
            for _ in range(8):
                memory(model(memory() + 0.1))

    assert watched(run) == []


def test_beams_that_the_scores_choose() -> None:
    model, table = net(32), torch.randn(32, 16)

    def search() -> None:
        scores, tokens = torch.zeros(2), torch.tensor([0, 1])
        with torch.no_grad():
            for _ in range(8):
                logits = model(table[tokens] * 1.0).log_softmax(-1) + scores[:, None]
                scores, index = logits.flatten().topk(2)
                tokens = index % 32

    assert watched(search) == []


def test_numbers_that_stay_where_a_model_answers_the_same() -> None:
    model, frames, table = net(4), torch.randn(12, 8), torch.randn(4, 8)

    def transcribe() -> None:
        label = 0
        with torch.no_grad():
            for frame in frames:
                label = model(torch.cat([frame, table[label]]).unsqueeze(0)).argmax().item()

    assert watched(transcribe) == []


def a_function_of_autograd(x: Any) -> Any:
    class Doubled(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(_ctx: Any, given: Any) -> Any:
            return given * 2

    return Doubled.apply(x) + 0.1


def another_thread(x: Any) -> Any:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(lambda: x * 2 + 0.1).result()


def a_parameter(x: Any) -> Any:
    held = nn.Parameter(torch.zeros(1, 16))
    held.data = x
    return held * 0.5


@pytest.mark.parametrize(
    "update",
    [
        a_function_of_autograd,
        another_thread,
        a_parameter,
        lambda x: torch.Tensor(x.tolist()),
        lambda x: torch.frombuffer(bytearray(x.numpy().tobytes()), dtype=torch.float32)[None],
        lambda x: torch.from_numpy(x.numpy() + 1),
        lambda x: torch._foreach_add([x], 1.0)[0],
        lambda x: torch.full((1, 16), len(x[x > 0]) / 7) + x.shape[0],
        lambda x: torch.mul(x, 2.0, out=torch.empty(1, 16)),
        lambda x: torch.eye(16)[torch.multinomial(x.softmax(-1), 1)[0]] + 0.0,
    ],
)
def test_updates_that_no_function_or_an_odd_one_shows(update: Any) -> None:
    model, start = net(), torch.randn(1, 16)

    def run() -> None:
        x = start
        with torch.no_grad():
            for _ in range(8):
                x = update(model(x))

    assert watched(run) == []


# ---- the program's own modes


def counting() -> tuple[Any, list[str]]:
    seen: list[str] = []

    class Counting(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(getattr(function, "__name__", ""))
            return function(*args, **(kwargs or {}))

    return Counting, seen


def run_with_modes(mode: Any) -> Any:
    torch.manual_seed(3)
    model, crops = net(), [torch.rand(16) for _ in range(8)]
    device, found = torch.device("cpu"), []
    entered = mode()
    entered.__enter__()
    for at, crop in enumerate(crops):
        found.append(model((crop / 2).unsqueeze(0)))
        if at == 2:
            device.__enter__()
        if at == 4:
            entered.__exit__(None, None, None)
        if at == 5:
            device.__exit__(None, None, None)
        with mode():
            found.append(crop + torch.ones(16))
    return torch.cat([each.flatten() for each in found])


def test_modes_that_are_entered_and_left_meanwhile_see_what_they_would() -> None:
    mode, seen = counting()
    plain = run_with_modes(mode)
    alone = seen.copy()
    seen.clear()
    got: list[Any] = []
    assert watched(lambda: got.append(run_with_modes(mode))) == [("Sequential", 8, 1)]
    assert torch.equal(got[0], plain)
    assert seen == alone


def test_an_exception_out_of_a_call_and_a_generator_left_open() -> None:
    class Picky(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            if x.sum() > 4:
                raise ValueError("too much")
            return x * 2

    model = Picky()

    def samples() -> Any:
        with torch.no_grad():
            for at in range(9):
                yield torch.full((16,), 0.05 * at)

    def run() -> None:
        for sample in samples():
            model((sample / 1).unsqueeze(0))

    def caught() -> None:
        with pytest.raises(ValueError, match="too much"):
            run()

    assert watched(caught) == [("Picky", 7, 1)]


def test_no_mode_inside_of_modules_and_none_under_functorch() -> None:
    depths = []

    class Looks(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            depths.append(depth())
            return x * 2

    model, rows = Looks(), torch.randn(6, 16)
    between = []

    def run() -> None:
        for row in rows:
            model((row / 2)[None])
            between.append(depth())

    assert watched(run) == [("Looks", 6, 1)]
    assert not any(depths)
    assert any(between)
    assert watched(lambda: torch.func.vmap(lambda part: sum(model((part / 2)[None]) for _ in range(6)))(rows)) == []
    assert not any(depths)


def test_no_mode_in_a_backward_pass() -> None:
    model, rows, depths = net(), torch.randn(6, 16), []

    def run() -> None:
        loss = torch.zeros(())
        for row in rows:
            out = model((row / 2)[None])
            out.register_hook(lambda _grad: depths.append(depth()))
            loss = loss + out.sum()
        loss.backward()

    assert watched(run) == SIX
    assert depths == [0] * 6
