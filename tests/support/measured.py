"""Scripts run as `advisor fix` runs them: without the profiler, their steps timed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from advisor.record.measured import Measured
from support.recording import run_module


def measured(text: str, folder: Path, *options: str, arguments: tuple[str, ...] = (), code: int = 0) -> Measured:
    """Run *text* as a script, measured."""
    folder.mkdir(exist_ok=True)
    (folder / "job.py").write_text(text)
    out = folder.parent / f"{folder.name}.json"
    words = ["--out", str(out), "--root", str(folder), *options, "job.py", *arguments]
    run_module("advisor.record.measure", *words, cwd=folder, code=code)
    return msgspec.json.decode(out.read_bytes(), type=Measured)
