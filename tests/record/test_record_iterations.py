"""Programs whose optimizers step in bursts, recorded: the iteration is the step where much lies between, and else it is said."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.measured import measured
from support.recording import needs_torch, record_script

from advisor.reading.recorded_settings import read
from advisor.record.measured import Followed

pytestmark = needs_torch

HEAD = """
import time
import torch
from torch import nn

torch.set_num_threads(1)
model, other = nn.Linear(4, 4), nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
second = torch.optim.SGD(other.parameters(), lr=0.01)

def update(model=model, optimizer=optimizer):
    time.sleep(0.002)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

@torch.no_grad()
def collect(times):
    for _ in range(times):
        time.sleep(0.002)
        model(torch.ones(1, 4)).cumsum(1)
"""
ROLLOUTS = "for _ in range({times}):\n    collect(24)\n    for _ in range(12):\n        update()\n"
CRITIC = "for _ in range(60):\n    for _ in range(5):\n        update()\n    update(other, second)\n"
LOGGED = """
model = nn.Linear(4, 4, device="meta")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(12):
    for _ in range(20):
        model(torch.ones(2, 4, device="meta")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    time.sleep(0.2)
"""
VALIDATED = "for _ in range(12):\n    for _ in range(20):\n        update()\n    collect({times})\n"


def root_of(folder: Path) -> dict[str, Any]:
    root: dict[str, Any] = json.loads(gzip.decompress((folder / "job.trace.json.gz").read_bytes()))
    return root


def each_step(root: dict[str, Any], name: str) -> set[int]:
    """Counts of the operators, or annotations, whose name begins so, that a recorded step holds: one for each that differs."""
    steps = sorted(
        (event["ts"], event["ts"] + event["dur"])
        for event in root["traceEvents"]
        if event.get("cat") == "user_annotation" and event["name"].startswith("ProfilerStep#")
    )
    begun = [event["ts"] for event in root["traceEvents"] if event["name"].startswith(name)]
    return {sum(start <= at < end for at in begun) for start, end in steps}


@pytest.mark.parametrize("options", [(), ("--stop",)])
def test_a_rollout_and_its_updates_are_one_step(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = record_script(HEAD + ROLLOUTS.replace("{times}", "40") + "print('to the end')\n", tmp_path, *options)
    root = root_of(tmp_path)
    assert (root["advisor"]["steps_by"], root["advisor"]["steps_burst"]) == ("iterations", 12)
    # 24 calls of the model of some 2 ms between 12 updates: two thirds.
    assert 0.5 < root["advisor"]["between_share"] < 0.75
    assert each_step(root, "aten::cumsum") == {24}
    assert each_step(root, "Optimizer.step#SGD.step") == {12}
    assert ("to the end" in done.stdout) != bool(options)


def test_a_critic_and_its_generator_are_one_step(tmp_path: Path) -> None:
    record_script(HEAD + CRITIC, tmp_path, "--stop")
    root = root_of(tmp_path)
    assert (root["advisor"]["steps_by"], root["advisor"]["steps_burst"]) == ("iterations", 5)
    assert each_step(root, "Optimizer.step#SGD.step") == {6}


@pytest.mark.parametrize(("times", "unit"), [(2, "optimizer"), (5, "optimizer"), (30, "iterations")])
def test_the_end_of_an_epoch_is_a_step_only_where_it_takes_long(tmp_path: Path, times: int, unit: str) -> None:
    """Epochs of 20 updates; the validation behind them is as long as 2, 5 or 30 of them."""
    done = record_script(HEAD + VALIDATED.replace("{times}", str(times)), tmp_path)
    recorded = root_of(tmp_path)["advisor"]
    assert recorded["steps_by"] == unit
    assert ("lies between bursts of 20 optimizer steps, and was not recorded" in done.stderr) == (times == 5)
    if times == 5:
        assert 0.1 < recorded["between_share"] < 0.3
        assert recorded["steps_burst"] == 20


def test_steps_of_a_device_that_a_log_line_waits_for_come_in_no_bursts(tmp_path: Path) -> None:
    """The host launches twenty steps, and waits for all of them as it reads a loss. The meta device stands in for a GPU."""
    done = record_script(HEAD + LOGGED, tmp_path)
    recorded = root_of(tmp_path)["advisor"]
    assert recorded["steps_by"] == "optimizer"
    assert "between_share" not in recorded
    assert "bursts" not in done.stderr


def test_iterations_are_timed_as_they_were_recorded(tmp_path: Path) -> None:
    """A rollout of half the length is the same step, half as long."""
    record_script(HEAD + ROLLOUTS.replace("{times}", "40"), tmp_path, "--stop")
    followed = Followed.of(read(root_of(tmp_path)["advisor"]))
    shorter = ROLLOUTS.replace("{times}", "20").replace("collect(24)", "collect(6)")
    run = measured(HEAD + shorter, tmp_path / "run", *followed.options())
    assert run.unit == "iterations"
    # Of twenty bursts the ends: nineteen iterations.
    assert len(run.step_ms) == 19
    assert min(run.step_ms) > 18 * 2
