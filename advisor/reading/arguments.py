"""Args of a slice in a Perfetto trace: its debug annotations, as the fields that a JSON event's ``args`` are read into."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from advisor.intervals import distinct
from advisor.reading import protobuf
from advisor.reading.events import Args
from advisor.reading.interning import Interned
from advisor.reading.protobuf import LENGTH, VARINT, Malformed
from advisor.regex import regex

_NAME, _NAME_IID = 10, 1
_INLINE_NAME, _SHORT = 0x52, 0x80
# Tags of a value that is one varint, and of a string.
_VARINTS = (0x10, 0x18, 0x20, 0x38)
_BOOL, _STRING = 0x10, 0x32
_MOST_DEPTH = 32
# Of args that no column is made of, those that tell the kind of a slice, or name a copy.
MARKS = ("cbid", "cuda_sync_kind", "copy kind", "src kind", "dst kind", "memory kind", "Python id")
_ARCHITECTURE = regex(r"sm_(\d{1,2})(\d)")
_DIRECTION = regex(r"[HDPA]to[HDPA]")
_MEMORY = regex(r"[a-z_]{3,20}")


class Field:
    """A field of args, and how a value becomes one."""

    def __init__(self, name: str, kind: Any) -> None:
        self.name = name
        self.raw = kind is Raw
        self.text = kind == str | None
        self._raws: dict[Any, Raw] = {}

    def value(self, value: Any) -> Any:
        """The value as the field has it; None where it is of another kind."""
        if self.raw:
            key = value if isinstance(value, str | int) and not isinstance(value, bool) else None
            known = self._raws.get(key) if key is not None else None
            if known is None:
                known = Raw(json.dumps(value).encode())
                if key is not None and len(self._raws) < 1 << 16:
                    self._raws[key] = known
            return known
        if self.text:
            return value if isinstance(value, str) else None
        if isinstance(value, bool):
            return int(value)
        return value if isinstance(value, int | float | str) else None


FIELDS = {field.encode_name: Field(field.name, field.type) for field in msgspec.structs.fields(Args)}


class Keys:
    """Some names, looked for in many places at once."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        self._bytes = [np.frombuffer(name.encode(), np.uint8) for name in self.names]
        self._codes = np.array([len(key) << 8 | int(key[0]) for key in self._bytes], np.int64)

    def find(self, buffer: Any, start: Any, length: Any) -> Any:
        """The number of the name at each place; -1 where another text stands."""
        found = np.full(len(start), -1, np.int64)
        code = (length << 8) | buffer[start].astype(np.int64)
        maybe = np.flatnonzero(np.isin(code, self._codes))
        code = code[maybe]
        for number, key in enumerate(self._bytes):
            rows = maybe[code == self._codes[number]]
            if len(rows):
                same = (buffer[start[rows][:, None] + np.arange(len(key))] == key).all(axis=1)
                found[rows[same]] = number
        return found


KEYS = Keys(dict.fromkeys([*FIELDS, *MARKS]))


class Annotations:
    """Debug annotations of some events, taken apart."""

    def __init__(self, data: bytes, buffer: Any, interned: Interned, count: int) -> None:
        self._data, self._buffer, self._interned = data, buffer, interned
        self.args: list[Args | None] = [None] * count
        self.marks: list[dict[str, Any] | None] = [None] * count
        self.damaged = 0
        self._texts: dict[bytes, str] = {}
        self._raws: dict[bytes, Raw] = {}

    def take(self, row: Any, sequence: Any, start: Any, stop: Any) -> None:
        """Take annotations in: each of the event *row*, between *start* and *stop*."""
        buffer = self._buffer
        length = buffer[start + 1].astype(np.int64)
        value = start + 2 + length
        plain = (buffer[start] == _INLINE_NAME) & (length < _SHORT) & (length > 0) & (value <= stop)
        for index in np.flatnonzero(~plain & (start < stop)).tolist():
            self._slow(int(row[index]), int(sequence[index]), int(start[index]), int(stop[index]))
        rows = np.flatnonzero(plain)
        key = KEYS.find(buffer, start[rows] + 2, length[rows])
        wanted = key >= 0
        rows, key = rows[wanted], key[wanted]
        row, value, stop = row[rows], value[rows], stop[rows]
        tag = np.where(value < stop, buffer[value], 0)
        whole, after, long = protobuf.varints(buffer, value + 1)
        varied = np.isin(tag, _VARINTS)
        text = tag == _STRING
        broken = (
            (long & (varied | text)) | (varied & (after != stop)) | (text & (whole != (stop - after).astype(np.uint64)))
        )
        self.damaged += int(broken.sum())
        numbers = whole.astype(np.int64)
        for code in distinct(key).tolist():
            name = KEYS.names[code]
            here = (key == code) & ~broken
            for kind in (varied, text, ~varied & ~text):
                at = np.flatnonzero(here & kind)
                if not len(at):
                    continue
                if kind is varied:
                    values: Sequence[Any] = self._ints(tag[at], numbers[at])
                elif kind is text:
                    values = self._strings(after[at].tolist(), stop[at].tolist())
                else:
                    self._others(name, row[at].tolist(), value[at].tolist(), stop[at].tolist())
                    continue
                self._set(name, row[at].tolist(), values)

    @staticmethod
    def _ints(tag: Any, numbers: Any) -> list[Any]:
        values = numbers.tolist()
        if (tag == _BOOL).any():
            values = [bool(value) if kind == _BOOL else value for kind, value in zip(tag.tolist(), values, strict=True)]
        unsigned = (tag != _BOOL) & (tag != 0x20) & (numbers < 0)
        for at in np.flatnonzero(unsigned).tolist():
            values[at] += 1 << 64
        return list(values)

    def _strings(self, starts: list[int], stops: list[int]) -> list[str]:
        data, known = self._data, self._texts
        out = []
        for start, stop in zip(starts, stops, strict=True):
            piece = data[start:stop]
            text = known.get(piece)
            if text is None:
                text = known[piece] = piece.decode("utf-8", "replace")
            out.append(text)
        return out

    def _others(self, name: str, rows: list[int], starts: list[int], stops: list[int]) -> None:
        """Lists, objects and doubles: each distinct one is decoded once."""
        field = FIELDS.get(name)
        if field is not None and field.raw and name not in MARKS:
            pieces = [self._data[start:stop] for start, stop in zip(starts, stops, strict=True)]
            known = {piece: self._raw(piece) for piece in dict.fromkeys(pieces)}
            sound = [(row, raw) for row, piece in zip(rows, pieces, strict=True) if (raw := known[piece]) is not None]
            self.damaged += len(rows) - len(sound)
            self._put(field, [row for row, _ in sound], [raw for _, raw in sound])
            return
        for row, start, stop in zip(rows, starts, stops, strict=True):
            try:
                self._set(name, [row], [decode(self._data, start, stop, 0)])
            except Malformed:
                self.damaged += 1

    def _raw(self, piece: bytes) -> Raw | None:
        """The JSON of a value; None where it is malformed."""
        if piece not in self._raws:
            try:
                self._raws[piece] = Raw(json.dumps(decode(piece, 0, len(piece), 0)).encode())
            except Malformed:
                return None
        return self._raws[piece]

    def _set(self, name: str, rows: list[int], values: Sequence[Any]) -> None:
        if name in MARKS:
            for row, value in zip(rows, values, strict=True):
                marks = self.marks[row]
                if marks is None:
                    marks = self.marks[row] = {}
                marks[name] = value
        field = FIELDS.get(name)
        if field is None:
            return
        self._put(field, rows, [_default(field, field.value(value)) for value in values])

    def _put(self, field: Field, rows: list[int], values: Sequence[Any]) -> None:
        """Give the args of these rows the values of a field. A loop of few calls: all args of a file pass here."""
        args, name = self.args, field.name
        for row, value in zip(rows, values, strict=True):
            held = args[row]
            if held is None:
                held = args[row] = Args()
            setattr(held, name, value)

    def _slow(self, row: int, sequence: int, start: int, stop: int) -> None:
        """Take in one annotation of another order, or with an interned name."""
        data = self._data
        try:
            name = ""
            for number, wire, value, at, end in protobuf.message(data, start, stop):
                if number == _NAME and wire == LENGTH:
                    name = protobuf.text(data, at, end)
                elif number == _NAME_IID and wire == VARINT:
                    name = self._interned.text("annotation", sequence, value)
            if name in FIELDS or name in MARKS:
                self._set(name, [row], [decode(data, start, stop, 0)])
        except Malformed:
            self.damaged += 1


def _default(field: Field, value: Any) -> Any:
    return Raw(b"") if value is None and field.raw else value


def decode(data: bytes, at: int, end: int, depth: int) -> Any:
    """The value of a DebugAnnotation message; an empty list where it has none, as torch writes one. Raises Malformed."""
    if depth > _MOST_DEPTH:
        raise Malformed
    items: list[Any] = []
    entries: dict[str, Any] = {}
    for number, wire, value, start, stop in protobuf.message(data, at, end):
        if wire == VARINT and number == 2:
            return bool(value)
        if wire == VARINT and number in (3, 4, 7):
            return protobuf.signed(value) if number == 4 else value
        if wire == protobuf.EIGHT and number == 5:
            real = protobuf.double(data, start)
            return real if math.isfinite(real) else None
        if wire == LENGTH and number in (6, 9):
            return protobuf.text(data, start, stop)
        if wire == LENGTH and number == 12:
            items.append(decode(data, start, stop, depth + 1))
        elif wire == LENGTH and number == 11:
            entries[_name(data, start, stop)] = decode(data, start, stop, depth + 1)
    return entries or items


def _name(data: bytes, at: int, end: int) -> str:
    for number, wire, _, start, stop in protobuf.message(data, at, end):
        if number == _NAME and wire == LENGTH:
            return protobuf.text(data, start, stop)
    return ""


def copy_name(name: str, marks: dict[str, Any] | None) -> str:
    """The name that Kineto gives a copy, which says its direction and the kinds of memory, out of the args that say it here."""
    kind = (marks or {}).get("copy kind")
    if name != "Memcpy" or not isinstance(kind, str) or not _DIRECTION.fullmatch(kind):
        return name
    ends = [(marks or {}).get(key) for key in ("src kind", "dst kind")]
    words = [end.capitalize() if isinstance(end, str) and _MEMORY.fullmatch(end) else "Unknown" for end in ends]
    return f"Memcpy {kind} ({words[0]} -> {words[1]})"


def capability(architectures: set[str]) -> float | None:
    """The compute capability that texts such as ``sm_90`` say; None where they differ or say none."""
    found = {match.groups() for text in architectures if (match := _ARCHITECTURE.fullmatch(text))}
    if len(found) != 1:
        return None
    major, minor = found.pop()
    return int(major) + int(minor) / 10
