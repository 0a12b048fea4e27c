"""Perfetto traces (``.pftrace``) as torch's main branch writes them: packets → events, for the columns that all dialects share.

Two encodings are read. Both have the host's events as slices of tracks, their args as debug annotations. In the first the work of
devices is slices too; in the second, GPU render stages with launch parameters and ``extra_data``. Early files have no categories;
there a slice's args, its track and its name say its kind.

Sources: torch/csrc/profiler/cupti/monitor_pftrace.cpp and torch/profiler/_cupti/monitor_trace.py of pytorch, protos/perfetto/trace
of perfetto.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.errors import NotATrace, TraceError
from advisor.reading import arguments, limits, protobuf, slices, stages
from advisor.reading.arguments import Annotations
from advisor.reading.columns import MOST_NS, Columns
from advisor.reading.events import Args, Event
from advisor.reading.interning import Interned, Track, descriptor
from advisor.reading.metadata import Device, Metadata
from advisor.reading.packets import Packets

if TYPE_CHECKING:
    from advisor.reading.stream import Reader, Recorded

_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS = 8, 10, 11, 12, 13
_CLOCKS, _COMPRESSED, _STAGE, _CLOCK_ID, _DESCRIPTOR = 6, 50, 53, 58, 60
_MOST_PACKET_FIELDS, _MOST_EVENT_FIELDS = 64, 512
_CATEGORY, _ANNOTATION, _TYPE, _NAME_IID, _TRACK, _CATEGORY_TEXT, _NAME = 3, 4, 9, 10, 11, 22, 23
_BEGIN, _END = 1, 2
_CLEARED = 1
# Names are forgotten once or never in a file of torch; so often in a chunk, the rest of it is read with the last ones.
_MOST_CLEARED = 64
_REALTIME = 1
# Clocks of a sequence's own begin here; times of the others are ns on one clock.
_OWN_CLOCKS = 64
# The process that torch gives the profiler's own overhead.
_OVERHEAD = -1


class Pftrace:
    """Reads one Perfetto trace into the columns of *reader*."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.columns = reader.columns = Columns(in_ns=True)
        self.packets = Packets()
        self.interned = Interned()
        self.tracks: dict[int, Track] = {}
        self.damaged = 0
        self.other_clocks = 0
        self.compressed = 0
        self.base_ns: int | None = None
        self.architectures: set[str] = set()
        self.devices: set[int] = set()
        self.other_stages = 0
        self.stages = False
        self.categories = False
        self._slices: list[tuple[Any, Any, Any]] = []  # per chunk: is an end, time, track, in the order of the file
        self._numbers: list[Any] = []  # of beginnings, the numbers that their events have in the columns
        self._ends: list[tuple[Any, Any]] = []  # of events that say how long they take: numbers and ends
        self._number = 0

    def read(self, first: bytes) -> Recorded:
        """The whole file; *first* is what has been read of it. Raises TraceError."""
        for data, starts, stops in self.packets.chunks(chain([first], self.reader.blocks)):
            self._chunk(data, starts, stops)
            limits.check_size(self.reader.path, self.columns)
        self.reader.truncated = self.packets.truncated
        if not self.columns.events:
            self._refuse()
        ends, unmatched = self._pair()
        self.reader.notes += self._notes(int((ends == slices.OPEN).sum()), unmatched)
        return self.reader.finished(self._metadata(), ends)

    def _refuse(self) -> None:
        path = self.reader.path
        if self.damaged or self.packets.skipped_bytes:
            raise TraceError(f"{path}: is a Perfetto trace, damaged beyond reading. Copy or record it again.")
        raise NotATrace(
            f"{path}: is a Perfetto trace without slices of a program or stages of a GPU. advisor reads what torch writes as "
            ".pftrace; a trace of rocprofv3 it reads as JSON (--output-format json)."
        )

    # ---- packets

    def _chunk(self, data: bytes, starts: list[int], stops: list[int]) -> None:
        """Take in the packets of a chunk; where state is cleared, what came before it is taken in first."""
        buffer = np.frombuffer(data + protobuf.PADDING, np.uint8)
        begin, end = np.array(starts, np.int64), np.array(stops, np.int64)
        found = protobuf.fields(buffer, begin, end, _MOST_PACKET_FIELDS)
        self.damaged += int(found.bad.sum())
        size = len(starts)
        time, sequence, flags, clock = (np.zeros(size, np.int64) for _ in range(4))
        for number, column in ((_TIMESTAMP, time), (_SEQUENCE, sequence), (_FLAGS, flags), (_CLOCK_ID, clock)):
            rows = found.number == number
            column[found.row[rows]] = found.value[rows].astype(np.int64)
        own = clock >= _OWN_CLOCKS
        self.other_clocks += int(own.sum())
        usable = ~found.bad & ~own & (np.abs(time) < MOST_NS)
        self.compressed += int((found.number == _COMPRESSED).sum())
        scalars = np.isin(found.number, (_INTERNED, _DESCRIPTOR, _CLOCKS)) & (found.wire == protobuf.LENGTH)
        cleared = np.flatnonzero((flags & _CLEARED) != 0)
        cuts = [row for row in cleared.tolist() if self.interned.holds(int(sequence[row]))]
        bounds = [0, *[row for row in cuts if row][:_MOST_CLEARED], size]
        for low, high in pairwise(bounds):
            self._scalars(data, found, scalars & (found.row >= low) & (found.row < high), sequence, flags)
            part = usable.copy()
            part[:low] = part[high:] = False
            self._segment(data, buffer, found, part, time, sequence)

    def _scalars(self, data: bytes, found: protobuf.Fields, rows: Any, sequence: Any, flags: Any) -> None:
        """Take in names, tracks and clocks: few packets, decoded one by one."""
        chosen = np.flatnonzero(rows)
        for at in chosen[np.argsort(found.row[chosen], kind="stable")].tolist():
            row, number = int(found.row[at]), int(found.number[at])
            start, stop = int(found.start[at]), int(found.stop[at])
            try:
                if number == _INTERNED:
                    if flags[row] & _CLEARED:
                        self.interned.clear(int(sequence[row]))
                    self.interned.add(int(sequence[row]), data, start, stop)
                elif number == _DESCRIPTOR:
                    track = descriptor(data, start, stop)
                    self.tracks[track.uuid] = track
                else:
                    self._clock(data, start, stop)
            except protobuf.Malformed:
                self.damaged += 1

    def _clock(self, data: bytes, start: int, stop: int) -> None:
        """Take the wall clock's reading, from which the times of the events count."""
        for number, wire, _, at, end in protobuf.message(data, start, stop):
            if number == 1 and wire == protobuf.LENGTH:
                fields = {field: value for field, kind, value, _, _ in protobuf.message(data, at, end) if not kind}
                if fields.get(1) == _REALTIME and self.base_ns is None and 0 < fields.get(2, 0) < MOST_NS:
                    self.base_ns = fields[2]

    def _segment(self, data: bytes, buffer: Any, found: protobuf.Fields, usable: Any, time: Any, sequence: Any) -> None:
        rows = usable[found.row] & (found.wire == protobuf.LENGTH)
        for number, take in ((_TRACK_EVENT, self._track_events), (_STAGE, self._stage_events)):
            at = np.flatnonzero(rows & (found.number == number))
            if len(at):
                at = at[np.argsort(found.row[at], kind="stable")]  # in the order of the file
                row = found.row[at]
                take(data, buffer, found.start[at], found.stop[at], time[row], sequence[row])

    # ---- slices

    def _track_events(self, data: bytes, buffer: Any, start: Any, stop: Any, time: Any, sequence: Any) -> None:
        found = protobuf.fields(buffer, start, stop, _MOST_EVENT_FIELDS)
        self.damaged += int(found.bad.sum())
        size = len(start)
        kind, name_iid, category_iid = (np.zeros(size, np.int64) for _ in range(3))
        track = np.zeros(size, np.uint64)
        varint = found.wire == protobuf.VARINT
        for number, column in ((_TYPE, kind), (_NAME_IID, name_iid), (_CATEGORY, category_iid), (_TRACK, track)):
            rows = varint & (found.number == number)
            column[found.row[rows]] = found.value[rows].astype(column.dtype)
        kind[found.bad] = 0
        begins = np.flatnonzero(kind == _BEGIN)
        both = np.flatnonzero((kind == _BEGIN) | (kind == _END))
        if not len(both):
            return
        self._slices.append((kind[both] == _END, time[both], track[both].astype(np.int64)))
        if not len(begins):
            return
        names = self.interned.texts("name", sequence[begins], name_iid[begins])
        categories = self.interned.texts("category", sequence[begins], category_iid[begins])
        where = np.full(size, -1, np.int64)
        where[begins] = np.arange(len(begins))
        self._inline(data, found, where, _NAME, names)
        self._inline(data, found, where, _CATEGORY_TEXT, categories)
        rows = (found.number == _ANNOTATION) & (found.wire == protobuf.LENGTH) & (where[found.row] >= 0)
        told = Annotations(data, buffer, self.interned, len(begins))
        told.take(where[found.row[rows]], sequence[found.row[rows]], found.start[rows], found.stop[rows])
        self.damaged += told.damaged
        numbers = np.arange(self._number, self._number + len(begins))
        self._number += len(begins)
        self._numbers.append(numbers)
        tracks = [self.tracks.get(uuid) or Track(uuid) for uuid in track[begins].tolist()]
        times = (time[begins] - (self.base_ns or 0)).tolist()
        self.categories |= any(categories)
        events = []
        for name, category, place, ts, number, args, marks in zip(
            names, categories, tracks, times, numbers.tolist(), told.args, told.marks, strict=True
        ):
            category = category or kind_of(name, place, args, marks)
            if category == "gpu_memcpy":
                name = arguments.copy_name(name, marks)
            events.append(Event("X", category, name, place.pid, place.tid, ts, number, args))
        self.columns.add(events, b"")

    @staticmethod
    def _inline(data: bytes, found: protobuf.Fields, where: Any, number: int, into: list[str]) -> None:
        """Take the texts that stand in the event itself."""
        rows = (found.number == number) & (found.wire == protobuf.LENGTH) & (where[found.row] >= 0)
        for at in np.flatnonzero(rows).tolist():
            into[int(where[found.row[at]])] = protobuf.text(data, int(found.start[at]), int(found.stop[at]))

    # ---- stages

    def _stage_events(self, data: bytes, buffer: Any, start: Any, stop: Any, time: Any, sequence: Any) -> None:
        self.stages = True
        made = stages.events(data, buffer, self.interned, start, stop, sequence)
        self.damaged += made.damaged
        self.architectures |= made.architectures
        self.devices |= made.devices
        self.other_stages += made.others
        numbers = np.arange(self._number, self._number + len(made.events))
        self._number += len(made.events)
        self._ends.append((numbers, time[made.rows] + made.durations))
        times = (time[made.rows] - (self.base_ns or 0)).tolist()
        for event, ts, number in zip(made.events, times, numbers.tolist(), strict=True):
            event.ts, event.dur = ts, number
        self.columns.add(made.events, b"")

    # ---- the whole

    def _pair(self) -> tuple[Any, int]:
        """The end of each numbered event, and how many ends belong to none."""
        ends = np.full(self._number, slices.OPEN, np.int64)
        unmatched = 0
        if self._slices:
            is_end, time, track = (np.concatenate(parts) for parts in zip(*self._slices, strict=True))
            self._slices.clear()
            found, unmatched = slices.ends(is_end, time, track)
            if self._numbers:
                ends[np.concatenate(self._numbers)] = found
        for numbers, known in self._ends:
            ends[numbers] = known
        ends[ends != slices.OPEN] -= self.base_ns or 0
        return ends, unmatched

    def _metadata(self) -> Metadata:
        used = sorted(device for device in self.devices if 0 <= device < limits.MOST_DEVICES)
        capability = arguments.capability(self.architectures)
        devices = tuple(Device(id=at, name=None, memory_bytes=None, capability=capability, sms=None) for at in used)
        return Metadata(devices=devices if capability is not None else (), base_ns=self.base_ns or 0, format="pftrace")

    def _notes(self, unended: int, unmatched: int) -> Iterator[tuple[str, str]]:
        lacks = "memory events, flows, the properties of devices, the process group and torch's version"
        if self.stages:
            lacks += "; of kernels the occupancy and static shared memory, of copies the direction and kinds of memory"
        yield "not-recorded", f"the format (.pftrace) holds no {lacks}"
        if not self.categories and self._numbers:
            yield (
                "no-categories",
                "the file names no categories: the kinds of slices follow from their args, tracks and names",
            )
        damaged, passed = self.damaged + self.packets.damaged, self.packets.skipped_bytes
        lost = (
            [f"{damaged:,} damaged packets" + (f" ({passed:,} bytes)" if passed else "")] if damaged or passed else []
        )
        lost += [f"{unended:,} slices without an end"] if unended else []
        lost += [f"{unmatched:,} ends without a slice"] if unmatched else []
        if lost:
            yield "skipped", f"{', '.join(lost)} were left out"
        if self.other_stages:
            yield (
                "other-stages",
                f"{self.other_stages:,} stages of a GPU are neither kernels nor copies and were passed over",
            )
        if self.other_clocks:
            yield "other-clocks", f"{self.other_clocks:,} packets have times of another clock and were left out"
        if self.compressed:
            yield "compressed-packets", f"{self.compressed:,} compressed packets were left out"


def kind_of(name: str, track: Track, args: Args | None, marks: dict[str, Any] | None) -> str:
    """The category of a slice whose file names none."""
    marks = marks or {}
    args = args or _NO_ARGS
    if "cbid" in marks:
        return "cuda_runtime"
    if "cuda_sync_kind" in marks:
        return "cuda_sync"
    if "copy kind" in marks:
        return "gpu_memcpy"
    if "memory kind" in marks:
        return "gpu_memset"
    if bytes(args.grid) and args.correlation is not None:
        return "kernel"
    if "Python id" in marks:
        return "python_function"
    if track.pid == _OVERHEAD:
        return "overhead"
    if track.name.startswith("stream "):
        return "gpu_user_annotation"
    operator = "::" in name and not name.startswith("nccl:")
    return "cpu_op" if operator or args.sequence is not None or args.collective else "user_annotation"


_NO_ARGS = Args()


def read(reader: Reader, first: bytes) -> Recorded:
    """Read a Perfetto trace; *first* is what has been read of it."""
    return Pftrace(reader).read(first)
