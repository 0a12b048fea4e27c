"""Interned data of a Perfetto trace: names, categories and specifications by number, per sequence of packets; and its tracks."""

from __future__ import annotations

from typing import Any, NamedTuple

from advisor.intervals import coded
from advisor.reading.protobuf import LENGTH, VARINT, Malformed, message, signed, text

_KINDS = {1: "category", 2: "name", 3: "annotation", 24: "stage", 29: "string", 1000: "kernel", 1001: "argument"}
_COMPUTE = 2
# torch gives events without a process the number -1, which loses its sign.
_NO_PROCESS = 0x7FFFFFFF


class Track(NamedTuple):
    """A track of slices: a process, or a thread of one."""

    uuid: int
    pid: int | None = None
    tid: int | None = None
    name: str = ""


class Interned:
    """Texts that have been interned so far, by kind, sequence and number."""

    def __init__(self) -> None:
        self._sequences: dict[int, dict[str, dict[int, str]]] = {}
        self.compute: set[tuple[int, int]] = set()
        """Specifications that say of themselves that they are of computing."""

    def holds(self, sequence: int) -> bool:
        """Tell whether a sequence has interned anything."""
        return sequence in self._sequences

    def clear(self, sequence: int) -> None:
        """Forget what a sequence has interned."""
        gone = self._sequences.pop(sequence, {})
        self.compute.difference_update((sequence, number) for number in gone.get("stage", ()))

    def add(self, sequence: int, data: bytes, start: int, stop: int) -> None:
        """Take in an InternedData message. Raises Malformed where it breaks; what came before stays."""
        texts = self._sequences.setdefault(sequence, {})
        for number, wire, _, at, end in message(data, start, stop):
            kind = _KINDS.get(number)
            if kind is None or wire != LENGTH:
                continue
            key, name, compute = _entry(data, at, end, kind)
            texts.setdefault(kind, {})[key] = name
            if compute:
                self.compute.add((sequence, key))

    def text(self, kind: str, sequence: int, number: int) -> str:
        """One text; empty where there is none."""
        return self._sequences.get(sequence, {}).get(kind, {}).get(number, "")

    def texts(self, kind: str, sequences: Any, numbers: Any) -> list[str]:
        """Texts of many numbers at once."""
        if not self._sequences or not len(numbers):
            return [""] * len(numbers)
        first = int(sequences[0])
        if (sequences == first).all():
            known = self._sequences.get(first, {}).get(kind, {})
            distinct, inverse = coded(numbers)
            found = [known.get(number, "") for number in distinct.tolist()]
            return [found[at] for at in inverse.reshape(-1).tolist()]
        return [self.text(kind, *key) for key in zip(sequences.tolist(), numbers.tolist(), strict=True)]


def _entry(data: bytes, at: int, end: int, kind: str) -> tuple[int, str, bool]:
    """Number and text of one interned entry, and whether it is a specification of computing."""
    number, name, demangled, compute = 0, "", "", False
    for field, wire, value, start, stop in message(data, at, end):
        if field == 1 and wire == VARINT:
            number = value
        elif field == 2 and wire == LENGTH:
            name = text(data, start, stop)
        elif field == 3 and wire == LENGTH and kind == "kernel":
            demangled = text(data, start, stop)
        elif field == 4 and wire == VARINT and kind == "stage":
            compute = value == _COMPUTE
    # Rows look for numbers as int64.
    return signed(number), demangled or name, compute


def descriptor(data: bytes, start: int, stop: int) -> Track:
    """The track that a TrackDescriptor describes. Raises Malformed."""
    uuid, name, pid, tid = 0, "", None, None
    for field, wire, value, at, end in message(data, start, stop):
        if field == 1 and wire == VARINT:
            uuid = value
        elif field == 2 and wire == LENGTH:
            name = text(data, at, end)
        elif field in (3, 4) and wire == LENGTH:
            for inner, kind, number, begin, close in message(data, at, end):
                if inner == 1 and kind == VARINT:
                    pid = signed(number)
                elif inner == 2 and kind == VARINT and field == 4:
                    tid = signed(number)
                elif inner == (6 if field == 3 else 5) and kind == LENGTH:
                    name = text(data, begin, close)
    if uuid == 0:
        raise Malformed
    return Track(uuid, -1 if pid == _NO_PROCESS else pid, tid, name)
