"""Ranks that a program starts with torch.multiprocessing.spawn: two on gloo, recorded into a file each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import ROOT
from support.recording import needs_torch

from advisor.trace import read

pytestmark = needs_torch
STOPPED = """
import os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def worker(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = DistributedDataParallel(torch.nn.Linear(32, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    own = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    if rank == 1:
        own.start()
    for step in range(400):
        model(torch.randn(16, 32)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 1 and step == 20:
            own.stop()
    print("to the end")
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(sys.argv[1],), nprocs=2)
"""
SCRIPT = """
import os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def worker(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = DistributedDataParallel(torch.nn.Linear(32, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        model(torch.randn(16, 32)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(sys.argv[1],), nprocs=2)
"""


def run(folder: Path, *options: str, script: str = SCRIPT) -> subprocess.CompletedProcess[str]:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    (folder / "train.py").write_text(script)
    command = [sys.executable, "-m", "advisor", "record", "--steps", "2", "--skip", "2", *options, "train.py", port]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_each_rank_that_a_program_spawns_writes_a_file_of_its_own(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.glob("*.json.gz")) == [f"train.trace.rank{n}.json.gz" for n in (0, 1)]
    assert "nothing was recorded" not in done.stderr
    for rank in (0, 1):
        trace = read(tmp_path / f"train.trace.rank{rank}.json.gz")
        facts = trace.frame("trace").iloc[0]
        assert facts["step_count"] == 2
        assert facts["rank"] == rank
        assert trace.frame("operator_calls")["file"].eq("train.py").any()


def test_ranks_that_are_to_stop_end_together_once_both_are_recorded(tmp_path: Path) -> None:
    """The second rank has a profiler of its own for twenty steps, in which the first is recorded."""
    done = run(tmp_path, "--stop", script=STOPPED)
    assert done.returncode == 0, done.stderr
    assert "to the end" not in done.stdout
    assert "ended behind its recording" not in done.stderr
    assert "no source lines" not in done.stderr
    for rank in (0, 1):
        trace = read(tmp_path / f"train.trace.rank{rank}.json.gz")
        assert trace.frame("trace").iloc[0]["step_count"] == 2
        assert trace.frame("operator_calls")["file"].eq("train.py").any()


def test_files_of_an_earlier_run_are_kept_without_force(tmp_path: Path) -> None:
    (tmp_path / "train.trace.rank1.json.gz").write_bytes(b"mine")
    done = run(tmp_path)
    assert "exists already, so the ranks are not recorded" in done.stderr
    assert (tmp_path / "train.trace.rank1.json.gz").read_bytes() == b"mine"
    assert not (tmp_path / "train.trace.rank0.json.gz").exists()


@pytest.mark.parametrize(("stop", "written", "ends"), [(True, True, True), (True, False, False), (False, True, False)])
def test_a_rank_whose_peer_has_ended_behind_the_recording_ends_too(
    stop: bool, written: bool, ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One rank ends first, as the program is to stop, and breaks off the exchange that the other waits for."""
    from advisor.record import spawned
    from advisor.record.session import Options

    class Recording:
        def __init__(self, options: Options, say: object) -> None:
            self.written = options.path if written else None

        def begin(self) -> None: ...

        def end(self) -> None:
            ended.append(True)

    def exchange(rank: int) -> None:
        raise RuntimeError("Connection closed by peer")

    ended: list[bool] = []
    monkeypatch.setattr(spawned, "Session", Recording)
    rank = spawned.Ranked(exchange, Options(tmp_path / "t.json.gz", stop=stop))
    if ends:
        assert rank(1) is None
    else:
        with pytest.raises(RuntimeError, match="closed by peer"):
            rank(1)
    assert ended == [True]
