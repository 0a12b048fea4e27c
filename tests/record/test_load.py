"""The load that the recorder writes: what a thread waited for a core, and what other programs took."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.recording import needs_torch, record_script

from advisor.trace import read

pytestmark = needs_torch
SCRIPT = """
import os
import torch
import torch._dynamo  # the first step of any optimizer does, for seconds while the others have the cores

busy = os.environ["ADVISOR_TEST_BUSY"]
open(busy, "w").close()

model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(14):
    model(torch.randn(2048, 256)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
os.remove(busy)
"""
OTHER = """
import os, time
busy = os.environ["ADVISOR_TEST_BUSY"]
while not os.path.exists(busy):
    time.sleep(0.02)
while os.path.exists(busy):
    pass
"""
TOLD = Path("/proc/self/schedstat").exists()


@pytest.fixture
def others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three other programs for each core, which compute while the training does: other tests want the cores too."""
    monkeypatch.setenv("ADVISOR_TEST_BUSY", str(tmp_path / "busy"))
    count = 3 * len(os.sched_getaffinity(0))
    running = [subprocess.Popen([sys.executable, "-c", OTHER]) for _ in range(count)]
    yield
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.skipif(not TOLD, reason="the system does not say what threads wait for a core")
@pytest.mark.usefixtures("others")
def test_a_busy_machine_is_noted(tmp_path: Path) -> None:
    record_script(SCRIPT, tmp_path, "--steps", "6", "--skip", "3", "--no-stacks", anew=True)
    written = json.loads(gzip.decompress((tmp_path / "job.trace.json.gz").read_bytes()))["advisor"]
    assert written["waited_share"] > 0.05
    assert written["others_cores"] > 0.25
    import advisor

    noted = advisor.analyze(read(tmp_path / "job.trace.json.gz")).verdicts.noted
    assert "profile/busy-machine" in noted


def test_the_load_between_two_moments() -> None:
    from advisor.record.load import Load, Moment, between

    first = Moment(wall_s=10.0, own_s=4.0, children_s=2.0, machine_s=100.0, waited_s={1: 0.5, 2: 0.0})
    # Of 10 s thread 1 waited 1 and thread 2 4; of 16 s that the machine worked this process had 5, and its
    # workers 2. Thread 3 is new: unknown.
    last = Moment(wall_s=20.0, own_s=9.0, children_s=4.0, machine_s=116.0, waited_s={1: 1.5, 2: 4.0, 3: 9.0})
    assert between(first, last) == Load(waited_share=0.4, others_cores=0.9, own_cores=0.5, workers_cores=0.2)
    assert between(first, Moment(10.01, 4.0, 2.0, 100.0, {})) is None
    assert between(None, last) is None
