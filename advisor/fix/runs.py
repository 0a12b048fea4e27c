"""Runs of the user's program in a copy of its tree: recorded, or measured without a profiler."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

import advisor
from advisor.errors import UsageError
from advisor.fix.project import Project
from advisor.fix.tree import Tree
from advisor.record.leaving import STARTED_BY
from advisor.record.measured import ANY, Followed, Measured
from advisor.regex import regex

_OFFLINE = {
    "ADVISOR_VERIFY": "1",
    "WANDB_MODE": "offline",
    "COMET_MODE": "OFFLINE",
    "NEPTUNE_MODE": "offline",
    "CLEARML_OFFLINE_MODE": "1",
    "MLFLOW_TRACKING_URI": "file:mlruns",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
_TAIL, _LINES = 4000, 8
_NOT_THE_PROGRAM = regex(r"advisor: |\S*\d{4}-\d\d-\d\d[ T]\S+ .*\.cpp:\d+\] ")
"""Lines of the recorder and of torch's profiler, among those of the program."""
_UNRECORDED = regex(r"^advisor: (?:error: )?(nothing was recorded.*)", re.MULTILINE)
_PATIENCE_S = 10.0


class RunFailed(Exception):
    """The program did not run to a result; the message says how it ended, in a line, and *output* holds its last lines.

    *unrecorded* is what the recorder said of a program that ran, but of which it could record nothing.
    """

    def __init__(self, message: str, output: Sequence[str] = (), unrecorded: str = "") -> None:
        super().__init__(message)
        self.output = tuple(output)
        self.unrecorded = unrecorded

    @property
    def told(self) -> str:
        """The last lines that the program wrote, a line each, below how it ended."""
        return "\n".join([f"{self}:", *(f"  {line}" for line in self.output)]) if self.output else str(self)


class OutOfTime(Exception):
    """The budget ended in the middle of a run."""


@dataclass
class Program:
    """The user's program: what is run, how, and where. *deadline* is when the budget ends, by ``time.monotonic``."""

    project: Project
    script: str
    arguments: Sequence[str] = ()
    module: bool = False
    ranks: int = 1
    deadline: float = float("inf")
    followed: Followed = ANY
    """Steps of the runs, as the recorder found them."""
    elsewhere: list[float] = field(default_factory=list)
    """Of each run, the share of this machine's cores that other programs used meanwhile; none where that is not known."""

    def record(self, tree: Tree, out: Path) -> Path:
        """Record the program in *tree*; returns the trace, of several ranks the first's."""
        options = ["record", "--stop", "--force", "-o", str(out), *(["-m"] if self.module else [])]
        self._run(tree, ["-m", "advisor", *options, self.target(tree), *self.arguments])
        found = sorted(out.parent.glob(f"{out.name.partition('.')[0]}*.json.gz"))
        if not found:
            raise RunFailed("it was not recorded")
        return found[0]

    def measure(
        self, tree: Tree, *, check: bool = False, dropout: bool = True, most: int, least: int, seconds: float
    ) -> Measured:
        """Run the program in *tree* once, which is then as before; *dropout* may be off in a *check*.

        Raises ``RunFailed``, ``OutOfTime``.
        """
        number, name = tempfile.mkstemp(prefix="measured-", suffix=".json", dir=tree.folder.parent)
        os.close(number)
        out = Path(name)
        out.unlink()
        options = ["--out", name, "--root", str(tree.folder), "--most", str(most), "--least", str(least)]
        options += self.followed.options()
        options += ["--seconds", str(seconds), *(["--check"] if check else []), *([] if dropout else ["--no-dropout"])]
        options += [*(["--module"] if self.module else [])]
        try:
            self._run(tree, ["-m", "advisor.record.measure", *options, self.target(tree), *self.arguments])
            left = [out, *sorted(out.parent.glob(f"{out.stem}.rank*.json"))]
            results = [msgspec.json.decode(path.read_bytes(), type=Measured) for path in left if path.exists()]
        finally:
            for path in out.parent.glob(f"{out.stem}*"):
                path.unlink(missing_ok=True)
            tree.restore()
        if not results:
            raise RunFailed("it left no result")
        for result in results:
            if result.error:
                raise RunFailed(result.error)
        # A step of several ranks is over with its last: the slowest rank's times are those of the run. What is computed is
        # asked of the same rank in each run; its losses follow from the others' gradients, too.
        slowest, first = max(results, key=lambda result: sum(result.step_ms)), results[0]
        return msgspec.structs.replace(slowest, losses=first.losses, outputs=first.outputs)

    def target(self, tree: Tree) -> str:
        """Return the script as it is named in the copy: a module by its name."""
        if self.module:
            return self.script
        below = self.project.script_path
        if below is None:
            raise UsageError(f"{self.script}: lies outside {self.project.root}; name the project's folder with --root")
        return str(tree.folder / below)

    def _run(self, tree: Tree, arguments: Sequence[str]) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime
        start = [sys.executable]
        if self.ranks > 1:
            start += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.ranks)]
        folder = tree.folder / self.project.folder.relative_to(self.project.root)
        folder.mkdir(parents=True, exist_ok=True)
        before = _usage()
        with tempfile.TemporaryFile(dir=tree.folder.parent) as output:
            process = subprocess.Popen(
                [*start, *arguments], cwd=folder, env=self._environment(tree), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                status = process.wait(left if left < 1e6 else None)
            except subprocess.TimeoutExpired:
                raise OutOfTime from None
            finally:
                _end(process)
            if (share := _elsewhere(before, _usage())) is not None:
                self.elsewhere.append(share)
            if status:
                output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL))
                text = output.read().decode(errors="replace")
                tail = _own_lines(text, str(tree.folder), str(self.project.root))
                told = _UNRECORDED.search(text)
                last = tail[-1].strip() if tail else _ended(status)
                raise RunFailed(last, tail[-_LINES:], told[1] if told is not None else "")

    def _environment(self, tree: Tree) -> dict[str, str]:
        """Return the user's own environment, with folders of the project led to the copy, and loggers kept from sending."""
        root, copy = str(self.project.root), str(tree.folder)
        paths = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        inside = [_moved(entry, root, copy) for entry in paths]
        # An installed checkout of the project is imported from its folder: the copy has to come first.
        own = [folder for folder in (copy, os.path.join(copy, "src")) if _has_packages(folder)]
        here = str(Path(advisor.__file__).resolve().parent.parent)
        found = [*inside, *own, *([here] if here not in sys.path or not _installed(here) else [])]
        env = {**os.environ, **_OFFLINE, "PYTHONPATH": os.pathsep.join(dict.fromkeys(found))}
        env["WANDB_DIR"] = copy
        env[STARTED_BY] = str(os.getpid())
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        env["ADVISOR_CACHE"] = "off"
        return env


def _own_lines(text: str, copy: str, root: str) -> list[str]:
    """Return the lines that a program wrote itself, with the files of the copy that it ran in named as they are in the project."""
    lines = [line.rstrip() for line in text.replace(copy, root).splitlines()]
    return [line for line in lines if line and not _NOT_THE_PROGRAM.match(line)]


def _ended(status: int) -> str:
    return (
        f"it was ended by signal {-status}" if status < 0 else f"it ended with exit status {status}, and said nothing"
    )


def _usage() -> tuple[float, float, float] | None:
    """Return processor seconds so far: of all programs, of those that this process has ended, and that all cores had."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    idle = ticks[3] + ticks[4]
    second = os.sysconf("SC_CLK_TCK")
    return (sum(ticks) - idle) / second, own.ru_utime + own.ru_stime, sum(ticks) / second


def _elsewhere(before: tuple[float, float, float] | None, after: tuple[float, float, float] | None) -> float | None:
    if before is None or after is None or after[2] <= before[2]:
        return None
    busy, own, whole = (now - was for was, now in zip(before, after, strict=True))
    return min(1.0, max(0.0, (busy - own) / whole))


def _moved(entry: str, root: str, copy: str) -> str:
    full = os.path.abspath(entry)
    return copy + full[len(root) :] if full == root or full.startswith(root + os.sep) else full


def _has_packages(folder: str) -> bool:
    return any(Path(folder).glob("*/__init__.py")) or (folder.endswith("src") and any(Path(folder).glob("*.py")))


def _installed(folder: str) -> bool:
    return os.path.basename(folder) in ("site-packages", "dist-packages")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started; what does not go is killed."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
        if process.poll() is not None:
            continue  # the leader is gone: workers that it left are killed all the same
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_S)
    process.wait()
