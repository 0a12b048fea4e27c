"""``advisor analyze``: what slows each trace down, where, what to change and what it is worth."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import complain, options
from advisor.cli.outputs import check_outputs, pair, write
from advisor.cli.terminal import Progress, progress
from advisor.errors import AdvisorError, TraceError, UsageError, nearest
from advisor.reading.remote import shown
from advisor.report import FORMATS

if TYPE_CHECKING:
    from advisor.config import Config
    from advisor.results.analysis import Analysis
    from advisor.results.ranks import Across
    from advisor.rulebook import Rulebook
    from advisor.trace import Trace

RANK = {"note": 0, "low": 1, "medium": 2, "high": 3}


@click.command("analyze", short_help="What slows a program down, where, and what to change.")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True)
@options.reports(FORMATS)
@options.catalogue
@click.option("--fail-on", type=click.Choice(["low", "medium", "high"]), help="Exit with 1 from this severity on.")
@click.option("--only", multiple=True, metavar="GLOB", help="Run only rules whose id fits, such as 'precision/*'.")
@click.option("--skip", multiple=True, metavar="GLOB", help="Leave out rules whose id fits.")
@click.option("-q", "--quiet", is_flag=True, help="A headline, and one line a finding.")
@click.option("-v", "--verbose", is_flag=True, help="Everything: all places, references, and what passed.")
@options.color
@click.option("--source-root", metavar="DIR", help="Show the lines of your source, from files below DIR (HTML).")
@click.option("--redact", is_flag=True, help="Name no folders: paths become base names.")
@click.option("--views", is_flag=True, help="Add to JSON what the HTML report shows: timeline, tables, curves.")
@click.option(
    "--what-if",
    multiple=True,
    metavar="RULE[,RULE...]",
    help="Predict the step with the fixes of these rules together.",
)
@click.option("--safe", is_flag=True, help="Plan without fixes that change training: batch size, precision.")
@options.part
@options.no_cache
@options.workers
def command(
    traces: tuple[str, ...],
    formats: tuple[str, ...],
    outputs: tuple[str, ...],
    force: bool,
    folders: tuple[str, ...],
    config: str | None,
    fail_on: str | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    quiet: bool,
    verbose: bool,
    color: str,
    source_root: str | None,
    redact: bool,
    views: bool,
    what_if: tuple[str, ...],
    safe: bool,
    steps: options.Ends | None,
    window: options.Ends | None,
    no_cache: bool,
    jobs: int | None,
    scheduler: str | None,
) -> int:
    """Say what slows a program down, from the trace that torch.profiler wrote.

    TRACE is a .json or .json.gz file, a folder of such files (one of each rank), or a URL that fsspec knows; - reads
    standard input. Findings come first things first, each with its price, its places in the source and the fix. With
    several traces, one that cannot be read does not keep the others from being reported; the exit code is 3 then.

    \b
      advisor analyze trace.json.gz
      advisor analyze trace.json -f json -o report.json --fail-on high
      advisor analyze traces/ -o report.html
      advisor analyze 's3://bucket/run/*.json.gz' --scheduler tcp://host:8786
    """
    if quiet and verbose:
        raise UsageError("-q and -v ask for opposite things; give one of them")
    if source_root is not None and redact:
        raise UsageError("--source-root shows lines of the source, and --redact takes them out; give one of them")
    if source_root is not None and not Path(source_root).is_dir():
        raise UsageError(f"--source-root {source_root}: no such folder")
    from advisor.execution import inputs

    files = inputs.find(options.once(traces))
    many = len(files.addresses) > 1 or inputs.several(traces)
    for note in files.notes:
        complain(note, "note")
    if scheduler is not None and "-" in traces:
        raise UsageError("--scheduler: workers cannot read this command's standard input (-); name a file or a URL")
    wanted = pair(formats, outputs, FORMATS)
    check_outputs(wanted, files.addresses, force)
    from advisor.config import load

    settings = load(config)
    reading = options.reading(settings, no_cache, steps, window)
    if window is not None and many:
        raise UsageError("--window: each trace has a window of its own; give one trace, or --steps")
    rulebook = load_rules(settings, folders)
    ids = [rule.id for rule in rulebook.rules]
    chosen = expand(only, ids, "--only") if only else expand(settings.only, ids, f"{settings.path}: only")
    left_out = expand(skip, ids, "--skip") + expand(settings.skip, ids, f"{settings.path}: skip")
    words = [rule.strip() for listed in what_if for rule in listed.split(",") if rule.strip()]
    if what_if and not words:
        raise UsageError("--what-if names no rule")
    asked = expand(words, ids, "--what-if")

    import advisor

    views = views or any(output.format.views for output in wanted)
    across: Across | None = None
    unread = 0
    trace: Trace | None = None
    with progress(quiet) as say:
        if many or scheduler is not None or jobs is not None:
            if scheduler is not None:
                reading.pop("cache", None)  # the workers' disks are not this user's
            from advisor.execution import run as running
            from advisor.execution.task import settings as every

            same = every(
                rulebook,
                only=chosen,
                skip=left_out,
                views=views,
                safe=safe,
                what_if=asked,
                libraries=settings.library,
                reading=reading,
            )
            came = running.run(
                files.addresses, same, jobs=jobs, scheduler=scheduler, say=say, foreign=files.found.__contains__
            )
            made, across, unread = came.analyses, came.across, len(came.failed)
            for text in came.foreign:
                complain(f"left out: {text}", "note")
            for text in came.failed:
                complain(text)
            if came.unkept:
                options.unkept(came.unkept)
            if not made:
                if not came.failed:
                    complain("none of the files is a trace")
                return TraceError.exit_code
        else:
            from advisor.trace import uncollected

            with uncollected():
                trace = readable(files.addresses[0], settings, say, reading)
                made = [
                    advisor.analyze(trace, rulebook, only=chosen, skip=left_out, views=views, safe=safe, what_if=asked)
                ]
    if redact:
        from advisor.report.redact import redact as cut

        made = [cut(analysis) for analysis in made]
        across = cut(across) if across else None
    if made:
        from advisor.results.several import Several

        document = Several(traces=made, across=across) if many else made[0]
        write(wanted, document, FORMATS, color, verbosity=verbose - quiet, source_root=source_root)
    for analysis in made:
        unanswered(words, analysis)
    if many:  # of one trace the report itself says it at its head
        from advisor.gating.baseline import cut_off

        for text in cut_off(made):
            complain(text, "note")
    options.keep(trace)
    return exit_code(made, across, len(made) + unread, fail_on or settings.fail_on)


def load_rules(settings: Config, folders: Sequence[str]) -> Rulebook:
    """The rules that ship with the advisor, those of the configuration, and those of ``--rules``."""
    from advisor.gating.run import rules

    return rules(settings, folders)


def expand(globs: Iterable[str], ids: Sequence[str], option: str) -> tuple[str, ...]:
    """The ids that any of *globs* fits. One that fits none is a mistake, and an error."""
    fitting: dict[str, None] = {}
    for glob in globs:
        found = [rule for rule in ids if fnmatch.fnmatchcase(rule, glob)]
        if not found:
            raise UsageError(f'{option} "{glob}" fits no rule{nearest(glob, ids)}. List them: advisor rules list.')
        fitting.update(dict.fromkeys(found))
    return tuple(fitting)


def unanswered(words: Sequence[str], analysis: Analysis) -> None:
    """Say which of the rules asked after are in no prediction for a trace."""
    priced = analysis.what_if.rules if analysis.what_if is not None else []
    for word in words:
        if not any(fnmatch.fnmatchcase(rule, word) for rule in priced):
            fires = [finding for finding in analysis.findings if fnmatch.fnmatchcase(finding.rule, word)]
            why = "fires without a price that could be replayed" if fires else "does not fire"
            complain(f"--what-if {word}: {why} in {analysis.trace.path}", "note")


def readable(path: str, settings: Config, say: Progress, reading: dict[str, Any]) -> Trace:
    """The trace, or the part of it that *reading* says. Raises ``TraceError`` where it cannot be read."""
    import advisor

    say(f"analyzing {shown(path)}")
    try:
        return advisor.read(path, libraries=settings.library, told=say.told, **reading)
    except OSError as error:
        raise TraceError(f"{shown(path)}: {error.strerror or error}") from error


def exit_code(made: Sequence[Analysis], across: Across | None, asked: int, fail_on: str | None) -> int:
    """3 where a trace could not be read, 2 where a rule failed, 1 where a finding is bad enough, else 0.

    What is incomplete comes first: a verdict on part of the evidence must not look like one on all of it.
    """
    if len(made) < asked:
        return TraceError.exit_code
    judged: list[Analysis | Across] = [*made, *([across] if across else [])]
    failed = sorted({failure.rule for part in judged for failure in part.verdicts.error})
    if failed:
        many = "1 rule" if len(failed) == 1 else f"{len(failed)} rules"
        complain(f"{many} failed on a trace and judged nothing there: {', '.join(failed)}")
        return AdvisorError.exit_code
    if fail_on is None:
        return 0
    worst = max((RANK[finding.severity] for part in judged for finding in part.findings), default=0)
    return 1 if worst >= RANK[fail_on] else 0
