"""What a program does first need not be what it is for: a calibration, an evaluation. What follows is recorded in its place."""

from __future__ import annotations

import gzip
import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest
from support.recording import needs_torch, record_script

from advisor.reading.recorded_settings import read
from advisor.record.measured import Followed

pytestmark = needs_torch

HEAD = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

def loader(batches):
    return DataLoader(TensorDataset(torch.ones(batches * 2, 4)), batch_size=2)

def infer(batches, seconds=0.0):
    with torch.no_grad():
        for (x,) in loader(batches):
            model(x)
            time.sleep(seconds)

def train(steps, seconds=0.0):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number in range(steps):
        model(torch.ones(2, 4)).sum().backward()
        time.sleep(seconds)
        optimizer.step()
        optimizer.zero_grad()

CALIBRATE = [model(torch.ones(2, 4)) for _ in range({calls})]
"""


def recorded(folder: Path) -> tuple[str, set[str]]:
    """What steps were found by, and the operators of the recording."""
    root: dict[str, Any] = json.loads(gzip.decompress((folder / "job.trace.json.gz").read_bytes()))
    return root["advisor"]["steps_by"], {event["name"] for event in root["traceEvents"]}


@pytest.mark.parametrize("options", [(), ("--stop",)])
@pytest.mark.parametrize("calls", [20, 11])  # with 11 the loader begins while calls are recorded
def test_batches_behind_a_calibration_are_recorded(tmp_path: Path, calls: int, options: tuple[str, ...]) -> None:
    script = HEAD.replace("{calls}", str(calls)) + "infer(30)\nprint('to the end')\n"
    done = record_script(script, tmp_path, *options)
    assert recorded(tmp_path)[0] == "batches"
    assert "they take the place of the steps by call of the model" in done.stderr
    assert ("to the end" in done.stdout) != bool(options)


def test_a_program_that_only_calls_is_stopped_all_the_same(tmp_path: Path) -> None:
    more = "for _ in range(100000):\n    model(torch.ones(2, 4))\n    time.sleep(0.005)\n"
    done = record_script(HEAD.replace("{calls}", "0") + more + "print('to the end')\n", tmp_path, "--stop")
    assert recorded(tmp_path)[0] == "calls"
    assert "to the end" not in done.stdout


def test_training_behind_an_evaluation_is_recorded_where_it_takes_longer(tmp_path: Path) -> None:
    script = HEAD.replace("{calls}", "0") + "infer(30)\ntrain(60, 0.02)\n"
    done = record_script(script, tmp_path)
    unit, operators = recorded(tmp_path)
    assert unit == "optimizer"
    assert "autograd::engine::evaluate_function: AddmmBackward0" in operators
    assert "they take the place of the steps by batch" in done.stderr


def test_a_small_fit_behind_much_inference_is_not(tmp_path: Path) -> None:
    script = HEAD.replace("{calls}", "0") + "infer(60, 0.05)\ntrain(30)\n"
    done = record_script(script, tmp_path)
    assert recorded(tmp_path)[0] == "batches"
    assert "take the place" not in done.stderr


def test_a_few_batches_behind_calls_change_nothing(tmp_path: Path) -> None:
    script = HEAD.replace("{calls}", "0") + "for _ in range(40):\n    model(torch.ones(2, 4))\ninfer(4)\n"
    done = record_script(script, tmp_path)
    assert recorded(tmp_path)[0] == "calls"
    assert done.stderr.count("advisor: wrote") == 1


def test_training_behind_an_evaluation_behind_a_calibration_is_recorded(tmp_path: Path) -> None:
    script = HEAD.replace("{calls}", "20") + "infer(20)\ntrain(60, 0.02)\n"
    record_script(script, tmp_path)
    assert recorded(tmp_path)[0] == "optimizer"


CALLS = "for _ in range({calls}):\n    model(torch.ones(2, 4))\n    time.sleep(0.02)\n"


@pytest.mark.parametrize("options", [(), ("--skip", "8")])
@pytest.mark.parametrize("fitted", [30, 12, 6])  # recorded whole, broken off, not recorded
def test_calls_behind_a_short_fit_are_recorded(tmp_path: Path, fitted: int, options: tuple[str, ...]) -> None:
    script = HEAD.replace("{calls}", "0") + f"train({fitted})\n" + CALLS.replace("{calls}", "150")
    record_script(script, tmp_path, *options)
    unit, operators = recorded(tmp_path)
    assert unit == "calls"
    assert "autograd::engine::evaluate_function: AddmmBackward0" not in operators


@pytest.mark.parametrize(("fitted", "unit"), [(11, "calls"), (13, "calls"), (40, "optimizer")])
def test_with_stop_a_training_is_recorded_that_goes_on_behind_its_recording(
    tmp_path: Path, fitted: int, unit: str
) -> None:
    script = (
        HEAD.replace("{calls}", "0") + f"train({fitted})\n" + CALLS.replace("{calls}", "300") + "print('to the end')\n"
    )
    done = record_script(script, tmp_path, "--stop")
    assert recorded(tmp_path)[0] == unit
    assert "to the end" not in done.stdout


def test_a_run_follows_the_prompts_that_were_recorded_behind_a_short_fit(tmp_path: Path) -> None:
    """Each prompt calls the model several times, as the training does, whose loop turns first."""
    prompts = "for prompt in range(40):\n    for token in range(3):\n        model(torch.ones(2, 4))\n        time.sleep(0.02)\n"
    record_script(HEAD.replace("{calls}", "0") + "train(6)\n" + prompts, tmp_path)
    root = json.loads(gzip.decompress((tmp_path / "job.trace.json.gz").read_bytes()))
    followed = Followed.of(read(root["advisor"]))
    assert followed == Followed("turns", "<module>(prompt)", 5, behind=True)
    parser = ArgumentParser()
    Followed.declare(parser)
    assert Followed.parsed(parser.parse_args(followed.options())) == followed


def test_batches_behind_a_short_fit_are_recorded(tmp_path: Path) -> None:
    script = HEAD.replace("{calls}", "0") + "train(30)\ninfer(150, 0.02)\nprint('to the end')\n"
    done = record_script(script, tmp_path)
    assert recorded(tmp_path)[0] == "batches"
    assert "they take the place of the steps by optimizer step" in done.stderr
    assert "to the end" in done.stdout


def test_an_evaluation_behind_a_longer_training_is_not(tmp_path: Path) -> None:
    script = HEAD.replace("{calls}", "0") + "train(100, 0.02)\n" + CALLS.replace("{calls}", "60") + "infer(20, 0.02)\n"
    done = record_script(script, tmp_path)
    assert recorded(tmp_path)[0] == "optimizer"
    assert done.stderr.count("advisor: wrote") == 1


def test_training_that_goes_on_behind_a_long_evaluation_is_recorded(tmp_path: Path) -> None:
    script = HEAD.replace("{calls}", "0") + "train(30, 0.02)\n" + CALLS.replace("{calls}", "110") + "train(150, 0.02)\n"
    record_script(script, tmp_path)
    assert recorded(tmp_path)[0] == "optimizer"


def test_a_look_that_begins_inside_a_call_waits_for_its_end(tmp_path: Path) -> None:
    """The training ends, and the model decodes in one long call: what it calls inside are no steps."""
    script = HEAD.replace("{calls}", "0") + (
        "class Decoder(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.inner = model\n"
        "    def forward(self, x):\n        for _ in range(40):\n            x = self.inner(x)\n            time.sleep(0.005)\n"
        "        return x\n"
        "train(30)\ndecoder = Decoder()\nfor _ in range(24):\n    decoder(torch.ones(2, 4))\n"
    )
    record_script(script, tmp_path)
    root = json.loads(gzip.decompress((tmp_path / "job.trace.json.gz").read_bytes()))
    assert root["advisor"]["steps_by"] == "calls"
    assert min(root["advisor"]["unprofiled_step_ms"]) > 100


def test_a_sweep_that_makes_an_optimizer_for_each_few_steps_is_recorded(tmp_path: Path) -> None:
    script = (
        HEAD.replace("{calls}", "0")
        + """
trials = []

def trial(rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    trials.append(optimizer)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
    for _ in range(4):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()

for number in range(30):
    trial(0.01 / (1 + number))
"""
    )
    record_script(script, tmp_path)
    assert recorded(tmp_path)[0] == "optimizer"


def test_folds_that_make_a_model_each_are_recorded(tmp_path: Path) -> None:
    script = (
        HEAD.replace("{calls}", "0")
        + """
for number in range(30):
    fold = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(fold.parameters())
    for _ in range(4):
        fold(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
    )
    record_script(script, tmp_path)
    assert recorded(tmp_path)[0] == "optimizer"
