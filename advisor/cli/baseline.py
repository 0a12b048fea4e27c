"""``advisor baseline``: write down what a workload costs today, for the gate to compare with."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli import completion, options
from advisor.cli.terminal import progress
from advisor.counting import counted
from advisor.errors import UsageError


@click.command("baseline", short_help="Write down what a workload costs, for the gate.")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, shell_complete=completion.files)
@click.option(
    "-o",
    "--output",
    default="advisor-baseline.json",
    metavar="FILE",
    shell_complete=completion.files,
    help="Where to write it [advisor-baseline.json].",
)
@click.option("--update", is_flag=True, help="Replace the figures of a baseline that exists; its history stays.")
@click.option("--reason", default="", metavar="TEXT", help="Why it changes; --update needs one.")
@click.option("--workload", metavar="NAME", help="What was run; only recordings of the same name are compared.")
@click.option("--force", is_flag=True, help="Overwrite a baseline that exists, history and all.")
@options.catalogue
@click.option("-q", "--quiet", is_flag=True, help="Say nothing.")
def command(
    traces: tuple[str, ...],
    output: str,
    update: bool,
    reason: str,
    workload: str | None,
    force: bool,
    catalogue: options.Catalogue,
    quiet: bool,
) -> int:
    """Write the baseline of a workload: a small file to commit, with no path and no name of a machine in it.

    Several traces are repeated runs of the same workload: the more, the better the gate knows its noise. Steps after the
    first count, so a trace wants five steps or more.

    \b
      advisor baseline trace.json.gz -o advisor-baseline.json
      advisor baseline run1.json run2.json run3.json --workload resnet50-bs64
      advisor baseline trace.json.gz --update --reason "four loader workers"
    """
    path = Path(output)
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"{path}: {'is a folder' if path.is_dir() else f'no folder {path.parent}'}; name a file")
    if path.exists() and not (update or force):
        raise UsageError(f"{path}: exists. Give --update --reason '…' to renew it, or --force to begin anew.")
    if update and not reason.strip():
        raise UsageError("an update of a baseline needs a reason: --reason '…'")
    from advisor.gating import baseline
    from advisor.gating import update as renewing
    from advisor.gating.run import runs
    from advisor.gating.significance import LEAST_STEPS

    if update:
        baseline.load(path)  # before the work
    settings = catalogue.settings()
    with progress(quiet) as say:
        paths, rules = options.once(traces), catalogue.rules(settings)
        analyses = runs(paths, settings, rules, say=say, note=options.note)
    label = workload if workload is not None else settings.gate.workload or None
    new = renewing.update(path, analyses, reason, label, anew=not update)
    if not quiet:
        click.echo(f"{path}: {counted(new.runs, 'run')} of {counted(sum(new.steps), 'step')}, "
                   f"{counted(len(new.metrics), 'metric')}, {counted(len(new.rules), 'rule')}")  # fmt: skip
        if sum(new.steps) < LEAST_STEPS:
            click.echo(
                f"advisor: note: the gate needs {LEAST_STEPS} steps after the first to decide on times; with these it "
                "will decide on exact counts only. Give the profiler a schedule of five steps or more.",
                err=True,
            )
    return 0
