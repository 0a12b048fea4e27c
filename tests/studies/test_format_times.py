"""CPU time of a .pftrace against that of JSON of the same run."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from support.pftrace import encode

import advisor
from advisor.testing import TraceBuilder

pytestmark = pytest.mark.study


def seconds(*paths: Path) -> list[float]:
    """CPU time of reading each, in turns, the least of nine: what else the machine does only adds to it, and to both alike."""
    taken: list[list[float]] = [[] for _ in paths]
    for _ in range(9):
        for times, path in zip(taken, paths, strict=True):
            begin = time.process_time()
            advisor.read(str(path))
            times.append(time.process_time() - begin)
    return [min(times) for times in taken]


@pytest.mark.parametrize("stages", [True, False])
def test_pftrace_takes_at_most_four_times_the_time_of_json(tmp_path: Path, stages: bool) -> None:
    b = TraceBuilder("NVIDIA H100 80GB HBM3", record_shapes=True)
    for _ in range(120):
        with b.step(), b.python("train.py(20): main"):
            b.copy("HtoD", 1 << 20, us=90, pinned=False)
            for us in range(40):
                with b.op("aten::mm", shapes=[[64, 64], [64, 64]]):
                    b.kernel("volta_sgemm_128x64_nn", us=900 + us)
            b.item()
    root = json.loads(b.to_bytes())
    like, path = tmp_path / "run.json", tmp_path / "run.pftrace"
    like.write_text(json.dumps(root))
    path.write_bytes(encode(root, stages=stages, categories=stages))
    compact, text = seconds(path, like)
    assert compact <= 4 * text
