"""``advisor gate``: hold a trace against its baseline; exit 1 on a regression, 4 where there is no answer."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli import complain, options
from advisor.cli.outputs import check_outputs, pair, write
from advisor.cli.terminal import progress
from advisor.errors import UsageError
from advisor.report.gate import FORMATS

EXIT = {"passed": 0, "failed": 1, "inconclusive": 4}


@click.command("gate", short_help="Fail on a regression against a baseline.")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True)
@click.option("-b", "--baseline", metavar="FILE", help="What `advisor baseline` wrote; none: assertions only.")
@options.reports(FORMATS)
@click.option(
    "--inconclusive",
    type=click.Choice(["exit", "pass", "fail"]),
    default="exit",
    help="What no answer comes to: exit code 4, 0 or 1 [exit].",
)
@options.catalogue
@click.option("-q", "--quiet", is_flag=True, help="Two lines at most.")
@click.option("-v", "--verbose", is_flag=True, help="Every check, also what stayed the same.")
@options.color
def command(
    traces: tuple[str, ...],
    baseline: str | None,
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    force: bool,
    inconclusive: str,
    folders: tuple[str, ...],
    config: str | None,
    quiet: bool,
    verbose: bool,
    color: str,
) -> int:
    """Fail on a regression: per metric and per rule, past a tolerance and a floor, and no noise.

    Several traces are repeated runs of the same workload. Exit codes: 0 no regression; 1 a regression, or an assertion
    that does not hold; 4 inconclusive: too few steps, or recordings that are not alike.

    \b
      advisor gate trace.json.gz --baseline advisor-baseline.json
      advisor gate trace.json.gz -b advisor-baseline.json -o gate.sarif -o gate.xml -o -
    """
    if quiet and verbose:
        raise UsageError("-q and -v ask for opposite things; give one of them")
    traces = options.once(traces)
    wanted = pair(formats, outputs, FORMATS)
    check_outputs(wanted, [*traces, *([baseline] if baseline else [])], force)
    from advisor.gating import run as ci
    from advisor.gating.baseline import load
    from advisor.gating.judge import judge

    settings = ci.configured(config)
    if baseline is None and not settings.gate.assertions:
        raise UsageError("nothing to hold the trace against: give --baseline FILE, or assert in [tool.advisor.gate]")
    base = load(Path(baseline)) if baseline is not None else None
    rulebook = ci.rules(settings, folders)
    settings.require_fit((rule.id for rule in rulebook.rules), gate=True)
    with progress(quiet) as say:
        found = ci.runs(traces, settings, rulebook, say=say, note=lambda text: complain(text, "note"))
    judgement = judge(found, base, settings.gate, baseline_name=baseline or "", today=ci.today())
    write(wanted, judgement, FORMATS, color, verbosity=verbose - quiet)
    code = EXIT[judgement.verdict]
    return code if code != EXIT["inconclusive"] else {"exit": code, "pass": 0, "fail": 1}[inconclusive]
