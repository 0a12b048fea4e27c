"""A large file read by several processes: the first part here, each other part by a process of its own.

A part begins where this process, too, would have cut the text (:mod:`advisor.reading.stream`), so that the same pieces are
decoded, in the same order, and what comes of them does not depend on how many processes there were. Columns come back through
a pipe. What is out of the ordinary in any part (damage, a clock that needs exact decimals there alone, a process that was
killed) makes the others' work void: this process goes on reading where it stands.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct

from advisor.reading import links, machine
from advisor.reading.columns import CODED, MOST_UNKNOWN, Columns
from advisor.reading.containers import Source

if TYPE_CHECKING:
    from advisor.reading.stream import Reader

_MOST_WORKERS = 4
# Of a part's text, what a process needs: its columns, and the interpreter with its libraries.
_MEMORY_PER_BYTE, _MEMORY_BASE = 0.5, 128 << 20
LEAD_BYTES = 90 << 20
"""Bytes of text that a process reads while this one loads what analyzing takes: so much more of the file is for each other."""
_EARLY = 4
"""So much less text is worth a process that starts before this one is ready to read: its own start takes nobody's time."""
# A gzip stream has to be inflated from its beginning; of the time that its text takes to decode, that takes so much.
_INFLATED = 0.2
_PIPE_BYTES = 1 << 20
"""Bytes of columns that a process can send before this one takes them."""
_START = (
    "import json, sys; order = json.loads(sys.stdin.buffer.readline()); sys.path[:] = order.pop('path'); "
    "from advisor.reading import part; part.serve(order)"
)
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


class Bounds(Struct, frozen=True):
    """Beginnings of the parts of a text: each at the first cut when so many bytes of it have been read."""

    starts: Sequence[int]
    seek: bool
    """True of plain text, whose parts are found without reading what lies before."""


def bounds(source: Source, rest: int, chunk: int, lead: int = 0) -> Bounds | None:
    """Return where the parts of a file begin; None for one that is read here alone.

    *rest* is how many bytes behind the last cut have been read, *lead* how many more each of the others reads than this process.
    """
    status = source.regular()
    # What is frozen into a program of its own is no interpreter that could be given a command.
    if status is None or machine.is_alone() or not sys.executable or getattr(sys, "frozen", False):
        return None
    size = source.text_bytes(status.st_size)
    count = min(_MOST_WORKERS, machine.cores(), size // least_bytes(source, early=lead > 0))
    while count > 1 and machine.available_bytes() < count * _MEMORY_BASE + size * _MEMORY_PER_BYTE:
        count -= 1
    if count < 2:
        return None
    if not source.plain:
        left = 1 / (1 + _INFLATED)
        return Bounds([int(size * (1 - left**k) / (1 - left**count)) for k in range(1, count)], seek=False)
    # The first cut comes with the block that fills a chunk, the others a chunk apart.
    first = source.size + -(-(chunk - rest) // source.block) * source.block
    own = max(0, size - (count - 1) * lead) // count
    each = (size - own) // (count - 1)
    starts = [first + max(0, own + (k - 1) * each - first) // chunk * chunk for k in range(1, count)]
    starts = [start for start in dict.fromkeys(starts) if chunk <= start < size]
    return Bounds(starts, seek=True) if starts else None


def least_bytes(source: Source, *, early: bool) -> int:
    """Return the bytes of text from which on a process is worth while: fewer where it starts *early* and has nothing to inflate."""
    return machine.part_bytes() // (_EARLY if early and source.plain else 1)


def identity(source: Source) -> tuple[int, int, int]:
    """Return device, inode and size of the file that is open."""
    status = source.regular()
    return (status.st_dev, status.st_ino, status.st_size) if status is not None else (0, 0, 0)


class Others:
    """The processes that read the other parts."""

    def __init__(self, reader: Reader, found: Bounds, separator: bytes) -> None:
        self._file = identity(reader.source)
        self.start = found.starts[0]
        orders = _orders(reader, found, separator)
        keys = map(json.dumps, orders)
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for key, order in zip(keys, orders, strict=True):
                self._processes.append(_ahead.pop(key) if key in _ahead else _start(order))
        except OSError:
            self.end()
            raise

    @classmethod
    def of(cls, reader: Reader, rest: int) -> Others | None:
        """Start the processes that are worth while for the rest of a file; None for none, or where not all can be started."""
        found = bounds(reader.source, rest, reader.chunk, LEAD_BYTES if _ahead else 0)
        try:
            if found is None or reader.separator is None:
                return None
            others = cls(reader, found, reader.separator)
        except OSError:
            return None
        finally:
            end_ahead()
        reader.source.others_read(1 + len(found.starts))
        return others

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
        _end(self._processes)
        self._processes.clear()


_ahead: dict[str, subprocess.Popen[bytes]] = {}
"""Processes that were started before their file was asked for, by what they were told to do."""


def start_ahead(reader: Reader, rest: int) -> None:
    """Start the processes that :meth:`Others.of` will take over where it comes to the same parts of the same file."""
    found = bounds(reader.source, rest, reader.chunk, LEAD_BYTES)
    if found is not None and reader.separator is not None:
        for order in _orders(reader, found, reader.separator):
            _ahead[json.dumps(order)] = _start(order)


def end_ahead() -> None:
    """End the processes that nobody took over."""
    _end(_ahead.values())
    _ahead.clear()


def _end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _orders(reader: Reader, found: Bounds, separator: bytes) -> list[dict[str, Any]]:
    """Word what each process is to read."""
    return [
        {
            "path": [os.fspath(place) for place in sys.path],
            "file": os.fspath(reader.source.address),
            "start": start,
            "stop": stop,
            "seek": found.seek,
            "separator": separator.decode("latin-1"),
            "parent": os.getpid(),
        }
        for start, stop in zip(found.starts, [*found.starts[1:], None], strict=True)
    ]


def _start(order: dict[str, Any]) -> subprocess.Popen[bytes]:
    environment = os.environ | {machine.ALONE: "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(ImportError, AttributeError, OSError):  # of Linux, and up to the system's limit
        import fcntl

        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    try:
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.close()
    except OSError:
        pass  # it ended before it was told what to do, and its answer will say so
    return process


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
