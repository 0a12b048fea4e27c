"""Extensions as patches: a copy of the package with one of ``tests/support/extend/*.patch`` applied, as a contributor would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.paths import ROOT

_COMMANDS = """
import json, sys
from click.testing import CliRunner
from advisor.cli import main
done = [CliRunner().invoke(main, words) for words in json.loads(sys.argv[1])]
print(json.dumps([[one.exit_code, one.stdout, one.stderr] for one in done]))
"""
PATCHES = Path(__file__).resolve().parent / "extend"


def patched(folder: Path, *names: str) -> Path:
    """*folder* with a copy of ``advisor/`` and ``rules/``, to which the patches *names* are applied.

    Compiled modules come along: Python takes them for files of the same size and time, those that no patch touches.
    """
    for package in ("advisor", "rules"):
        shutil.copytree(ROOT / package, folder / package)
    for name in names:
        subprocess.run(["git", "apply", "--unsafe-paths", str(PATCHES / f"{name}.patch")], cwd=folder, check=True)
    return folder


def touched(name: str) -> dict[str, tuple[int, int]]:
    """Lines that a patch adds and removes, by file."""
    counts: dict[str, tuple[int, int]] = {}
    path = ""
    for line in (PATCHES / f"{name}.patch").read_text(encoding="utf-8").splitlines():
        if line.startswith("+++ "):
            path = line[4:].removeprefix("b/")
            counts[path] = (0, 0)
        elif path and line[:1] in "+-" and not line.startswith("--- "):
            added, removed = counts[path]
            counts[path] = (added + (line[0] == "+"), removed + (line[0] == "-"))
    return counts


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``python ...`` with the package of *folder*, and nothing of the checkout."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "ADVISOR_CACHE": "off"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def commands(folder: Path, *lines: list[str]) -> list[subprocess.CompletedProcess[str]]:
    """Run ``advisor ...`` for each of *lines*, all in one process, with the package of *folder*."""
    done = run(folder, "-c", _COMMANDS, json.dumps(lines))
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    return [subprocess.CompletedProcess(line, *result) for line, result in zip(lines, results, strict=True)]
