"""Running the program in each state: each time in processes of its own, which leave the next nothing but files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
from msgspec import Struct

import advisor
from advisor.errors import UsageError
from advisor.record import require_torch
from advisor.record.ladder.machine import Machine
from advisor.record.ladder.states import Asked, Measured, Settings

PROGRAM = "train.py"
COMPILED = "torchinductor"
RECORDED_STEPS = 4
# After the steps that are recorded: one to warm the profiler up, two for stacks, and one to end on.
_AROUND = 4
LIMIT_S = 1800.0
_QUOTED = 300


class Failed(Exception):
    """A state could not be run, and why, in words for the table."""


class Run(Struct, frozen=True):
    """One state, measured without the profiler, and the trace that was recorded then."""

    measured: Measured
    trace: Path


def machine(device: str | None) -> Machine:
    """The machine. Raises ``UsageError`` where the ladder cannot be climbed on it."""
    require_torch()
    asked = [sys.executable, "-m", "advisor.record.ladder.machine", *([device] if device else [])]
    done = subprocess.run(asked, capture_output=True, text=True, env=_environment(), check=False)
    try:
        found: Machine | str = msgspec.json.decode(done.stdout, type=Machine | str)
    except msgspec.DecodeError as error:
        raise UsageError(f"torch does not run here: {_last(done.stderr)}") from error
    if isinstance(found, str):
        raise UsageError(found)
    return found


def run(settings: Settings, steps: int, folder: Path, trace: Path) -> Run:
    """Time *steps* steps of the program in *folder*, then record some in a second process. Raises ``Failed``."""
    shutil.copyfile(Path(__file__).with_name(PROGRAM), folder / PROGRAM)
    with tempfile.TemporaryDirectory(prefix="advisor-ladder-") as scratch:
        asked, result = Path(scratch) / "settings.json", Path(scratch) / "result.json"
        # Workers are some batches ahead of the loop when it begins: until these are used up, nothing waits for data.
        warmup = 5 + 2 * settings.workers
        # What torch.compile makes of this state is compiled once, and none of another state's is found.
        # It lies below the folder, so that traces name it by a path that says nothing of this machine.
        extra = {"TORCHINDUCTOR_CACHE_DIR": str(folder / COMPILED)}
        asked.write_bytes(msgspec.json.encode(Asked(settings=settings, warmup=warmup, steps=steps)))
        shutil.rmtree(folder / COMPILED, ignore_errors=True)
        _python([PROGRAM, str(asked), str(result)], folder, extra)
        measured = msgspec.json.decode(result.read_bytes(), type=Measured)
        asked.write_bytes(msgspec.json.encode(Asked(settings=settings, warmup=warmup, steps=RECORDED_STEPS + _AROUND)))
        options = ["--stop", "--force", "--steps", str(RECORDED_STEPS), "--skip", str(warmup), "-o", trace.name]
        _python(["-m", "advisor", "record", *options, PROGRAM, str(asked), str(result)], folder, extra)
        shutil.rmtree(folder / COMPILED, ignore_errors=True)
    if not trace.exists():
        raise Failed("nothing was recorded")
    return Run(measured, trace)


def _python(arguments: list[str], folder: Path, extra: dict[str, str]) -> None:
    """Run Python in *folder* until it ends. Raises ``Failed`` where it does not end well."""
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=_environment() | extra,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"had not ended after {LIMIT_S:.0f} s") from error
    if done.returncode:
        died = f"ended by signal {-done.returncode}" if done.returncode < 0 else _last(done.stderr)
        raise Failed(died or f"ended with exit code {done.returncode}")


def _environment() -> dict[str, str]:
    """The environment, in which this very advisor is found."""
    home = str(Path(advisor.__file__).resolve().parent.parent)
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))}


def _last(text: str) -> str:
    """The line of a traceback that says what happened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "Error" in line or "error:" in line]
    return (told or lines or ["it said nothing"])[-1].removeprefix("advisor: ")[:_QUOTED]
