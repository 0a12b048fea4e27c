"""The wire format of protocol buffers, decoded over bytes: fields of many messages at once, or of one message in plain Python.

A message is a sequence of fields: a varint with the field's number and wire type, then a varint (0), eight bytes (1), a length
and as many bytes (2), or four bytes (5). Source: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5
# Zero bytes behind a buffer, so that reading at its end stays inside it.
PADDING = bytes(32)
_MOST_VARINT = 10
_MOST_NUMBER = 1 << 29


class Fields(NamedTuple):
    """Fields of many messages, as arrays of equal length: the first of each message, then the second of each, and so on."""

    row: Ints
    """Row of the message."""
    number: Ints
    wire: Ints
    value: npt.NDArray[np.uint64]
    """The varint; of a field with a length, that length."""
    start: Ints
    stop: Ints
    """Begin and end of the field's bytes in the buffer."""
    bad: npt.NDArray[np.bool_]
    """Of each message, True where it cannot be decoded to its end."""


def varints(buffer: Bytes, at: Ints) -> tuple[npt.NDArray[np.uint64], Ints, npt.NDArray[np.bool_]]:
    """Decode the varint at each place. Returns the values, the places behind them, and True where one is too long."""
    byte = buffer[at]
    value = (byte & 0x7F).astype(np.uint64)
    after = at + 1
    rows = np.flatnonzero(byte & 0x80)
    shift = 7
    while len(rows) and shift < 7 * _MOST_VARINT:
        byte = buffer[after[rows]]
        value[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[rows] += 1
        rows = rows[(byte & 0x80) != 0]
        shift += 7
    long = np.zeros(len(at), np.bool_)
    long[rows] = True
    return value, after, long


def fields(buffer: Bytes, starts: Ints, stops: Ints, most: int) -> Fields:
    """Decode all fields of the messages between *starts* and *stops*, field by field of all messages at once.

    The buffer ends with ``PADDING``. A message of more than *most* fields is bad, as no such message is written.
    """
    bad = np.zeros(len(starts), np.bool_)
    rows = np.flatnonzero(starts < stops)
    at, end = starts[rows], stops[rows]
    found: list[tuple[Any, ...]] = []
    for _ in range(most):
        if not len(rows):
            break
        tag, at, long_tag = varints(buffer, at)
        number, wire = (tag >> np.uint64(3)).astype(np.int64), (tag & np.uint64(7)).astype(np.int64)
        # A tag that runs past its message leaves a place past it, where the buffer may end.
        inside = at <= end
        value, after, long = varints(buffer, np.where(inside, at, end))
        sized = wire == LENGTH
        fits = value <= (np.maximum(end - after, 0)).astype(np.uint64)
        stop = np.where(
            sized,
            after + np.where(fits, value, 0).astype(np.int64),
            np.where(wire == EIGHT, at + 8, np.where(wire == FOUR, at + 4, after)),
        )
        known = (wire == VARINT) | sized | (wire == EIGHT) | (wire == FOUR)
        varied = (wire == VARINT) | sized
        good = inside & known & ~long_tag & ~(long & varied) & (fits | ~sized)
        good &= (stop <= end) & (number > 0) & (number < _MOST_NUMBER)
        bad[rows[~good]] = True
        start = np.where(sized, after, at)
        found.append((rows[good], number[good], wire[good], value[good], start[good], stop[good]))
        more = good & (stop < end)
        rows, at, end = rows[more], stop[more], end[more]
    bad[rows] = True
    if not found:
        none = np.zeros(0, np.int64)
        return Fields(none, none, none, none.astype(np.uint64), none, none, bad)
    row, number, wire, value, start, stop = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Fields(row, number, wire, value, start, stop, bad)


class Malformed(ValueError):
    """A message that cannot be decoded."""


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Decode the varint at one place. Returns it and the place behind it. Raises Malformed."""
    value = shift = 0
    while at < end and shift < 7 * _MOST_VARINT:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise Malformed


def message(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield the fields of one message: number, wire type, value, start, stop. Raises Malformed where it breaks."""
    while at < end:
        tag, at = varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        value, start = 0, at
        if wire == VARINT:
            value, at = varint(data, at, end)
        elif wire == LENGTH:
            value, start = varint(data, at, end)
            at = start + value
        elif wire == EIGHT:
            at += 8
        elif wire == FOUR:
            at += 4
        else:
            raise Malformed
        if at > end or not 0 < number < _MOST_NUMBER:
            raise Malformed
        yield number, wire, value, start, at


def signed(value: int) -> int:
    """An int64 or int32 out of the varint that it was written as."""
    return value - (1 << 64) if value >= 1 << 63 else value


def double(data: bytes, start: int) -> float:
    """The double at one place."""
    number: float = struct.unpack_from("<d", data, start)[0]
    return number


def text(data: bytes, start: int, stop: int) -> str:
    """The string between two places; bytes that are no UTF-8 become marks."""
    return data[start:stop].decode("utf-8", "replace")
