"""``advisor watch``: analyze each trace that a program writes into a folder, as it appears."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.cli import complain, completion, options
from advisor.cli.outputs import write_file
from advisor.cli.terminal import progress, put, wants_color, width
from advisor.errors import NotATrace, TraceError, UsageError
from advisor.regex import regex
from advisor.report.plain import clean

if TYPE_CHECKING:
    from advisor.execution.messages import Settings
    from advisor.results.analysis import Analysis

_SUFFIXES = (".json", ".json.gz")
_TEMPORARY = regex(r"\.|tmp[a-z0-9_]{8}\.")
"""Names of files that are under way to another name: hidden ones, and those of Python's tempfile."""
_CUT = frozenset(("truncated", "gzip-truncated"))
_LEAST = 0.01
"""Share of the step from which on the cause that moved most is named."""
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
        """Yield the files that are called as traces are; not those that are under way to another name."""
        folders = [self.path]
        while folders:
            folder = folders.pop()
            try:
                entries = list(os.scandir(folder))
            except OSError:  # gone meanwhile
                continue
            for entry in entries:
                if _TEMPORARY.match(entry.name):
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


@dataclass
class Watch:
    """The traces that were told, by the program that recorded them, and the pages that were written."""

    settings: Settings
    look: options.Look
    pages: Path | None
    force: bool
    once: bool
    folder: Folder
    told: dict[str, Analysis] = field(default_factory=dict)
    written: set[Path] = field(default_factory=set)

    def report(self, path: str) -> bool:
        """Analyze one trace and print what it says, in one piece; False where it cannot be read.

        What changed while it was read, and what ends in its middle, is left for a later look: half of a file says nothing of
        the whole.
        """
        from advisor.execution.run import run_one

        before = self.folder.seen[path]
        results, problem = None, ""
        with progress(self.look.quiet) as say:
            try:
                results = run_one(path, self.settings, say, say.advance)
            except NotATrace:
                pass
            except TraceError as error:
                problem = str(error)
        if state_of(path) != before:
            return True
        self.folder.done[path] = before
        if problem:
            complain(problem)
        if results is None:
            return not problem
        (analysis,) = results.analyses
        if not self.once and not _CUT.isdisjoint(note.code for note in analysis.quality):
            options.note(f"{path}: ends in its middle; it is read again when it grows")
            return True
        self._print(path, analysis)
        options.keep(results.trace)
        return True

    def _print(self, path: str, analysis: Analysis) -> None:
        """Print the screen of a trace and what changed, and write its page."""
        from msgspec.structs import replace

        from advisor.report import Options, render

        look = self.look
        options_ = Options(width(), wants_color(look.color), look.verbosity)
        lines = render("concise" if look.quiet else "text", analysis, options_).decode()
        changed = change(self.told.get(worker_of(path)), analysis)
        self.told[worker_of(path)] = replace(analysis, views=None, findings=[])
        text = (
            f"{clean(path)}: {clean(analysis.headline.text if analysis.headline else '')}\n{lines}"
            if look.quiet
            else lines
        )
        put((text + (f"{changed}\n" if changed else "") + "\n" * (not look.quiet)).encode(), color=options_.color)
        if self.pages is not None:
            page = self.pages / self._page_of(path)
            if page.exists() and page not in self.written and not self.force:
                options.note(f"{page}: exists, and stays as it is. Give --force to overwrite it")
                return
            write_file(page, render("html", analysis, Options()))
            self.written.add(page)

    def _page_of(self, path: str) -> str:
        """Return the name of a trace's page: that of the trace, with the folder below the one that is watched."""
        name = "-".join(Path(path).relative_to(self.folder.path).parts)
        return re.sub(r"\.json(\.gz)?$", "", name, flags=re.IGNORECASE) + ".html"


def worker_of(path: str) -> str:
    """Return the part of a path that all recordings of one program share: torch writes WORKER.TIME.pt.trace.json."""
    from advisor.execution.inputs import RECORDING

    match = RECORDING.match(os.path.basename(path))
    return os.path.join(os.path.dirname(path), match["worker"] if match else "")


def change(before: Analysis | None, now: Analysis) -> str:
    """Return what became of the step since the recording before, and which cause moved most; empty for the first."""
    from advisor.report.savings import duration

    if before is None:
        return ""
    name = clean(os.path.basename(before.trace.path))
    was, is_ = before.summary.step_ms, now.summary.step_ms
    if was is None or is_ is None or not was.median:
        return f"against {name}: the step time is not recorded"
    share = 100 * (is_.median / was.median - 1)
    text = f"against {name}: step {duration(was.median)} → {duration(is_.median)} ({share:+.1f} %)"
    first, second = (side.summary.steady_causes or {} for side in (before, now))
    moved = {
        cause: second.get(cause, 0.0) * (now.summary.steady_ms or 0.0)
        - first.get(cause, 0.0) * (before.summary.steady_ms or 0.0)
        for cause in {*first, *second}
    }
    if moved:
        cause, ms = max(moved.items(), key=lambda item: (abs(item[1]), item[0]))
        if abs(ms) >= _LEAST * was.median:
            sign = "+" if ms > 0 else "−"
            text += f", most in {cause.replace('_', ' ')} {sign}{duration(abs(ms))}"
    return text


@click.command("watch", short_help="Analyze each trace that appears in a folder.")
@click.argument("folder", metavar="DIR", shell_complete=completion.folders)
@click.option("--once", is_flag=True, help="Analyze the traces that are there, and end.")
@click.option("--every", type=click.FloatRange(min=0.05), default=2.0, metavar="SECONDS", help="How often to look [2].")
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    shell_complete=completion.folders,
    help="Write an HTML page of each trace into DIR.",
)
@options.force
@options.catalogue
@options.look("A headline, and one line a finding.")
@options.cached_reading
def command(
    folder: str,
    once: bool,
    every: float,
    output: str | None,
    force: bool,
    catalogue: options.Catalogue,
    look: options.Look,
    reading: options.Reading,
) -> int:
    """Analyze the traces in DIR, and each that appears there: one screen, and the step beside that of the trace before.

    For the folder that torch.profiler.tensorboard_trace_handler or advisor.profile writes to, beside a program that runs.
    A trace is read once its size stays the same from one look to the next, and again where the file changes. Ctrl-C ends it,
    with exit code 130. With --once, a file that cannot be read comes to 3.

    \b
      advisor watch runs/
      advisor watch runs/ --once -o pages/
    """
    if not Path(folder).is_dir():
        raise UsageError(f"{folder}: no such folder; make it first, or name the one that the program writes to")
    pages = Path(output) if output is not None else None
    if pages is not None and not pages.is_dir():
        raise UsageError(f"{output}: no such folder; make it first")
    from advisor.cli.analyze import defaults, settings_of

    config = catalogue.settings()
    settings = settings_of(defaults(), catalogue, config, reading.arguments(config), views=pages is not None)
    watched, failed = Folder(Path(folder)), False
    watch = Watch(settings, look, pages, force, once, watched)
    watched.ready()
    while True:
        with progress(look.quiet) as say:
            say(f"watching {folder}")
            time.sleep(every)
        for path in watched.ready():
            failed |= not watch.report(path)
        if once:
            for path in watched.growing():
                options.note(f"{path}: is still being written; left out")
            if not watched.seen:
                options.note(f"{folder}: holds no traces: no file there is called .json or .json.gz")
            return TraceError.exit_code if failed else 0
