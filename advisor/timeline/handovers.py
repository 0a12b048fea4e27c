"""Time that a device idles because another device of the process works, and what follows waits for that.

Layers of a model that are spread over several devices run so, one device after the other; so does a student that waits for its
teacher on another device. Devices that each run on their own idle for reasons of their own, whatever the others do meanwhile.
Three things tell them apart: the work that ends the stretch was queued before it, and begins as work of another device ends; the
thread that launches it waits in a call all the while, though this device has nothing to do; or devices that hardly ever work
at once pass tensors to each other at the stretch. Behind a device's last work the program ends with that of the others.
"""

from __future__ import annotations

import re

import numpy as np

from advisor.intervals import EMPTY, Bools, Ints, Spans, complement, distinct, fetch, intersect, union
from advisor.regex import regex
from advisor.timeline import waits as w
from advisor.timeline.calls import OP
from advisor.timeline.recording import COPY, Recording
from advisor.timeline.unexplained import unexplained_idle

_NEAR_NS = 50_000
"""Work that waits for an event of another device starts within this of the end of the work that the event stands for."""
_PASSING_NS = 100_000
"""A copy between devices belongs to the stretch that it lies this near to."""
_AT_ONCE = 0.25
"""Part of the time of a device in which others work as well, up to which it works in turn with them."""
_PEER = regex(r"\bPtoP\b|PEER_TO_PEER|MemcpyPeer")
_DEVICE_COPY = regex(r"DtoD|DeviceToDevice|DEVICE_TO_DEVICE")
# A tensor that is moved to where it is already is not copied: a copy of memory in this operator goes to another device.
_MOVES = "aten::_to_copy"


def others_work(recording: Recording, device: int) -> Ints:
    """Indices of the work of other devices; collectives are left out: these wait for each other."""
    work = recording.work
    return np.flatnonzero((work.device != device) & ~work.communication & (work.end > work.start))


def waiting(recording: Recording, device: int, syncs: w.Syncs) -> Spans:
    """Stretches of a device's idle time in which it waits for what other devices do; these need not work all the time in them."""
    others = others_work(recording, device) if len(recording.devices) > 1 else np.zeros(0, np.int64)
    if not len(others) or not recording.host.size:
        return EMPTY
    low, high = recording.ends
    gaps = complement(recording.busy(device), low, high)
    if not len(gaps.start):
        return EMPTY
    parts = [
        _queued_behind(recording, device, others),
        _held(recording, syncs, gaps, _threads(recording, device, gaps)),
        _passed_on(recording, device, gaps, others),
        _behind_all(recording, device, gaps),
    ]
    return union(np.concatenate([part.start for part in parts]), np.concatenate([part.end for part in parts]))


def _threads(recording: Recording, device: int, gaps: Spans) -> Ints:
    """Thread that launched the work which ends each stretch; -1 where that is not known, or there is none."""
    work = recording.work
    here = np.flatnonzero(work.device == device)
    following = np.append(here, -1)[np.searchsorted(work.start[here], gaps.end, side="left")]
    launch = np.where(following >= 0, fetch(work.launch, following), -1)
    return fetch(recording.host.thread, launch)


def _queued_behind(recording: Recording, device: int, others: Ints) -> Spans:
    """Idle with work queued, which begins as work of another device ends."""
    idle, ends = unexplained_idle(recording, device), np.sort(recording.work.end[others])
    if not len(idle.start):
        return EMPTY
    last = np.searchsorted(ends, idle.end, side="right") - 1
    near = (last >= 0) & (idle.end - ends[np.maximum(last, 0)] <= _NEAR_NS)
    return Spans(idle.start[near], idle.end[near])


def _held(recording: Recording, syncs: w.Syncs, gaps: Spans, threads: Ints) -> Spans:
    """Idle in calls that wait: with nothing to do on this device, the thread that launches waits for another one."""
    waits = np.flatnonzero(np.isin(syncs.kind, (w.SCALAR, w.COPY_SYNC, w.EXPLICIT, w.EVENT)))
    thread, parts = recording.host.thread[syncs.node[waits]], []
    for which in distinct(threads).tolist():
        stretches = Spans(gaps.start[threads == which], gaps.end[threads == which])
        mine = waits if which < 0 else waits[thread == which]
        parts.append(intersect(stretches, union(syncs.begin[mine], syncs.end[mine])))
    return union(np.concatenate([part.start for part in parts]), np.concatenate([part.end for part in parts]))


def _passed_on(recording: Recording, device: int, gaps: Spans, others: Ints) -> Spans:
    """Idle around copies between devices that work in turn."""
    work, busy = recording.work, recording.busy(device)
    elsewhere = union(work.start[others], work.end[others])
    if intersect(busy, elsewhere).length > _AT_ONCE * min(busy.length, elsewhere.length):
        return EMPTY
    copies = np.sort(work.start[between_devices(recording)])
    near = np.searchsorted(copies, gaps.end + _PASSING_NS) > np.searchsorted(copies, gaps.start - _PASSING_NS)
    return Spans(gaps.start[near], gaps.end[near])


def _behind_all(recording: Recording, device: int, gaps: Spans) -> Spans:
    """Idle behind a device's last work."""
    work = recording.work
    last = gaps.start >= int(work.end[work.device == device].max())
    return Spans(gaps.start[last], gaps.end[last])


def between_devices(recording: Recording) -> Bools:
    """Flag copies from one device to another."""
    work, host, names = recording.work, recording.host, recording.names
    copies: Bools = work.kind == COPY
    if not copies.any():
        return copies
    peer, device, moves = (
        np.array([test(name) is not None for name in names], np.bool_)
        for test in (_PEER.search, _DEVICE_COPY.search, re.compile(re.escape(_MOVES) + "$").match)
    )
    called = fetch(host.name, work.launch)
    flags: Bools = copies & (peer[work.name] | ((called >= 0) & peer[called]))
    unsaid = np.flatnonzero(copies & ~flags & device[work.name] & (work.launch >= 0))
    if len(unsaid) and moves.any():
        inside = host.flow(np.where(moves[host.name] & (host.group == OP), 1, -1).astype(np.int32))
        flags[unsaid] = fetch(inside, work.launch[unsaid], 0) > 0
    return flags


def covered_by_others(recording: Recording, device: int, spans: Spans) -> Spans:
    """Parts of some stretches in which other devices work."""
    others = others_work(recording, device)
    return intersect(spans, union(recording.work.start[others], recording.work.end[others]))
