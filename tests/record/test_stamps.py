"""Growth of memory before the profiler began: by hand, and of two programs of which one leaks."""

from __future__ import annotations

import gzip
import json
import mmap
import os
from pathlib import Path

import pytest
from support.recording import needs_torch, record_script

pytestmark = needs_torch

SCRIPT = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
kept = []
for step in range(30):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    KEEP
"""


@pytest.mark.parametrize(
    ("held", "growth"),
    [
        ([10, 100, 130, 160], 30),  # the first step allocates what all of them keep
        ([10, 100, 160, 130], 15),
        ([10, 100, 100, 900, 900], 0),  # what was freed is kept from then on
        ([10, 100, 90, 80], 0),
        ([10, 100, 130], None),  # two steps are few
        ([10, 100, None, 160], None),
    ],
)
def test_growth_is_that_of_the_steps_behind_the_first(held: list[int | None], growth: int | None) -> None:
    from advisor.record import stamps

    assert stamps.growth([stamps.Stamp(float(at), here) for at, here in enumerate(held)]) == growth


def test_memory_is_that_of_this_process_behind_a_fork_too() -> None:
    from advisor.record import memory

    before = memory.resident()
    block = mmap.mmap(-1, 1 << 25)  # new pages: what malloc gives may have been resident before
    block.write(os.urandom(1 << 12) * (1 << 13))
    after = memory.resident()
    assert before is not None
    assert after is not None
    assert after - before > len(block) // 2
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        own = bytearray(os.urandom(1 << 12)) * (1 << 14)
        os.write(writer, f"{len(own)} {memory.resident()}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    size, told = map(int, os.read(reader, 100).split())
    assert told > size


@pytest.mark.parametrize(
    ("keep", "leaks"), [("kept.append(torch.ones(2_000_000))", True), ("torch.ones(2_000_000)", False)]
)
def test_the_recorder_tells_a_leak_from_what_is_freed(tmp_path: Path, keep: str, leaks: bool) -> None:
    # Of the three steps that are left of five, two may still be the allocator's first.
    record_script(SCRIPT.replace("KEEP", keep), tmp_path, "--skip", "15")
    settings = json.loads(gzip.decompress((tmp_path / "job.trace.json.gz").read_bytes()))["advisor"]
    grown = settings["unprofiled_growth_bytes"]
    low, high = (7_500_000, 8_500_000) if leaks else (0, 1_000_000)
    assert low <= grown < high
