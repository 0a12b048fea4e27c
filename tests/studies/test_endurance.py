"""Many analyses in one process: its memory, its files and its threads stay what they were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT

linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc, as Linux has it")


def figures(*options: str) -> dict[str, Any]:
    """What benchmarks/endurance.py says; in a process of its own, which nothing else has filled."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "endurance.py"), *options],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


@linux
@pytest.mark.study
def test_analyses_leave_nothing_behind() -> None:
    # 100 analyses behind 40 for warming up. A process that keeps its traces grows by twenty times as much. Fewer tell nothing: what
    # DuckDB keeps for later grows over the first 30 analyses with some 200 rules, and then goes up and down by 3 MB. The slope over
    # 15 behind 30 read -189 to 210 kB.
    found = figures("--analyses", "140", "--warm-up", "40", "--built")
    assert found["analyses"] == 140
    assert found["kb_an_analysis"] < 40, found
    assert found["files_after"] == found["files_before"]
    assert found["threads_after"] <= found["threads_before"]  # a library's thread may end meanwhile
    assert found["sockets_after"] == found["sockets_before"] == 0


@linux
@pytest.mark.study
def test_what_is_kept_is_seen() -> None:
    """The measure measures: a process that keeps each trace is told apart."""
    found = figures("--analyses", "60", "--warm-up", "20", "--built", "--keep")
    assert found["kb_an_analysis"] > 200, found
