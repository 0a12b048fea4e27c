"""A large file read by several processes: the first part here, each other part by a process of its own.

A part begins where this process, too, would have cut the text (:mod:`advisor.reading.stream`), so that the same pieces are
decoded, in the same order, and what comes of them does not depend on how many processes there were. Columns come back through
a pipe. What is out of the ordinary in any part (damage, a clock that needs exact decimals there alone, a process that was
killed) makes the others' work void: this process goes on reading where it stands.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from advisor.reading import links, workers
from advisor.reading.columns import CODED, MOST_UNKNOWN, Columns
from advisor.reading.containers import Source
from advisor.reading.workers import count, starts, text_bytes

if TYPE_CHECKING:
    from advisor.reading.stream import Reader

HEAD = 8
"""Bytes of the length that comes before an answer."""


class Lost(Exception):
    """A process ended while it sent its part."""


class Answer(msgspec.Struct, array_like=True):
    """Facts that a process tells of its part before it sends the columns."""

    file: tuple[int, int, int]
    """Device, inode and size."""
    start: int
    end: int
    """The bytes of text that it took in."""
    size: int
    """Bytes of text read so far."""
    events: int
    shapeless: int
    counter_ranges: int
    early: bool
    exact: bool
    ties: bool
    accelerator: str | None
    unknown: dict[str, int]
    programs: list[int]
    threads: list[Any]
    texts: dict[str, list[str]]
    """Values of codes, in the order of their numbers, by the attribute of the columns that holds them."""
    raws: dict[str, list[bytes]]
    """The same of those that are bytes."""
    tables: list[tuple[str, list[tuple[str, str, int]]]]
    """Of each group: name, type and rows of each column, as they follow."""
    trailer: bytes | None
    """The text behind the events, from the last part."""


class Bounds(NamedTuple):
    """Beginnings of the parts of a text that others read: each at the first cut when so many bytes of it have been read."""

    starts: Sequence[int]
    seek: bool
    """True of plain text, whose parts are found without reading what lies before."""


def bounds(source: Source, rest: int, chunk: int, *, ahead: int = 0, lead: int = 0) -> Bounds | None:
    """Return where the parts of a file begin; None for one that is read here alone.

    *rest* is how many bytes behind the last cut have been read, *chunk* how many are decoded at once. With *ahead*, so many other
    processes have been started, each of which reads *lead* bytes more than this one.
    """
    status = source.regular()
    if status is None:
        return None
    size = text_bytes(source.address, status.st_size, plain=source.plain)
    many = 1 + ahead if ahead else count(size, early=False)
    if many < 2:
        return None
    # The first cut comes with the block that fills a chunk.
    first = source.size + -(-(chunk - rest) // source.block) * source.block
    found = starts(size, many, chunk, first, plain=source.plain, lead=lead)
    return Bounds(found, seek=source.plain) if found else None


def identity(source: Source) -> tuple[int, int, int]:
    """Return device, inode and size of the file that is open."""
    status = source.regular()
    return (status.st_dev, status.st_ino, status.st_size) if status is not None else (0, 0, 0)


class Others:
    """The processes that read the other parts."""

    def __init__(self, reader: Reader, found: Bounds, processes: list[subprocess.Popen[bytes]]) -> None:
        self._file = identity(reader.source)
        self.start = found.starts[0]
        self._processes = processes

    @classmethod
    def of(cls, reader: Reader, rest: int) -> Others | None:
        """Take over or start the processes that are worth while for the rest of a file; None for none, or where not all can be."""
        source, separator = reader.source, reader.separator
        processes = workers.ahead(source.address)
        lead = workers.LEAD_BYTES if processes else 0
        found = bounds(source, rest, reader.chunk, ahead=len(processes), lead=lead) if separator is not None else None
        if found is None or separator is None:
            workers.end(processes)
            return None
        if processes:
            workers.end(processes[len(found.starts) :])
            del processes[len(found.starts) :]
        else:
            try:
                for order in workers.orders(source.address, found.starts, separator, seek=found.seek):
                    processes.append(workers.start(order))
            except OSError:
                workers.end(processes)
                return None
        source.others_read(1 + len(processes))
        return cls(reader, found, processes)

    def take(self, columns: Columns, at: int) -> Answer | None:
        """Append what the others read behind byte *at* to *columns*; None, and nothing appended, where any of it is not usable."""
        answers: list[Answer] = []
        for process in self._processes:
            answer = _answer(process.stdout)
            if answer is None or answer.file != self._file or answer.start != at:
                return None
            answers.append(answer)
            at = answer.end
        if answers[-1].trailer is None or not _fit(columns, answers):
            return None
        for process, answer in zip(self._processes, answers, strict=True):
            _append(columns, answer, process.stdout)
        return answers[-1]

    def end(self) -> None:
        """End the processes."""
        workers.end(self._processes)
        self._processes.clear()


def _answer(pipe: IO[bytes] | None) -> Answer | None:
    """Read what a process says of its part; None where that is nothing, or not whole."""
    assert pipe is not None
    try:
        head = pipe.read(HEAD)
        text = pipe.read(int.from_bytes(head, "little")) if len(head) == HEAD else b""
        return msgspec.msgpack.decode(text, type=Answer)
    except (OSError, msgspec.DecodeError):
        return None


def _fit(columns: Columns, answers: Sequence[Answer]) -> bool:
    """Tell whether one process would have come to the same, had it read one part after the other."""
    exact, unknown = columns.exact, len(columns.unknown)
    for answer in answers:
        # A part that kept arrows and one that let go of them: whichever comes first decides, so both have to be alike.
        if (exact and not answer.exact) or (columns.lacks and not answer.ties):
            return False
        exact = answer.exact
        unknown += len(answer.unknown)
    return unknown < MOST_UNKNOWN


def _append(columns: Columns, answer: Answer, pipe: IO[bytes] | None) -> None:
    """Append a part to *columns*. Raises Lost where the pipe ends before it should."""
    assert pipe is not None
    columns.join(answer)
    values: dict[str, Sequence[Any]] = {**answer.texts, **answer.raws}
    maps = {kind: _codes(getattr(columns, kind), own) for kind, own in values.items()}
    for group, specified in answer.tables:
        grown = columns.grown(group)
        rows = specified[0][2]
        for key, kind, _ in specified:
            kept = columns.ties or (group != links.FLOW and key != "external")
            view = grown.room(key, np.dtype(kind), rows) if kept else np.empty(rows, kind)
            _fill(pipe, view)
            if key in CODED:
                np.take(maps[CODED[key]], view, out=view)
        grown.close(rows)
    if not columns.ties:
        columns.untie()


def _codes(known: Any, values: Sequence[Any]) -> Any:
    """Return the codes in *known*, which grows, of what another process numbered by itself."""
    return np.array([known[value] for value in values], np.int32)


def _fill(pipe: IO[bytes], view: Any) -> None:
    room = memoryview(view).cast("B")
    done = 0
    while done < len(room):
        got: int = pipe.readinto(room[done:])  # type: ignore[attr-defined]
        if not got:
            raise Lost
        done += got
