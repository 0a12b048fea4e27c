"""Scripts run as `advisor fix` runs them: without the profiler, their steps timed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from advisor.record.measured import Measured
from support.paths import ROOT


def measured(text: str, folder: Path, *options: str, arguments: tuple[str, ...] = (), code: int = 0) -> Measured:
    """Run *text* as a script, measured."""
    folder.mkdir(exist_ok=True)
    (folder / "job.py").write_text(text)
    out = folder.parent / f"{folder.name}.json"
    command = ["-m", "advisor.record.measure", "--out", str(out), "--root", str(folder), *options, "job.py", *arguments]
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stderr
    return msgspec.json.decode(out.read_bytes(), type=Measured)
