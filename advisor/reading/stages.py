"""GPU render stages of a Perfetto trace: kernels, copies, memsets and annotations of devices, as torch writes them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw

from advisor.reading import arguments, protobuf
from advisor.reading.events import ANY, BROKEN, Args, Event
from advisor.reading.interning import Interned
from advisor.reading.protobuf import LENGTH, VARINT
from advisor.regex import regex

_DURATION, _EXTRA, _GPU, _QUEUE, _STAGE, _NAME, _KERNEL, _NAME_IID, _LAUNCH = 2, 6, 11, 13, 14, 17, 19, 20, 21
_MOST_FIELDS = 512
_GRID, _GROUP, _ARGUMENT = 1, 2, 3
_CATEGORIES = {"Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Annotation": "gpu_user_annotation"}
_STREAM = regex(r"stream (\d{1,18})\s*$")
# Names of extra data that stand for a field of another name; the others have the field's.
_ALIASES = {"device id": "device", "stream id": "stream"}
_KEYS = arguments.Keys(dict.fromkeys([*_ALIASES, "arch", *arguments.FIELDS]))
_WHOLE = regex(r"-?\d{1,18}")
_MOST_NS = 1 << 61


class Stages(NamedTuple):
    """Events of a batch of stages, without their times."""

    events: list[Event]
    rows: Any
    """Of each event, its row in the batch."""
    durations: Any
    """In ns."""
    architectures: set[str]
    devices: set[int]
    others: int
    """Stages of kinds that no table holds."""
    damaged: int


def events(data: bytes, buffer: Any, interned: Interned, start: Any, stop: Any, sequence: Any) -> Stages:
    """Decode the GpuRenderStageEvents between *start* and *stop*."""
    found = protobuf.fields(buffer, start, stop, _MOST_FIELDS)
    size = len(start)
    columns = {number: np.zeros(size, np.int64) for number in (_DURATION, _GPU, _QUEUE, _STAGE, _KERNEL, _NAME_IID)}
    varint = found.wire == VARINT
    for number, column in columns.items():
        rows = varint & (found.number == number)
        column[found.row[rows]] = found.value[rows].astype(np.int64)
    duration = columns[_DURATION]
    bad = found.bad | (duration < 0) | (duration > _MOST_NS)
    kinds = interned.texts("stage", sequence, columns[_STAGE])
    compute = interned.compute
    categories = [
        _CATEGORIES.get(kind) or ("kernel" if key in compute else "")
        for kind, key in zip(kinds, zip(sequence.tolist(), columns[_STAGE].tolist(), strict=True), strict=True)
    ]
    args = [Args() for _ in range(size)]
    architectures: set[str] = set()
    _extra(data, buffer, found, args, architectures)
    _launch(buffer, found, args, interned, sequence)
    names = interned.texts("name", sequence, columns[_NAME_IID])
    inline = (found.number == _NAME) & (found.wire == LENGTH)
    for at in np.flatnonzero(inline).tolist():
        names[int(found.row[at])] = protobuf.text(data, int(found.start[at]), int(found.stop[at]))
    kernels = interned.texts("kernel", sequence, columns[_KERNEL])
    queues = interned.texts("stage", sequence, columns[_QUEUE])
    rows = np.array([row for row in range(size) if categories[row] and not bad[row]], np.int64)
    out: list[Event] = []
    devices: set[int] = set()
    gpus, lanes = columns[_GPU].tolist(), columns[_QUEUE].tolist()
    for row in rows.tolist():
        own = args[row]
        if own.device is None:
            own.device = gpus[row]
        if own.stream is None:
            match = _STREAM.search(queues[row])
            own.stream = int(match[1]) if match else lanes[row]
        if isinstance(own.device, int):
            devices.add(own.device)
        name = names[row] or kernels[row] or kinds[row]
        out.append(Event("X", categories[row], name, own.device, own.stream, None, None, own))
    others = int((~bad).sum()) - len(rows)
    return Stages(out, rows, duration[rows], architectures, devices, others, int(bad.sum()))


def _extra(data: bytes, buffer: Any, found: protobuf.Fields, args: list[Args], architectures: set[str]) -> None:
    """Set the args that extra data holds, as text."""
    rows = np.flatnonzero((found.number == _EXTRA) & (found.wire == LENGTH))
    if not len(rows):
        return
    row, start, stop = found.row[rows], found.start[rows], found.stop[rows]
    # A name (field 1) and a value (field 2), one behind the other.
    length = buffer[start + 1].astype(np.int64)
    value = start + 2 + length
    plain = (buffer[start] == 0x0A) & (length < 0x80) & (length > 0) & (value < stop)
    plain &= buffer[np.where(plain, value, 0)] == 0x12
    size, after, long = protobuf.varints(buffer, np.where(plain, value + 1, 0))
    plain &= ~long & (size == (np.maximum(stop - after, 0)).astype(np.uint64)) & (after <= stop)
    key = np.full(len(rows), -1, np.int64)
    key[plain] = _KEYS.find(buffer, start[plain] + 2, length[plain])
    known: dict[tuple[int, bytes], Any] = {}
    at = np.flatnonzero(key >= 0)
    for code, target, begin, end in zip(
        key[at].tolist(), row[at].tolist(), after[at].tolist(), stop[at].tolist(), strict=True
    ):
        piece = data[begin:end]
        name = _KEYS.names[code]
        if name == "arch":
            if len(architectures) < 8:
                architectures.add(piece[:40].decode("utf-8", "replace"))
            continue
        field = arguments.FIELDS[_ALIASES.get(name, name)]
        if (code, piece) not in known:
            known[code, piece] = _value(field, piece)
        parsed = known[code, piece]
        if parsed is not None:
            setattr(args[target], field.name, parsed)


def _value(field: arguments.Field, piece: bytes) -> Any:
    """A value of a field that is written as text: JSON where it was no text before."""
    text = piece.decode("utf-8", "replace")
    if field.raw:
        try:
            ANY.decode(piece)
        except BROKEN:
            return Raw(json.dumps(text).encode())
        return Raw(piece)
    if field.text:
        return text
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        number = msgspec.json.decode(piece, type=float)
    except BROKEN:
        return None
    return number


def _launch(buffer: Any, found: protobuf.Fields, args: list[Args], interned: Interned, sequence: Any) -> None:
    """Set grid, block and registers of kernels."""
    rows = np.flatnonzero((found.number == _LAUNCH) & (found.wire == LENGTH))
    if not len(rows):
        return
    row = found.row[rows]
    inner = protobuf.fields(buffer, found.start[rows], found.stop[rows], _MOST_FIELDS)
    known: dict[tuple[int, ...], Raw] = {}
    for number, name in ((_GRID, "grid"), (_GROUP, "block")):
        at = np.flatnonzero((inner.number == number) & (inner.wire == LENGTH) & ~inner.bad[inner.row])
        dims = protobuf.fields(buffer, inner.start[at], inner.stop[at], 16)
        sizes = np.zeros((len(at), 3), np.int64)
        axis = np.isin(dims.number, (1, 2, 3)) & (dims.wire == VARINT)
        sizes[dims.row[axis], dims.number[axis] - 1] = (dims.value[axis] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        for target, dim in zip(row[inner.row[at]].tolist(), map(tuple, sizes.tolist()), strict=True):
            if dim not in known:
                known[dim] = Raw(json.dumps(list(dim)).encode())
            setattr(args[target], name, known[dim])
    at = np.flatnonzero((inner.number == _ARGUMENT) & (inner.wire == LENGTH) & ~inner.bad[inner.row])
    told = protobuf.fields(buffer, inner.start[at], inner.stop[at], 16)
    name_iid, value = np.zeros(len(at), np.int64), np.full(len(at), -1, np.int64)
    for numbers, column in (((1,), name_iid), ((3, 4), value)):
        wanted = np.isin(told.number, numbers) & (told.wire == VARINT)
        column[told.row[wanted]] = told.value[wanted].astype(np.int64)
    target = row[inner.row[at]]
    names = interned.texts("argument", sequence[target], name_iid)
    for kernel, name, number in zip(target.tolist(), names, value.tolist(), strict=True):
        if name == "registers_per_thread" and number >= 0:
            args[kernel].registers = number
