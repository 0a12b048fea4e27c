"""``advisor ladder``: an article's ladder of optimizations, climbed on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from advisor.cli import complain, completion, options
from advisor.cli.outputs import write_file
from advisor.cli.terminal import progress, put, width
from advisor.errors import UsageError

EXIT_INCONCLUSIVE = 4


@click.command("ladder", short_help="Climb an article's ladder of optimizations on this machine.")
@click.option("--device", type=click.Choice(["cuda", "cpu"]), help="Where to train [a GPU if there is one].")
@click.option("--steps", type=click.IntRange(2, 10_000), default=40, help="Steps to time in each state [40].")
@click.option("--states", type=click.IntRange(1), help="Climb the first so many states only.")
@click.option(
    "-o",
    "--output",
    "--out",
    "out",
    metavar="DIR",
    default="advisor-ladder",
    shell_complete=completion.folders,
    help="Where traces and tables go [advisor-ladder].",
)
@options.force
@click.option("-q", "--quiet", is_flag=True, help="Write the files, and print nothing.")
def command(device: str | None, steps: int, states: int | None, out: str, force: bool, quiet: bool) -> int:
    """Train a ResNet-18 in each state of an article's ladder, and say what each change was worth.

    Each state runs in processes of its own: timed without the profiler, then recorded, and its trace analyzed. DIR gets the
    traces, the program (train.py), and the table as ladder.txt, ladder.json and ladder.html. Nothing is downloaded: pictures
    and weights are random. A GPU gets the article's eight states; a CPU gets a smaller network, and the changes that mean
    something there. It needs torch and Pillow. Exit code 4: a state that should have run failed.

    \b
      advisor ladder
      advisor ladder --device cpu --steps 20 -o ladder
    """
    from advisor.record import require_torch
    from advisor.rulebook import shipped

    sys.path.insert(0, str(shipped.folder("examples")))
    from ladder import html, running, table, text

    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not force)):
        raise UsageError(f"{out}: exists. Give --force to write into it, or name another --output.")
    require_torch()
    machine = running.machine(device)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror or error}") from error

    def keep(climb: table.Ladder) -> None:
        write_file(folder / "ladder.txt", text.render(climb).encode("utf-8"))
        write_file(folder / "ladder.json", climb.to_json())
        write_file(folder / "ladder.html", html.render(climb).encode("utf-8"))

    with progress(quiet) as say:
        climb = table.climb(machine, folder.resolve(), steps=steps, states=states, say=say, keep=keep)
    keep(climb)
    if not quiet:
        put(text.render(climb, width()).encode("utf-8"))
    failed = [rung for rung in climb.rungs if rung.outcome == "failed"]
    for rung in failed:
        complain(f"state {rung.number}, {rung.title}: {rung.because}")
    return EXIT_INCONCLUSIVE if failed else 0
