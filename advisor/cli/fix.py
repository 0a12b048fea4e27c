"""``advisor fix``: fixes made in the source, measured, and kept or reverted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.cli import completion, options
from advisor.cli.outputs import write
from advisor.errors import UsageError
from advisor.report.fixes import FORMATS

if TYPE_CHECKING:
    from advisor.fix.propose import Among
    from advisor.reading.program_settings import Recorded
    from advisor.results.analysis import Analysis
    from advisor.trace import Trace

_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def _seconds(_context: click.Context, _option: click.Parameter, value: str) -> float:
    """Read a time such as ``90s``, ``10m`` or ``1h``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)", value.strip())
    if match is None or float(match[1]) <= 0:
        raise click.BadParameter(f"{value!r} is no time such as 90s, 10m or 1h")
    return float(match[1]) * _UNITS[match[2]]


@click.command(
    "fix",
    short_help="Make fixes in the source, measure them, keep or revert.",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--from", "trace", metavar="TRACE", shell_complete=completion.files, help="Read TRACE, and record nothing."
)
@click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as in python -m.")
@click.option("--ranks", type=click.IntRange(1, 64), default=1, help="Start so many ranks, as torchrun does [1].")
@click.option("--verify", is_flag=True, help="Run the program with and without each edit, in a copy of its tree.")
@click.option("--apply", "applies", is_flag=True, help="With --verify: write what is kept to your files.")
@click.option(
    "--budget", callback=_seconds, default="10m", metavar="TIME", help="Time for all runs, such as 90s or 1h [10m]."
)
@click.option("--allow-training-changes", is_flag=True, help="Keep edits that change what is learned, too.")
@click.option(
    "--root", metavar="DIR", shell_complete=completion.folders, help="Folder of the project [its repository]."
)
@click.option("--patch", metavar="FILE", shell_complete=completion.files, help="Write what is kept as a patch.")
@click.option("--branch", metavar="NAME", help="Make a branch with a commit for each kept edit.")
@click.option("--no-learn", is_flag=True, help="Keep no measured pairs on this machine.")
@options.reports(FORMATS)
@options.look("One line.", "Diffs of reverted edits too, and sketches.")
@click.argument("script", required=False, shell_complete=completion.files)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    trace: str | None,
    module: bool,
    ranks: int,
    verify: bool,
    applies: bool,
    budget: float,
    allow_training_changes: bool,
    root: str | None,
    patch: str | None,
    branch: str | None,
    no_learn: bool,
    reports: options.Reports,
    look: options.Look,
    script: str | None,
    arguments: tuple[str, ...],
) -> int:
    """Make the fixes of SCRIPT that are mechanical edits of its source; show the others with their place.

    By default the program is recorded in a copy of its tree, and each edit is printed as a diff with its predicted price;
    nothing is written. With --verify the program runs before and after each edit without a profiler, in turns, until the
    statistics decide or the budget ends: an edit is kept only where the steps are faster and the first losses are the same.
    With --apply what is kept is written to your files; files with uncommitted changes are left alone without --force.

    \b
      advisor fix train.py --epochs 1
      advisor fix --from trace.json.gz
      advisor fix --apply --verify --budget 10m train.py
    """
    if applies and not verify:
        raise UsageError("--apply writes what --verify has shown to be faster: give both")
    if not verify and (patch or branch):
        raise UsageError("--patch and --branch hold what --verify keeps: give it too")
    from advisor.fix import require

    require()
    from advisor.fix.command import Choices, fix

    outputs = reports.check(FORMATS, [trace] if trace else [])
    choices = Choices(
        trace=Path(trace) if trace else None,
        root=Path(root) if root else None,
        module=module,
        ranks=ranks,
        verify=verify,
        apply=applies,
        force=reports.force,
        training_changes=allow_training_changes,
        budget_s=budget,
        patch=Path(patch) if patch else None,
        branch=branch,
        learn=not no_learn,
    )
    done = fix(script, arguments, choices, _analyze, (lambda _line: None) if look.quiet else _say)
    write(outputs, done, FORMATS, look.color, look.verbosity, show=reports.show)
    return 0


def _say(line: str) -> None:
    from advisor.report.plain import clean

    click.echo(f"advisor: {clean(line)}", err=True)


def _analyze(path: Path) -> tuple[Analysis, Recorded | None, Among]:
    """Analyze a trace; with it the settings that it was recorded with, and what analyzes it by some rules alone."""
    from advisor.pipeline import analyze
    from advisor.trace import read

    trace = read(str(path))
    among = partial(_among, trace)
    return analyze(trace, views=False), trace.context.metadata.recorded, among


def _among(trace: Trace, rules: Sequence[str]) -> Analysis:
    from advisor.pipeline import analyze

    return analyze(trace, views=False, only=rules)
