"""A trace of the profiler, written as ``.pftrace`` as torch's main branch writes it.

Follows torch/csrc/profiler/cupti/monitor_pftrace.cpp: its first form, where all events are slices, as pytorch/pytorch has it at
39304f15c42c0ecefd79f4c78d7e351868e743a4; and its later one, with GPU render stages, categories and a clock snapshot, as it stands
at ad7e69ae33940dfac6c1b056f701c43854d22d4b. What the encoder is given follows ``_window_to_pftrace`` of
torch/profiler/_cupti/monitor_trace.py at 2ef3b7f058b6a63a0f7255d3624fd80347e1bfac.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import pairwise
from typing import Any

Root = dict[str, Any]
_NOT_HOST = frozenset(
    [
        "Trace",
        "kernel",
        "gpu_memcpy",
        "gpu_memset",
        "gpu_user_annotation",
        "cuda_runtime",
        "cuda_driver",
        "cuda_sync",
        "overhead",
    ]
)
_STAGES = {"kernel": 1, "gpu_memcpy": 2, "gpu_memset": 3, "gpu_user_annotation": 4}
_STAGE_NAMES = ((1, "Kernel", 2), (2, "Memcpy", 0), (3, "Memset", 0), (4, "Annotation", 0))
_QUEUES = 100
_ARGUMENTS = ((1, "registers_per_thread"), (2, "shared_mem_dynamic"), (3, "thread_count"))
_EXTRA = ("correlation", "priority", "queued", "channel", "channel_type", "graph id", "graph node id", "bytes", "value")
_CLEARED, _NEEDED = 1, 2


def varint(value: int) -> bytes:
    """A number as a varint; a negative one as an unsigned one of 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field with a number."""
    return varint(field << 3) + varint(value)


def content(field: int, value: bytes | str) -> bytes:
    """A field with a text or a message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def annotation(name: str, value: Any, field: int = 4) -> bytes:
    """A DebugAnnotation with this name, as ``emitJsonValue`` fills it."""
    return content(field, (content(10, name) if name else b"") + _value(value))


def _value(value: Any) -> bytes:
    if isinstance(value, dict):
        return b"".join(annotation(key, item, 11) for key, item in sorted(value.items()))
    if isinstance(value, list):
        return b"".join(annotation("", item, 12) for item in value)
    if isinstance(value, bool):
        return number(2, value)
    if isinstance(value, float):
        return varint(5 << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return number(4, value)
    return content(6, "null" if value is None else value)


class Encoder:
    """One trace on its way to bytes."""

    def __init__(self, root: Root, *, stages: bool, categories: bool) -> None:
        self.base = int(root.get("baseTimeNanoseconds", 0))
        self.events = [event for event in root["traceEvents"] if event.get("ph") == "X"]
        self.stages, self.categories = stages, categories
        self.tracks: dict[Any, int] = {}
        self.head: list[bytes] = []
        self.names: dict[str, int] = {}
        self.cats: dict[str, int] = {}
        self.kernels: dict[str, int] = {}
        self.body: list[bytes] = []

    def encode(self) -> bytes:
        """The whole file, not compressed."""

        def of(cat: str) -> list[Root]:
            return [event for event in self.events if event.get("cat") == cat]

        self.group([e for e in self.events if e.get("cat") not in _NOT_HOST], lambda e: e.get("args") or {})
        for cat in ("cuda_runtime", "cuda_driver"):
            self.group(
                of(cat), lambda e: {"cbid": e["args"].get("cbid", 0), "correlation": e["args"].get("correlation", 0)}
            )
        self.group([e | {"pid": -1, "tid": 0} for e in of("overhead")], lambda e: {}, category=False)
        self.group(of("cuda_sync"), lambda e: e.get("args") or {}, category=False)
        queues: dict[tuple[int, int], int] = {}
        if self.stages:
            work = [e for cat in _STAGES for e in of(cat)]
            for at, key in enumerate(sorted({_lane(e) for e in work})):
                queues[key] = _QUEUES + at
            self.render(work, queues)
        else:
            for cat in _STAGES:
                self.group(of(cat), _slice_args, name=_plain)
        interned = b"".join(content(2, number(1, at) + content(2, name)) for name, at in self.names.items())
        interned += b"".join(content(1, number(1, at) + content(2, name)) for name, at in self.cats.items())
        if self.stages:
            specs = [*_STAGE_NAMES, *((at, f"[{lane:04d}] stream {lane}", 0) for (_, lane), at in queues.items())]
            for at, name, category in specs:
                interned += content(24, number(1, at) + content(2, name) + number(4, category))
            interned += content(23, number(1, 1) + number(2, 1))
            interned += b"".join(content(1000, number(1, at) + content(3, name)) for name, at in self.kernels.items())
            interned += b"".join(content(1001, number(1, at) + content(2, name)) for at, name in _ARGUMENTS)
        clock = b""
        if self.stages:
            clocks = b"".join(content(1, number(1, which) + number(2, self.base)) for which in (6, 1))
            clock = self.packet(number(8, self.base) + number(10, 1) + content(6, clocks))
        state = self.packet(number(10, 1) + number(13, _CLEARED) + content(12, interned))
        return b"".join([clock, *self.head, state, *self.body])

    @staticmethod
    def packet(body: bytes) -> bytes:
        """A TracePacket."""
        return content(1, body)

    def track(self, pid: Any, tid: Any) -> int:
        """The uuid of a thread's track, which is described on first use."""
        for key, own in (((pid,), True), ((pid, tid), False)):
            if key in self.tracks:
                continue
            uuid = self.tracks[key] = len(self.tracks) + 1
            inner = number(1, _int32(pid)) + (b"" if own else number(2, _int32(tid)))
            name = (
                f"GPU {pid}"
                if own
                else (f"stream {tid}" if isinstance(pid, int) and 0 <= pid < 16 else f"thread {tid}")
            )
            parent = b"" if own else number(5, self.tracks[(pid,)])
            described = number(1, uuid) + parent + content(3 if own else 4, inner + content(6 if own else 5, name))
            self.head.append(self.packet(content(60, described)))
        return self.tracks[pid, tid]

    def name(self, text: str) -> int:
        """The number of an interned name."""
        return self.names.setdefault(text, len(self.names) + 1)

    def ns(self, value: Any) -> int:
        """A time of JSON, us, in ns."""
        return int((Decimal(str(value)) * 1000).to_integral_value())

    def group(
        self,
        events: Iterable[Root],
        args: Callable[[Root], Root],
        *,
        category: bool = True,
        name: Callable[[Root], str] = lambda event: event["name"],
    ) -> None:
        """All beginnings of some events, then all their ends."""
        ends = []
        for event in events:
            start = self.base + self.ns(event["ts"])
            uuid = self.track(event.get("pid"), event.get("tid"))
            body = number(9, 1) + number(11, uuid) + number(10, self.name(name(event)))
            if self.categories and category:
                body += number(3, self.cats.setdefault(event["cat"], len(self.cats) + 1))
            body += b"".join(annotation(key, value) for key, value in sorted(args(event).items()))
            self.body.append(self.packet(number(8, start) + number(10, 1) + number(13, _NEEDED) + content(11, body)))
            end = start + self.ns(event.get("dur", 0))
            ends.append(self.packet(number(8, end) + number(10, 1) + content(11, number(9, 2) + number(11, uuid))))
        self.body += ends

    def render(self, work: list[Root], queues: dict[tuple[int, int], int]) -> None:
        """GPU render stages. The end of each is cut to the start of the next on its stream, as torch does."""
        cut: dict[int, int] = {}
        lanes: dict[tuple[int, int], list[Root]] = {}
        for event in work:
            if event["cat"] != "gpu_user_annotation":
                lanes.setdefault(_lane(event), []).append(event)
        for lane in lanes.values():
            lane.sort(key=lambda e: self.ns(e["ts"]))
            for event, after in pairwise(lane):
                cut[id(event)] = self.ns(after["ts"])
        for at, event in enumerate(work, 1):
            args = event.get("args") or {}
            device, stream = _lane(event)
            start = self.ns(event["ts"])
            end = max(start, min(start + self.ns(event.get("dur", 0)), cut.get(id(event), 1 << 62)))
            body = number(1, at) + number(2, end - start) + number(11, device) + number(13, queues[device, stream])
            body += number(14, _STAGES[event["cat"]]) + number(5, 1)
            named = event["cat"] in ("kernel", "gpu_user_annotation")
            if named:
                body += number(20, self.name(event["name"]))
            if (args.get("grid") or [0])[0] > 0:
                body += number(19, self.kernels.setdefault(event["name"], len(self.kernels) + 1))
                dims = [
                    b"".join(number(axis, size) for axis, size in enumerate(args[key], 1)) for key in ("grid", "block")
                ]
                threads = args["block"][0] * args["block"][1] * args["block"][2]
                values = ((1, args.get("registers per thread", 0)), (2, args.get("shared memory", 0)), (3, threads))
                body += content(
                    21,
                    content(1, dims[0])
                    + content(2, dims[1])
                    + b"".join(content(3, number(1, iid) + number(4, value)) for iid, value in values if value),
                )
            extra = {"device id": device, "context id": args.get("context", 0), "stream id": stream}
            extra |= {key: args[key] for key in _EXTRA if args.get(key)}
            extra |= {"arch": "sm_90", "process_id": "4242", "process_name": "python"}
            extra |= {key: args[key] for key in args if key in _COLLECTIVE}
            for key, value in extra.items():
                written = value if isinstance(value, str) else json.dumps(value)
                body += content(6, content(1, key) + content(2, written))
            stamp = number(8, self.base + start) + number(10, 1) + number(13, _NEEDED)
            self.body.append(self.packet(stamp + content(53, body)))


_COLLECTIVE = (
    *(
        "Collective name",
        "dtype",
        "In msg nelems",
        "Out msg nelems",
        "Group size",
        "Process Group Name",
        "Process Group Ranks",
    ),
    "Seq",
)


def _int32(value: Any) -> int:
    return value & 0x7FFFFFFF if isinstance(value, int) else 1


def _lane(event: Root) -> tuple[int, int]:
    args = event.get("args") or {}
    return int(args.get("device", event.get("pid", 0))), int(args.get("stream", event.get("tid", 0)))


def _plain(event: Root) -> str:
    """The name of a slice: copies and memsets say the rest in their args."""
    return {"gpu_memcpy": "Memcpy", "gpu_memset": "Memset"}.get(event["cat"], event["name"])


def _slice_args(event: Root) -> Root:
    """Args of GPU work as slices: those of the JSON that the same backend writes."""
    args = dict(event.get("args") or {})
    if event["cat"] == "gpu_memcpy":
        kind, _, rest = event["name"].removeprefix("Memcpy ").partition(" (")
        ends = rest.rstrip(")").split(" -> ")
        args |= {"copy kind": kind, "src kind": ends[0].lower(), "dst kind": ends[-1].lower(), "flags": 0}
    if event["cat"] == "gpu_memset":
        args |= {"value": 0, "memory kind": 3, "flags": 0}
    return args


def encode(root: Root, *, stages: bool = True, categories: bool = True) -> bytes:
    """The trace *root* as the bytes of a ``.pftrace``, not compressed."""
    return Encoder(root, stages=stages, categories=categories).encode()
