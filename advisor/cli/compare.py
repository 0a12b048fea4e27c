"""``advisor compare``: two traces side by side, for people. It never fails a build: that is what ``advisor gate`` is for."""

from __future__ import annotations

import click

from advisor.cli import options
from advisor.cli.outputs import check_outputs, pair, write
from advisor.cli.terminal import progress
from advisor.errors import UsageError
from advisor.report.comparison import FORMATS


@click.command("compare", short_help="Two traces side by side, for people.")
@click.argument("before")
@click.argument("after")
@options.reports(FORMATS)
@options.catalogue
@click.option("-q", "--quiet", is_flag=True, help="One line.")
@options.color
@options.no_cache
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
    no_cache: bool,
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
    from advisor.gating import run as ci
    from advisor.gating.compare import compare

    settings = ci.configured(config)
    with progress(quiet) as say:
        reading = {**options.reading(settings, no_cache), "told": say.told}
        book = ci.rules(settings, folders)
        first, second = ci.analyses([before, after], settings, book, views=True, say=say, reading=reading)
    write(wanted, compare(first, second), FORMATS, color, verbosity=-quiet)
    return 0
