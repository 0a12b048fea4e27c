"""``advisor record``: run a script, and record some of its steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import click

from advisor.cli import completion
from advisor.cli.options import force
from advisor.record import STACKS, require_torch
from advisor.record.steps import UNITS


@click.command(
    "record",
    short_help="Run a training script, and record some of its steps.",
    context_settings={"allow_interspersed_args": False},
)
@click.option("-m", "--module", is_flag=True, help="SCRIPT is a module, as in python -m.")
@click.option(
    "-o", "--output", metavar="FILE", shell_complete=completion.files, help="The trace to write [SCRIPT.trace.json.gz]."
)
@click.option("--steps", type=click.IntRange(1, 1000), default=5, help="Steps to record [5].")
@click.option("--skip", type=click.IntRange(1), default=5, help="Steps to leave out before: they warm up [5].")
@click.option("--stop", is_flag=True, help="End the script once the recording is done.")
@click.option("--by", type=click.Choice(UNITS), help="What a step is, where the recorder guesses wrong.")
@click.option(
    "--stacks",
    type=click.Choice(list(STACKS)),
    default="second",
    help="Source lines: from a second short pass, inline with the timings (which they distort), or none [second].",
)
@click.option("--no-stacks", is_flag=True, help="The same as --stacks none.")
@force
@click.argument("script", shell_complete=completion.files)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    module: bool,
    output: str | None,
    steps: int,
    skip: int,
    stop: bool,
    by: str | None,
    stacks: str,
    no_stacks: bool,
    force: bool,
    script: str,
    arguments: tuple[str, ...],
) -> Callable[[], int]:
    """Run SCRIPT, unmodified, and record some of its steps to a trace that advisor analyze reads.

    A step is an optimizer's step, or in inference a batch of a DataLoader, or without one a turn of the loop that calls the
    model. Shapes, memory and the settings that matter are recorded with it; source lines come from a second short pass, so that
    they do not distort the timings. The script keeps its arguments, its output and its exit status; options of the recorder come
    before it.

    \b
      advisor record train.py --epochs 1
      advisor record --stop -m mypackage.train
      torchrun --nproc-per-node 2 -m advisor record train.py
    """
    require_torch()
    from advisor.record import script as scripts
    from advisor.record.launch import rank, record
    from advisor.record.session import Options
    from advisor.record.writing import check_output, name_for

    scripts.check(script, module=module)
    path = name_for(script.rpartition(".")[2] if module else script, output, rank())
    check_output(path, force=force)
    options = Options(path, steps, skip, "none" if no_stacks else STACKS[stacks], by, stop)
    return partial(record, script, arguments, options, _say, module=module, force=force)


def _say(line: str) -> None:
    from advisor.report.plain import clean

    click.echo(f"advisor: {clean(line)}", err=True)
