"""``advisor compare``: two traces side by side, for people. It never fails a build: that is what ``advisor gate`` is for."""

from __future__ import annotations

import click

from advisor.cli.outputs import check_outputs, pair, write
from advisor.cli.terminal import progress
from advisor.errors import UsageError
from advisor.report.comparison import FORMATS


@click.command("compare", short_help="Two traces side by side, for people.")
@click.argument("before")
@click.argument("after")
@click.option(
    "-f", "--format", "formats", multiple=True, type=click.Choice(list(FORMATS)), help="Format of the report [text]."
)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Write to FILE, in the format of its suffix; - is stdout. Several -f and -o pair up in order.",
)
@click.option("--force", is_flag=True, help="Overwrite an output that exists.")
@click.option("--rules", "folders", multiple=True, metavar="DIR", help="Add the rules in DIR.")
@click.option("--config", metavar="FILE", help="Read settings from FILE, not from the nearest pyproject.toml.")
@click.option("-q", "--quiet", is_flag=True, help="One line.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colours [auto].")
def command(
    before: str,
    after: str,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    force: bool,
    folders: tuple[str, ...],
    config: str | None,
    quiet: bool,
    color: str,
) -> int:
    """Show two traces side by side: the step, its causes, what became of each finding and of what its fix promised.

    Exit code 0, whatever the two say of each other; 3 where one cannot be read.

    \b
      advisor compare before.json.gz after.json.gz
      advisor compare before.json.gz after.json.gz -o comparison.html
    """
    if before == after == "-":
        raise UsageError("standard input (-) can be read once only")
    wanted = pair(formats, outputs, FORMATS)
    check_outputs(wanted, [before, after], force)
    from advisor import ci
    from advisor.compare import compare

    settings = ci.configured(config)
    with progress(quiet) as say:
        first, second = ci.analyses([before, after], settings, ci.rules(settings, folders), views=True, say=say)
    write(wanted, compare(first, second), FORMATS, color, verbosity=-quiet)
    return 0
