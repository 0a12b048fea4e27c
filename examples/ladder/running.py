"""Runs of the program in each state: each time in processes of its own, which leave the next nothing but files."""

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
from ladder.machine import Machine
from ladder.states import Measurement, Settings, Task

PROGRAM = "train.py"
COMPILED = "torchinductor"
RECORDED_STEPS = 4
# After the steps that are recorded: one to warm the profiler up, two for stacks, and one to end on.
_AROUND = 4
LIMIT_S = 1800.0
_QUOTED = 300


class Failed(Exception):
    """A state that could not be run; the message is the reason, in words for the table."""


class Run(Struct, frozen=True):
    """One state, measured without the profiler, and the trace that was recorded then."""

    measured: Measurement
    trace: Path


def machine(device: str | None) -> Machine:
    """Describe the machine. Raises ``AdvisorError`` where the ladder cannot be climbed on it."""
    command = [sys.executable, "-m", "ladder.machine", *([device] if device else [])]
    process = subprocess.run(command, capture_output=True, text=True, env=_environment(), check=False)
    try:
        answer: Machine | str = msgspec.json.decode(process.stdout, type=Machine | str)
    except msgspec.DecodeError as error:
        raise advisor.AdvisorError(f"torch does not run here: {_last(process.stderr)}") from error
    if isinstance(answer, str):
        raise advisor.AdvisorError(answer)
    return answer


def run(settings: Settings, steps: int, folder: Path, trace: Path) -> Run:
    """Time *steps* steps of the program in *folder*, then record some in a second process. Raises ``Failed``."""
    shutil.copyfile(Path(__file__).with_name(PROGRAM), folder / PROGRAM)
    with tempfile.TemporaryDirectory(prefix="advisor-ladder-") as scratch:
        task, result = Path(scratch) / "settings.json", Path(scratch) / "result.json"
        # Workers are some batches ahead of the loop when it begins: until these are used up, nothing waits for data.
        warmup = 5 + 2 * settings.workers
        # What torch.compile makes of this state is compiled once, and none of another state's is found.
        # It lies below the folder, so that traces name it by a path that says nothing of this machine.
        compiled = folder / COMPILED
        shutil.rmtree(compiled, ignore_errors=True)
        task.write_bytes(msgspec.json.encode(Task(settings=settings, warmup=warmup, steps=steps)))
        _python([PROGRAM, str(task), str(result)], folder, compiled)
        measured = msgspec.json.decode(result.read_bytes(), type=Measurement)
        task.write_bytes(msgspec.json.encode(Task(settings=settings, warmup=warmup, steps=RECORDED_STEPS + _AROUND)))
        options = ["--stop", "--force", "--steps", str(RECORDED_STEPS), "--skip", str(warmup), "-o", trace.name]
        _python(["-m", "advisor", "record", *options, PROGRAM, str(task), str(result)], folder, compiled)
        shutil.rmtree(compiled, ignore_errors=True)
    if not trace.exists():
        raise Failed("nothing was recorded")
    return Run(measured, trace)


def _python(arguments: list[str], folder: Path, compiled: Path) -> None:
    """Run Python in *folder* until it ends. Raises ``Failed`` where it does not end well."""
    try:
        process = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=_environment() | {"TORCHINDUCTOR_CACHE_DIR": str(compiled)},
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
    if process.returncode:
        reason = f"ended by signal {-process.returncode}" if process.returncode < 0 else _last(process.stderr)
        raise Failed(reason or f"ended with exit code {process.returncode}")


def _environment() -> dict[str, str]:
    """Return the environment, in which this very advisor and this very example are found."""
    packages = [Path(advisor.__file__).resolve().parents[1], Path(__file__).resolve().parents[1]]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([*map(str, packages), *filter(None, [os.environ.get("PYTHONPATH")])])
    }


def _last(text: str) -> str:
    """Find the line of a traceback that names the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "error:" in line]
    return (errors or lines or ["it said nothing"])[-1].removeprefix("advisor: ")[:_QUOTED]
