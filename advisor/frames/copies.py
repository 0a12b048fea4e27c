"""`copies` and `memsets`: one row per transfer or fill on the GPU."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.intervals import Bools, Ints, covered
from advisor.timeline.context import Context
from advisor.timeline.recording import MEMSET

SCHEMA = Schema(
    "copies",
    "a copy on a GPU's copy engine or stream",
    (
        *COMMON,
        text("name", "as the profiler calls it", "name"),
        text("direction", "HtoD, DtoH, DtoD, PtoP or other"),
        text("source_memory", "kind of memory read, as in the name"),
        text("target_memory", "kind of memory written"),
        text("host_memory", "pageable, pinned, managed or unknown: the host's end; NULL between devices"),
        integer("bytes", "bytes", "size; NULL where unknown", "args.bytes"),
        real("bandwidth_gbps", "GB/s", "bytes over duration; NULL where either is unknown or 0"),
        flag("blocking", "whether the host waited for it (a synchronizing call, or a wait right behind it)"),
        integer("call_ns", "ns", "host time in the call and the wait behind it; 0 where the launch is unknown"),
        integer("exposed_ns", "ns", "what no kernel of the device hides"),
        integer("idle_before_ns", "ns", "idle of the whole device right before it"),
        flag("leads", "launched in a step of the host, and begins before all kernels that the same step launched"),
    ),
)
MEMSETS = Schema(
    "memsets",
    "a fill on a GPU",
    (
        *COMMON,
        text("name", "as the profiler calls it", "name"),
        integer("bytes", "bytes", "size; NULL where unknown", "args.bytes"),
        text("phase", "forward, backward, optimizer, zero_grad or other"),
    ),
)

_NAME = re.compile(r"(HtoD|DtoH|DtoD|PtoP|HtoH|HtoA|AtoH|AtoA|AtoD|DtoA)(?:\s*\((\w+) -> (\w+)\))?")
_ROCM = re.compile(r"Copy(Host|Device)To(Host|Device)|MEMORY_COPY_(HOST|DEVICE)_TO_(HOST|DEVICE)", re.IGNORECASE)
_HOST = {"pageable": "pageable", "pinned": "pinned", "managed": "managed", "unified": "managed"}


def parse(name: str) -> tuple[str, str, str, str]:
    """(direction, source memory, target memory, host memory) of a copy's name; '' for what it does not say."""
    found = _NAME.search(name)
    if found:
        direction, source, target = found[1], found[2] or "", found[3] or ""
    else:
        rocm = _ROCM.search(name)
        if not rocm:
            return "other", "", "", ""
        ends = [end for end in rocm.groups() if end]
        direction = "to".join("H" if end.lower() == "host" else "D" for end in ends)
        source = target = ""
    if direction not in ("HtoD", "DtoH", "DtoD", "PtoP"):
        direction = "other"
    host = {"HtoD": source, "DtoH": target}.get(direction)
    memory = "" if host is None else _HOST.get(host.lower(), "unknown")
    return direction, source, target, memory


def facts(context: Context) -> dict[str, str | int | None]:
    """What the copies between host and device say of their memory and size, by column of `trace`."""
    work, rows = context.recording.work, context.copies_of()
    named = {code: parse(context.names[code]) for code in np.unique(work.name[rows]).tolist()}
    memory = {code: found[3] for code, found in named.items()}
    rows = rows[np.isin(work.name[rows], [code for code, kind in memory.items() if kind])]
    kinds = {memory[code] for code in np.unique(work.name[rows]).tolist()}
    size = context.tables["copy"]["bytes"][work.row[rows]] if len(rows) else np.zeros(0, np.int64)
    staged = [code for code, found in named.items() if found[0] == "HtoD" and found[3] == "pageable"]
    to_device = int(np.maximum(size[np.isin(work.name[rows], staged)], 0).sum())
    size = size[size >= 0]
    return {
        "copy_memory": None if kinds == {"unknown"} else ", ".join(sorted(kinds)),
        "bytes_copied": None if len(rows) and not len(size) else int(size.sum()),
        "pageable_to_device_bytes": to_device,
    }


def build(context: Context) -> pd.DataFrame:
    """The frame."""
    recording = context.recording
    work, rows = recording.work, context.copies_of()
    start, end, launch = work.start[rows], work.end[rows], work.launch[rows]
    codes, inverse = np.unique(work.name[rows], return_inverse=True)
    facts = [parse(context.names[code]) for code in codes.tolist()]
    table = context.tables.get("copy", {})
    size = table["bytes"][work.row[rows]] if len(rows) else np.zeros(0, np.int64)
    dur = end - start
    known = (size >= 0) & (dur > 0)
    bandwidth = np.where(known, size / np.maximum(dur, 1), np.nan)
    syncs = context.waits.syncs
    call = np.zeros(len(rows), np.int64)
    blocking = np.zeros(len(rows), np.bool_)
    if len(rows) and recording.host.size:
        host = recording.host
        call = np.where(launch >= 0, (host.end - host.start)[np.maximum(launch, 0)], 0)
        waited = syncs.copy >= 0
        at = np.searchsorted(rows, syncs.copy[waited])
        blocking[at] = True
        call[at] = (syncs.end - syncs.begin)[waited]
    hidden = np.zeros(len(rows), np.int64)
    before = np.zeros(len(rows), np.int64)
    for device in np.unique(work.device[rows]).tolist():
        mine = work.device[rows] == device
        hidden[mine] = covered(context.hidden_by_kernels(device), start[mine], end[mine])
        busy = recording.busy(device)
        if not len(busy.start):  # nothing here took any time
            continue
        last = np.searchsorted(busy.end, start[mine], side="right") - 1
        gap = start[mine] - busy.end[np.maximum(last, 0)]
        alone = covered(busy, start[mine] - 1, start[mine]) == 0
        before[mine] = np.where((last >= 0) & alone, gap, 0)
    owns = context.wait_cost(["blocking_copy"], len(syncs.start))
    cost = context.work_cost[rows]
    waited = syncs.copy >= 0
    np.add.at(cost, np.searchsorted(rows, syncs.copy[waited]), owns[waited])
    frame = context.common_of_work(rows, cost)

    def word(part: int) -> pd.Categorical:
        return context.labels(inverse, [fact[part] for fact in facts])

    frame |= {
        "name": context.labels(work.name[rows], context.names),
        "direction": word(0),
        "source_memory": word(1),
        "target_memory": word(2),
        "host_memory": word(3),
        "bytes": context.known(size),
        "bandwidth_gbps": bandwidth,
        "blocking": blocking,
        "call_ns": call,
        "exposed_ns": dur - hidden,
        "idle_before_ns": before,
        "leads": _leads(context, rows),
    }
    return pd.DataFrame(frame)


def _leads(context: Context, rows: Ints) -> Bools:
    """Which copies begin before the first kernel of the step that launched them."""
    recording, work = context.recording, context.recording.work
    if not recording.steps or not recording.host.size:
        return np.zeros(len(rows), np.bool_)
    linked = np.where(work.launch >= 0, recording.host.start[np.maximum(work.launch, 0)], -1)
    step = np.where(work.launch >= 0, recording.host_step_of(linked), -1)
    first = np.full(len(recording.steps) + 1, -1, np.int64)  # the last for work of no step
    kernels = context.kernel_rows[::-1]
    first[step[kernels]] = work.start[kernels]
    first[-1] = -1
    leads: Bools = work.start[rows] < first[step[rows]]
    return leads


def build_memsets(context: Context) -> pd.DataFrame:
    """The frame `memsets`."""
    work = context.recording.work
    rows = np.flatnonzero(work.kind == MEMSET)
    launch = work.launch[rows]
    frame = context.common_of_work(rows)
    table = context.tables.get("memset", {})
    frame |= {
        "name": context.labels(work.name[rows], context.names),
        "bytes": context.known(table["bytes"][work.row[rows]] if len(rows) else np.zeros(0, np.int64)),
        "phase": context.labels(context.phases(launch), context.phase_names),
    }
    return pd.DataFrame(frame)
