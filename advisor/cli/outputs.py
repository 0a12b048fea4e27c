"""Outputs of a command: each report with its format and its file."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from advisor import files
from advisor.cli import complain
from advisor.cli.terminal import PIPED_WIDTH, put, wants_color, width
from advisor.errors import UsageError
from advisor.privacy import without_secrets
from advisor.report import Format, Options, format_of, render


class Output(NamedTuple):
    """One report to write; ``path`` is None for stdout."""

    format: Format
    path: Path | None


def pair(formats: Sequence[str], outputs: Sequence[str], known: Mapping[str, Format]) -> list[Output]:
    """Pair each report with its place. Raises ``UsageError`` where formats and outputs do not pair up."""
    if not outputs:
        if len(formats) > 1:
            raise UsageError(f"{len(formats)} formats and no --output: give each format its -o FILE (- is stdout)")
        return [Output(known[formats[0] if formats else "text"], None)]
    if formats and len(formats) != len(outputs):
        raise UsageError(
            f"{len(formats)} formats for {len(outputs)} outputs: give each output a format, or none to go by suffix"
        )
    chosen = []
    for index, name in enumerate(outputs):
        path = None if name == "-" else Path(name)
        if formats:
            chosen.append(Output(known[formats[index]], path))
        else:
            chosen.append(Output(known["text"] if path is None else format_of(name, known), path))
    named = [output.path if output.path is None else output.path.absolute() for output in chosen]
    if len(set(named)) < len(named):
        raise UsageError("two reports would go to the same place; give each its own --output")
    return chosen


def check_outputs(paths: Sequence[Path | None], inputs: Sequence[str], force: bool) -> None:
    """Find before the work what would keep a report from being written. Raises ``UsageError``."""
    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise UsageError(f"{path}: is a folder; name a file in it")
        if not path.parent.is_dir():
            raise UsageError(f"{path}: no folder {path.parent}; make it first")
        if not path.is_file():  # a new file, or a device such as /dev/null
            continue
        if any(name != "-" and Path(name).is_file() and path.samefile(name) for name in inputs):
            raise UsageError(f"{path}: is a trace to be read, or a baseline; name another --output")
        if not force:
            raise UsageError(f"{path}: exists. Give --force to overwrite it, or name another --output.")


def check_pages(outputs: Sequence[Output]) -> None:
    """Raise ``UsageError`` where no output is a page in a file, that a browser could open."""
    if any(_is_page(output) for output in outputs):
        return
    written = ", ".join(str(path) for _, path in outputs if path is not None)
    page = any(form.name == "html" for form, _ in outputs)
    lack = "the page goes to stdout" if page else f"{written} is no page" if written else "nothing is written to a file"
    raise UsageError(f"--open: {lack}; give -o report.html")


def _is_page(output: Output) -> bool:
    return output.format.name == "html" and output.path is not None


def write(
    outputs: Sequence[Output],
    document: object,
    known: Mapping[str, Format],
    color: str,
    verbosity: int = 0,
    source_root: str | None = None,
    explain: str = "",
    show: bool = False,
) -> None:
    """Render each report once and put it where it belongs; of a page in a file, say what it says and where it is."""
    for form, path in outputs:
        colored = wants_color(color) if path is None else color == "always"
        options = Options(width() if path is None else PIPED_WIDTH, colored, verbosity, source_root, explain)
        report = render(form.name, document, options, known)
        if path is None:
            put(report, binary=form.binary, color=colored)
        else:
            write_file(path, report)
    pages = [output.path for output in outputs if _is_page(output) and output.path is not None]
    if pages and verbosity >= 0:
        _tell(document, pages, any(path is None or path.parts[:2] == ("/", "dev") for _, path in outputs))
    for path in pages if show else ():
        _open(path)


def _tell(document: object, pages: Sequence[Path], taken: bool) -> None:
    """Print the headline and the paths: on stderr where stdout is *taken* by a report, or closed."""
    from advisor.report.documents import headline
    from advisor.report.plain import clean

    lines = [clean(without_secrets(text)) for text in (headline(document), *map(str, pages))]
    if taken or sys.stdout is None:
        click.echo("\n".join(lines), err=True)
    else:
        put("".join(f"{line}\n" for line in lines).encode())


def _open(path: Path) -> None:
    """Open a page in the browser of this machine; where there is none, say so."""
    import webbrowser

    try:
        opened = webbrowser.open(path.absolute().as_uri())
    except webbrowser.Error:
        opened = False
    if not opened:
        complain(f"--open: no browser was found; the page is {path}", "note")


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole, or leave the one there. Raises ``UsageError`` where that cannot be."""
    try:
        files.write(path, content)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
