"""``advisor query``: SQL over the frames of a trace."""

from __future__ import annotations

import math

import click

from advisor.cli import completion, options
from advisor.cli.terminal import progress, put, width
from advisor.errors import UsageError


@click.command("query", short_help="Run any SELECT over the frames of a trace.")
@click.argument("trace", required=False, shell_complete=completion.files)
@click.argument("sql", required=False)
@click.option(
    "--schema",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[FRAME]",
    shell_complete=completion.frames,
    help="List the frames, or the columns of FRAME with their units. Needs no trace.",
)
@options.reading
@click.option(
    "-f",
    "--format",
    "form",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    help="Format of the rows [text].",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=math.inf,
    metavar="SECONDS",
    help="Stop a query that takes longer than so much time of the processor [never].",
)
def command(
    trace: str | None, sql: str | None, schema: str | None, reading: options.Reading, form: str, timeout: float
) -> None:
    """Run SQL over the frames of TRACE: kernels, copies, gaps, steps and more.

    Any one SELECT of DuckDB runs, as it is written and for as long as it takes, or as --timeout says; files and the network
    are out of its reach. DuckDB works in 1 GB; rows that it hands over and very long texts come on top, so LIMIT them. Times
    are integers in ns, and columns end in their unit. The table shortens long text; json and csv hold it whole.

    \b
      advisor query --schema kernels
      advisor query trace.json.gz \\
        "SELECT name, sum(dur_ns)/1e6 AS ms FROM kernels GROUP BY 1 ORDER BY 2 DESC LIMIT 5"
    """
    if schema is not None:
        if sql is not None:
            raise UsageError("--schema needs no trace and no SQL")
        from advisor.report.rows import describe

        put(describe(schema or trace, form).encode())
        return
    if trace is None or sql is None:
        raise UsageError(
            "a trace and one SELECT are needed: advisor query TRACE SQL. What can be asked: advisor query --schema"
        )
    import advisor
    from advisor.config import load
    from advisor.engine.query import run
    from advisor.reading.containers import waiting
    from advisor.report.rows import show

    settings = load()
    arguments = reading.arguments(settings)
    with progress() as say:
        say(f"reading {trace}{waiting(trace)}")
        frames = advisor.read(
            trace, libraries=settings.library, rates=[settings.hardware], progress=say.advance, **arguments
        )
        names, rows = run(frames, sql, timeout)
    put(show(names, rows, form, width()).encode("utf-8", "backslashreplace"))
    options.keep(frames)
