"""Options and arguments that several commands take, in the same words; those of one subject are one argument of a command."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from advisor.cli import complain, completion
from advisor.cli.outputs import Output, check_outputs, check_pages, pair
from advisor.errors import UsageError, nearest

if TYPE_CHECKING:
    from advisor.config import Config
    from advisor.report import Format
    from advisor.rulebook import Rulebook
    from advisor.trace import Trace

Ends = tuple[float | None, float | None]
Command = TypeVar("Command", bound=Callable[..., object])

force = click.option("--force", is_flag=True, help="Overwrite an output that exists.")
no_cache = click.option("--no-cache", is_flag=True, help="Read the file itself, and keep nothing of it.")


def note(text: str) -> None:
    """Say on stderr what is worth knowing, and no error."""
    complain(text, "note")


def group(name: str, kind: type[object], *options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Declare options that reach the command as its one argument *name*: a *kind*, a dataclass with a field for each."""
    names = [field.name for field in fields(cast(Any, kind))]

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapper(**values: Any) -> object:
            values[name] = kind(**{field: values.pop(field) for field in names if field in values})
            return command(**values)

        return cast(Command, functools.reduce(lambda decorated, option: option(decorated), reversed(options), wrapper))

    return decorate


# ---- reports


@dataclass(frozen=True)
class Reports:
    """The reports that a command writes: in which formats, where to, and whether over what exists."""

    formats: tuple[str, ...]
    outputs: tuple[str, ...]
    force: bool
    show: bool = False

    def check(self, known: Mapping[str, Format], inputs: Sequence[str]) -> list[Output]:
        """Pair formats with files, and find before the work what would keep a report from being written."""
        outputs = pair(self.formats, self.outputs, known)
        check_outputs([output.path for output in outputs], inputs, self.force)
        if self.show:
            check_pages(outputs)
        return outputs


def reports(formats: Iterable[str]) -> Callable[[Command], Command]:
    """Declare where reports go; they come in one of *formats*."""
    chosen = click.Choice(list(formats))
    pages = [click.option("--open", "show", is_flag=True, help="Open the page that -o FILE.html wrote.")]
    return group(
        "reports",
        Reports,
        click.option("-f", "--format", "formats", multiple=True, type=chosen, help="Format of the report [text]."),
        click.option(
            "-o",
            "--output",
            "outputs",
            multiple=True,
            metavar="FILE",
            shell_complete=completion.files,
            help="Write to FILE, in the format of its suffix; - is stdout. Several -f and -o pair up in order.",
        ),
        force,
        *(pages if "html" in chosen.choices else []),
    )


@dataclass(frozen=True)
class Look:
    """The length and the colours of what is printed."""

    quiet: bool
    color: str
    verbose: bool = False

    @property
    def verbosity(self) -> int:
        """-1, 0 or 1. Raises ``UsageError`` where both options are given."""
        if self.quiet and self.verbose:
            raise UsageError("-q and -v ask for opposite things; give one of them")
        return self.verbose - self.quiet


def look(quiet: str, verbose: str = "") -> Callable[[Command], Command]:
    """Declare -q and --color, and -v where there is a help for it."""
    less = click.option("-q", "--quiet", is_flag=True, help=quiet)
    more = [click.option("-v", "--verbose", is_flag=True, help=verbose)] if verbose else []
    color = click.option(
        "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colours [auto]."
    )
    return group("look", Look, less, *more, color)


# ---- rules


@dataclass(frozen=True)
class Catalogue:
    """Rules of one's own, and the settings."""

    folders: tuple[str, ...]
    config: str | None

    def settings(self) -> Config:
        """Read the settings. Raises ``UsageError``."""
        from advisor.config import load

        return load(self.config)

    def rules(self, settings: Config) -> Rulebook:
        """Load the rules that ship with the advisor, those of the settings, and those of ``--rules``."""
        from advisor.gating.run import rules
        from advisor.rulebook import former

        book = rules(settings, self.folders, keep=settings.cache_gb > 0)
        heirs = book.former
        for name in settings.limits:
            if name in heirs:
                note(former.note(name, heirs))
        return book


catalogue = group(
    "catalogue",
    Catalogue,
    click.option(
        "--rules",
        "folders",
        multiple=True,
        metavar="DIR",
        shell_complete=completion.folders,
        help="Add the rules in DIR.",
    ),
    click.option(
        "--config",
        metavar="FILE",
        shell_complete=completion.files,
        help="Read settings from FILE, not from the nearest pyproject.toml.",
    ),
)


def expand(globs: Iterable[str], rules: Rulebook, option: str) -> tuple[str, ...]:
    """Find the ids that any of *globs* fits, those that a former id stands for among them, which a note says.

    Raises ``UsageError`` for one that fits none: it is a mistake.
    """
    from advisor.rulebook import former

    ids, heirs = [rule.id for rule in rules.rules], rules.former
    fitting: dict[str, None] = {}
    for glob in globs:
        matches = [rule for rule in ids if fnmatchcase(rule, glob)] or list(heirs.get(glob, ()))
        if glob in heirs:
            note(former.note(glob, heirs))
        if not matches:
            raise UsageError(f'{option} "{glob}" fits no rule{nearest(glob, ids)}. List them: advisor rules list.')
        fitting.update(dict.fromkeys(matches))
    return tuple(fitting)


# ---- reading


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


@dataclass(frozen=True)
class Reading:
    """The part of a trace that is read, and whether the cache is asked."""

    no_cache: bool
    steps: Ends | None = None
    window: Ends | None = None
    device: str | None = None
    capture: str | None = None
    snapshot: str | None = None
    provenance: str | None = None
    gpu: int | None = None

    def arguments(self, settings: Config) -> dict[str, Any]:
        """Make the arguments of ``advisor.read``. Raises ``UsageError`` for two parts at once."""
        if self.steps is not None and self.window is not None:
            raise UsageError("--steps and --window ask for different parts; give one of them")
        cache = 0 if self.no_cache else settings.cache_gb
        arguments = {"steps": self.steps, "window_ms": self.window, "device": self.device, "cache": cache}
        arguments["snapshot"] = self.snapshot
        arguments["capture"] = self.capture
        arguments["provenance"] = self.provenance
        arguments["gpu"] = self.gpu
        return {name: value for name, value in arguments.items() if value or (name == "gpu" and value is not None)}


device = click.option(
    "--device",
    metavar="NAME",
    help="The GPU that recorded it, such as MI300X or 'H100 PCIe', where the trace does not name it.",
)
snapshot = click.option(
    "--snapshot",
    metavar="FILE",
    help="A memory snapshot of the same run (torch.cuda.memory._dump_snapshot): who holds the peak.",
)
cached_reading = group("reading", Reading, no_cache)
reading = group(
    "reading",
    Reading,
    click.option(
        "--steps", callback=_ends(int), metavar="A:B", help="Only ProfilerStep#A to before #B; -3: are the last three."
    ),
    click.option(
        "--window", callback=_ends(float), metavar="START:END", help="Only so many ms of the window, from its start."
    ),
    device,
    click.option(
        "--capture",
        metavar="FILE",
        shell_complete=completion.files,
        help="The trace of the start, in which the graphs were captured: it says which operators are replayed.",
    ),
    snapshot,
    click.option(
        "--provenance",
        metavar="FILE",
        shell_complete=completion.files,
        help="Inductor's log of what its kernels compute (INDUCTOR_PROVENANCE=1 TORCH_TRACE=DIR): their lines.",
    ),
    click.option(
        "--gpu", type=int, metavar="N", help="Speak of GPU N, where one process drives several [the busiest]."
    ),
    no_cache,
)


def keep(trace: Trace | None) -> None:
    """Put what reading came to into the cache, once the report is out; a note where that cannot be."""
    if trace is not None and (problem := trace.keep()):
        note_unkept(problem)


def note_unkept(problem: str) -> None:
    """Note why the cache could not keep what was read."""
    note(f"{problem}; the next command reads the file anew (--no-cache says nothing of it)")


@dataclass(frozen=True)
class Workers:
    """The processes that work on several traces."""

    jobs: int | None
    scheduler: str | None


workers = group(
    "workers",
    Workers,
    click.option("--jobs", type=int, metavar="N", help="Read N traces at a time [by cores and memory]."),
    click.option("--scheduler", metavar="ADDRESS", help="Read on the workers of a Dask cluster."),
)


def once(traces: Sequence[str]) -> tuple[str, ...]:
    """Return the traces, each once. One that is given twice is named; raises ``UsageError`` where that is standard input."""
    if traces.count("-") > 1:
        raise UsageError("standard input (-) can be read once only")
    first: dict[str, str] = {}
    for path in traces:
        if (file := os.path.realpath(path) if path != "-" else path) in first:
            same = "" if path == first[file] else f", as {first[file]} before"
            note(f"{path} is given twice{same}, and counts once")
        first.setdefault(file, path)
    return tuple(first.values())
