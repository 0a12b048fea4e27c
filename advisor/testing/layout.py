"""The text of a trace, laid out as Kineto writes it: one dialect of today, one of 2021.

An event knows its times in ns since the start of the recording; how they are written is decided here. Today: us with
three decimals, counted from ``baseTimeNanoseconds``. In 2021: whole us since the Unix epoch, threads as text, other
names of categories, call stacks as text on the operators.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OLD_CATEGORIES = {
    "cpu_op": "Operator",
    "user_annotation": "Operator",
    "cuda_runtime": "Runtime",
    "cuda_driver": "Runtime",
    "kernel": "Kernel",
    "gpu_memcpy": "Memcpy",
    "gpu_memset": "Memset",
}
GPU = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
# Categories that Kineto of 2021 did not know; their events are left out there.
_UNKNOWN_THEN = frozenset({"python_function", "gpu_user_annotation", "overhead"})
# Order in the file, as Kineto's: operators, memory, Python, then runtime calls and GPU work as they were launched.
_ORDER = {"cpu_op": 0, "user_annotation": 0, "cpu_instant_event": 1, "python_function": 2, "gpu_user_annotation": 4}


@dataclass(slots=True)
class Event:
    """One event, times in ns since the start of the recording."""

    category: str
    name: str
    pid: int
    tid: int
    start_ns: int
    end_ns: int
    args: dict[str, Any] = field(default_factory=dict)
    flow: str = ""  # "s" or "f" of an ac2g arrow, drawn with ``args["correlation"]``
    stack: tuple[str, ...] = ()  # innermost first, for the dialect that writes stacks as text


@dataclass(slots=True)
class Verbatim:
    """An event given as a mapping; ``start_ns`` and ``dur_ns`` fill in ``ts`` and ``dur`` where they are not None."""

    fields: Mapping[str, Any]
    start_ns: int | None
    dur_ns: int | None


@dataclass(frozen=True)
class Clock:
    """Conversion of ns to the text of ``ts`` and ``dur``."""

    base_ns: int
    start_ns: int
    old: bool

    def ts(self, at_ns: int) -> str:
        """Write the timestamp of a moment."""
        return str((self.base_ns + self.start_ns + at_ns) // 1000) if self.old else _us(self.start_ns + at_ns)

    def dur(self, start_ns: int, end_ns: int) -> str:
        """Write a duration. Whole us are cut at both ends, so that what nests in ns nests in us."""
        if not self.old:
            return _us(end_ns - start_ns)
        zero = self.base_ns + self.start_ns
        return str((zero + end_ns) // 1000 - (zero + start_ns) // 1000)


@dataclass
class Root:
    """Parts of the file around its events."""

    properties: Sequence[dict[str, Any]] | None
    metadata: Mapping[str, Any]
    pid: int
    name: str
    as_list: bool


def _us(ns: int) -> str:
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"


def text(events: Iterable[Event | Verbatim], clock: Clock, root: Root, end_ns: int) -> str:
    """Write the whole file."""
    timed = [event for event in events if isinstance(event, Event)]
    if clock.old:
        timed = [event for event in timed if event.category not in _UNKNOWN_THEN]
    external = {
        event.args["External id"]: clock.ts(event.start_ns)
        for event in timed
        if event.category in ("cpu_op", "user_annotation")
    }
    parts = []
    for event in sorted(timed, key=lambda event: _ORDER.get(event.category, 3)):
        parts.append(_event(event, clock, external))
        if event.flow:
            parts.append(_flow(event, clock))
    parts += [_verbatim(event, clock) for event in events if isinstance(event, Verbatim)]
    parts += _naming(timed, clock, root)
    parts += _frame(clock, end_ns)
    body = ",\n".join(parts)
    if root.as_list:
        return f"[\n{body}\n]"
    head = ['\n  "schemaVersion": 1,']
    if root.properties is not None:
        head.append(f'  "deviceProperties": [\n{_devices(root.properties)}\n  ],')
    head += [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in root.metadata.items()]
    tail = f'  ],\n  "traceName": {json.dumps(root.name)}'
    if not clock.old:
        tail += f',\n  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": {clock.base_ns}'
    return "{" + "\n".join(head) + f'\n  "traceEvents": [\n{body}\n{tail}\n}}\n'


def gzipped(data: bytes) -> bytes:
    """Compress *data* to a gzip member without a time and a system, so that the same data gives the same bytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    body = packer.compress(data) + packer.flush()
    return (
        b"\x1f\x8b\x08\0\0\0\0\0\x02\xff"
        + body
        + zlib.crc32(data).to_bytes(4, "little")
        + (len(data) & 0xFFFFFFFF).to_bytes(4, "little")
    )


def _devices(properties: Sequence[dict[str, Any]]) -> str:
    return ",\n".join("    {\n      " + json.dumps(entry)[1:-1] + "\n    }" for entry in properties)


def _tid(event: Event, clock: Clock) -> str:
    if not clock.old:
        return str(event.tid)
    return f'"stream {event.tid}"' if event.category in GPU else f'"{event.tid}"'


def _event(event: Event, clock: Clock, external: Mapping[int, str]) -> str:
    if event.category == "cpu_instant_event":
        return _instant(event, clock)
    category = OLD_CATEGORIES.get(event.category, event.category) if clock.old else event.category
    args = _old_args(event, external) if clock.old else event.args
    lines = [
        f'    "ph": "X", "cat": "{category}", "name": {json.dumps(event.name)}, "pid": {event.pid}, "tid": {_tid(event, clock)},',
        f'    "ts": {clock.ts(event.start_ns)}, "dur": {clock.dur(event.start_ns, event.end_ns)}',
    ]
    if args:
        lines[1] += ","
        lines.append('    "args": {\n      ' + json.dumps(args)[1:-1] + "\n    }")
    return "  {\n" + "\n".join(lines) + "\n  }"


def _old_args(event: Event, external: Mapping[int, str]) -> dict[str, Any]:
    args = event.args
    if event.category in ("cpu_op", "user_annotation"):
        old: dict[str, Any] = {
            "Device": event.pid,
            "External id": args["External id"],
            "Trace name": "PyTorch Profiler",
            "Trace iteration": 0,
        }
        old |= {key: args[key] for key in ("Fwd thread id", "Sequence number", "Input Dims") if key in args}
        if event.stack:
            old["Call stack"] = ";".join(event.stack)
        if "Input type" in args:
            old["Input type"] = args["Input type"]
        return old
    old = {key: value for key, value in args.items() if key != "External id"}
    if "External id" in args:
        old["external id"] = args["External id"]
        if event.category not in GPU and args["External id"] in external:
            old["external ts"] = int(external[args["External id"]])
    return old


def _instant(event: Event, clock: Clock) -> str:
    category = "" if clock.old else ' "cat": "cpu_instant_event",'
    old = {key: event.args[key] for key in ("Device Type", "Device Id", "Bytes") if key in event.args}
    args = json.dumps(old if clock.old else event.args)[1:-1]
    return (
        f'  {{\n    "ph": "i",{category} "s": "t", "name": {json.dumps(event.name)},\n    "pid": {event.pid}, "tid": {event.tid},\n'
        f'    "ts": {clock.ts(event.start_ns)},\n    "args": {{\n      {args}\n    }}\n  }}'
    )


def _flow(event: Event, clock: Clock) -> str:
    kind, name = ("async", "launch") if clock.old else ("ac2g", "ac2g")
    end = ', "bp": "e"' if event.flow == "f" else ""
    return (
        f'  {{\n    "ph": "{event.flow}", "id": {event.args["correlation"]}, "pid": {event.pid}, "tid": {_tid(event, clock)}, '
        f'"ts": {clock.ts(event.start_ns)},\n    "cat": "{kind}", "name": "{name}"{end}\n  }}'
    )


def _verbatim(event: Verbatim, clock: Clock) -> str:
    parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in event.fields.items()]
    if event.start_ns is not None:
        parts.append(f'"ts": {clock.ts(event.start_ns)}')
        if event.dur_ns is not None:
            parts.append(f'"dur": {clock.dur(event.start_ns, event.start_ns + event.dur_ns)}')
    return "  {\n    " + ", ".join(parts) + "\n  }"


def _meta(name: str, pid: int, tid: str, ts: str, args: Mapping[str, Any]) -> str:
    return (
        f'  {{\n    "name": "{name}", "ph": "M", "ts": {ts}, "pid": {pid}, "tid": {tid},\n'
        f'    "args": {{\n      {json.dumps(args)[1:-1]}\n    }}\n  }}'
    )


def _naming(events: Iterable[Event], clock: Clock, root: Root) -> list[str]:
    """Write the metadata events: names and places of processes, threads and streams."""
    zero = clock.ts(0)
    out = []
    processes = [(root.pid, "CPU", root.pid)]
    processes += [(number, f"GPU {number}", 5_000_000 + number) for number in range(len(root.properties or ()))]
    for pid, label, place in processes:
        out.append(_meta("process_name", pid, "0", zero, {"name": "python"}))
        out.append(_meta("process_labels", pid, "0", zero, {"labels": label}))
        out.append(_meta("process_sort_index", pid, "0", zero, {"sort_index": place}))
    rows = {(event.category not in GPU, event.pid, event.tid, _tid(event, clock)) for event in events}
    for is_host, pid, tid, text_id in sorted(rows):
        if not is_host or pid == root.pid:
            name = f"thread {tid} (python)" if is_host else f"stream {tid} "
            out.append(_meta("thread_name", pid, text_id, zero, {"name": name}))
            out.append(_meta("thread_sort_index", pid, text_id, zero, {"sort_index": tid}))
    return out


def _frame(clock: Clock, end_ns: int) -> list[str]:
    """Write the span of the recording and the instants at its two ends."""
    zero, end = clock.ts(0), clock.ts(end_ns)
    spans = "Traces" if clock.old else "Spans"
    return [
        f'  {{\n    "ph": "X", "cat": "Trace", "ts": {zero}, "dur": {clock.dur(0, end_ns)},\n'
        f'    "pid": "{spans}", "tid": "PyTorch Profiler",\n'
        '    "name": "PyTorch Profiler (0)",\n    "args": {\n      "Op count": 0\n    }\n  }',
        f'  {{\n    "name": "process_sort_index", "ph": "M", "ts": {zero},\n    "pid": "{spans}", "tid": 0,\n'
        '    "args": {\n      "sort_index": 536870912\n    }\n  }',
        '  {\n    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",\n'
        f'    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {zero}\n  }}',
        f'  {{\n    "name": "Record Window End", "ph": "i", "s": "g",\n    "pid": "", "tid": "", "ts": {end}\n  }}',
    ]
