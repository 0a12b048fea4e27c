"""``advisor watch``: analyze each trace that a program writes into a folder, as it appears."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.cli import complain, options
from advisor.cli.terminal import progress, put
from advisor.errors import NotATrace, TraceError, UsageError

if TYPE_CHECKING:
    from advisor.execution.task import Settings

_SUFFIXES = (".json", ".json.gz")
State = tuple[int, int]


@dataclass
class Folder:
    """The traces of a folder, and those of the folders in it: which are written by now, and which have been analyzed."""

    path: Path
    seen: dict[str, State] = field(default_factory=dict)
    done: dict[str, State] = field(default_factory=dict)

    def ready(self) -> list[str]:
        """List the traces that are new, or changed, and have not grown since this was asked last, the oldest first."""
        now = {path: state for path in self._files() if (state := state_of(path)) is not None}
        settled = [path for path, state in now.items() if self.seen.get(path) == state and self.done.get(path) != state]
        self.seen = now
        return sorted(settled, key=lambda path: (now[path][1], path))

    def growing(self) -> list[str]:
        """List the traces that are not analyzed as they stand."""
        return sorted(path for path, state in self.seen.items() if self.done.get(path) != state)

    def _files(self) -> Iterator[str]:
        """Yield the files that are called as traces are; not hidden ones, which are under way to another name."""
        folders = [self.path]
        while folders:
            folder = folders.pop()
            try:
                entries = list(os.scandir(folder))
            except OSError:  # gone meanwhile
                continue
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_file() and entry.name.lower().endswith(_SUFFIXES):
                    yield entry.path
                elif folder is self.path and entry.is_dir():
                    folders.append(Path(entry.path))


def state_of(path: str) -> State | None:
    """Return size and time of a file that holds something; None where it is empty or gone."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_size, found.st_mtime_ns) if found.st_size else None


@click.command("watch", short_help="Analyze each trace that appears in a folder.")
@click.argument("folder", metavar="DIR")
@click.option("--once", is_flag=True, help="Analyze the traces that are there, and end.")
@click.option("--every", type=click.FloatRange(min=0.05), default=2.0, metavar="SECONDS", help="How often to look [2].")
@options.catalogue
@options.no_cache
def command(folder: str, once: bool, every: float, catalogue: options.Catalogue, no_cache: bool) -> int:
    """Analyze the traces in DIR, and each that appears there: its headline, and a line a finding.

    For the folder that torch.profiler.tensorboard_trace_handler or advisor.profile writes to, beside a program that runs.
    A trace is read once its size stays the same from one look to the next, and again where the file changes. Ctrl-C ends it,
    with exit code 130. With --once, a file that cannot be read comes to 3.

    \b
      advisor watch runs/
      advisor watch runs/ --once
    """
    if not Path(folder).is_dir():
        raise UsageError(f"{folder}: no such folder; make it first, or name the one that the program writes to")
    from advisor.cli.analyze import defaults, settings_of

    config = catalogue.settings()
    reading = options.Reading(no_cache).arguments(config)
    settings = settings_of(defaults(), catalogue, config, reading, views=False)
    watched, failed = Folder(Path(folder)), False
    watched.ready()
    while True:
        with progress() as say:
            say(f"watching {folder}")
            time.sleep(every)
        for path in watched.ready():
            failed |= not _report(path, settings, watched)
        if once:
            for path in watched.growing():
                options.note(f"{path}: is still being written; left out")
            return TraceError.exit_code if failed else 0


def _report(path: str, settings: Settings, watched: Folder) -> bool:
    """Analyze one trace and print what it says, in one piece; False where it cannot be read.

    What changed while it was read is left for the next look: half of a file says nothing of the whole.
    """
    from advisor.execution.run import run_one
    from advisor.report import Options, render
    from advisor.report.plain import clean

    before = watched.seen[path]
    problem = ""
    with progress() as say:
        try:
            results = run_one(path, settings, say, say.advance)
        except NotATrace:
            results = None
        except TraceError as error:
            results, problem = None, str(error)
    if state_of(path) != before:
        return True
    watched.done[path] = before
    if problem:
        complain(problem)
    if results is None:
        return not problem
    (analysis,) = results.analyses
    headline = f" {analysis.headline.text}" if analysis.headline is not None else ""
    put(f"{clean(path)}:{clean(headline)}\n".encode() + render("concise", analysis, Options()))
    options.keep(results.trace)
    return True
