"""A program run without a profiler: its steps are timed, and in a run for checking its first losses are kept.

``python -m advisor.record.measure --out FILE [--module] SCRIPT [ARGUMENTS]`` is started by :mod:`advisor.fix.runs`, once for each
run, in a copy of the user's tree. It seeds the generators, finds the steps as the recorder does, ends the program once enough
of them were timed, and leaves a :class:`advisor.record.measured.Measured` as JSON. A run with ``--check`` also makes what is random
repeat. Ranks that the program starts are measured in its place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from advisor.record.measured import Followed


def main(arguments: Sequence[str]) -> int:
    """Run a script, measured; returns its exit status."""
    import argparse

    parser = argparse.ArgumentParser(prog="advisor.record.measure")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--root", type=Path, required=True, help="files written elsewhere are named")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--no-dropout", dest="dropout", action="store_false", help="in a check, switch dropout off")
    parser.add_argument("--most", type=int, default=400, help="steps, at most")
    parser.add_argument("--least", type=int, default=20, help="steps, at least")
    parser.add_argument("--seconds", type=float, default=4.0, help="of steps, at least")
    Followed.declare(parser)
    parser.add_argument("--module", action="store_true")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    asked = parser.parse_args(arguments)
    from advisor.record import script
    from advisor.record.launch import rank
    from advisor.record.leaving import Finished, end_process, end_with_starter, endable
    from advisor.record.spawned import started_ranks
    from advisor.record.timed import Timed
    from advisor.record.timing import Run, most_of_ranks, of_rank, watch_files

    end_with_starter()
    followed = Followed.parsed(asked)
    number = rank()
    if number is not None:  # all ranks have to end with the same step, or one would wait for the others
        asked.most, asked.seconds = most_of_ranks(asked.most, asked.least), float("inf")
    run = Run(asked.check, asked.most, asked.least, asked.seconds, followed, dropout=asked.dropout)
    out = asked.out if number is None else of_rank(asked.out, number)
    outside = watch_files(asked.root, out) if asked.check else []
    script.prepare(asked.script, asked.arguments, module=asked.module)
    if asked.module:
        run.main = tuple(_files_of(asked.script))

    def timed(function: Callable[..., Any], _ranks: int) -> Callable[..., Any]:
        if number is not None or not run.idle:
            return function
        run.left_to_ranks = True
        return Timed(function, asked.out, asked.root, asked.check, asked.most, asked.least, followed, asked.dropout)

    status, error, elsewhere = 1, "", False
    with run.listening(), started_ranks(timed), endable():
        try:
            status = script.run(asked.script, module=asked.module)
            error = "" if status == 0 else "an exception"
        except SystemExit as leaving:
            # What ends the program early is ours, and no error.
            status = 0 if run.ended or leaving.code in (None, 0) else 1
            error = "" if status == 0 else f"exit status {leaving.code}"
            elsewhere = isinstance(leaving, Finished) and leaving.from_elsewhere
    if os.getpid() != run.pid:
        os._exit(status)
    if not run.left_to_ranks:
        run.leave(out, error, outside)
    if elsewhere:
        end_process(status)
    return status


def _files_of(module: str) -> Iterator[str]:
    """Yield the file that is run for a module, of a package its ``__main__``."""
    from importlib.util import find_spec

    spec = find_spec(module)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"{module}.__main__")  # of a package alone: else it would import the module itself
    if spec is not None and spec.origin is not None:
        yield os.path.realpath(spec.origin)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
