"""``advisor history``: figures over commits, where their levels changed, and a check that fails on drift."""

from __future__ import annotations

import datetime
import time
from pathlib import Path

import click

from advisor.cli import completion, options
from advisor.cli.outputs import write
from advisor.cli.terminal import progress
from advisor.counting import counted
from advisor.errors import UsageError
from advisor.report.history import FORMATS

EXIT = {"passed": 0, "failed": 1, "inconclusive": 4}
_HEAD = 4096

store = click.option(
    "--store",
    "folder",
    default="advisor-history",
    metavar="FOLDER",
    shell_complete=completion.folders,
    help="Folder of the runs, or a URL such as s3://bucket/folder [advisor-history].",
)
branch = click.option("--branch", metavar="NAME", help="The branch [the one with most runs].")


@click.group("history", short_help="Figures over commits, and where they changed.")
def command() -> None:
    """Keep the figures of each commit, see where their levels changed, and fail on drift that no single step showed."""


@command.command("add", short_help="Add a run of a commit.")
@click.argument("traces", metavar="TRACE|BASELINE...", nargs=-1, required=True, shell_complete=completion.files)
@click.option("--commit", required=True, metavar="NAME", help="The commit that was run.")
@click.option("--branch", "name", required=True, metavar="NAME", help="The branch it is on.")
@click.option(
    "--time", "moment", metavar="TIME", help="When, as 2026-11-25T02:37:12+00:00 [now]; runs are in this order."
)
@click.option("--workload", metavar="NAME", help="What was run; only runs of the same name are one series.")
@store
@options.catalogue
@click.option("-q", "--quiet", is_flag=True, help="Say nothing.")
def add(
    traces: tuple[str, ...],
    commit: str,
    name: str,
    moment: str | None,
    workload: str | None,
    folder: str,
    catalogue: options.Catalogue,
    quiet: bool,
) -> int:
    """Add a run to the store: the figures of a trace, as the gate compares them, or of a baseline.

    Several traces are repeated runs of the same commit, and one point. Any number of jobs may add at the same time.

    \b
      advisor history add trace.json.gz --commit "$(git rev-parse --short HEAD)" --branch main
      advisor history add advisor-baseline.json --commit 1f3c9aa --branch main --store s3://bucket/history
    """
    at = int(time.time() * 1000) if moment is None else _moment(moment)
    from advisor.gating import baseline
    from advisor.gating.history.record import add as add_run
    from advisor.gating.history.store import Store
    from advisor.gating.run import runs
    from advisor.results.decision import obstacle

    place = Store(folder)
    settings = catalogue.settings()
    paths = options.once(traces)
    if _is_baseline(paths[0]):
        if len(paths) > 1:
            raise UsageError("a baseline is one run of the history: add it alone")
        base = baseline.load(Path(paths[0]))
        if workload is not None and workload != base.fingerprint.workload:
            raise UsageError(f"the baseline is of workload {base.fingerprint.workload!r}, not {workload!r}")
    else:
        label = workload if workload is not None else settings.gate.workload or ""
        with progress(quiet) as say:
            analyses = runs(paths, settings, catalogue.rules(settings), say=say, note=options.note)
        if problems := list(filter(None, map(obstacle, analyses))):
            raise UsageError("; ".join(problems))
        base = baseline.make(analyses, workload=label)
    reason = add_run(place, base, commit, name, at)
    if reason:
        options.note(f"it begins a series of its own: {reason}")
    if not quiet:
        from advisor.report.plain import clean

        click.echo(
            clean(
                f"{place}: {commit} on {name}, {counted(len(base.metrics), 'metric')} of {counted(sum(base.steps), 'step')}"
            )
        )
    return 0


def _moment(text: str) -> int:
    """Read a time, in ms since 1970. Raises ``UsageError``; one without a zone is in UTC."""
    try:
        when = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--time {text!r}: give it as 2026-11-25T02:37:12+00:00 (git show -s --format=%cI)") from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.UTC)
    if when.year < 1970:
        raise UsageError(f"--time {text!r}: lies before 1970")
    return int(when.timestamp() * 1000)


def _is_baseline(path: str) -> bool:
    """Tell a baseline from a trace, by the key that its sorted keys begin with."""
    try:
        if not Path(path).is_file():
            return False
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return b"".join(head.split()).startswith(b'{"advisor":"')


@command.command("show", short_help="Draw each figure over commits.")
@store
@branch
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Only this figure (repeatable).")
@click.option("--html", "page", metavar="FILE", help="Write the page; the same as -o FILE.html.")
@options.reports(FORMATS)
@options.look("One line.", "Every change point.")
def show(
    folder: str,
    branch: str | None,
    metrics: tuple[str, ...],
    page: str | None,
    reports: options.Reports,
    look: options.Look,
) -> int:
    """Draw each figure over the commits of a branch, with the commits between which its level changed.

    Recordings that are not alike (another device, another batch) are series of their own.

    \b
      advisor history show
      advisor history show --html history.html
    """
    verbosity = look.verbosity
    if page is not None:
        if reports.formats or reports.outputs:
            raise UsageError("--html writes one page; give the other reports by -f and -o, the page too")
        reports = options.Reports(("html",), (page,), reports.force, reports.show)
    outputs = reports.check(FORMATS, [])
    from advisor.gating.history.store import Store
    from advisor.gating.history.summary import history

    document = history(Store(folder), branch, metrics)
    write(outputs, document, FORMATS, look.color, verbosity, show=reports.show)
    return 0


@command.command("check", short_help="Fail on drift.")
@store
@branch
@click.option(
    "--runs",
    "newest",
    type=click.IntRange(1),
    default=30,
    metavar="N",
    help="A change within the newest N runs counts [30].",
)
@click.option(
    "--since", metavar="COMMIT", help="Only a change behind this commit counts: one that is known and accepted."
)
@options.reports(FORMATS)
@click.option(
    "--inconclusive",
    type=click.Choice(["exit", "pass", "fail"]),
    default="exit",
    help="Exit code where there is no answer: 4, 0 or 1 [exit].",
)
@options.look("One line.")
def check(
    folder: str,
    branch: str | None,
    newest: int,
    since: str | None,
    reports: options.Reports,
    inconclusive: str,
    look: options.Look,
) -> int:
    """Fail where a figure got worse over the newest runs, be it by less than any single step would show.

    Exit codes: 0 nothing got worse; 1 something did; 4 inconclusive: fewer than 8 runs, or too much noise.

    \b
      advisor history check --branch main
      advisor history check --branch main --since 1f3c9aa
    """
    outputs = reports.check(FORMATS, [])
    from advisor.gating.history.store import Store
    from advisor.gating.history.summary import check as check_runs
    from advisor.gating.history.summary import history

    drift = check_runs(history(Store(folder), branch), newest, since)
    write(outputs, drift, FORMATS, look.color, look.verbosity)
    code = EXIT[drift.verdict]
    return code if code != EXIT["inconclusive"] else {"exit": code, "pass": 0, "fail": 1}[inconclusive]
