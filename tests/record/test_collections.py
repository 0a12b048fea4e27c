"""Collections of garbage in the steps that are recorded: each with the line that called it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.paths import ROOT
from support.recording import needs_torch

from advisor.trace import read

pytestmark = needs_torch
SCRIPT = """
import gc
import torch

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = [{"number": n, "names": [str(n)]} for n in range(100_000)]
for _ in range(9):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    gc.collect()
    gc.collect(0)
"""


def test_a_collection_in_each_step_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "advisor", "record", "--steps", "3", "--skip", "2", "train.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=120, check=True)
    trace = read(tmp_path / "train.trace.json.gz")
    pauses = trace.frame("python")
    pauses = pauses[pauses["kind"] == "gc"]
    # The young generation's are not marked. The first step begins with the optimizer's step: three whole ones follow.
    assert len(pauses) == 3
    assert pauses["file"].eq("train.py").all()
    assert pauses["line"].eq(12).all()
    assert not trace.frame("ops")["name"].str.startswith("Python GC").any()
    assert bool(trace.frame("trace")["collects_each_step"].iloc[0])
