"""Kernels and GPUs without a name: left out where names are counted, said where they are shown."""

from __future__ import annotations

import json
from pathlib import Path

from advisor.testing import TraceBuilder
from advisor.trace import Trace, read
from advisor.views.work import work_of


def trace(folder: Path, name: str, **root: object) -> Trace:
    b = TraceBuilder()
    for _ in range(3):
        with b.step(), b.op("aten::mm", shapes=[[8, 8], [8, 8]]):
            b.kernel(name, us=900, grid=[3, 1, 1])
    path = b.write(folder / "trace.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | root))
    return read(str(path))


def test_kernels_without_a_name_are_none_of_the_heaviest(tmp_path: Path) -> None:
    assert work_of(trace(tmp_path, "sgemm")).grids == {"sgemm": [1.0, 3.0]}
    assert work_of(trace(tmp_path, "")).grids == {}


def test_a_notebook_shows_a_trace_of_a_gpu_without_a_name(tmp_path: Path) -> None:
    assert "a GPU of no name" in trace(tmp_path, "sgemm", deviceProperties=[])._repr_html_()
