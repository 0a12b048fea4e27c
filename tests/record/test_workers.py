"""Lines at which a loader's workers spend their time: counted in real workers, and by hand."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from support.paths import ROOT
from support.recording import needs_torch, record_script

pytestmark = needs_torch
SCRIPT = """
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        total = 0
        for number in range(600_000): total += number
        return torch.full((4,), float(total))

if __name__ == "__main__":
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for step, batch in enumerate(DataLoader(Numbers(), batch_size=2, num_workers=1, multiprocessing_context="METHOD")):
        model(batch).sum().backward()
        optimizer.step()
        if step == 30:
            break
"""
FORKS = hasattr(os, "fork")


def recorded(folder: Path, method: str) -> dict[str, Any]:
    process = record_script(
        SCRIPT.replace("METHOD", method), folder, "--steps", "12", "--skip", "3", "--no-stacks", "--stop", anew=True
    )
    assert "Traceback" not in process.stderr
    settings: dict[str, Any] = json.loads(gzip.decompress((folder / "job.trace.json.gz").read_bytes()))["advisor"]
    return settings


@pytest.mark.skipif(not FORKS, reason="no fork here")
def test_the_line_that_takes_a_workers_time(tmp_path: Path) -> None:
    settings = recorded(tmp_path, "fork")
    heaviest = settings["worker_lines"][0]
    assert (heaviest["file"], heaviest["line"], heaviest["function"]) == ("job.py", 11, "Numbers.__getitem__")
    assert heaviest["share"] > 0.6
    assert settings["workers_cores"] > 0.05
    assert settings["own_cores"] > 0
    # A batch of two samples adds 1.2 million numbers: 6 ms for a Python that adds 200 million a second, which none does.
    assert settings["worker_fetch_ms"] > 5


def test_workers_that_are_not_forked_tell_nothing(tmp_path: Path) -> None:
    settings = recorded(tmp_path, "spawn")
    assert "worker_lines" not in settings
    assert "worker_fetch_ms" not in settings
    assert settings["workers_cores"] > 0.05


@pytest.mark.skipif(not FORKS, reason="no fork here")
def test_a_worker_that_is_left_behind_ends_without_a_word(tmp_path: Path) -> None:
    """The thread in a worker neither keeps it from its end, nor says anything."""
    (tmp_path / "job.py").write_text(
        "import sys, torch\n"
        "from torch.utils.data import DataLoader\n"
        "from advisor.record.hooks import Hooks\n"
        "from advisor.record.settings import Settings\n"
        "hooks = Hooks(Settings())\n"
        "hooks.install()\n"
        "batches = iter(DataLoader(range(64), num_workers=2, multiprocessing_context='fork'))\n"
        "next(batches)\n"
        "workers = batches._workers\n"
        "del batches\n"
        "assert [worker.exitcode for worker in workers] == [0, 0]\n"
        "hooks.remove()\n"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    began = time.monotonic()
    process = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
    assert time.monotonic() - began < 50


def frame_of(file: str) -> FrameType:
    """A frame of a function in *file* whose fifth line ran."""

    def load() -> FrameType:
        return sys._getframe()

    load.__code__ = load.__code__.replace(co_filename=file, co_firstlineno=4, co_qualname="load")
    return load()


def test_counts_of_two_workers_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from advisor.record import places
    from advisor.record.workers import Workers, _Counter

    monkeypatch.chdir(tmp_path)
    places.begin()
    workers = Workers()
    assert workers.summary(None)["worker_lines"] is None
    workers.starts(2)
    workers.begin()
    memory = workers._memory
    assert memory is not None
    frames = {name: frame_of(str(tmp_path / f"{name}.py")) for name in ("data", "text")}
    # Seconds by line: 3 and 1 in the first worker, 2 in the second, and 2 of it in no line of the user's.
    looks: list[list[tuple[FrameType | None, float]]] = [
        [(frames["data"], 3.0), (frames["text"], 1.0)],
        [(frames["data"], 2.0), (None, 2.0)],
    ]
    for worker, seen in enumerate(looks):
        monkeypatch.setattr("torch.utils.data.get_worker_info", lambda worker=worker: Info(worker))
        clock = [0.0]
        monkeypatch.setattr("advisor.record.workers.time.process_time", lambda clock=clock: clock[0])
        counter = _Counter(memory, 0, threading.Event(), (lambda: None).__code__)
        assert counter._begin(1)
        for frame, seconds in seen:
            clock[0] += seconds
            monkeypatch.setattr(sys, "_current_frames", lambda frame=frame: {threading.get_ident(): frame})
            counter._look()
    monkeypatch.undo()
    found = workers.summary(None)["worker_lines"]
    assert found is not None
    assert [(entry.file, entry.line, entry.function, entry.share) for entry in found] == [
        ("data.py", 5, "load", 0.625),
        ("text.py", 5, "load", 0.125),
    ]
    # Another recording counts anew, and nobody has counted yet.
    workers.begin()
    assert workers.summary(None)["worker_lines"] is None


class Info:
    """What torch says of a worker."""

    num_workers = 2

    def __init__(self, number: int) -> None:
        self.id = number
