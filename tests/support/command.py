"""The command ``advisor`` where a test asserts nothing about processes: starting one takes a second."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from subprocess import CompletedProcess
from threading import Timer
from types import TracebackType

from click.testing import CliRunner

from advisor.cli import main

SECONDS = 300.0
"""A command of :class:`Commands` that takes longer is ended with its process."""
_LOOP = """
import json, os, sys, tempfile
from advisor.cli import main
answers = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        os.dup2(out.fileno(), 1)
        os.dup2(errors.fileno(), 2)
        try:
            code = main(json.loads(line)) or 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        both = [(file.seek(0), file.read())[1] for file in (out, errors)]
    print(json.dumps([code, *both]), file=answers, flush=True)
"""


def command(*words: str, cwd: Path, environment: Mapping[str, str | None] | None = None) -> CompletedProcess[str]:
    """Run ``advisor`` with *words* in the folder *cwd*; in *environment* None takes a variable away."""
    with chdir(cwd):
        done = CliRunner(env=environment).invoke(main, words)
    return CompletedProcess(["advisor", *words], done.exit_code, done.stdout, done.stderr)


class Commands:
    """A process of its own, with an environment of its own, that runs one command after the other."""

    def __init__(self, environment: Mapping[str, str], cwd: Path) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([sys.executable, "-c", _LOOP], env=dict(environment), cwd=cwd, **pipes)

    def __enter__(self) -> Commands:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, *words: str) -> CompletedProcess[str]:
        """Run ``advisor`` with *words*; outputs are all that the process wrote meanwhile."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(words), file=self._process.stdin, flush=True)
        bound = Timer(SECONDS, self._process.kill)
        bound.start()
        answer = self._process.stdout.readline()
        bound.cancel()
        assert answer, f"advisor {' '.join(words)}: the process ended, or was ended after {SECONDS:g} s"
        code, out, errors = json.loads(answer)
        return CompletedProcess(["advisor", *words], code, out, errors)
