"""A server computes in a thread of its own, and the main thread waits: its calls are steps, unless the main thread has some."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.recording import needs_torch, record_script

pytestmark = needs_torch

HEAD = """
import queue
import threading
import time
import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
inbox = queue.Queue()

def serve():
    with torch.inference_mode():
        while (request := inbox.get()) is not None:
            request[1].put(model(request[0]).relu_())
            time.sleep(0.002)

def ask(number):
    reply = queue.Queue()
    for _ in range(number):
        inbox.put((torch.ones(2, 4), reply))
        reply.get()

server = threading.Thread(target=serve, daemon={daemon})
server.start()
"""


def recorded(folder: Path) -> dict[str, Any]:
    root: dict[str, Any] = json.loads(gzip.decompress((folder / "job.trace.json.gz").read_bytes()))
    return root


@pytest.mark.parametrize("daemon", [True, False])
def test_calls_in_a_servers_thread_are_recorded_and_the_program_stops(tmp_path: Path, daemon: bool) -> None:
    script = HEAD.replace("{daemon}", str(daemon)) + "ask(100000)\nprint('to the end')\n"
    done = record_script(script, tmp_path, "--stop")
    root = recorded(tmp_path)
    assert root["advisor"]["steps_by"] in ("calls", "turns")
    assert "aten::addmm" in {event["name"] for event in root["traceEvents"]}
    assert "to the end" not in done.stdout


def test_a_servers_program_goes_on_to_its_end(tmp_path: Path) -> None:
    script = HEAD.replace("{daemon}", "False") + "ask(300)\ninbox.put(None)\nserver.join()\nprint('to the end')\n"
    done = record_script(script, tmp_path)
    assert recorded(tmp_path)["advisor"]["steps_by"] in ("calls", "turns")
    assert "to the end" in done.stdout


def test_a_training_in_the_main_thread_comes_before_calls_in_another(tmp_path: Path) -> None:
    script = (
        HEAD.replace("{daemon}", "True")
        + """
ask(5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(40):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.005)
"""
    )
    record_script(script, tmp_path)
    root = recorded(tmp_path)
    assert root["advisor"]["steps_by"] == "optimizer"
    assert any("SGD.step" in event["name"] for event in root["traceEvents"])


def test_transforms_in_a_thread_that_loads_ahead_are_no_steps(tmp_path: Path) -> None:
    script = (
        HEAD.replace("{daemon}", "True")
        + """
flip = nn.Identity()
ready = queue.Queue(4)

def load():
    while True:
        ready.put(torch.stack([flip(torch.ones(4)) for _ in range(16)]))

threading.Thread(target=load, daemon=True).start()
time.sleep(0.2)
for _ in range(60):
    with torch.no_grad():
        (model(ready.get()) * 2).sigmoid()
    time.sleep(0.005)
"""
    )
    record_script(script, tmp_path)
    root = recorded(tmp_path)
    assert root["advisor"]["steps_by"] in ("calls", "turns")
    assert "aten::sigmoid" in {event["name"] for event in root["traceEvents"]}


def test_batches_in_the_main_thread_come_before_calls_in_another(tmp_path: Path) -> None:
    script = (
        HEAD.replace("{daemon}", "True")
        + """
from torch.utils.data import DataLoader, TensorDataset

ask(5)
with torch.no_grad():
    for (x,) in DataLoader(TensorDataset(torch.ones(120, 4)), batch_size=2):
        model(x).sigmoid()
        time.sleep(0.005)
"""
    )
    record_script(script, tmp_path)
    root = recorded(tmp_path)
    assert root["advisor"]["steps_by"] == "batches"
    assert "aten::sigmoid" in {event["name"] for event in root["traceEvents"]}
