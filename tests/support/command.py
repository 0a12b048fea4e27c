"""The command ``advisor`` in this process, where a test asserts nothing about processes: starting one takes a second."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from subprocess import CompletedProcess

from click.testing import CliRunner

from advisor.cli import main


def command(*words: str, cwd: Path, environment: Mapping[str, str | None] | None = None) -> CompletedProcess[str]:
    """Run ``advisor`` with *words* in the folder *cwd*; in *environment* None takes a variable away."""
    with chdir(cwd):
        done = CliRunner(env=environment).invoke(main, words)
    return CompletedProcess(["advisor", *words], done.exit_code, done.stdout, done.stderr)
