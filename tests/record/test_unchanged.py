"""Work that a step does once more, told by what operators are given in three steps."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.recording import REASON, needs_torch, record_script

from advisor.record import constants, places, unchanged

pytestmark = needs_torch
torch = pytest.importorskip("torch", reason=REASON)
nn = torch.nn
F = nn.functional


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    monkeypatch.setattr(unchanged, "_LEAST_ENTRY", 0.0)
    places.begin()
    torch.manual_seed(0)


def watched(step: Callable[[], Any], *, trains: bool = False, steps: int = 3) -> Any:
    """Repetitions, and the line of the step's function that is named for it, in order of lines; None where nothing is known."""
    watch = constants.Constants(torch, lambda: trains)
    for _ in range(steps):
        watch.start()
        try:
            step()
        finally:
            watch.stop()
    assert torch._C._len_torch_dispatch_stack() == 0
    if watch.unchanged is None:
        return None
    first = step.__code__.co_firstlineno
    return sorted((found.work, found.line - first) for found in watch.unchanged)


def encoder(width: int = 16) -> Any:
    return nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 8)).eval()


def test_an_encoder_of_the_same_prompts() -> None:
    text, image, prompts = encoder(), encoder(), torch.rand(10, 16)

    def step() -> Any:
        with torch.inference_mode():
            seen = image(torch.rand(4, 16))
            classes = F.normalize(text(prompts), dim=-1)
            return (seen @ classes.t()).argmax(1)

    assert watched(step) == [("same", 3)]
    assert watched(step, steps=2) is None


def test_a_large_table_that_is_converted_in_inference_mode() -> None:
    """torch shows .to() there as it is called, which is a view by its schema; what it makes lies elsewhere each time."""
    image, table = encoder(64), torch.rand(100_000, 8).half()
    held = []

    def step() -> Any:
        with torch.inference_mode():
            seen = image(torch.rand(4, 64))
            held.append(F.normalize(table.float(), dim=-1))
            return (seen @ held[-1].t()).argmax(1)

    assert watched(step) == [("same", 3)]


def test_weights_and_data_that_change_in_place() -> None:
    text, image, prompts = encoder(), encoder(), torch.rand(10, 16)

    def step() -> Any:
        with torch.no_grad():
            classes = text(prompts)
            text[0].weight.mul_(0.9)
            return (image(torch.rand(4, 16)) @ classes.t()).argmax(1)

    assert watched(step) == []


def test_one_batch_that_goes_through_again_and_again() -> None:
    model, x = encoder(), torch.rand(4, 16)

    def step() -> Any:
        with torch.no_grad():
            return model(x).argmax(1)

    assert watched(step) == []


def test_rows_of_a_replay_memory_that_are_drawn_again() -> None:
    """Each row is as it was, and no batch is."""
    net, rows, turns = encoder(8), [torch.rand(8) for _ in range(12)], itertools.count()

    def step() -> Any:
        turn = next(turns)
        drawn = [rows[(turn + number) % 12] for number in range(6)]
        batch = torch.cat([row.clone().unsqueeze(0) for row in drawn])
        return net(batch).argmax(1)

    assert watched(step) == []


def test_batches_that_go_round() -> None:
    model, pool = encoder(), itertools.cycle([torch.rand(4, 16) for _ in range(2)])

    def step() -> Any:
        with torch.no_grad():
            return model(next(pool)).argmax(1)

    assert watched(step) == []


def training(head: Any) -> Callable[[Any, Any], None]:
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)

    def update(features: Any, labels: Any) -> None:
        optimizer.zero_grad()
        F.cross_entropy(head(features), labels).backward()
        optimizer.step()

    return update


@pytest.mark.parametrize("order", ["indexed", "in order"])
def test_a_frozen_part_of_samples_from_memory(order: str) -> None:
    backbone, head = encoder(), nn.Linear(8, 3)
    data, labels, update = torch.rand(64, 16), torch.randint(0, 3, (64,)), training(head)
    starts = itertools.count(0, 8)

    def step() -> None:
        at = next(starts)
        index = torch.randperm(64)[:8] if order == "indexed" else slice(at, at + 8)
        with torch.no_grad():
            features = backbone(data[index])
        update(features, labels[index])

    assert watched(step, trains=True) == [("samples", 4)]
    assert watched(step, trains=False) == []


@pytest.mark.parametrize(("meet", "count"), [("pairs", 0), ("product", 0), ("within", 1)])
def test_samples_that_meet_others_of_their_batch(meet: str, count: int) -> None:
    """Pairs of samples, by comparison or product, are others in each batch; pairs within each sample are not."""
    data, labels, head = torch.rand(64, 16), torch.randint(0, 3, (64,)), nn.Linear(16, 3)
    update = training(head)

    def step() -> None:
        index = torch.randperm(64)[:8]
        x = data[index]
        if meet == "pairs":
            (x.unsqueeze(1) > x.unsqueeze(0)).any(2).all(1)
        elif meet == "product":
            x @ x.T
        else:
            x.unsqueeze(2).gt(x.unsqueeze(1))
        update(x, labels[index])

    found = watched(step, trains=True)
    assert [kind for kind, _ in found].count("samples") == count


def test_windows_that_begin_anywhere() -> None:
    backbone, head, series = encoder(), nn.Linear(8, 3), torch.rand(500, 16)
    update, starts = training(head), itertools.cycle([3, 50, 101, 17])

    def step() -> None:
        at = next(starts)
        with torch.no_grad():
            features = backbone(series[at : at + 8])
        update(features, torch.zeros(8, dtype=torch.long))

    assert watched(step, trains=True) == []


@pytest.mark.parametrize("coin", ["noise", "item", "random"])
def test_samples_that_are_augmented(coin: str) -> None:
    backbone, head = encoder(), nn.Linear(8, 3)
    data, labels, update = torch.rand(64, 16), torch.randint(0, 3, (64,)), training(head)

    def step() -> None:
        index = torch.randperm(64)[:8]
        x = data[index]
        if coin == "noise":
            x = x + 0.1 * torch.randn_like(x)
        elif (coin == "item" and torch.rand(()).item() > 2) or (coin == "random" and random.random() > 2):
            x = x.flip(1)
        with torch.no_grad():
            features = backbone(x)
        update(features, labels[index])

    assert watched(step, trains=True) == []


def test_an_evaluation_in_every_step() -> None:
    model, held_out = encoder(), torch.rand(20, 16)
    update = training(model)

    def step() -> Any:
        update(torch.rand(4, 16), torch.tensor([0, 1, 2, 3]))
        with torch.no_grad():
            return model(held_out).argmax(1)

    assert watched(step, trains=True) == [("evaluated", 3)]


def test_a_training_on_one_batch() -> None:
    model, x, y = encoder(), torch.rand(20, 16), torch.randint(0, 8, (20,))
    update = training(model)

    def step() -> None:
        update(x, y)

    assert watched(step, trains=True) == []


def test_a_program_that_builds_its_model_for_each_request_is_recorded(tmp_path: Path) -> None:
    script = (
        "import torch\nfrom torch import nn\n"
        "def predict(x):\n    net = nn.Linear(8, 4)\n    return net(x)\n"
        "with torch.no_grad():\n"
        "    prompts = torch.rand(400, 300)\n    weights = torch.rand(300, 300)\n"
        "    for request in range(40):\n"
        "        known = (prompts @ weights).relu()\n"
        "        print(predict(torch.rand(2, 8)).sum() + known.sum())\n"
    )
    record_script(script, tmp_path)
    settings = json.loads(gzip.decompress((tmp_path / "job.trace.json.gz").read_bytes()))["advisor"]
    assert settings["steps_by"] == "calls"
    assert [(found["work"], found["line"]) for found in settings["unchanged"]][:1] == [("same", 10)]


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_weights_that_autocast_converts_in_each_call(mode: Any) -> None:
    image = encoder()

    def step() -> Any:
        with mode(), torch.autocast("cpu", dtype=torch.bfloat16):
            return image(torch.rand(4, 16)).argmax(1)

    assert watched(step) == []


def test_buffers_that_ddp_broadcasts_are_no_repetition(tmp_path: Path) -> None:
    """They are copied to a flat tensor and back in each forward, and never change: that is DDP's, and no line's."""
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:

        class Model(nn.Module):  # type: ignore[misc]  # torch is not typed here
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("table", torch.rand(256, 64))
                self.register_buffer("window", torch.rand(64))
                self.layer = nn.Linear(64, 4)

            def forward(self, x: Any) -> Any:
                return self.layer(x)

        model = nn.parallel.DistributedDataParallel(Model())
        watch = constants.Constants(torch, lambda: True)
        copies = []
        for _ in range(3):
            watch.start()
            model(torch.rand(8, 64)).sum().backward()
            copies += [each for each in watch._operators if each.name == "aten::cat"]
            watch.stop()
    finally:
        dist.destroy_process_group()
    assert copies  # the broadcast was watched
    assert watch.unchanged == ()
    assert watch.found == ()
