"""Outputs of a command: each report with its format and its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from advisor import files
from advisor.cli.terminal import PIPED_WIDTH, put, wants_color, width
from advisor.errors import UsageError
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


def write(
    outputs: Sequence[Output],
    document: object,
    known: Mapping[str, Format],
    color: str,
    verbosity: int = 0,
    source_root: str | None = None,
    explain: str = "",
) -> None:
    """Render each report once and put it where it belongs."""
    for form, path in outputs:
        colored = wants_color(color) if path is None else color == "always"
        options = Options(width() if path is None else PIPED_WIDTH, colored, verbosity, source_root, explain)
        report = render(form.name, document, options, known)
        if path is None:
            put(report, binary=form.binary, color=colored)
        else:
            write_file(path, report)


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole, or leave the one there. Raises ``UsageError`` where that cannot be."""
    try:
        files.write(path, content)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
