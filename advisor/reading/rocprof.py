"""JSON of rocprofv3 (``--output-format json``): records of dispatches, copies, HIP calls and ranges → events, for the columns
that all dialects share.

A file holds a list of processes under ``rocprofiler-sdk-tool``; records name kinds and operations by number, kernels and agents by
id. Times are ns. Source: rocprofiler-sdk, source/lib/output and its tests of JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Raw

from advisor.errors import NotATrace, TraceError
from advisor.reading import limits
from advisor.reading.coerce import positive, word
from advisor.reading.columns import MISSING, MOST_NS, Columns
from advisor.reading.events import BROKEN, Args, Event
from advisor.reading.metadata import Device, Metadata
from advisor.regex import regex

if TYPE_CHECKING:
    from advisor.reading.stream import Reader, Recorded

_BATCH = 1 << 15
_ROOT = "rocprofiler-sdk-tool"
_GPU = 2  # ROCPROFILER_AGENT_TYPE_GPU
_DIRECTIONS = {"HOST_TO_DEVICE": "HtoD", "DEVICE_TO_HOST": "DtoH", "DEVICE_TO_DEVICE": "DtoD", "HOST_TO_HOST": "HtoH"}
_CALLS = ("hip_api", "hip_runtime_api", "hip_compiler_api")
_RANGES = ("marker_api", "marker_core_range_api", "marker_range_api")
_BETWEEN = regex(r"\}\s*,\s*\{")
_LISTS = ("kernel_dispatch", "memory_copy", *_CALLS, *_RANGES)


class _Tool(msgspec.Struct):
    """One process of a file."""

    metadata: Any = None
    agents: Any = None
    strings: Any = None
    kernel_symbols: Any = None
    buffer_records: Any = None


class _Tools(msgspec.Struct):
    tools: list[_Tool] | _Tool = msgspec.field(name=_ROOT)


class Records:
    """The records of a file, as events."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.columns = Columns(in_ns=True)
        self.ends: list[int] = []
        self.damaged = 0
        self.devices: dict[int, Device] = {}

    def take(self, tool: _Tool) -> None:
        """Take in what one process recorded."""
        strings, records = _mapping(tool.strings), _mapping(tool.buffer_records)
        operations = _operations(strings.get("buffer_records"))
        messages = {_int(item.get("key")): item.get("value") for item in _objects(strings.get("marker_api"))}
        kernels = {_int(item.get("kernel_id")): item for item in _objects(tool.kernel_symbols)}
        process = _int(_mapping(tool.metadata).get("pid"))
        agents = self._agents(tool.agents)
        self._add(records, "kernel_dispatch", lambda record: _kernel(record, kernels, agents))
        self._add(records, "memory_copy", lambda record: _copy(record, operations, agents))
        for key in _CALLS:
            self._add(records, key, lambda record: _call(record, operations, process))
        for key in _RANGES:
            self._add(records, key, lambda record: _range(record, messages, process))

    def _add(self, records: dict[str, Any], key: str, make: Any) -> None:
        batch: list[Event] = []
        listed = records.get(key)
        self.damaged += 0 if listed is None or isinstance(listed, list) else 1
        for record in listed if isinstance(listed, list) else ():
            start, end = (_time(record, which) for which in ("start_timestamp", "end_timestamp"))
            if start is None or end is None or end < start:
                self.damaged += 1
                continue
            event = make(record)
            if event is None:
                continue
            event.ph, event.ts, event.dur = "X", start, len(self.ends)
            self.ends.append(end)
            batch.append(event)
            if len(batch) >= _BATCH:
                self._flush(batch)
                batch = []
        self._flush(batch)

    def _flush(self, batch: list[Event]) -> None:
        if batch:
            self.columns.add(batch, b"")
            limits.check_size(self.path, self.columns)

    def _agents(self, listed: Any) -> dict[int, int]:
        """Number the GPUs among the agents, in their order, by handle; and note what each is."""
        numbers: dict[int, int] = {}
        gpus = [agent for agent in _objects(listed) if agent.get("type") == _GPU]
        for agent in sorted(gpus, key=lambda agent: _int(agent.get("node_id")))[: limits.MOST_DEVICES]:
            number = numbers[_handle(agent.get("id"))] = len(numbers)
            name = (
                word(agent.get("product_name"), 80) or word(agent.get("model_name"), 80) or word(agent.get("name"), 80)
            )
            self.devices.setdefault(
                number,
                Device(id=number, name=name, memory_bytes=None, capability=None, sms=positive(agent.get("cu_count"))),
            )
        return numbers


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """The objects of a list; of an object, its values."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (item for item in items if isinstance(item, dict))


def _int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _time(record: Any, key: str) -> int | None:
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < MOST_NS else None


def _handle(value: Any) -> int:
    return _int(_mapping(value).get("handle"))


def _operations(kinds: Any) -> list[list[Any]]:
    """Names of operations, by kind and number."""
    return [item["operations"] if isinstance(item.get("operations"), list) else [] for item in _objects(kinds)]


def _operation(record: dict[str, Any], operations: list[list[Any]]) -> str:
    kind, number = _int(record.get("kind")), _int(record.get("operation"))
    if 0 <= kind < len(operations) and 0 <= number < len(operations[kind]):
        name = operations[kind][number]
        return name if isinstance(name, str) else ""
    return ""


def _correlation(record: dict[str, Any]) -> Any:
    return _mapping(record.get("correlation_id")).get("internal")


def _dims(value: Any) -> list[int]:
    axes = _mapping(value)
    return [_int(axes.get(axis)) for axis in "xyz"]


def _kernel(record: dict[str, Any], kernels: dict[int, dict[str, Any]], agents: dict[int, int]) -> Event:
    info = _mapping(record.get("dispatch_info"))
    symbol = kernels.get(_int(info.get("kernel_id")), {})
    names = (symbol.get(key) for key in ("formatted_kernel_name", "demangled_kernel_name", "kernel_name"))
    name = next((name for name in names if isinstance(name, str) and name), "unknown kernel")
    device = agents.get(_handle(info.get("agent_id")), 0)
    # Without streams (older releases), the queue stands in.
    stream = _handle(record.get("stream_id"))
    stream = _handle(info.get("queue_id")) if stream < 0 else stream
    args = Args(device=device, stream=stream, correlation=_correlation(record))
    shared = info.get("group_segment_size")
    args.shared = shared if isinstance(shared, int) else None
    block, grid = _dims(info.get("workgroup_size")), _dims(info.get("grid_size"))
    if min(block) > 0 and min(grid) > 0:
        # A grid counts work-items here, and workgroups everywhere else.
        groups = [-(-size // part) for size, part in zip(grid, block, strict=True)]
        args.grid, args.block = Raw(json.dumps(groups).encode()), Raw(json.dumps(block).encode())
    return Event(cat="kernel", name=name.removesuffix(".kd"), pid=device, tid=stream, args=args)


def _copy(record: dict[str, Any], operations: list[list[Any]], agents: dict[int, int]) -> Event:
    operation = _operation(record, operations).removeprefix("MEMORY_COPY_")
    ends = [agents.get(_handle(record.get(key))) for key in ("src_agent_id", "dst_agent_id")]
    device = next((end for end in reversed(ends) if end is not None), 0)
    stream = _handle(record.get("stream_id"))
    args = Args(device=device, stream=stream, correlation=_correlation(record), bytes=record.get("bytes"))
    if not isinstance(args.bytes, int):
        args.bytes = None
    name = _DIRECTIONS.get(operation)
    if name is None and any(end is not None for end in ends):
        name = f"{'H' if ends[0] is None else 'D'}to{'H' if ends[1] is None else 'D'}"
    return Event(cat="gpu_memcpy", name=f"Memcpy {name or 'Unknown'}", pid=device, tid=stream, args=args)


def _call(record: dict[str, Any], operations: list[list[Any]], process: int) -> Event:
    args = Args(correlation=_correlation(record))
    name = _operation(record, operations) or "unknown call"
    return Event(cat="cuda_runtime", name=name, pid=process, tid=record.get("thread_id"), args=args)


def _range(record: dict[str, Any], messages: dict[int, Any], process: int) -> Event | None:
    message = messages.get(_int(_correlation(record)))
    if not isinstance(message, str) or record["end_timestamp"] == record["start_timestamp"]:
        return None
    operator = message.startswith(("aten::", "autograd::", "c10d::", "torch::"))
    name = message.partition(", ")[0] if operator else message
    return Event(
        cat="cpu_op" if operator else "user_annotation",
        name=name,
        pid=process,
        tid=record.get("thread_id"),
        args=Args(),
    )


# ---- damaged files


def _salvaged(text: str) -> tuple[list[_Tool], int, bool]:
    """The processes of a text that is no whole JSON: each list's items, up to where it breaks. Returns what was lost, too."""
    tool = _Tool(strings={}, buffer_records={})
    damaged, cut = 0, False
    start = max(0, text.find('"strings"'))
    listed = re.compile(r'"buffer_records"\s*:\s*\[').search(text, start)
    records = re.compile(r'"buffer_records"\s*:\s*\{').search(text)
    places: list[tuple[str, int, Any]] = [("agents", 0, None), ("kernel_symbols", 0, None)]
    for key, at, _ in places:
        items, lost, broken = _items(text, key, at)
        setattr(tool, key, items)
        damaged, cut = damaged + lost, cut or broken
    if listed:
        tool.strings["buffer_records"], lost, broken = _items(text, "buffer_records", listed.start())
        damaged, cut = damaged + lost, cut or broken
    tool.strings["marker_api"], _, _ = _items(text, "marker_api", start)
    for key in _LISTS if records else ():
        tool.buffer_records[key], lost, broken = _items(text, key, records.start() if records else 0)
        damaged, cut = damaged + lost, cut or broken
    return [tool], damaged, cut


def _items(text: str, key: str, start: int) -> tuple[list[Any], int, bool]:
    """The objects of the list behind a key; how many were lost, and whether the list has no end."""
    match = re.compile(rf'"{key}"\s*:\s*\[').search(text, start)
    if match is None:
        return [], 0, False
    out: list[Any] = []
    decoder, lost, at = json.JSONDecoder(), 0, match.end()
    while at < len(text):
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if text[at : at + 1] == "]":
            return out, lost, False
        try:
            item, end = decoder.raw_decode(text, at)
            if "\\ud" in text[at:end].lower():
                json.dumps(item, ensure_ascii=False).encode()  # half a surrogate pair is no character
            at = end
            out.append(item)
        except (ValueError, RecursionError):
            following = _BETWEEN.search(text, at)
            if following is None:
                return out, lost + 1, True
            lost, at = lost + 1, following.end() - 1
    return out, lost, True


def read(reader: Reader, first: bytes) -> Recorded:
    """Read a file of rocprofv3; *first* is what has been read of it. Raises TraceError."""
    text = b"".join(chain([first], reader.blocks))
    records = Records(reader.path)
    try:
        found = msgspec.json.decode(text, type=_Tools).tools
        tools = found if isinstance(found, list) else [found]
    except BROKEN:
        tools, records.damaged, reader.truncated = _salvaged(text.decode("utf-8", "replace"))
    del text
    for tool in tools:
        records.take(tool)
    reader.columns = records.columns
    if not records.columns.events:
        if records.damaged or reader.truncated:
            raise TraceError(f"{reader.path}: is JSON of rocprofv3, damaged beyond reading. Copy or record it again.")
        raise NotATrace(
            f"{reader.path}: is JSON of rocprofv3 without dispatches, copies or calls. "
            "Record with rocprofv3 --runtime-trace --output-format json."
        )
    lacks = "operators, Python stacks, shapes and memory events, the memory of devices, the process group and torch's version"
    reader.notes.append(("not-recorded", f"the format (rocprofv3, JSON) holds no {lacks}"))
    if records.damaged:
        what = "record was" if records.damaged == 1 else "records were"
        reader.notes.append(("skipped", f"{records.damaged:,} damaged {what} left out"))
    devices = tuple(records.devices.values())
    meta = Metadata(devices=devices, hip=True, format="rocprof")
    return reader.finished(meta, np.array(records.ends or [MISSING], np.int64))
