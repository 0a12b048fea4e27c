"""Three programs with a fault each and one without: fixed in place, measured, and left otherwise as they were.

What is kept follows from timing: these run where ADVISOR_TIMED says that the cores are quiet, about three minutes on two. What
is left as it was needs no quiet machine, and runs in CI's stage with torch.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT
from support.recording import needs_torch

pytestmark = [needs_torch, pytest.mark.study]

COLLECTING = """
import gc

import torch
from torch import nn

words = {f"word{i}": {"id": i, "forms": [f"{i}a", f"{i}b"]} for i in range(60_000)}  # kept in memory
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(120):
    x = torch.randn(32, 64)
    loss = net(x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    gc.collect()  # against a leak of last year
    del x
"""
DOUBLE = """
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
table = rng.normal(size=(4096, 256))
wanted = np.tanh(table @ rng.normal(size=(256, 1)))
x = torch.from_numpy(table)
y = torch.from_numpy(wanted)
net = nn.Sequential(nn.Linear(256, 768), nn.Tanh(), nn.Linear(768, 768), nn.Tanh(), nn.Linear(768, 1)).double()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(80):
    at = torch.randint(0, 4096, (512,))
    loss = (net(x[at]) - y[at]).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
LENGTHS = """
import torch
from torch import nn

net = torch.compile(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 1)), dynamic=False)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(30):
    x = torch.randn(8 + step, 16)
    loss = net(x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
SOUND = """
import torch
from torch import nn

net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
opt = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
x = torch.randn(512, 256)
for step in range(200):
    loss = net(x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def project(folder: Path, text: str) -> Path:
    """Make a repository that holds *text* as train.py, committed."""
    folder.mkdir()
    (folder / "train.py").write_text(text)
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        ("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "a"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def command(folder: Path, *options: str) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of ``advisor fix`` in a project."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = os.environ | {"PYTHONPATH": path, "ADVISOR_MEASUREMENTS": str(folder.parent / "pairs.jsonl")}
    return [sys.executable, "-m", "advisor", "fix", *options, "train.py"], env


def state(folder: Path) -> list[str]:
    """Return what git says of a project, and its files."""
    words = (
        ["status", "--porcelain"],
        ["stash", "list"],
        ["worktree", "list"],
        ["rev-parse", "HEAD"],
        ["branch", "-a"],
    )
    told = [
        subprocess.run(["git", *one], cwd=folder, capture_output=True, text=True, check=True).stdout for one in words
    ]
    return [*told, *sorted(str(path.relative_to(folder)) for path in folder.iterdir())]


def fixed(folder: Path, budget: str = "3m") -> dict[str, Any]:
    """Fix a project in place; returns the JSON of what was done."""
    words, env = command(folder, "--apply", "--verify", "--budget", budget, "-f", "json")
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.skipif(not os.environ.get("ADVISOR_TIMED"), reason="timed: needs quiet cores and ADVISOR_TIMED=1")
@pytest.mark.parametrize(
    ("text", "edit", "after"),
    [
        pytest.param(
            COLLECTING,
            "gc-collect",
            COLLECTING.replace("    gc.collect()  # against a leak of last year\n", ""),
            id="collecting",
        ),
        pytest.param(
            DOUBLE,
            "float32",
            DOUBLE.replace("numpy(table)", "numpy(table).float()").replace("numpy(wanted)", "numpy(wanted).float()")
            .replace(".double()", ""),
            id="double",
        ),
        pytest.param(LENGTHS, "dynamic-shapes", LENGTHS.replace(", dynamic=False", ""), id="lengths"),
    ],
)  # fmt: skip
def test_a_fault_is_edited_measured_and_kept(text: str, edit: str, after: str, tmp_path: Path) -> None:
    folder = project(tmp_path / "project", text)
    before = state(folder)
    done = fixed(folder)
    kept = [one for one in done["fixes"] if one["verdict"] == "kept"]
    assert [one["edit"] for one in kept] == [edit], [(one["because"], one["timing"]) for one in done["fixes"]]
    assert (folder / "train.py").read_text() == after
    assert kept[0]["timing"]["after_ms"] < 0.9 * kept[0]["timing"]["before_ms"]
    assert [*state(folder)[1:]] == before[1:]
    pairs = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert (pairs[0]["edit"], pairs[0]["verdict"]) == (edit, "kept")


def test_a_program_without_a_fault_stays(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", SOUND)
    before = state(folder)
    done = fixed(folder, "30s")
    assert [one["edit"] for one in done["fixes"] if one["verdict"] == "kept"] == []
    assert (folder / "train.py").read_text() == SOUND
    assert state(folder) == before


def test_a_kill_leaves_the_tree_as_it_was(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", COLLECTING)
    before = state(folder)
    words, env = command(folder, "--apply", "--verify", "--budget", "2m")
    for seconds in (1.0, 8.0):
        with subprocess.Popen(
            words, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            time.sleep(seconds)
            process.send_signal(signal.SIGKILL)
        assert (folder / "train.py").read_text() == COLLECTING
        assert state(folder) == before


@pytest.mark.skipif(not os.environ.get("ADVISOR_TIMED"), reason="ten runs, some minutes: needs ADVISOR_TIMED=1")
def test_a_kill_at_ten_random_moments_leaves_the_tree_as_it_was_or_with_a_kept_fix(tmp_path: Path) -> None:
    kept = COLLECTING.replace("    gc.collect()  # against a leak of last year\n", "")
    began = time.monotonic()
    fixed(project(tmp_path / "whole", COLLECTING), "5m")
    whole = time.monotonic() - began
    moments = random.Random(20)
    for number in range(10):
        folder = project(tmp_path / f"project{number}", COLLECTING)
        before = state(folder)
        words, env = command(folder, "--apply", "--verify", "--budget", "5m")
        with subprocess.Popen(
            words, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            time.sleep(moments.uniform(0.2, 1.05 * whole))
            process.send_signal(signal.SIGKILL)
        text, after = (folder / "train.py").read_text(), state(folder)
        assert text in (COLLECTING, kept)
        assert after[0] == ("" if text == COLLECTING else " M train.py\n")
        assert after[1:] == before[1:]
