"""``advisor analyze``: what slows each trace down, where, what to change and what it is worth."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.cli import complain, completion, options
from advisor.cli.outputs import Output, write
from advisor.cli.terminal import progress
from advisor.counting import counted
from advisor.errors import AdvisorError, TraceError, UsageError
from advisor.report import FORMATS

INCONCLUSIVE = 4
_NAMED = 5
"""Rules that --fail-on names; of more, the rest is counted."""

if TYPE_CHECKING:
    from advisor.config import Config
    from advisor.execution.messages import Settings
    from advisor.execution.run import Results
    from advisor.results.analysis import Analysis
    from advisor.results.several import Several


@dataclass(frozen=True)
class Choices:
    """The rules that are run, the questions to the plan, and what the report shows of it."""

    fail_on: str | None
    only: tuple[str, ...]
    skip: tuple[str, ...]
    source_root: str | None
    redact: bool
    views: bool
    what_if: tuple[str, ...]
    safe: bool
    explain: str | None
    peak: tuple[str, ...]

    @property
    def questions(self) -> list[str]:
        """The globs of ``--what-if``. Raises ``UsageError`` where it names none."""
        globs = [glob.strip() for listed in self.what_if for glob in listed.split(",") if glob.strip()]
        if self.what_if and not globs:
            raise UsageError("--what-if names no rule")
        return globs

    def check(self) -> None:
        """Raise ``UsageError`` where the report would have to show and to hide the same, or what is asked for is not there."""
        _ = self.questions
        if self.source_root is not None and self.redact:
            raise UsageError("--source-root shows lines of the source, and --redact takes them out; give one of them")
        if self.source_root is not None and not Path(self.source_root).is_dir():
            raise UsageError(f"--source-root {self.source_root}: no such folder")

    def check_outputs(self, outputs: Sequence[Output]) -> None:
        """Raise ``UsageError`` where a finding is to be explained in another format than text."""
        if self.explain is not None and any(output.format.name != "text" for output in outputs):
            raise UsageError("--explain prints text; leave out the other formats")

    def explained(self, document: Analysis | Several) -> str:
        """Return the finding to explain, or an empty text. Raises ``UsageError`` where there is no such finding."""
        if self.explain is None:
            return ""
        from advisor.report.documents.explain import choose

        choose(document, self.explain)
        return self.explain


choices = options.group(
    "choices",
    Choices,
    click.option(
        "--fail-on",
        type=click.Choice(["low", "medium", "high"]),
        help="Exit 1 if any finding is at least this severe, 4 where a recording cannot be judged.",
    ),
    click.option(
        "--only",
        multiple=True,
        metavar="GLOB",
        shell_complete=completion.globs,
        help="Run only rules whose id matches, such as 'precision/*'.",
    ),
    click.option(
        "--skip",
        multiple=True,
        metavar="GLOB",
        shell_complete=completion.globs,
        help="Leave out rules whose id matches.",
    ),
    click.option(
        "--source-root",
        metavar="DIR",
        shell_complete=completion.folders,
        help="Show the lines of your source, from files below DIR (HTML).",
    ),
    click.option("--redact", is_flag=True, help="Name no folders: paths become base names."),
    click.option(
        "--views",
        is_flag=True,
        help="Add to JSON the timeline, tables and curves of the HTML page, which always has them.",
    ),
    click.option(
        "--what-if",
        multiple=True,
        metavar="RULE[,RULE...]",
        shell_complete=completion.globs,
        help="Predict the step with the fixes of these rules together.",
    ),
    click.option(
        "--explain",
        metavar="[N|RULE]",
        shell_complete=completion.rules,
        is_flag=False,
        flag_value="all",
        help="Print everything about a finding, by its number or rule, or about each (after TRACE).",
    ),
    click.option(
        "--peak",
        multiple=True,
        metavar="RATE=NUMBER",
        help="A rate of the device, such as bf16=989, memory=3.35TB/s or reachable.bf16=780.",
    ),
    click.option(
        "--safe", is_flag=True, help="Leave fixes out of the plan that can change convergence: batch size, precision."
    ),
)


@click.command("analyze", short_help="What slows a program down, where, and what to change.")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, shell_complete=completion.files)
@options.reports(FORMATS)
@options.catalogue
@choices
@options.look("A headline, and one line a finding.", "Everything: all places, references, and what passed.")
@options.reading
@options.workers
def command(
    traces: tuple[str, ...],
    reports: options.Reports,
    catalogue: options.Catalogue,
    choices: Choices,
    look: options.Look,
    reading: options.Reading,
    workers: options.Workers,
) -> int:
    """Say what slows a program down, from the trace that torch.profiler wrote.

    TRACE is a .json or .json.gz file, a folder of such files (one of each rank), or a URL that fsspec knows; - reads
    standard input. One screen says what to do first, what it is worth and where; --explain tells all about a finding. With
    several traces, one that cannot be read does not keep the others from being reported; the exit code is 3 then. With
    --fail-on a trace that cannot be judged (cut off, empty, start-up alone) comes to 4, and the reason is said.

    \b
      advisor analyze trace.json.gz
      advisor analyze trace.json.gz --explain 1
      advisor analyze trace.json -f json -o report.json --fail-on high
      advisor analyze traces/ -o report.html
      advisor analyze 's3://bucket/run/*.json.gz' --scheduler tcp://host:8786
    """
    verbosity = look.verbosity
    choices.check()
    from advisor.execution import inputs

    files = inputs.find(options.once(traces))
    for note in files.notes:
        options.note(note)
    if workers.scheduler is not None and "-" in traces:
        raise UsageError("--scheduler: workers cannot read this command's standard input (-); name a file or a URL")
    if files.several:
        gc.enable()  # each trace is let go of before the next
    outputs = reports.check(FORMATS, files.addresses)
    choices.check_outputs(outputs)
    if not files.several and workers.jobs is None and workers.scheduler is None:
        # Before the settings and the rules are loaded, which takes as long as others read 150 MB.
        _read_ahead(files.addresses[0], cached=not reading.no_cache)
    config = catalogue.settings()
    arguments = reading.arguments(config)
    if reading.window is not None and files.several:
        raise UsageError("--window: each trace has a window of its own; give one trace, or --steps")
    views = choices.views or any(output.format.views for output in outputs)
    settings = settings_of(choices, catalogue, config, arguments, views)
    from advisor.execution.run import run
    from advisor.results.decision import unanswered, untelling
    from advisor.results.several import Several

    with progress(look.quiet) as say:
        results = run(
            files,
            settings,
            jobs=workers.jobs,
            scheduler=workers.scheduler,
            say=say,
            progress=say.advance,
            own=_owns_process(),
        )
    _report_unread(results)
    if not results.analyses:
        return TraceError.exit_code
    document = Several(traces=results.analyses, across=results.across) if files.several else results.analyses[0]
    if choices.redact:
        from advisor.report.redact import redact

        document = redact(document)
    explained = choices.explained(document)
    write(outputs, document, FORMATS, look.color, verbosity, choices.source_root, explained, reports.show)
    for text in unanswered(document, choices.questions):
        options.note(f"--what-if {text}")
    if isinstance(document, Several):  # of one trace the report itself says it at its head
        for text in untelling(document):
            options.note(text)
    options.keep(results.trace)
    return TraceError.exit_code if results.failed else _exit_code(document, choices.fail_on or config.fail_on)


def _read_ahead(path: str, *, cached: bool) -> None:
    """Let other processes begin with a large trace while this one loads what analyzing takes, unless the cache may have it."""
    from advisor.cache.store import may_hold
    from advisor.reading import workers

    if cached and may_hold(path):
        return
    click.get_current_context().call_on_close(workers.end_ahead)
    with suppress(OSError):  # whoever reads the file says what is wrong with it
        workers.start_ahead(path)


def _owns_process() -> bool:
    """Tell whether nothing but this command goes on in this process."""
    return bool(getattr(click.get_current_context().find_root().command, "ends_process", False))


def defaults() -> Choices:
    """Return the choices of a command that is asked for nothing in particular."""
    return Choices(
        fail_on=None, only=(), skip=(), source_root=None, redact=False, views=False, what_if=(), safe=False, explain=None,
        peak=(),
    )  # fmt: skip


def settings_of(
    choices: Choices, catalogue: options.Catalogue, config: Config, reading: dict[str, object], views: bool
) -> Settings:
    """Make the settings of the analysis from those of the project and the command line, which comes first."""
    from advisor.config import given_rates
    from advisor.execution.messages import Settings

    rules = catalogue.rules(config)
    only, option = (choices.only, "--only") if choices.only else (config.only, f"{config.path}: only")
    return Settings(
        rules=rules.rules,
        only=options.expand(only, rules, option),
        skip=options.expand(choices.skip, rules, "--skip") + options.expand(config.skip, rules, f"{config.path}: skip"),
        views=views,
        safe=choices.safe,
        what_if=options.expand(choices.questions, rules, "--what-if"),
        libraries=config.library,
        rates=(config.hardware, given_rates(choices.peak)),
        reading=reading,
    )


def _report_unread(results: Results) -> None:
    for text in results.foreign:
        options.note(f"left out: {text}")
    for text in results.failed:
        complain(text)
    if results.cache_problem:
        options.note_unkept(results.cache_problem)
    if not results.analyses and not results.failed:
        complain("none of the files is a trace")


def _exit_code(document: Analysis | Several, fail_on: str | None) -> int:
    """Return 2 where a rule failed; with *fail_on* 1 where a finding is bad enough, 4 where nothing can be judged; else 0.

    What is incomplete comes first: a verdict on part of the evidence must not look like one on all of it.
    """
    from advisor.results.decision import failed_rules, judged, reaching, untelling
    from advisor.results.several import Several

    if failed := failed_rules(document):
        many = counted(len(failed), "rule")
        complain(f"{many} failed on a trace and judged nothing there: {', '.join(failed)}")
        return AdvisorError.exit_code
    if fail_on is None:
        return 0
    reasons = untelling(document)
    if found := reaching(judged(document), fail_on):
        rules = list(dict.fromkeys(finding.rule for finding in found))
        many = "1 finding is" if len(found) == 1 else f"{len(found)} findings are"
        worse = "" if fail_on == "high" else " or worse"
        more = f" and {len(rules) - _NAMED} more" if len(rules) > _NAMED else ""
        options.note(f"fail-on {fail_on}: {many} {fail_on}{worse}: {', '.join(rules[:_NAMED])}{more}; exit code 1")
        return 1
    if reasons and isinstance(document, Several):  # each has been named
        reasons = [f"{len(reasons)} of {len(document.traces)} recordings cannot be judged"]
    for reason in reasons:
        complain(f"inconclusive: {reason}")
    return INCONCLUSIVE if reasons else 0
