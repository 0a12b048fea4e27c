"""The line on a terminal that says what is under way, with a bar while a file is read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.progress import Progress as Lines
from rich.progress import ProgressColumn, SpinnerColumn, Task
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from advisor.cli.terminal import Progress
from advisor.report.plain import clean, shorten

_BAR = 24
_MB = 1e6
# Smaller files are read before anyone has seen a bar.
_LEAST = 4_000_000


class Bar(Progress):
    """Noted here, drawn by a thread of its own ten times a second: whoever reads waits for nothing."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.text = ""
        self.done: int = 0
        self.whole: int | None = None

    def __call__(self, text: str) -> None:
        """Say what begins."""
        self.text, self.done, self.whole = text, 0, None

    def told(self, done: int, whole: int | None) -> None:
        """So many bytes of the file are read, and of how many."""
        self.done, self.whole = done, whole

    def line(self) -> RenderableType:
        """What is under way; of a file that is being read also how much."""
        done, whole = self.done, self.whole
        reading = done >= _LEAST if whole is None else _LEAST <= whole > done > 0
        size = f"{done / _MB:,.0f} MB" if whole is None else f"{done / _MB:,.0f} of {whole / _MB:,.0f} MB"
        taken = (_BAR + 2) * (whole is not None) + len(size) + 1 if reading else 0
        cells: list[RenderableType] = [Text(shorten(clean(self.text), max(20, self.room - taken)))]
        if reading and whole is not None:
            cells.append(ProgressBar(total=whole, completed=done, width=_BAR))
        if reading:
            cells.append(Text(size))
        grid = Table.grid(padding=(0, 1))
        grid.add_row(*cells)
        return grid


class _Line(ProgressColumn):
    max_refresh = 0.1

    def __init__(self, bar: Bar) -> None:
        super().__init__()
        self._bar = bar

    def render(self, task: Task) -> RenderableType:
        return self._bar.line()


@contextlib.contextmanager
def watched() -> Iterator[Progress]:
    """A bar on stderr, gone when it is done."""
    console = Console(stderr=True)
    bar = Bar(console.width - 4)
    with Lines(SpinnerColumn(), _Line(bar), console=console, transient=True) as lines:
        lines.add_task("")
        yield bar
