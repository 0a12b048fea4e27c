"""Terminal output of a command: colour, width, encoding, progress."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from typing import IO, ClassVar, TextIO

import click

from advisor.errors import UsageError
from advisor.privacy import without_secrets

PIPED_WIDTH = 100
_BAR = 24
_MB = 1e6
# Smaller files are read before anyone has seen a bar.
_LEAST = 4_000_000

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
    """Tell whether a person watches the stream; a closed one (``>&-``) is None."""
    return stream is not None and stream.isatty()


def wants_color(choice: str) -> bool:
    """Tell whether stdout gets colours: as ``--color`` says, else on a terminal that has not asked for none."""
    if choice != "auto":
        return choice == "always"
    return _is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Return the columns of the terminal, within what still reads well; when piped those that COLUMNS says, or 100."""
    piped = not _is_terminal(sys.stdout) and not os.environ.get("COLUMNS", "").isdigit()
    columns = PIPED_WIDTH if piped else shutil.get_terminal_size((PIPED_WIDTH, 24)).columns
    return min(200, max(60, columns))


def put(content: bytes, *, binary: bool = False, color: bool = False) -> None:
    """Write a report to stdout, in the encoding that stdout has. The report's bytes are UTF-8 unless *binary*.

    Raises UsageError where stdout is closed or its disk is full.
    """
    if sys.stdout is None:
        raise UsageError("standard output is closed; name a file with -o")
    try:
        if binary or _takes_bytes(sys.stdout):
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        else:
            click.echo(_writable(content.decode("utf-8"), sys.stdout), nl=False, color=color)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"standard output: {error.strerror or error}") from error


def _takes_bytes(stream: TextIO) -> bool:
    """Tell whether UTF-8 goes to a stream as it is: into a file or a pipe, where nothing of the text is changed on its way.

    A report of a thousand ranks is then in memory once, and not as text too.
    """
    encoding = (stream.encoding or "").lower().replace("-", "")
    return encoding == "utf8" and os.linesep == "\n" and hasattr(stream, "buffer") and not stream.isatty()


def _writable(text: str, stream: TextIO) -> str:
    """Return *text* in characters that the encoding of a stream has."""
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    return text


class Progress:
    """Progress of a command and of reading its file, silent: nobody watches this one."""

    def __call__(self, text: str) -> None:
        """Say what begins."""

    def advance(self, done: int, total: int | None) -> None:
        """Report the bytes of the file that are read so far, and of how many; None where nobody knows."""


class Line(Progress):
    """One line on stderr, written over ten times a second at most, and gone when the work is done."""

    shown: ClassVar[Line | None] = None

    def __init__(self, room: int) -> None:
        self.room = room
        self._text = ""
        self._again = 0.0
        self._wide = 0

    def __call__(self, text: str) -> None:
        """Say what begins."""
        self._text = text
        self.draw(self.line(0, None))

    def advance(self, done: int, total: int | None) -> None:
        """Show the bytes of the file that are read so far, and of how many."""
        if time.monotonic() >= self._again or done == total:
            self.draw(self.line(done, total))

    def line(self, done: int, total: int | None) -> str:
        """Make the line that says what is under way; of a large file that is being read also how much."""
        from advisor.report.plain import clean, shorten

        size = ""
        if total is not None and _LEAST <= total > done > 0:
            full = _BAR * done // total
            size = f" [{'#' * full:{_BAR}}] {done / _MB:,.0f} of {total / _MB:,.0f} MB"
        elif total is None and done >= _LEAST:
            size = f" {done / _MB:,.0f} MB"
        return shorten(clean(without_secrets(self._text)), max(20, self.room - len(size))) + size

    def draw(self, line: str) -> None:
        """Write *line* over the one before; an empty one clears it."""
        from advisor.report.plain import columns

        Line.shown, self._again = self if line else None, time.monotonic() + 0.1
        wide, before = columns(line), self._wide
        self._wide = wide
        with contextlib.suppress(OSError):
            blanks = " " * (before - wide)
            click.echo(_writable(f"\r{line}{blanks}", sys.stderr) + "\r" * (not line), nl=False, err=True)


def clear() -> None:
    """Take away the line that says what is under way, for what is written next."""
    if Line.shown is not None:
        Line.shown.draw("")


@contextlib.contextmanager
def progress(quiet: bool = False) -> Iterator[Progress]:
    """Say what is under way on stderr, where a person watches it; silent when piped."""
    if quiet or not _is_terminal(sys.stderr):
        yield Progress()
        return
    try:
        yield Line(shutil.get_terminal_size((PIPED_WIDTH, 24)).columns - 1)
    finally:
        clear()
