"""Programs of plain tensor code, recorded: no module, no optimizer and no loader, but a loop around operators."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.recording import needs_torch, record_script

pytestmark = needs_torch

HEAD = """
import sys
import time
import torch

torch.set_num_threads(1)
x = torch.ones(64, 64)

def work(x):
    time.sleep(0.004)
    return torch.tanh(x @ x)

def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
"""
NESTED = """
def solve(x, turns):
    for _ in range(turns):
        x = work(x)
    return x.cumsum(0)

def main(x):
    for step in range({steps}):
        x = solve(x, 8)
    return x

main(x)
print("to the end", sys.gettrace())
"""
AT_THE_TOP = """
turn = 0
while turn < 500:
    x = work(x)
    turn += 1
"""
CALLED = """
def objective(x):
    return work(x).cumsum(0)

list(map(objective, [x] * 500))
"""
GENERATED = """
def frames(n):
    for _ in range(n):
        yield work(torch.ones(64, 64))

print(sum(each.cumsum(0).mean().item() for each in frames(500)))
"""
WITHOUT_TENSORS = """
for _ in range(400):
    busy(0.005)
"""
LEFT_EARLY = """
def prepare(x):
    for _ in range({turns}):
        busy(0.1)
        x = torch.sin(x)

prepare(x)
for _ in range({later}):
    x = work(x)
"""
TRAINS = """
def prepare(x):
    for _ in range(300):
        x = work(x)

prepare(x)
weight = torch.zeros(4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(40):
    weight.sum().backward()
    optimizer.step()
"""
TRAINS_UNNAMED = """
def prepare(x):
    for _ in range(200):
        x = work(x)

prepare(x)
print("before", sys.gettrace() is not None)
weight = torch.zeros(4, requires_grad=True)
optimizer = getattr(torch, "opt" + "im").SGD([weight], lr=0.1)
for _ in range(40):
    weight.sum().backward()
    optimizer.step()
    time.sleep(0.01)
print("after", sys.gettrace())
"""
NEVER_TURNS = """
import threading

def wait(seconds):
    ended = time.monotonic() + seconds
    threading.Event().wait(1.0)
    print("first", sys.gettrace() is not None)
    threading.Event().wait(seconds)
    print("then", sys.gettrace())

wait(7.0)
"""


def root_of(folder: Path) -> dict[str, Any]:
    root: dict[str, Any] = json.loads(gzip.decompress((folder / "job.trace.json.gz").read_bytes()))
    return root


def each_step(root: dict[str, Any], name: str) -> list[int]:
    """Counts of an operator's calls that the recorded steps hold."""
    steps = sorted(
        (event["ts"], event["ts"] + event["dur"])
        for event in root["traceEvents"]
        if event.get("cat") == "user_annotation" and event["name"].startswith("ProfilerStep#")
    )
    begun = [event["ts"] for event in root["traceEvents"] if event["name"] == name]
    return [sum(start <= at < end for at in begun) for start, end in steps]


@pytest.mark.parametrize(("steps", "options"), [(60, ()), (120, ("--stop",))])
def test_the_outermost_loop_that_turns_often_is_the_step(tmp_path: Path, steps: int, options: tuple[str, ...]) -> None:
    done = record_script(HEAD + NESTED.format(steps=steps), tmp_path, *options)
    root = root_of(tmp_path)
    assert root["advisor"]["steps_by"] == "loops"
    assert each_step(root, "aten::cumsum") == [1] * 5
    assert each_step(root, "aten::tanh") == [8] * 5
    assert root["advisor"]["unprofiled_step_ms"]
    assert "the steps are turns of the loop in main (job.py:24)" in done.stderr
    # The program is not traced any more.
    assert ("to the end None" in done.stdout) != bool(options)
    places = {event["args"].get("Call stack", "") for event in root["traceEvents"] if event["name"] == "aten::tanh"}
    assert all("job.py(11): work" in place and "job.py(20): solve" in place for place in places), places


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (AT_THE_TOP, "the loop in <module> (job.py:19)"),
        (CALLED, "calls of objective (job.py:18)"),
        (GENERATED, "the loop in <genexpr> (job.py:22)"),
    ],
)
def test_loops_without_a_function_and_functions_without_a_loop(tmp_path: Path, body: str, place: str) -> None:
    done = record_script(HEAD + body, tmp_path, "--stop")
    assert place in done.stderr
    assert each_step(root_of(tmp_path), "aten::tanh") == [1] * 5


def test_a_loop_without_tensors_is_no_step(tmp_path: Path) -> None:
    done = record_script(HEAD + WITHOUT_TENSORS, tmp_path, code=2)
    assert "no tensor operator in the loop that takes the time (<module>, job.py:18)" in done.stderr


def test_a_loop_that_ends_while_it_is_recorded_leaves_its_whole_steps(tmp_path: Path) -> None:
    done = record_script(HEAD + LEFT_EARLY.format(turns=28, later=300), tmp_path, "--steps", "40")
    assert "the loop in prepare (job.py:19)" in done.stderr
    counted = each_step(root_of(tmp_path), "aten::sin")
    assert counted
    assert set(counted) == {1}


def test_a_loop_that_lasts_longer_takes_the_place_of_one_before_it(tmp_path: Path) -> None:
    done = record_script(HEAD + LEFT_EARLY.format(turns=20, later=1500), tmp_path)
    assert "the loop in prepare (job.py:19)" in done.stderr
    assert "the loop in <module> (job.py:24)" in done.stderr
    assert each_step(root_of(tmp_path), "aten::tanh") == [1] * 5


def test_an_optimizer_that_the_program_names_is_waited_for(tmp_path: Path) -> None:
    record_script(HEAD + TRAINS, tmp_path)
    assert root_of(tmp_path)["advisor"]["steps_by"] == "optimizer"


def test_nothing_is_traced_once_something_else_tells_of_steps(tmp_path: Path) -> None:
    done = record_script(HEAD + TRAINS_UNNAMED, tmp_path)
    assert root_of(tmp_path)["advisor"]["steps_by"] == "optimizer"
    assert done.stdout.splitlines()[-1] == "after None"


def test_nothing_is_traced_for_long_where_nothing_turns(tmp_path: Path) -> None:
    done = record_script(HEAD + NEVER_TURNS, tmp_path, code=2)
    assert done.stdout.splitlines()[-1] == "then None"
