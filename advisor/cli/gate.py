"""``advisor gate``: hold a trace against its baseline; exit 1 on a regression, 4 where there is no answer."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli import completion, options
from advisor.cli.outputs import write
from advisor.cli.terminal import progress
from advisor.errors import UsageError
from advisor.report.gate import FORMATS

EXIT = {"passed": 0, "failed": 1, "inconclusive": 4}


@click.command("gate", short_help="Fail on a regression against a baseline.")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, shell_complete=completion.files)
@click.option(
    "-b",
    "--baseline",
    metavar="FILE",
    shell_complete=completion.files,
    help="What `advisor baseline` wrote; none: assertions only.",
)
@options.reports(FORMATS)
@click.option(
    "--inconclusive",
    type=click.Choice(["exit", "pass", "fail"]),
    default="exit",
    help="Exit code where there is no answer: 4, 0 or 1 [exit].",
)
@options.catalogue
@options.look("Two lines at most.", "Every check, also what stayed the same.")
def command(
    traces: tuple[str, ...],
    baseline: str | None,
    reports: options.Reports,
    inconclusive: str,
    catalogue: options.Catalogue,
    look: options.Look,
) -> int:
    """Fail on a regression in any figure or rule that exceeds its tolerance and its floor and is more than noise.

    Several traces are repeated runs of the same workload. Exit codes: 0 no regression; 1 a regression, or an assertion
    that does not hold; 4 inconclusive: too few steps, or recordings that are not alike.

    \b
      advisor gate trace.json.gz --baseline advisor-baseline.json
      advisor gate trace.json.gz -b advisor-baseline.json -o gate.sarif -o gate.xml -o -
    """
    verbosity = look.verbosity
    traces = options.once(traces)
    outputs = reports.check(FORMATS, [*traces, *([baseline] if baseline else [])])
    from advisor.gating.baseline import load
    from advisor.gating.run import judge_traces

    settings = catalogue.settings()
    if baseline is None and not settings.gate.assertions:
        raise UsageError("nothing to compare the trace with: give --baseline FILE, or assert in [tool.advisor.gate]")
    base = load(Path(baseline)) if baseline is not None else None
    rules = catalogue.rules(settings)
    with progress(look.quiet) as say:
        judgement = judge_traces(traces, settings, rules, base, baseline or "", say=say, note=options.note)
    write(outputs, judgement, FORMATS, look.color, verbosity)
    code = EXIT[judgement.verdict]
    return code if code != EXIT["inconclusive"] else {"exit": code, "pass": 0, "fail": 1}[inconclusive]
