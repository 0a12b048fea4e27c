"""Exports of Nsight Systems (``nsys export --type sqlite``): rows of its tables → events, for the columns that all dialects share.

Tables are made as they are needed, and columns come with versions: what is not there is not read. Times are ns from the start of
the recording. Source: "SQLite Export Schema Reference" of the Nsight Systems user guide; enumerations are CUPTI's.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Raw

from advisor.errors import NotATrace, TraceError
from advisor.reading import limits
from advisor.reading.coerce import integer, positive, word
from advisor.reading.columns import MISSING, MOST_NS, Columns
from advisor.reading.events import Args, Event
from advisor.reading.metadata import Device, Metadata
from advisor.regex import regex

if TYPE_CHECKING:
    from advisor.reading.stream import Reader, Recorded

_BATCH = 1 << 15
# Messages that SQLite makes of a damaged schema may be no text.
_BROKEN = (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError)
# Steps of SQLite's machine in one statement, in thousands: a whole export takes a few a row, a hostile schema any number.
_TICK, _MOST_TICKS = 100_000, 100_000
_MOST_TEXTS = 1 << 22
_COPY_KINDS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
_MEMORY_KINDS = {
    0: "Unknown",
    1: "Pageable",
    2: "Pinned",
    3: "Device",
    4: "Array",
    5: "Managed",
    6: "Device Static",
    7: "Managed Static",
}
_SYNC_KINDS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_NVTX_RANGES = (59, 60)  # push/pop ranges, and ranges with a begin and an end of their own
_VERSION = regex(r"_v\d+$")
_KERNELS, _COPIES, _MEMSETS = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
_CALLS = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
_SYNCS, _RANGES = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "NVTX_EVENTS"
_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_GPU = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")


class Export:
    """One export, opened."""

    def __init__(self, path: str, database: sqlite3.Connection) -> None:
        self.path, self.database = path, database
        self.columns = Columns(in_ns=True)
        self.ends: list[int] = []
        self.strings: dict[int, str] = {}
        self.damaged = 0
        self.graphs = 0
        self.notes: list[tuple[str, str]] = []
        self._ticks = 0
        database.set_progress_handler(self._tick, _TICK)
        database.text_factory = lambda data: data.decode("utf-8", "replace")
        listed = self._rows("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        # Tables with a module of their own run code that came with the file's schema.
        self.tables = {str(name) for name, sql in listed if not str(sql).lstrip().upper().startswith("CREATE VIRTUAL")}
        self.processes = self._busy_ns()
        self.process = max(self.processes, key=lambda process: self.processes[process], default=None)

    def _busy_ns(self) -> dict[int, float]:
        """ns of GPU work by process. Calls and devices have numbers of their own in each."""
        found: dict[int, float] = {}
        for name in sorted(self.tables & {_KERNELS, _GRAPHS, _COPIES, _MEMSETS}):
            self._ticks = 0
            # A damaged table is said to be one as its rows are read; one without the column has one process.
            with contextlib.suppress(*_BROKEN):
                for key, ns in self.database.execute(f"SELECT globalPid, total(end - start) FROM {name} GROUP BY 1"):
                    process, _ = _process_thread(key)
                    if process is not None:
                        found[process] = found.get(process, 0.0) + (ns or 0.0)
        return found

    def _is_other(self, name: str, row: dict[str, Any]) -> bool:
        """Tell whether a row is of another process than the one that is read: calls, and all that has GPU work of its own."""
        process, _ = _process_thread(row.get("globalPid", row.get("globalTid")))
        if process is None or self.process is None or process == self.process:
            return False
        return name in _CALLS or process in self.processes

    def _tick(self) -> int:
        self._ticks += 1
        return int(self._ticks > _MOST_TICKS)

    def _rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Yield rows, up to where the database is damaged."""
        self._ticks = 0
        try:
            yield from self.database.execute(statement)
        except _BROKEN as error:
            self.damaged += 1
            text = word(str(error), 80) or type(error).__name__
            if len(self.notes) < 20:
                self.notes.append(
                    ("sqlite-damaged", f"the database is damaged ({text}); what follows in a table is lost")
                )

    def table(self, name: str, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table, with None for columns that it lacks."""
        if name not in self.tables:
            return
        there = {str(row[1]) for row in self._rows(f"PRAGMA table_info({name})")}
        chosen = [column for column in columns if column in there]
        if not chosen:
            return
        blank = dict.fromkeys(columns)
        names = ", ".join(f'"{column}"' for column in chosen)
        for row in self._rows(f"SELECT {names} FROM {name}"):  # names of this module
            yield blank | dict(zip(chosen, row, strict=True))

    # ---- events

    def read(self) -> None:
        """Take in all tables."""
        for row in self.table("StringIds", ("id", "value")):
            if isinstance(row["id"], int) and isinstance(row["value"], str):
                self.strings[row["id"]] = row["value"]
            if len(self.strings) > _MOST_TEXTS:
                break
        for number, name in enumerate(_CALLS):
            self._take(name, ("start", "end", "globalTid", "correlationId", "nameId"), self._call, number)
        replayed: set[Any] = set()
        self._take(_KERNELS, (*_GPU, "shortName", "demangledName", "name", *_LAUNCH), self._kernel, replayed)
        self._take(_GRAPHS, (*_GPU, "graphId"), self._graph, replayed)
        self._take(_COPIES, (*_GPU, "bytes", "copyKind", "srcKind", "dstKind"), self._copy)
        self._take(_MEMSETS, (*_GPU, "bytes", "memKind"), self._memset)
        self._take(_SYNCS, (*_GPU, "syncType"), self._sync)
        self._take(_RANGES, ("start", "end", "text", "textId", "eventType", "globalTid"), self._range)

    def _take(self, name: str, columns: tuple[str, ...], make: Any, *more: Any) -> None:
        batch: list[Event] = []
        for row in self.table(name, columns):
            start, end = row["start"], row["end"]
            if not _is_time(start) or not _is_time(end) or end < start:
                if name != _RANGES or end is not None:  # marks have no end
                    self.damaged += 1
                continue
            event = None if self._is_other(name, row) else make(row, *more)
            if event is None:
                continue
            event.ph, event.ts, event.dur = "X", start, len(self.ends)
            self.ends.append(end)
            batch.append(event)
            if len(batch) >= _BATCH:
                self._add(batch)
                batch = []
        self._add(batch)

    def _add(self, batch: list[Event]) -> None:
        if batch:
            self.columns.add(batch, b"")
            limits.check_size(self.path, self.columns)

    def _text(self, *values: Any) -> str:
        """The first of some texts or numbers of strings that says something."""
        for value in values:
            found = self.strings.get(value) if isinstance(value, int) else value
            if isinstance(found, str) and found:
                return found
        return ""

    def _call(self, row: dict[str, Any], driver: int) -> Event:
        process, thread = _process_thread(row["globalTid"])
        name = _VERSION.sub("", self._text(row["nameId"]))
        # Newer exports keep the driver's calls in the runtime's table.
        driver = driver or (name.startswith("cu") and not name.startswith("cuda"))
        args = Args(correlation=row["correlationId"])
        return Event(cat="cuda_driver" if driver else "cuda_runtime", name=name, pid=process, tid=thread, args=args)

    def _gpu(self, row: dict[str, Any], category: str, name: str) -> Event:
        args = Args(device=row["deviceId"], stream=row["streamId"], correlation=row["correlationId"])
        return Event(cat=category, name=name, pid=row["deviceId"], tid=row["streamId"], args=args)

    def _kernel(self, row: dict[str, Any], replayed: set[Any]) -> Event:
        event = self._gpu(row, "kernel", self._text(row["demangledName"], row["shortName"], row["name"]))
        args = event.args
        assert args is not None
        args.registers = row["registersPerThread"]
        shared = [row["staticSharedMemory"], row["dynamicSharedMemory"]]
        if all(isinstance(part, int) for part in shared):
            args.shared = sum(shared)
        for name, axes in (("grid", "gridX gridY gridZ"), ("block", "blockX blockY blockZ")):
            sizes = [row[axis] for axis in axes.split()]
            if all(isinstance(size, int) for size in sizes):
                setattr(args, name, Raw(f"[{sizes[0]}, {sizes[1]}, {sizes[2]}]".encode()))
        if row["graphNodeId"] is not None:
            args.graph_node = row["graphNodeId"]
            replayed.add(row["correlationId"])
        return event

    def _graph(self, row: dict[str, Any], replayed: set[Any]) -> Event | None:
        """A whole replay, as nsys records it unless it is asked for the nodes; none where it has those as well."""
        if row["correlationId"] in replayed:
            return None
        self.graphs += 1
        number = row["graphId"]
        return self._gpu(row, "kernel", f"CUDA graph {number}" if isinstance(number, int) else "CUDA graph")

    def _copy(self, row: dict[str, Any]) -> Event:
        name = f"Memcpy {_COPY_KINDS.get(row['copyKind'], 'Unknown')}"
        if row["srcKind"] is not None and row["dstKind"] is not None:
            kinds = [_MEMORY_KINDS.get(row[key], "Unknown") for key in ("srcKind", "dstKind")]
            name += f" ({kinds[0]} -> {kinds[1]})"
        event = self._gpu(row, "gpu_memcpy", name)
        assert event.args is not None
        event.args.bytes = row["bytes"]
        return event

    def _memset(self, row: dict[str, Any]) -> Event:
        event = self._gpu(row, "gpu_memset", f"Memset ({_MEMORY_KINDS.get(row['memKind'], 'Unknown')})")
        assert event.args is not None
        event.args.bytes = row["bytes"]
        return event

    def _sync(self, row: dict[str, Any]) -> Event:
        return self._gpu(row, "cuda_sync", _SYNC_KINDS.get(row["syncType"], "Unknown"))

    def _range(self, row: dict[str, Any]) -> Event | None:
        if row["eventType"] not in _NVTX_RANGES:
            return None
        name = self._text(row["text"], row["textId"])
        process, thread = _process_thread(row["globalTid"])
        # torch.autograd.profiler.emit_nvtx writes operators as ranges: "aten::mm, seq = 12, op_id = 3".
        operator = name.startswith(("aten::", "autograd::", "c10d::", "torch::"))
        name = name.partition(", ")[0] if operator else name
        return Event(cat="cpu_op" if operator else "user_annotation", name=name, pid=process, tid=thread, args=Args())

    # ---- metadata

    def metadata(self) -> Metadata:
        """The devices; the export says more of the machine, which nothing here asks."""
        devices: list[Device] = []
        wanted = (
            "id",
            "cuDevice",
            "cudaId",
            "name",
            "totalMemory",
            "computeMajor",
            "computeMinor",
            "smMajor",
            "smMinor",
            "smCount",
        )
        # Each process numbers the devices that it sees from 0.
        ids = {
            row["gpuId"]: row["cudaId"]
            for row in self.table("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid"))
            if not row["pid"] or self.process in (None, row["pid"])
        }
        for at, row in enumerate(self.table("TARGET_INFO_GPU", wanted)):
            if len(devices) >= limits.MOST_DEVICES:
                break
            if ids and row["id"] not in ids:
                continue
            major = integer(row["computeMajor"] if row["computeMajor"] is not None else row["smMajor"])
            minor = integer(row["computeMinor"] if row["computeMinor"] is not None else row["smMinor"])
            known = major is not None and 0 < major < 100 and minor is not None and 0 <= minor < 10
            number = integer(ids.get(row["id"], row["cuDevice"] if row["cuDevice"] is not None else row["id"]))
            devices.append(
                Device(
                    id=at if number is None else number,
                    name=word(row["name"], 80),
                    memory_bytes=positive(row["totalMemory"]),
                    capability=round((major or 0) + (minor or 0) / 10, 1) if known else None,
                    sms=positive(row["smCount"]),
                )
            )
        return Metadata(devices=tuple(devices), format="nsys")


_LAUNCH = (
    *("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"),
    *("registersPerThread", "staticSharedMemory", "dynamicSharedMemory", "graphNodeId"),
)


def _is_time(value: Any) -> bool:
    return isinstance(value, int) and abs(value) < MOST_NS


def _process_thread(value: Any) -> tuple[int | None, int | None]:
    """Process and thread out of an id that holds both: 24 bits each, above them the machine's."""
    if not isinstance(value, int):
        return None, None
    return value >> 24 & 0xFFFFFF, value & 0xFFFFFF


def read(reader: Reader, first: bytes) -> Recorded:
    """Read an export; *first* is what has been read of it. Raises TraceError."""
    path, database = reader.path, None
    local = reader.source.local
    try:
        if local is not None:
            uri = f"{Path(local).resolve().as_uri()}?mode=ro&immutable=1"
            database = sqlite3.connect(uri, uri=True)
            reader.source.size = Path(local).stat().st_size
        else:
            database = sqlite3.connect(":memory:")
            database.deserialize(b"".join([first, *reader.blocks]))
        database.execute("PRAGMA trusted_schema = OFF")
        # A file that is shorter than it says is read as far as it goes; nothing is written, the connection only reads.
        database.execute("PRAGMA writable_schema = ON")
        database.execute("PRAGMA query_only = ON")
        export = Export(path, database)
        export.read()
        return _recorded(reader, export)
    except (*_BROKEN, OSError) as error:
        text = word(str(error), 80) or type(error).__name__
        raise TraceError(
            f"{path}: is a SQLite database that cannot be read ({text}). Export the report again."
        ) from None
    finally:
        if database is not None:
            database.close()


def _recorded(reader: Reader, export: Export) -> Recorded:
    reader.columns = export.columns
    if not export.columns.events:
        _refuse(reader.path, export)
    lacks = "Python stacks, shapes and memory events, the process group, torch's version, and the occupancy of kernels"
    if not export.tables & {_RANGES}:
        lacks += "; it has no NVTX ranges either, so no operators (record with torch.autograd.profiler.emit_nvtx())"
    reader.notes.append(("not-recorded", f"the format (Nsight Systems, SQLite) holds no {lacks}"))
    if export.graphs:
        what = "1 replay of a CUDA graph is" if export.graphs == 1 else f"{export.graphs:,} replays of CUDA graphs are"
        reader.notes.append(
            ("graphs-whole", f"{what} one piece of GPU work each: which kernels ran in it is not recorded")
        )
    if len(export.processes) > 1:
        text = f"{len(export.processes):,} processes of the export worked on GPUs; this is of the one that did so the longest"
        reader.notes.append(("several-processes", text))
    reader.notes += export.notes
    if export.damaged > len(export.notes):
        reader.notes.append(
            ("skipped", f"{export.damaged - len(export.notes):,} rows without usable times were left out")
        )
    return reader.finished(export.metadata(), np.array(export.ends or [MISSING], np.int64))


def _refuse(path: str, export: Export) -> None:
    if export.damaged:
        raise TraceError(
            f"{path}: is a SQLite database, damaged beyond reading. Export the report of Nsight Systems again."
        )
    if export.tables & {_KERNELS, *_CALLS, _RANGES, "StringIds"}:
        raise NotATrace(
            f"{path}: is an export of Nsight Systems without kernels, calls or NVTX ranges. "
            "Record with nsys profile --trace=cuda,nvtx."
        )
    if any(name.startswith("rocpd_") for name in export.tables):
        raise NotATrace(f"{path}: is a rocpd database. advisor reads the JSON of rocprofv3: --output-format json.")
    raise NotATrace(
        f"{path}: is a SQLite database of something else. advisor reads exports of Nsight Systems (nsys export --type sqlite)."
    )
