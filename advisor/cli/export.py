"""``advisor export``: the part of a trace that holds the evidence, annotated, to open in Perfetto."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import click

from advisor import files
from advisor.cli import completion, options
from advisor.cli.outputs import check_outputs
from advisor.cli.terminal import progress, put
from advisor.errors import UsageError


@click.command("export", short_help="The evidence as a small annotated trace, for Perfetto.")
@click.argument("trace", metavar="TRACE", shell_complete=completion.files)
@click.option("--findings", is_flag=True, hidden=True, help="What is written anyway; scripts may still ask for it.")
@click.option("-o", "--output", required=True, metavar="FILE", help="Where to write it: .json, or .json.gz.")
@options.force
@options.catalogue
@click.option(
    "--only",
    multiple=True,
    metavar="GLOB",
    shell_complete=completion.globs,
    help="Only findings of rules whose id matches.",
)
@options.cached_reading
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def command(
    trace: str,
    findings: bool,
    output: str,
    force: bool,
    catalogue: options.Catalogue,
    only: tuple[str, ...],
    reading: options.Reading,
    quiet: bool,
) -> None:
    """Write the step that the report shows as a trace of its own, to open at ui.perfetto.dev or chrome://tracing.

    Every event that is evidence carries the rule in its arguments (search for advisor in Perfetto), and a process "advisor"
    holds a track for each finding and one for the cause of every moment of the GPU. Names are those of the report:
    nothing else of the file is kept.
    """
    from advisor.engine.run import run
    from advisor.pipeline import analyze
    from advisor.reading.containers import waiting
    from advisor.report.figures import tally
    from advisor.report.plain import size
    from advisor.trace import read
    from advisor.views.evidence import evidence

    path = Path(output)
    if not path.name.lower().endswith((".json", ".json.gz")):
        raise UsageError(f"{path}: a trace is written; name it .json or .json.gz")
    check_outputs([path], [trace], force)
    settings = catalogue.settings()
    rules = catalogue.rules(settings)
    chosen = options.expand(only or settings.only, rules, "--only")
    with progress(quiet) as say:
        say(f"reading {trace}{waiting(trace)}")
        recorded = read(
            trace,
            libraries=settings.library,
            rates=[settings.hardware],
            progress=say.advance,
            **reading.arguments(settings),
        )
        outcome = run(recorded, rules, only=chosen, skip=settings.skip)
        analysis = analyze(recorded, rules, only=chosen, skip=settings.skip, views=False)
        pieces = evidence(recorded, outcome, analysis.findings)
        _write(path, pieces)
    put(f"{path}: {size(path.stat().st_size)}, {tally(analysis.findings)}\n".encode())
    options.keep(recorded)


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    """Write the trace piece by piece, compressed where its name says so. Raises ``UsageError``."""
    import gzip
    from contextlib import ExitStack

    try:
        with ExitStack() as stack:
            file: BinaryIO | gzip.GzipFile = stack.enter_context(files.replacing(path))
            if path.suffix == ".gz":  # no name and no time of writing: the same trace gives the same bytes
                file = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
            for piece in pieces:
                file.write(piece)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
