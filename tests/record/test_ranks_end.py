"""Ranks that end together: none before all of those that record are done, and all with the same step."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.recording import checked, environment, needs_torch

from advisor.record.ranks import LONGEST, Ranks


class Shared:
    """A store of several ranks in this process."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.fails = False

    def add(self, key: str, amount: int) -> int:
        self._look()
        count = int(self.values.get(key, b"0")) + amount
        self.values[key] = str(count).encode()
        return count

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        self._look()
        if self.values.get(key, b"") == expected.encode():
            self.values[key] = desired.encode()
        return self.values[key]

    def check(self, keys: list[str]) -> bool:
        self._look()
        return all(key in self.values for key in keys)

    def _look(self) -> None:
        if self.fails:
            raise RuntimeError("Connection reset by peer")


class Program:
    """Ranks that take steps in turn; ``ended`` is with which step each ended."""

    def __init__(self, count: int, recording: tuple[int, ...] | None = None) -> None:
        self.store, self.now = Shared(), 0.0
        self.ranks = [Ranks(self.store, count, lambda: self.now) for _ in range(count)]
        self.ended: dict[int, int] = {}
        self.step = 0
        for rank in range(count) if recording is None else recording:
            self.ranks[rank].begin()

    def play(self, steps: int, order: tuple[int, ...] = (0, 1)) -> None:
        for _ in range(steps):
            self.step += 1
            for rank in order:
                if rank not in self.ended and self.ranks[rank].may_end(self.step):
                    self.ended[rank] = self.step


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("first", [0, 1])
def test_a_rank_that_is_done_waits_for_the_other_and_both_end_with_one_step(first: int, order: tuple[int, ...]) -> None:
    program = Program(2)
    program.ranks[first].done()
    program.play(10, order)
    assert program.ended == {}
    program.ranks[1 - first].done()
    program.play(3, order)
    # Whichever comes first decides with step 11 that step 13 is the last.
    assert program.ended == {0: 13, 1: 13}


def test_a_rank_that_is_not_done_does_not_end() -> None:
    assert not Program(1).ranks[0].may_end(100)


def test_a_rank_that_records_alone_waits_two_seconds_for_others_to_begin() -> None:
    program = Program(2, recording=(1,))
    program.ranks[1].done()
    program.now = 2.0
    program.play(100, order=(1,))
    assert program.ended == {}
    program.now += 0.1
    program.play(1, order=(1,))
    assert program.ended == {1: 101}


def test_a_rank_that_is_done_before_another_began_waits_for_it() -> None:
    """As where ranks do not exchange in each step, and one of them was slower to import."""
    program = Program(2, recording=(0,))
    program.ranks[0].done()
    program.play(3, order=(0,))
    program.ranks[1].begin()
    program.now += 3
    program.play(5)
    assert program.ended == {}
    program.ranks[1].done()
    program.play(3)
    assert program.ended == {0: 11, 1: 11}


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_others_end_together_where_one_was_closed_before(gone: int) -> None:
    """It is done, and never asks: any of the others decides, with step 1 for step 3."""
    program = Program(3)
    for rank in program.ranks:
        rank.done()
    others = [rank for rank in range(3) if rank != gone]
    program.play(10, tuple(others))
    assert program.ended == dict.fromkeys(others, 3)


@pytest.mark.parametrize("gone", [0, 2])
def test_a_rank_that_never_comes_to_its_end_is_waited_for_a_while(gone: int) -> None:
    program = Program(3)
    others = tuple(rank for rank in range(3) if rank != gone)
    program.ranks[others[0]].done()
    program.now = LONGEST[0] - 1
    program.ranks[others[1]].done()  # for it the time is over later: the first decides for both
    program.now += 2
    program.play(LONGEST[1], others)
    assert program.ended == {}  # the first of these steps may have taken all that time, as the other wrote its file
    program.play(3, others)
    assert program.ended == dict.fromkeys(others, LONGEST[1] + 3)


def test_a_rank_that_is_done_behind_the_end_ends_at_once() -> None:
    program = Program(2)
    program.ranks[0].done()
    program.now = LONGEST[0] + 1
    program.play(LONGEST[1] + 10)
    assert program.ended == {0: LONGEST[1] + 3}
    program.ranks[1].done()
    program.play(1)
    assert program.ended[1] == program.step


def test_a_store_that_is_gone_keeps_no_rank() -> None:
    program = Program(2)
    program.ranks[0].done()
    program.store.fails = True
    program.play(1, order=(0,))
    assert program.ended == {0: 1}


# ---- ranks of gloo

OPTIONS = ("record", "--stop", "--no-stacks", "--steps", "3", "--skip", "2", "job.py")
STARTED = f"""
import os, sys
from advisor.cli import main
from advisor.record import ranks, session

count, ranks.LONGEST = int(sys.argv[1]), (float(sys.argv[2]), 20)
children = []
for rank in range(count):
    child = os.fork()
    if not child:
        os.environ |= {{"RANK": str(rank), "WORLD_SIZE": str(count)}}
        code = 1
        try:
            code = main({list(OPTIONS)!r}) or 0
        except SystemExit as left:
            code = left.code
        finally:
            sys.stdout.flush()
            os._exit(code if isinstance(code, int) else 1)
    children.append(child)
print(*[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""
"""Ranks as forks of one process, each of which records: what starts them ends none when another fails."""
JOB = """
import os, sys, time, torch
import torch.distributed as dist

rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", INIT)
exchanging = dist.new_group(EXCHANGING)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if rank in EXCHANGING:
    dist.all_reduce(torch.zeros(1), group=exchanging)  # the first connects, which takes a tenth of a second
dist.barrier()
step = 0
try:
    while step < 400:
        step += 1
        model(torch.ones(2, 4)).sum().backward()
        if rank in EXCHANGING:
            dist.all_reduce(model.weight.grad, group=exchanging)
        optimizer.step()
        time.sleep(0.01)
        if rank not in EXCHANGING and step == 7:
            EARLY
finally:
    open(f"ended{rank}", "w").write(str(step))
    # What holds the group keeps gloo's threads alive into the interpreter's end, where they abort one run in eight, recorded or
    # not (pytorch#190489).
    del exchanging
    dist.destroy_process_group()
"""
"""Steps of 10 ms, in which some ranks exchange. One that does not ends early: behind its recording, which is of steps 4 to 6."""


def ended(folder: Path) -> dict[int, int]:
    """Return the step with which each rank ended, of those that could tell."""
    return {int(path.name[5:]): int(path.read_text()) for path in folder.glob("ended*")}


@needs_torch
@pytest.mark.skipif(not hasattr(os, "fork"), reason="ranks are forked")
@pytest.mark.parametrize(
    ("early", "codes", "longest"),
    [
        ("break", "0 0 0", 60),
        ("raise ValueError('of one rank')", "1 0 0", 60),
        ("os._exit(9)", "9 0 0", 1.5),  # which tells nobody: it is waited for
    ],
    ids=["ends", "crashes", "is killed"],
)
def test_ranks_of_gloo_end_with_one_step(tmp_path: Path, early: str, codes: str, longest: float) -> None:
    """The store is a file: it outlives rank 0. Ranks that waited for 60 s would take all 400 steps."""
    exchanging = (1, 2)
    job = JOB.replace("INIT", f"init_method='file://{tmp_path / 'store'}', rank=rank, world_size=count")
    (tmp_path / "job.py").write_text(job.replace("EXCHANGING", repr(exchanging)).replace("EARLY", early))
    command = [sys.executable, "-c", STARTED, "3", str(longest)]
    done = checked(
        subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300, check=False
        ),
        0,
    )
    assert done.stdout.split("\n")[-2] == codes, done.stderr
    steps = ended(tmp_path)
    assert len({steps[rank] for rank in exchanging}) == 1, steps
    assert steps[exchanging[0]] < 400
    for rank in exchanging:
        assert (tmp_path / f"job.trace.rank{rank}.json.gz").exists()


@needs_torch
def test_ranks_of_torchrun_end_with_one_step(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "job.py").write_text(JOB.replace("INIT", "").replace("EXCHANGING", "(0, 1)").replace("EARLY", "pass"))
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port), "-m", "advisor"]
    done = subprocess.run(
        [sys.executable, *launch, *OPTIONS],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    checked(done, 0)
    steps = ended(tmp_path)
    assert steps[0] == steps[1] < 400
    for rank in (0, 1):
        root = json.loads(gzip.decompress((tmp_path / f"job.trace.rank{rank}.json.gz").read_bytes()))
        assert (root["distributedInfo"]["rank"], root["distributedInfo"]["world_size"]) == (rank, 2)
        assert sum(event["name"].startswith("ProfilerStep#") for event in root["traceEvents"]) == 3
