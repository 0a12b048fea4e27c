"""An edit: a mechanical change of the source that serves the findings of some rules, and the files that it may look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path, PurePosixPath
from typing import TypeVar

import libcst as cst
from libcst import matchers

from advisor.fix.source import NotEditable, Piece, Source
from advisor.results.analysis import Analysis, Finding

Node = TypeVar("Node")


@dataclass(frozen=True)
class Change:
    """The new text of one file, and what was changed in a few words."""

    path: PurePosixPath
    before: str
    after: str
    what: str


@dataclass
class Files:
    """The files of a project as an edit sees them, some of them as kept edits left them.

    *find* returns the path of a file below the root for one as the trace names it. *kept* are texts by path.
    """

    root: Path
    find: Callable[[str], PurePosixPath | None]
    script: PurePosixPath | None = None
    kept: dict[PurePosixPath, str] = field(default_factory=dict)
    written: dict[PurePosixPath, str] = field(default_factory=dict)
    original_texts: dict[PurePosixPath, str] = field(default_factory=dict)
    _parsed: dict[tuple[PurePosixPath, str], Source] = field(default_factory=dict)

    def original(self, path: PurePosixPath) -> str:
        """Read a file as it was recorded. Raises ``NotEditable`` where it cannot be read as text."""
        if path in self.original_texts:
            return self.original_texts[path]
        try:
            # Line ends stay as they are.
            text = self.original_texts[path] = (self.root / path).read_bytes().decode("utf-8")
            return text
        except (OSError, UnicodeDecodeError) as error:
            raise NotEditable(f"{path} cannot be read: {type(error).__name__}") from None

    def source(self, path: PurePosixPath) -> Source:
        """Parse a file as it is now."""
        text = self.kept.get(path)
        if text is None:
            text = self.original(path)
        key = (path, text)
        if key not in self._parsed:
            self._parsed[key] = Source(path, text)
        return self._parsed[key]

    def at(self, file: str | None, line: int | None) -> tuple[Source, int]:
        """Return the source of a recorded place, and its line there now. Raises ``NotEditable`` where it is unknown."""
        if not file or not line:
            raise NotEditable("the recording does not say where")
        path = self.find(file)
        if path is None:
            raise NotEditable(f"{file} is no file of the project")
        source = self.source(path)
        if path not in self.kept:
            return source, line
        return source, moved(self.original(path), self.kept[path], line)


def moved(before: str, after: str, line: int) -> int:
    """Return the line of *after* that a line of *before* became. Raises ``NotEditable`` where it was changed or is gone."""
    matcher = SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        if first < line <= last:
            if tag == "equal":
                return start + line - first
            if tag == "replace" and last - first == end - start:
                return start + line - first  # the same statement, with another argument
            raise NotEditable("an edit before it changed the place")
    raise NotEditable("the file has no such line")


@dataclass(frozen=True)
class Request:
    """One finding that an edit may serve, the analysis that it is from, and the files to look at."""

    finding: Finding
    analysis: Analysis
    files: Files
    cores: int | None = None

    def places(self) -> Iterator[tuple[Source, int]]:
        """Yield the sources and lines of the finding's places. Raises ``NotEditable`` where one is unknown."""
        for spot in self.finding.where:
            yield self.files.at(spot.file, spot.line)

    def script(self) -> Source:
        """Return the script's source. Raises ``NotEditable`` where it is not known."""
        if self.files.script is None:
            raise NotEditable("which file is the script is not known: name it")
        return self.files.source(self.files.script)

    def sources(self) -> Iterator[Source]:
        """Yield the sources of the finding's places, then the script's."""
        paths = [self.files.find(spot.file) for spot in self.finding.where if spot.file]
        for path in dict.fromkeys([*paths, self.files.script]):
            if path is not None:
                yield self.files.source(path)


Maker = Callable[[Request], Iterator[Change]]


@dataclass(frozen=True)
class Edit:
    """A kind of edit. *make* yields the ways to make it, the first the best guess; it raises ``NotEditable`` where there is none.

    *rules* are those whose findings it serves. ``trains`` says that it changes what is learned (batch, precision), ``moves`` that
    it moves work to other processes or threads, so that less processor time in the training process is no sign of a faster step,
    ``resizes`` that it changes the sizes that dropout draws for: losses are compared with dropout switched off, ``part`` that it
    returns only part of what the finding costs, and perhaps nothing.
    """

    name: str
    title: str
    rules: tuple[str, ...]
    make: Maker
    trains: bool = False
    moves: bool = False
    resizes: bool = False
    part: bool = False


def loops_at(request: Request) -> Iterator[tuple[Source, cst.For]]:
    """Yield the loops around the lines of a finding, of each file in order."""
    for source, line in request.places():
        for loop in matchers.findall(source.module, matchers.For()):
            first, last = source.lines(loop)
            if isinstance(loop, cst.For) and first <= line <= last:
                yield source, loop


def first_possible(
    found: Iterable[tuple[Source, Node]], edit: Callable[[Source, Node], Change], because: str
) -> Iterator[Change]:
    """Yield the change of the first node that can be edited. Raises ``NotEditable`` with the last reason, or *because*."""
    for source, node in found:
        try:
            change = edit(source, node)
        except NotEditable as reason:
            because = str(reason)
            continue
        yield change
        return
    raise NotEditable(because)


def changed(source: Source, pieces: Sequence[Piece], what: str) -> Change:
    """Return the change that *pieces* make. Raises ``NotEditable`` where they change nothing, or leave no Python."""
    text = source.replaced(pieces)
    if text == source.text:
        raise NotEditable("nothing is left to change")
    return Change(source.path, source.text, text, what)
