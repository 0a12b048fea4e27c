"""``advisor compare``: two traces side by side, for people. It never fails a build: that is what ``advisor gate`` is for."""

from __future__ import annotations

import click

from advisor.cli import completion, options
from advisor.cli.outputs import write
from advisor.cli.terminal import progress
from advisor.errors import UsageError
from advisor.report.comparison import FORMATS


@click.command("compare", short_help="Two traces side by side, for people.")
@click.argument("before", shell_complete=completion.files)
@click.argument("after", shell_complete=completion.files)
@options.reports(FORMATS)
@options.catalogue
@options.look("One line.")
@options.cached_reading
def command(
    before: str,
    after: str,
    reports: options.Reports,
    catalogue: options.Catalogue,
    look: options.Look,
    reading: options.Reading,
) -> int:
    """Show two traces side by side: the step, its causes, what became of each finding and of what its fix promised.

    Exit code 0, whatever the two say of each other; 3 where one cannot be read.

    \b
      advisor compare before.json.gz after.json.gz
      advisor compare before.json.gz after.json.gz -o comparison.html
    """
    if before == after == "-":
        raise UsageError("standard input (-) can be read once only")
    outputs = reports.check(FORMATS, [before, after])
    from advisor.gating.compare import compare
    from advisor.gating.run import analyses

    settings = catalogue.settings()
    with progress(look.quiet) as say:
        arguments = {**reading.arguments(settings), "progress": say.advance}
        rules = catalogue.rules(settings)
        first, second = analyses([before, after], settings, rules, views=True, say=say, reading=arguments)
    write(outputs, compare(first, second), FORMATS, look.color, look.verbosity, show=reports.show)
    return 0
