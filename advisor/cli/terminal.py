"""Where a command's output goes: colour, width, encoding, progress."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from typing import IO

import click

from advisor.errors import UsageError

PIPED_WIDTH = 100

# For consoles that cannot write the report's few characters beyond ASCII. Bars are rounded to whole columns.
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("▏▎▍", " "),
        **dict.fromkeys("▌▋▊▉█", "#"),
        **dict.fromkeys("“”", '"'),
        **{"–": "-", "→": ">", "·": "-", "…": "~", "×": "x", "═": "=", "∞": "inf", "µ": "u"},
    }
)


def _is_terminal(stream: IO[str] | None) -> bool:
    """Whether a person watches the stream; a closed one (``>&-``) is None."""
    return stream is not None and stream.isatty()


def wants_color(choice: str) -> bool:
    """Whether stdout gets colours: as ``--color`` says, else on a terminal that has not asked for none."""
    if choice != "auto":
        return choice == "always"
    return _is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Columns of the terminal, within what still reads well; 100 when piped."""
    if not _is_terminal(sys.stdout):
        return PIPED_WIDTH
    return min(140, max(60, shutil.get_terminal_size((PIPED_WIDTH, 24)).columns))


def put(content: bytes, *, binary: bool = False, color: bool = False) -> None:
    """Write a report to stdout, in the encoding that stdout has. The report's bytes are UTF-8 unless *binary*.

    Raises UsageError where stdout is closed or its disk is full.
    """
    try:
        _put(content, binary=binary, color=color)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"standard output: {error.strerror or error}") from error


def _put(content: bytes, *, binary: bool, color: bool) -> None:
    if sys.stdout is None:
        raise UsageError("standard output is closed; name a file with -o")
    if binary:
        sys.stdout.buffer.write(content)
        return
    text = content.decode("utf-8")
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    click.echo(text, nl=False, color=color)


class Progress:
    """What is under way, and how far a file has been read. Nobody watches this one."""

    def __call__(self, text: str) -> None:
        """Say what begins."""

    def told(self, done: int, whole: int | None) -> None:
        """So many bytes of the file are read, and of how many; None where nobody knows."""


@contextlib.contextmanager
def progress(quiet: bool = False) -> Iterator[Progress]:
    """Say what is under way on stderr, where a person watches it; silent when piped."""
    if quiet or not _is_terminal(sys.stderr):
        yield Progress()
        return
    from advisor.cli.bar import watched

    with watched() as bar:
        yield bar
