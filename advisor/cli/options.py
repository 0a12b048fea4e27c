"""Options and arguments that several commands take, in the same words."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from advisor.cli import complain
from advisor.errors import UsageError

if TYPE_CHECKING:
    from advisor.config import Config
    from advisor.trace import Trace

Ends = tuple[float | None, float | None]
Command = TypeVar("Command", bound=Callable[..., object])

folders = click.option("--rules", "folders", multiple=True, metavar="DIR", help="Add the rules in DIR.")
config = click.option("--config", metavar="FILE", help="Read settings from FILE, not from the nearest pyproject.toml.")
color = click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colours [auto].")
force = click.option("--force", is_flag=True, help="Overwrite an output that exists.")
output = click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Write to FILE, in the format of its suffix; - is stdout. Several -f and -o pair up in order.",
)


def reports(formats: Iterable[str]) -> Callable[[Command], Command]:
    """The options of a command that writes reports: in which of *formats*, where to, and whether over what exists."""
    chosen = click.Choice(list(formats))
    which = click.option("-f", "--format", "formats", multiple=True, type=chosen, help="Format of the report [text].")
    return lambda command: which(output(force(command)))


def catalogue(command: Command) -> Command:
    """The options of a command that runs rules: rules of one's own, and the settings."""
    return folders(config(command))


def _ends(number: type[int] | type[float]) -> Callable[[click.Context, click.Parameter, str | None], Ends | None]:
    """Reads ``A:B``, ``A:`` or ``:B``: two ends of which one may be open."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> Ends | None:
        if value is None:
            return None
        low, colon, high = value.partition(":")
        try:
            first, last = (number(text) if text.strip() else None for text in (low, high))
        except ValueError:
            first = last = None
        known = [end for end in (first, last) if end is not None]
        if not colon or not known or not all(math.isfinite(end) for end in known):
            kind = "whole numbers" if number is int else "numbers of ms"
            raise click.BadParameter(f'"{value}": give two {kind} as 3:6, or one of them as 3: or :6', ctx, param)
        return first, last

    return read


no_cache = click.option("--no-cache", is_flag=True, help="Read the file itself, and keep nothing of it.")


def part(command: Command) -> Command:
    """Which part of a trace is read."""
    steps = click.option(
        "--steps", callback=_ends(int), metavar="A:B", help="Only ProfilerStep#A to before #B; -3: are the last three."
    )
    window = click.option(
        "--window", callback=_ends(float), metavar="START:END", help="Only so many ms of the window, from its start."
    )
    return steps(window(command))


def reading(
    settings: Config,
    no_cache: bool,
    steps: Ends | None = None,
    window: Ends | None = None,
) -> dict[str, Any]:
    """The arguments of ``advisor.read`` that options and settings ask for. Raises ``UsageError`` for two parts at once."""
    if steps is not None and window is not None:
        raise UsageError("--steps and --window ask for different parts; give one of them")
    asked = {"steps": steps, "window_ms": window, "cache": 0 if no_cache else settings.cache_gb}
    return {name: value for name, value in asked.items() if value}


def keep(trace: Trace | None) -> None:
    """Put what reading came to into the cache, once the report is out; a note where that cannot be."""
    if trace is not None and (problem := trace.keep()):
        unkept(problem)


def unkept(problem: str) -> None:
    """Note why the cache could not keep what was read."""
    complain(f"{problem}; the next command reads the file anew (--no-cache says nothing of it)", "note")


def workers(command: Command) -> Command:
    """Where the work on several traces runs."""
    jobs = click.option("--jobs", type=int, metavar="N", help="Read N traces at a time [by cores and memory].")
    scheduler = click.option("--scheduler", metavar="ADDRESS", help="Read on the workers of a Dask cluster.")
    return jobs(scheduler(command))


def once(traces: Sequence[str]) -> tuple[str, ...]:
    """The traces, each once. One that is given twice is named; raises ``UsageError`` where that is standard input."""
    if traces.count("-") > 1:
        raise UsageError("standard input (-) can be read once only")
    first: dict[str, str] = {}
    for path in traces:
        if (file := os.path.realpath(path) if path != "-" else path) in first:
            same = "" if path == first[file] else f", as {first[file]} before"
            complain(f"{path} is given twice{same}, and counts once", "note")
        first.setdefault(file, path)
    return tuple(first.values())
