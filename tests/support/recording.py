"""For the tests of the recorder: where torch is needed, and how a script is recorded."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT

SCRIPTS = ROOT / "tests" / "scripts"
REASON = "torch is not installed here; .ci/run runs this against the torch it names"

if importlib.util.find_spec("torch") is None and os.environ.get("ADVISOR_TORCH") == "1":
    raise RuntimeError(f"ADVISOR_TORCH is set, and {REASON}")
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason=REASON)


def advisor(
    *arguments: str, cwd: Path, code: int | None = 0, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``advisor`` with *arguments* in *cwd*; fails where it does not end with *code*."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | (environment or {})
    process = subprocess.run(
        [sys.executable, "-m", "advisor", *arguments],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert code is None or process.returncode == code, f"exit {process.returncode}\n{process.stdout}\n{process.stderr}"
    return process


def record_script(text: str, folder: Path, *options: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Record the script *text*, called job.py, into job.trace.json.gz in *folder*."""
    (folder / "job.py").write_text(text)
    return advisor("record", *options, "job.py", cwd=folder, code=code)
