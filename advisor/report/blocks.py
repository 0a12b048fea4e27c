"""The document model: what a report says, as blocks that every format can draw.

A builder of ``advisor.report.documents`` makes the blocks of a document once; ``text``, ``markdown`` and ``html.document`` draw
any blocks. Text in them is raw: cleaning and escaping it is the work of whoever draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple

import msgspec

Style = Literal["strong", "dim", "code", "name", "path", "link", "high", "medium", "low", "note", "good", "fair", "bad"]


class Span(msgspec.Struct, frozen=True):
    """A piece of text that stands out.

    ``code`` is shown whole; a ``name`` of a trace and the ``path`` of a stack frame may be cut in their middle. A ``link``
    has a ``url``, which is followed only where it is http or https. The other styles are colours.
    """

    text: str
    style: Style = "strong"
    url: str = ""


class Bar(msgspec.Struct, frozen=True):
    """A bar as long as a share of the room it has."""

    share: float
    style: Style = "note"


Piece = str | Span | Bar
Text = Piece | tuple[Piece, ...]


class Heading(msgspec.Struct, frozen=True):
    """A heading; level 1 begins a document or one of its traces. ``aside`` is said beside it."""

    text: Text
    level: int = 2
    aside: Text = ""


class Paragraph(msgspec.Struct, frozen=True):
    """Prose; with ``wrap`` false one line, however long, such as a command to copy."""

    text: Text
    wrap: bool = True


class Facts(msgspec.Struct, frozen=True):
    """Texts beside their labels; an empty label goes on with the one above. ``room`` is the labels' width in columns."""

    rows: Sequence[tuple[str, Text]]
    room: int = 9


class Items(msgspec.Struct, frozen=True):
    """A list. ``below`` holds the advice under each item, empty where there is none."""

    items: Sequence[Text]
    below: Sequence[Text] = ()

    def pairs(self) -> Iterator[tuple[Text, Text]]:
        """Yield each item with what is below it."""
        return zip_longest(self.items, self.below, fillvalue="")


class Table(msgspec.Struct, frozen=True):
    """A table; ``align`` has a sign a column: ``<`` a name, cut in its middle where it does not fit; ``~`` prose, which wraps;
    ``|`` words and bars, shown whole; ``>`` figures, whole and on the right.

    ``silent`` heads need not be read: a terminal leaves them out. ``notes`` are said below each row, ``caption`` below all.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Text]]
    align: str
    silent: bool = False
    notes: Sequence[str] = ()
    caption: Text = ""


class Code(msgspec.Struct, frozen=True):
    """Lines of code under a label."""

    text: str
    label: str = ""
    style: Style = "code"
    language: str = ""


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A figure over something that is counted from 0: its values, None where there is none.

    ``marks`` stand before the value that they name, each in its style; ``levels`` hold (first, end, value) of stretches.
    ``label`` says what it is, ``last`` the newest value with its unit; ``ends`` name the first value and the last.
    """

    label: Text
    values: Sequence[float | None]
    last: str
    marks: Sequence[tuple[int, Style]] = ()
    levels: Sequence[tuple[int, int, float]] = ()
    low: str = ""
    """The least value with its unit."""
    high: str = ""
    """The largest value with its unit."""
    ends: tuple[str, str] = ("", "")


class Charts(msgspec.Struct, frozen=True):
    """Small multiples: charts of one width, to be seen beside each other."""

    charts: Sequence[Chart]


class Fold(msgspec.Struct, frozen=True):
    """Blocks under a title, folded away where the format can."""

    title: Text
    blocks: Sequence[Block]


Block = Heading | Paragraph | Facts | Items | Table | Code | Charts | Fold


class Detail(NamedTuple):
    """Detail that is asked for, and abilities of the format: a builder says more where there is room for it."""

    verbosity: int = 0
    folds: bool = False
    """True where details can be folded away, so that all of them are there."""
    bars: bool = False
    """True where bars can be drawn."""
    wide: bool = False
    """True where there is room for columns that only add to the others."""
    width: int = 0
    """Columns of a terminal, which shows one screen unless more is asked for; 0 for all other formats."""

    @property
    def quiet(self) -> bool:
        """True where the least is asked for; a format that folds has its short form on top."""
        return self.verbosity < 0 and not self.folds

    @property
    def screen(self) -> bool:
        """True where one screen is to hold what matters most."""
        return self.verbosity == 0 and self.width > 0

    @property
    def everything(self) -> bool:
        """True where nothing is left out."""
        return self.verbosity > 0 or self.folds

    @property
    def hint(self) -> str:
        """The option that shows what is left out; empty where nothing is."""
        return "" if self.everything else " (-v)"


def pieces(text: Text) -> tuple[Piece, ...]:
    """Return the pieces of a text."""
    return text if isinstance(text, tuple) else (text,)


def prose(label: str, text: str) -> list[tuple[str, Text]]:
    """Return a rule's text of one or more paragraphs, as rows of :class:`Facts`."""
    return labelled(label, [paragraph for paragraph in text.strip().split("\n\n") if paragraph.strip()])


def labelled(label: str, texts: Sequence[Text]) -> list[tuple[str, Text]]:
    """Return rows of :class:`Facts` under one label."""
    return [(label if index == 0 else "", text) for index, text in enumerate(texts)]


def joined(texts: Iterable[Text], between: str) -> tuple[Piece, ...]:
    """Join texts, with *between* between them."""
    parts: list[Piece] = []
    for text in texts:
        parts += [between, *pieces(text)] if parts else pieces(text)
    return tuple(parts)
