"""`copies`: one row per transfer on a GPU."""

from __future__ import annotations

import re

import numpy as np

from advisor.columns import Columns, Series
from advisor.frames.frame import COUNT, MEGABYTES, TIME, Frame, Rows
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.intervals import Bools, Ints, coded, covered, distinct, fetch, starts_run
from advisor.regex import regex
from advisor.timeline.calls import ANNOTATION
from advisor.timeline.context import Context
from advisor.timeline.marked import steps
from advisor.timeline.recording import COPY

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
        real(
            "link_gbps",
            "GB/s",
            "rate of copies of 1 MB and more from pinned memory to a device in this trace; NULL without one",
        ),
        flag("blocking", "whether the host waited for it (a synchronizing call, or a wait right behind it)"),
        integer("call_ns", "ns", "host time in the call and the wait behind it; 0 where the launch is unknown"),
        integer("exposed_ns", "ns", "what no kernel of the device hides"),
        integer("idle_before_ns", "ns", "idle of the whole device right before it"),
        text("annotation", "innermost annotation around the call, but for the steps"),
        text("shapes", "shapes of the operator's inputs", "args.Input Dims"),
        flag("leads", "launched in a step of the host, and begins before all kernels that the same step launched"),
        integer("launched_step", "", "the step that the host launched it in; `step` where its launch is unknown"),
    ),
)

_NAME = regex(r"(HtoD|DtoH|DtoD|PtoP|HtoH|HtoA|AtoH|AtoA|AtoD|DtoA)(?:\s*\((\w+) -> (\w+)\))?")
_ROCM = regex(r"Copy(Host|Device)To(Host|Device)|MEMORY_COPY_(HOST|DEVICE)_TO_(HOST|DEVICE)", re.IGNORECASE)
_LARGE = 1_000_000
"""Bytes from which on the rate of a copy says what its link carries."""
_HOST = {"pageable": "pageable", "pinned": "pinned", "managed": "managed", "unified": "managed"}


def parse(name: str) -> tuple[str, str, str, str]:
    """(direction, source memory, target memory, host memory) of a copy's name; '' for what it does not say."""
    match = _NAME.search(name)
    if match:
        direction, source, target = match[1], match[2] or "", match[3] or ""
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


def transfers(context: Context) -> Ints:
    """Piece of GPU work that each row is."""
    return context.recording.work.indices(COPY)


def facts(context: Context) -> dict[str, str | int | float | None]:
    """Columns of `trace` on the copies between host and device: their memory and their size."""
    work, rows = context.recording.work, transfers(context)
    fact_of = {code: parse(context.names[code]) for code in distinct(work.name[rows]).tolist()}
    memory = {code: fact[3] for code, fact in fact_of.items()}
    rows = rows[np.isin(work.name[rows], [code for code, kind in memory.items() if kind])]
    kinds = {memory[code] for code in distinct(work.name[rows]).tolist()}
    size = context.work_column("copy", "bytes", rows)
    staged = [code for code, fact in fact_of.items() if fact[0] == "HtoD" and fact[3] == "pageable"]
    to_device = int(np.maximum(size[np.isin(work.name[rows], staged)], 0).sum())
    size = size[size >= 0]
    return {
        "copy_memory": None if kinds == {"unknown"} else ", ".join(sorted(kinds)),
        "bytes_copied": None if len(rows) and not len(size) else int(size.sum()),
        "pageable_to_device_bytes": to_device,
        "pinned_to_device_gbps": link_rate(context),
    }


def link_rate(context: Context) -> float | None:
    """Return the GB/s of copies of some size from pinned memory to a device: what the link does here; None without one."""
    work, rows = context.recording.work, transfers(context)
    codes = distinct(work.name[rows])
    named = [code for code in codes.tolist() if parse(context.names[code])[::3] == ("HtoD", "pinned")]
    size = context.work_column("copy", "bytes", rows)
    large = np.isin(work.name[rows], named) & (size >= _LARGE)
    spent = int((work.end - work.start)[rows[large]].sum())
    return float(size[large].sum() / spent) if spent else None


def build(context: Context) -> Columns:
    """The frame."""
    recording = context.recording
    work, rows = recording.work, transfers(context)
    start, end, launch = work.start[rows], work.end[rows], work.launch[rows]
    codes, inverse = coded(work.name[rows])
    facts = [parse(context.names[code]) for code in codes.tolist()]
    size = context.work_column("copy", "bytes", rows)
    dur = end - start
    known = (size >= 0) & (dur > 0)
    bandwidth = np.where(known, size / np.maximum(dur, 1), np.nan)
    syncs = context.waits.syncs
    waited = syncs.copy >= 0
    at = np.searchsorted(rows, syncs.copy[waited])
    blocking = np.zeros(len(rows), np.bool_)
    blocking[at] = True
    call = fetch(recording.host.end - recording.host.start, launch, 0)
    call[at] = (syncs.end - syncs.begin)[waited]
    hidden = np.zeros(len(rows), np.int64)
    before = np.zeros(len(rows), np.int64)
    for device in distinct(work.device[rows]).tolist():
        on_device = work.device[rows] == device
        hidden[on_device] = covered(context.kernel_spans(device), start[on_device], end[on_device])
        busy = recording.busy(device)
        if not len(busy.start):  # nothing here took any time
            continue
        last = np.searchsorted(busy.end, start[on_device], side="right") - 1
        gap = start[on_device] - busy.end[np.maximum(last, 0)]
        alone = covered(busy, start[on_device] - 1, start[on_device]) == 0
        before[on_device] = np.where((last >= 0) & alone, gap, 0)
    cost = context.work_cost[rows]
    np.add.at(cost, at, context.ledger.cost(len(syncs.start), "blocking_copy")[waited])
    frame = context.common_of_work(rows, cost)

    def word(part: int) -> Series:
        return context.labels(inverse, [fact[part] for fact in facts])

    frame |= {
        "name": context.labels(work.name[rows], context.names),
        "direction": word(0),
        "source_memory": word(1),
        "target_memory": word(2),
        "host_memory": word(3),
        "bytes": context.known(size),
        "bandwidth_gbps": bandwidth,
        "link_gbps": np.full(len(rows), np.nan if (rate := link_rate(context)) is None else rate),
        "blocking": blocking,
        "call_ns": call,
        "exposed_ns": dur - hidden,
        "idle_before_ns": before,
        "annotation": context.labels(_annotations(context, launch), context.names),
        "shapes": context.labels(context.op_column(launch, "dims"), context.shape_texts),
        "leads": _leads(context, rows),
    }
    frame["launched_step"] = _launched_step(context, launch, np.asarray(frame["step"], np.int64))
    return Columns(frame)


def _launched_step(context: Context, launch: Ints, step: Ints) -> Ints:
    """Find the step of the host in which each was launched: by the device's clock one that runs late is a later step's."""
    recording = context.recording
    if not recording.steps or not recording.host.size:
        return step
    begin = fetch(recording.host.start, launch)
    inside = begin < max(part.end for part in recording.steps)
    return np.where(launch < 0, step, np.where(inside, recording.host_step_of(begin), -1))


def _annotations(context: Context, launch: Ints) -> Ints:
    """Name code of the innermost annotation around each launch, but for the steps; -1 for none."""
    host = context.recording.host
    found = np.full(len(launch), -1, np.int64)
    known = np.flatnonzero(launch >= 0)
    if len(known) and host.size:
        around = host.above(launch[known], (host.group == ANNOTATION) & ~steps(context)[host.name])
        found[known] = fetch(host.name, around)
    return found


def _leads(context: Context, rows: Ints) -> Bools:
    """Flag the copies that begin before the first kernel of the step that launched them."""
    recording, work = context.recording, context.recording.work
    if not recording.steps or not recording.host.size:
        return np.zeros(len(rows), np.bool_)
    step = np.where(work.launch >= 0, recording.host_step_of(fetch(recording.host.start, work.launch)), -1)
    first = np.full(len(recording.steps) + 1, -1, np.int64)  # the last for work of no step
    kernels = context.kernel_rows[::-1]
    first[step[kernels]] = work.start[kernels]
    first[-1] = -1
    leads: Bools = work.start[rows] < first[step[rows]]
    return leads


def _waits(context: Context, work: Ints) -> Ints:
    """Rows of the table of synchronizations that wait for some copies."""
    return np.flatnonzero(np.isin(context.waits.syncs.copy, work))


def _claims(context: Context, mask: Bools) -> Ints:
    """The device's time in the copies, and the idle time in which the host waits for them."""
    rows, ledger = transfers(context)[mask], context.ledger
    return np.union1d(ledger.owned(rows, "copy"), ledger.owned(_waits(context, rows), "blocking_copy"))


def _waits_to_free(context: Context, mask: Bools) -> Ints:
    """The waits for the copies, and the calls that issue them; and for those of the same batch, however small they are."""
    rows = transfers(context)[mask]
    waits = _waits(context, np.union1d(rows, _of_the_batch(context, rows)))
    return np.concatenate([context.waits.syncs.node[waits], context.recording.work.launch[rows]])


def _of_the_batch(context: Context, rows: Ints) -> Ints:
    """Copies to the device that are launched in a row with some of them: whoever copies a batch without blocking does all of it.

    A small copy left behind would wait for the large one before it, which no longer holds the host.
    """
    work = context.recording.work
    named = distinct(work.name[transfers(context)])
    to_device = [code for code in named.tolist() if parse(context.names[code])[0] == "HtoD"]
    linked = np.flatnonzero(work.launch >= 0)
    order = linked[np.argsort(work.launch[linked], kind="stable")]
    inward = (work.kind[order] == COPY) & np.isin(work.name[order], to_device)
    run = np.cumsum(starts_run(inward, work.device[order]))
    mine = distinct(run[inward & np.isin(order, rows)])
    found: Ints = order[inward & np.isin(run, mine)]
    return found


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("direction", "host_memory", COUNT, MEGABYTES, *TIME),
    rows=Rows(work=transfers),
    owns=_claims,
    frees=_waits_to_free,
)
