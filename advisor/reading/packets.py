"""Packets of a Perfetto trace: a file is one message whose fields 1 are packets, one behind the other.

Where a length is wrong, the next place is looked for from which packets follow one another again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

CHUNK = 2 << 20
_PACKET = 0x0A
MOST_PACKET = 64 << 20
# Tags that a packet may begin with, one or two bytes: fields 1 to 15 and above, of the wire types that there are.
_WIRES = frozenset({0, 1, 2, 5})
_PROOF = 3
_HEAD = 10


class Packets:
    """Splits a stream of bytes into packets, chunk by chunk."""

    def __init__(self) -> None:
        self.truncated = False
        self.damaged = 0
        self.skipped_bytes = 0

    def chunks(self, blocks: Iterable[bytes]) -> Iterator[tuple[bytes, list[int], list[int]]]:
        """Yield bytes, and where in them packets begin and end."""
        parts: list[bytes] = []
        size, need = 0, CHUNK
        for block in blocks:
            parts.append(block)
            size += len(block)
            if size < need:
                continue
            data = b"".join(parts)
            at, starts, stops = self._split(data, last=False)
            if starts:
                yield data, starts, stops
            parts = [data[at:]]
            size = len(parts[0])
            need = max(CHUNK, 2 * size)
        data = b"".join(parts)
        while data:
            at, starts, stops = self._split(data, last=True)
            if starts:
                yield data, starts, stops
            data = data[at:] if at else b""

    def _split(self, data: bytes, *, last: bool) -> tuple[int, list[int], list[int]]:
        """Find beginnings and ends of packets, and how far they reach."""
        starts: list[int] = []
        stops: list[int] = []
        at, end = 0, len(data)
        while at < end:
            at = _in_step(data, at, starts, stops)
            if at >= end or (not last and _may_go_on(data, at)):
                break
            # Out of step: from here, or from within the packet before, whose length then was wrong.
            back = starts[-1] if starts and data[at] != _PACKET else at + 1
            found = _follow(data, back, last=last)
            if found < 0:
                return self._lost(data, at, last=last), starts, stops
            if starts and found < stops[-1]:
                self.skipped_bytes += found - starts[-1]
                del starts[-1], stops[-1]
            else:
                self.skipped_bytes += found - at
            self.damaged += 1
            at = found
        return at, starts, stops

    def _lost(self, data: bytes, at: int, *, last: bool) -> int:
        """Pass over what no packet follows: of a file that goes on, all but a chunk's worth to look at again."""
        if not last:
            keep = max(at, len(data) - CHUNK)
            self.skipped_bytes += keep - at
            return keep
        self.truncated = len(data) - at <= _HEAD or (data[at] == _PACKET and _length(data, at + 1) is not None)
        if not self.truncated:
            self.damaged += 1
            self.skipped_bytes += len(data) - at
        return len(data)


def _in_step(data: bytes, at: int, starts: list[int], stops: list[int]) -> int:
    """Take in packets as long as one follows the other and lies in *data*; return where that ends."""
    end = len(data)
    short = end - 0x84  # up to here, a packet of fewer than 128 bytes lies within
    while at < end and data[at] == _PACKET:
        if at < short and data[at + 1] < 0x80:
            start = at + 2
            at = start + data[at + 1]
        else:
            head = _length(data, at + 1)
            if head is None or head[1] > end:
                return at
            start, at = head
        starts.append(start)
        stops.append(at)
    return at


def _may_go_on(data: bytes, at: int) -> bool:
    """Tell whether what follows may make a packet of what is here."""
    if data[at] != _PACKET:
        return False
    head = _length(data, at + 1)
    if head is None:
        return len(data) - at <= _HEAD
    return head[1] > len(data) and head[1] - head[0] <= MOST_PACKET


def _length(data: bytes, at: int) -> tuple[int, int] | None:
    """Return where a packet's content begins and ends, by the varint at this place; None where none is."""
    value = shift = 0
    for index in range(at, min(at + 5, len(data))):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return index + 1, index + 1 + value
        shift += 7
    return None


def plausible(data: bytes, start: int, stop: int) -> bool:
    """Tell whether the content of a packet begins with a field that fits into it."""
    if stop - start < 2 or data[start] & 7 not in _WIRES or data[start] >> 3 == 0:
        return False
    return stop <= len(data)


def _follow(data: bytes, at: int, *, last: bool) -> int:
    """The next place from which three packets follow one another, or as many as there are up to the end; -1."""
    at = data.find(b"\x0a", at)
    tried = 0
    while at >= 0 and tried < 1 << 16:
        tried += 1
        if follows(data, at, last=last):
            return at
        at = data.find(b"\x0a", at + 1)
    return -1


def follows(data: bytes, at: int, *, last: bool, proof: int = _PROOF) -> bool:
    """Tell whether packets follow one another from this place."""
    for number in range(proof):
        if at >= len(data):
            return number > 0
        if data[at] != _PACKET:
            return False
        head = _length(data, at + 1)
        if head is None:
            return number > 0 and last
        start, stop = head
        if stop > len(data):
            return number > 0
        if not plausible(data, start, stop):
            return False
        at = stop
    return True


def found_early(head: bytes) -> bool:
    """Tell whether packets follow one another from a place among the first few thousand bytes."""
    at = head.find(b"\x0a", 0, 1 << 12)
    while at >= 0:
        if follows(head, at, last=False, proof=2 * _PROOF):
            return True
        at = head.find(b"\x0a", at + 1, 1 << 12)
    return False
