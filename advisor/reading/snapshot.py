"""Memory snapshots of torch (``torch.cuda.memory._dump_snapshot``): what the allocator did, when, and from which stack.

A snapshot is a pickle of plain data. ``device_traces`` has a list of events a device: ``alloc`` with the size that was asked for,
``free_requested`` and ``free_completed``; ``segments`` has the blocks that live when it is taken. The history is a ring: it
may begin after the first allocations. Times are us since the epoch, as the profiler's. Source: torch/csrc/cuda/memory_snapshot.cpp,
torch/cuda/memory.py.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from advisor.errors import NotATrace, TraceError
from advisor.privacy import scrub
from advisor.reading import limits
from advisor.reading.columns import MOST_NS, Columns
from advisor.reading.containers import Source
from advisor.reading.events import Args, Event
from advisor.reading.held import Held, Peak, Snapshot
from advisor.reading.metadata import Metadata
from advisor.reading.plain_pickle import NotPlain, loads

if TYPE_CHECKING:
    from advisor.reading.stream import Reader, Recorded

MOST_BYTES = 1 << 30
_MOST_FRAMES = 200
_MOST_SIZE = 1 << 48
_CUDA = 1
_FREES = ("free_requested", "free_completed", "free")
_NAME = "[memory]"
# Frames of C++ have no line of a Python file.
_PYTHON = (".py", ">")


class _Reading:
    """One snapshot on its way."""

    def __init__(self, value: Any) -> None:
        self.stacks: dict[str, int] = {}
        self._known: dict[int, int] = {}
        self.damaged = 0
        traces = value.get("device_traces")
        segments = value.get("segments")
        self.traces = traces[: limits.MOST_DEVICES] if isinstance(traces, list) else []
        self.segments = segments if isinstance(segments, list) else []

    def stack(self, frames: Any) -> int:
        """The number of a stack; -1 where none was recorded. The same list is looked at once."""
        if not isinstance(frames, list) or not frames:
            return -1
        known = self._known.get(id(frames))
        if known is None:
            lines = []
            for frame in frames[:_MOST_FRAMES]:
                file, line, name = (
                    (frame.get(key) for key in ("filename", "line", "name")) if isinstance(frame, dict) else (0, 0, 0)
                )
                if isinstance(file, str) and file.endswith(_PYTHON) and isinstance(line, int) and isinstance(name, str):
                    lines.append(f"{file[:1000]}({line}): {scrub(name[:200])}".replace("\n", " "))
            text = "\n".join(lines)
            known = self._known[id(frames)] = self.stacks.setdefault(text, len(self.stacks)) if text else -1
        return known

    def blocks(self, device: int) -> dict[int, tuple[int, int]]:
        """Sizes and stacks of the blocks that live when the snapshot is taken, by address."""
        found: dict[int, tuple[int, int]] = {}
        for segment in self.segments:
            if not isinstance(segment, dict) or segment.get("device", 0) != device:
                continue
            address = segment.get("address")
            blocks = segment.get("blocks")
            for block in blocks if isinstance(blocks, list) else ():
                if not isinstance(block, dict):
                    continue
                size, whole = block.get("requested_size", block.get("size")), block.get("size")
                at = block.get("address", address)
                if isinstance(address, int) and isinstance(whole, int):
                    address += whole
                # "active_awaiting_free" was freed, and waits for a stream.
                if (
                    block.get("state") == "active_allocated"
                    and isinstance(size, int)
                    and _is_size(size)
                    and isinstance(at, int)
                ):
                    found[at] = size, self.stack(block.get("frames"))
        return found

    def device(self, device: int, listed: Any) -> tuple[list[tuple[int, int, int, int, int]], Peak | None]:
        """Events (time ns, bytes, address, allocated, stack) and the peak of one device."""
        events: list[tuple[int, int, int, int]] = []
        requested: set[int] = set()
        sizes: dict[int, int] = {}
        for item in listed:
            action = item.get("action") if isinstance(item, dict) else None
            if action != "alloc" and action not in _FREES:
                self.damaged += not isinstance(item, dict)
                continue
            address, size, time_us = item.get("addr"), item.get("size"), item.get("time_us", 0)
            if not (
                isinstance(address, int)
                and _is_size(size)
                and isinstance(time_us, int)
                and 0 <= time_us < MOST_NS // 1000
            ):
                self.damaged += 1
                continue
            if action == "alloc":
                sizes[address] = size
                requested.discard(address)
                events.append((time_us * 1000, size, address, self.stack(item.get("frames"))))
                continue
            if action == "free_completed" and address in requested:
                requested.discard(address)
                continue
            requested.add(address)
            events.append((time_us * 1000, -sizes.pop(address, size), address, -1))
        return self._peak(device, events)

    def _peak(
        self, device: int, events: list[tuple[int, int, int, int]]
    ) -> tuple[list[tuple[int, int, int, int, int]], Peak | None]:
        # What is freed without an allocation, or lives at the end without one, was there before the history began.
        before: dict[int, tuple[int, int]] = {}
        live: set[int] = set()
        for _, size, address, _stack in events:
            if size >= 0:
                live.add(address)
            elif address in live:
                live.discard(address)
            else:
                before.setdefault(address, (-size, -1))
        blocks = self.blocks(device)
        before |= {address: block for address, block in blocks.items() if address not in live and address not in before}
        total = most = sum(size for size, _ in before.values())
        at = -1
        out = []
        for number, (time, size, address, stack) in enumerate(events):
            total += size
            out.append((time, size, address, total, stack))
            if total > most:
                most, at = total, number
        if not events and not blocks:
            return out, None
        held = {address: Held(size, stack, None) for address, (size, stack) in before.items()}
        for time, size, address, stack in events[: at + 1]:
            if size >= 0:
                held[address] = Held(size, stack, time)
            else:
                held.pop(address, None)
        when = events[max(at, 0)][0] if events else 0
        return out, Peak(device, most, when, list(held.values()))


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_SIZE


def parse(path: str, data: bytes) -> tuple[Snapshot, list[Event], list[tuple[str, str]]]:
    """The snapshot in a pickle, its events as instants of the allocator, and notes on what was lost. Raises TraceError."""
    try:
        value = loads(data)
    except NotPlain as error:
        raise TraceError(
            f"{path}: is a Python pickle, and {error}. torch.cuda.memory._dump_snapshot writes plain data."
        ) from None
    if not isinstance(value, dict) or not ("device_traces" in value or "segments" in value):
        raise NotATrace(
            f"{path}: is a Python pickle of something else than a memory snapshot (torch.cuda.memory._dump_snapshot)."
        )
    reading = _Reading(value)
    events: list[Event] = []
    peaks: list[Peak] = []
    seen: set[int] = set()
    times: list[int] = []
    for device, listed in enumerate(reading.traces):
        if not isinstance(listed, list) or id(listed) in seen:
            continue
        seen.add(id(listed))
        found, peak = reading.device(device, listed)
        if peak is not None:
            peaks.append(peak)
        for time, size, address, total, _ in found:
            args = Args(
                device_type=_CUDA, device_id=device, memory_bytes=size, allocated=max(total, 0), address=address
            )
            events.append(Event("i", "cpu_instant_event", _NAME, None, _NO_THREAD, time, None, args))
            times.append(time)
    if not peaks:
        raise TraceError(
            f"{path}: is a memory snapshot without events. Call torch.cuda.memory._record_memory_history() before the steps."
        )
    peaks.sort(key=lambda peak: -peak.bytes)
    notes = []
    if reading.damaged:
        notes.append(("skipped", f"{reading.damaged:,} damaged events of the memory snapshot were left out"))
    first, last = (min(times), max(times)) if times else (0, 0)
    return Snapshot(peaks, list(reading.stacks), len(events), first, last), events, notes


# A thread that no program has: a snapshot names none.
_NO_THREAD = -(1 << 41)


def _bytes(path: str, blocks: Any) -> bytes:
    parts, size = [], 0
    for block in blocks:
        size += len(block)
        if size > MOST_BYTES:
            raise TraceError(
                f"{path}: more than {MOST_BYTES >> 20:,} MB, the limit for a memory snapshot. Record a shorter history."
            )
        parts.append(block)
    return b"".join(parts)


def read(reader: Reader, first: bytes) -> Recorded:
    """Read a snapshot as a recording of its own; *first* is what has been read of it. Raises TraceError."""
    snapshot, events, notes = parse(reader.path, _bytes(reader.path, chain([first], reader.blocks)))
    if not events:
        raise TraceError(
            f"{reader.path}: is a memory snapshot without events. Call torch.cuda.memory._record_memory_history() before the steps."
        )
    reader.columns = Columns(in_ns=True)
    reader.columns.add(events, b"")
    lacks = "operators, kernels, times of anything but allocations, what was reserved, and the properties of devices"
    reader.notes += [
        *notes,
        ("not-recorded", f"the format (memory snapshot) holds no {lacks}; pass it beside a trace: --snapshot"),
    ]
    return replace(reader.finished(Metadata(format="snapshot")), snapshot=snapshot)


def attach(recorded: Recorded, path: str) -> Recorded:
    """The recording with the snapshot at *path* beside it, which gives it the allocator's events where it has none.

    Raises TraceError. A snapshot whose times do not meet the recording's is noted, and gives no events.
    """
    source = Source(path)
    blocks = source.blocks()
    first = next(blocks, b"")
    if source.format != "pickle":
        raise TraceError(f"{source.path}: is no memory snapshot (a pickle of torch.cuda.memory._dump_snapshot).")
    snapshot, events, notes = parse(source.path, _bytes(source.path, chain([first], blocks)))
    notes = [*recorded.notes, *source.notes, *notes]
    base = recorded.metadata.base_ns
    tables = [table for table in recorded.tables.values() if len(table["ts"])]
    low = min(int(table["ts"].min()) for table in tables) + base
    high = max(int(table["ts"].max()) for table in tables) + base
    if snapshot.last_ns < low or snapshot.first_ns > high:
        notes.append(
            (
                "snapshot-apart",
                "the memory snapshot's times lie outside this recording: it is of another run, or of another stretch",
            )
        )
        return replace(
            recorded,
            notes=notes,
            snapshot=replace(snapshot, peaks=[replace(peak, time_ns=0) for peak in snapshot.peaks]),
        )
    recorded = replace(recorded, notes=notes, snapshot=snapshot)
    if "instant" in recorded.tables or not events:
        return recorded
    columns = Columns(in_ns=True)
    columns.add(events, b"")
    table = columns.finish()["instant"]
    table["ts"] = table["ts"] - base
    names = recorded.names if _NAME in recorded.names else [*recorded.names, _NAME]
    table["name"] = np.full(len(table["ts"]), names.index(_NAME), np.int32)
    inside = (table["ts"] >= low - base) & (table["ts"] <= high - base)
    table = {key: column[inside] for key, column in table.items()}
    notes.append(
        (
            "memory-from-snapshot",
            f"{int(inside.sum()):,} events of the allocator are the memory snapshot's, in the sizes that were asked for",
        )
    )
    return replace(recorded, names=names, tables=recorded.tables | {"instant": table}) if inside.any() else recorded
