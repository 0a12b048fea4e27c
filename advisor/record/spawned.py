"""Ranks that a program starts itself, with ``torch.multiprocessing.spawn``: each is recorded into a file with its rank.

The function that runs in a rank is wrapped, and the wrapper records: what starts the ranks, and how, stays as it is. So do
launchers that are built on it (Lightning's ``ddp_spawn``, accelerate's ``notebook_launcher``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch.multiprocessing

from advisor.record.session import Options, Session
from advisor.record.writing import name_for

Function = Callable[..., Any]


@dataclass(frozen=True)
class Ranked:
    """A rank's function, with a recording around it. It travels to the rank's process, so it holds only what can."""

    function: Function
    options: Options

    def __call__(self, rank: int, *arguments: Any) -> Any:
        """Run the function as the process *rank*, and record it."""
        session = Session(replace(self.options, path=_path(self.options, rank)), _say)
        session.begin()
        try:
            return self.function(rank, *arguments)
        except Exception as error:
            # Ranks do not end at the same moment, and one that has ended breaks off what another waits for.
            if not self.options.stop or session.written is None:
                raise
            _say(f"rank {rank} ended behind its recording: {type(error).__name__}")
            return None
        finally:
            session.end()


def _path(options: Options, rank: int) -> Path:
    return name_for("", str(options.path), rank)


def _say(line: str) -> None:
    from advisor.report.plain import clean

    sys.stderr.write(f"advisor: {clean(line)}\n")


@contextmanager
def recorded_ranks(session: Session, options: Options, say: Callable[[str], None], *, force: bool) -> Iterator[None]:
    """Record ranks that the program starts meanwhile, in place of *session*, unless that is recording already.

    A file of an earlier run is overwritten with *force* only: without it, the ranks run as they are.
    """

    def recording(function: Function, ranks: int) -> Function:
        if not session.idle:
            return function
        paths = [_path(options, rank) for rank in range(ranks)]
        there = next((path for path in paths if path.exists()), None)
        if there is not None and not force:
            say(
                f"{there}: exists already, so the ranks are not recorded. Overwrite it with --force, or write elsewhere."
            )
            return function
        session.leave_to(paths)
        return Ranked(function, options)

    with started_ranks(recording):
        yield


@contextmanager
def started_ranks(wrap: Callable[[Function, int], Function]) -> Iterator[None]:
    """Run what *wrap* makes of the function, and of the count of ranks, in ranks that the program starts meanwhile."""
    # torch names the function in two places, and calls it by the first.
    module: Any = sys.modules[torch.multiprocessing.spawn.__module__]
    package: Any = torch.multiprocessing
    original = module.start_processes

    def start(fn: Function, args: Any = (), nprocs: int = 1, *rest: Any, **named: Any) -> Any:
        return original(wrap(fn, nprocs) if nprocs > 0 else fn, args, nprocs, *rest, **named)

    module.start_processes = package.start_processes = start
    try:
        yield
    finally:
        module.start_processes = package.start_processes = original
