"""Processes that read parts of a large file: how many are worth while, where their parts begin, and their start.

Nothing here takes long to import, so that they can be started before this process loads what analyzing takes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from advisor.privacy import is_url
from advisor.reading import machine

MOST = 4
# Of a part's text, what a process needs: its columns, and the interpreter with its libraries.
_MEMORY_PER_BYTE, _MEMORY_BASE = 0.5, 128 << 20
LEAD_BYTES = 40 << 20
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
GZIP = b"\x1f\x8b"
_TRAILER, _LEAST_RATIO = 4, 4
_HEAD = 1 << 12


def lying_bytes(address: str) -> int:
    """Estimate the text of a file that may be a trace as JSON; 0 of what lies elsewhere, or begins otherwise. Raises OSError."""
    if address == "-" or is_url(address) or not Path(address).is_file():
        return 0
    with Path(address).open("rb") as file:
        head = file.read(_HEAD)
    plain = not head.startswith(GZIP)
    if not plain:
        try:
            head = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, _HEAD)
        except zlib.error:
            return 0
    if not head.lstrip().startswith((b"{", b"[", b"\xef\xbb\xbf")):
        return 0
    return text_bytes(address, Path(address).stat().st_size, plain=plain)


def text_bytes(address: str, size: int, *, plain: bool) -> int:
    """Estimate how much text a file of *size* bytes holds: a gzip stream says so at its end, modulo 4 GB."""
    if plain or size < _TRAILER:
        return size
    try:
        with Path(address).open("rb") as file:
            file.seek(size - _TRAILER)
            told = int.from_bytes(file.read(_TRAILER), "little")
    except OSError:
        return 0
    return told + max(0, -(-(_LEAST_RATIO * size - told) >> 32)) * (1 << 32)


def count(size: int, *, early: bool) -> int:
    """Return how many processes read *size* bytes of text, this one among them; *early*: before this one is ready to read."""
    # What is frozen into a program of its own is no interpreter that could be given a command.
    if machine.is_alone() or not sys.executable or getattr(sys, "frozen", False):
        return 1
    many = min(MOST, machine.cores(), size // (machine.part_bytes() // (_EARLY if early else 1)))
    while many > 1 and machine.available_bytes() < many * _MEMORY_BASE + size * _MEMORY_PER_BYTE:
        many -= 1
    return max(many, 1)


def starts(size: int, many: int, chunk: int, first: int, *, plain: bool, lead: int = 0) -> list[int]:
    """Return where the parts of a text of *size* bytes begin that others read: each at the first cut from there on.

    *first* is the earliest place, *chunk* how far cuts of plain text are apart, *lead* how much later this process begins than
    the others. There are as many as *many* asks for, or fewer.
    """
    if not plain:
        return [start for start in dict.fromkeys(_inflated(size, many, lead, first)) if start < size]
    own = max(0, size - (many - 1) * lead) // many
    each = (size - own) // (many - 1)
    found = [first + max(0, own + (k - 1) * each - first) // chunk * chunk for k in range(1, many)]
    return [start for start in dict.fromkeys(found) if chunk <= start < size]


def _inflated(size: int, many: int, lead: int, first: int) -> list[int]:
    """Return where the parts of a gzip stream's text begin for all to end at once: each inflates what lies before its own, too.

    With x of the text a process is busy for x * (1 + ``_INFLATED``) behind its beginning, so that each part is 1 + ``_INFLATED``
    times smaller than the one before; this process's own begins *lead* later.
    """
    left = 1 / (1 + _INFLATED)
    others = left * (1 - left ** (many - 1)) / (1 - left)
    own = max(0.0, (size - lead * others) / (1 + others))
    each = (size - own) * (1 - left) / (1 - left ** (many - 1))
    return [max(first, int(own + each * (1 - left**k) / (1 - left))) for k in range(many - 1)]


_ahead: dict[str, list[subprocess.Popen[bytes]]] = {}
"""Processes that were started before their file was asked for, by its address: for each part but the first one."""


def start_ahead(address: str) -> None:
    """Start the processes that are worth while for a file before anything of it is read; each finds its part by itself."""
    many = count(lying_bytes(address), early=True)
    begun = _ahead.setdefault(address, [])
    try:
        for part in range(1, many):
            begun.append(start({"file": address, "part": part, "many": many, "lead": LEAD_BYTES}))
    except OSError:
        end_ahead()


def ahead(address: str) -> list[subprocess.Popen[bytes]]:
    """Take over the processes that were started for a file; none where there are none. Those for others are ended."""
    taken = _ahead.pop(address, [])
    end_ahead()
    return taken


def end_ahead() -> None:
    """End the processes that nobody took over."""
    end([process for processes in _ahead.values() for process in processes])
    _ahead.clear()


def end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """End some processes, wherever they are."""
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def orders(address: str, places: Sequence[int], separator: bytes, *, seek: bool) -> list[dict[str, Any]]:
    """Word what each process is to read whose part's place is known; *seek*: without reading what lies before."""
    return [
        {"file": address, "start": start, "stop": stop, "seek": seek, "separator": separator.decode("latin-1")}
        for start, stop in zip(places, [*places[1:], None], strict=True)
    ]


def start(order: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start a process that reads what *order* says. Raises OSError."""
    order = {"path": [os.fspath(place) for place in sys.path], "parent": os.getpid(), **order}
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
