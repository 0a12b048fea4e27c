"""The ledger: every ns of the window has one owner, per device.

What was queued before the recording and the tail behind the program's last work are ``before`` and ``after``. Between them
a device's time is compute's, else communication's, else a copy's (of several at once the one's that ends last), else a
memset's, else that of another device's work that it waits for; where the device idles, it belongs to the reason why: profiler,
start-up, compile, allocator, garbage collector, loader, blocking copy, synchronization, an operator that computes on the CPU,
host (Python and launches). Idle time with work
already queued is nobody's on the host, and stays ``unknown``; so does all that the trace cannot explain.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from advisor.intervals import (
    EMPTY,
    Bools,
    Ints,
    Spans,
    covered,
    distinct,
    exclusive,
    fetch,
    fitted,
    intersect,
    subtract,
    summed,
    union,
)
from advisor.regex import regex
from advisor.results.analysis import typical_ms
from advisor.timeline import handovers, overheads
from advisor.timeline import waits as w
from advisor.timeline.calls import OP, RUNTIME
from advisor.timeline.recording import COPY, KERNEL, MEMSET, Recording
from advisor.timeline.startup import early_work, recurring_selection
from advisor.timeline.startup import find as find_startup
from advisor.timeline.startup_table import Startup
from advisor.timeline.tasks import find as find_tasks
from advisor.timeline.unexplained import SILENCE_NS, host_extent, last_event, queue_full, unexplained_idle

OWN = ("compute", "communication", "copy", "memset")
"""Causes of a device's own work."""
BUSY = (*OWN, "other_device")
"""With the work of other devices that it waits for: the causes whose rows are pieces of work."""
OUTSIDE = ("before", "after")
IDLE = (
    "startup", "loader", "sync", "blocking_copy", "allocator", "compile", "gc", "operator", "host", "profiler", "unknown",
)  # fmt: skip
OWNED = ("compute", "communication")
"""Causes whose rows are operators, in the ledger of a CPU program."""
CAUSES = BUSY + OUTSIDE + IDLE
OF_STEPS = BUSY + IDLE
CODE = {name: code for code, name in enumerate(CAUSES)}
_LAUNCHES = regex(r"Launch|Memset|Memcpy")
# Of more steps than these the first is left out where start-up takes so much of it.
_FEW_STEPS, _STARTED_SHARE = 2, 0.10
_ALIKE = 0.15
"""Of the median, by which the device's work may differ between steps that are alike; batches of varying length differ by more."""
_UNLIKE = 0.10
"""Part of their median by which a first step is longer or shorter than any other where it is none of them. One of three that
differs by less shifts no figure by more than 4 %."""

_FAR = 0.5
"""Part of their median by which a first step is longer than any other where it is none of them however much those differ: by
more than they differ among themselves as well."""


class Layer(Struct):
    """Claim on time: disjoint spans with the row that each belongs to."""

    cause: int
    start: Ints
    end: Ints
    row: Ints


class Ledger(Struct):
    """Disjoint segments that partition the extent of the recording exactly, in order of time.

    ``counted`` are those of steady work, that shares and prices speak of: in the steps, and no start-up.

    ``row`` is the owner within its cause: an index into ``Recording.work`` for device work (a row of `ops` where
    the program ran on the CPU), into the table of waits for idle time, -1 where there is none. ``gap`` numbers the idle
    stretches of the whole device.
    """

    device: int
    start_ns: Ints
    dur_ns: Ints
    cause: Ints
    row: Ints
    step: Ints
    counted: Bools
    gap: Ints
    counted_ns: int
    CAUSES: tuple[str, ...] = CAUSES

    @property
    def end_ns(self) -> Ints:
        """Ends of the segments."""
        return self.start_ns + self.dur_ns

    @property
    def busy(self) -> Bools:
        """Segments in which the device works, or waits for another one that does (in a CPU program: its operators)."""
        return self.cause < len(BUSY)

    @property
    def idle(self) -> Bools:
        """Segments in which it does not, whatever the cause, between the ends of the program."""
        return self.cause >= len(BUSY + OUTSIDE)

    def through(self, *causes: str) -> Bools:
        """Segments of some causes."""
        return np.isin(self.cause, [CODE[cause] for cause in causes])

    def owned(self, rows: Ints, *causes: str) -> Ints:
        """Indices of the segments that some rows own through *causes*, which must all point into one table."""
        return np.flatnonzero(self.through(*causes) & np.isin(self.row, rows))

    def cost(self, count: int, *causes: str) -> Ints:
        """ns that each of *count* rows owns through *causes*."""
        segments = self.through(*causes) & (self.row >= 0)
        return summed(self.row[segments], self.dur_ns[segments], count)

    def by_cause(self) -> dict[str, int]:
        """ns of each cause of steady work; they add up to ``counted_ns``."""
        return self._sums(self.counted)

    def of_extent(self) -> dict[str, int]:
        """ns of each cause over all that the ledger divides, start-up and both ends included."""
        return self._sums(np.ones(len(self.cause), np.bool_))

    def beside_startup(self) -> tuple[int, int]:
        """ns that are not counted, and no start-up: of a first step that does not count, and of work launched by start-up.

        With what is counted, start-up and both ends they make up the extent.
        """
        rest = ~self.counted & (self.step >= 0) & (self.cause != CODE["startup"])
        first = rest & (self.step == 0) & (not (self.counted & (self.step == 0)).any())
        return int(self.dur_ns[first].sum()), int(self.dur_ns[rest & ~first].sum())

    def _sums(self, segments: Bools) -> dict[str, int]:
        total = summed(self.cause[segments], self.dur_ns[segments], len(CAUSES))
        return dict(zip(CAUSES, total.tolist(), strict=True))

    def counted_steps(self) -> Ints:
        """Indices of the steps that steady work is counted in."""
        steps: Ints = distinct(self.step[self.counted])
        return steps

    def step_ns(self, count: int) -> Ints:
        """ns of steady work in each of *count* steps."""
        return summed(self.step[self.counted], self.dur_ns[self.counted], count)

    def spans(self, cause: str) -> Spans:
        """Time in which a cause owns the device."""
        segments = self.through(cause)
        return union(self.start_ns[segments], self.end_ns[segments])


class HostWaits(Struct):
    """All tables of waits, read once."""

    loader: w.Batches
    syncs: w.Syncs
    allocator: w.Waits
    compile: w.Waits
    gc: w.Waits
    profiler: w.Waits
    startup: Startup
    tasks: Ints  # forest nodes of operators that compute on the CPU
    selection: w.Waits  # selections of kernels that go on in the steady part
    choices: Ints  # rows of them inside an operator: its own work on the CPU
    bubble: Ints  # per sync: idle ns of the busiest device that follow it
    reach: Ints  # per sync: until when idle time is laid at its door

    def computing(self) -> Ints:
        """Return the operator that each row of the cause ``operator`` is: those that compute, then those that choose."""
        return np.concatenate([self.tasks, self.selection.node[self.choices]])


def host_waits(recording: Recording) -> HostWaits:
    """Read the waits, and how far each synchronization's idle reaches."""
    syncs = w.syncs(recording)
    busy = recording.busy(recording.devices[0]) if recording.devices else EMPTY
    bubble = np.zeros(len(syncs.start), np.int64)
    if len(busy.start) and len(syncs.start):
        after = np.searchsorted(busy.start, syncs.end, side="left")
        part = recording.part
        nothing = np.maximum(syncs.end, part.edges[-1]) if part is not None and part.goes_on else syncs.end
        following = np.where(after < len(busy.start), busy.start[np.minimum(after, len(busy.start) - 1)], nothing)
        running = covered(busy, syncs.end, syncs.end + 1) > 0
        bubble = np.where(running, 0, np.maximum(following - syncs.end, 0))
    compiles = w.compiles(recording)
    startup = find_startup(recording, syncs, compiles)
    again = recurring_selection(recording, startup)
    choices = np.flatnonzero(again)
    choices = np.flatnonzero(fetch(recording.host.group, startup.node[choices]) == OP)
    # What the host lost by waiting it can have used to run ahead: the idle laid at a wait's door is no longer than it.
    # An operator that copies by itself has launched nothing when it returns: what follows is the next one's.
    by_call = fetch(recording.host.group, syncs.node) != OP
    reach = syncs.end + np.where(by_call, np.minimum(bubble, syncs.end - syncs.begin), 0)
    tasks = find_tasks(recording)
    reach = _until_it_computes(recording, syncs, tasks, reach)
    return HostWaits(
        loader=w.loader_waits(recording),
        syncs=syncs,
        allocator=w.allocator_calls(recording),
        compile=compiles,
        gc=w.collections(recording),
        profiler=overheads.find(recording),
        startup=Startup(*(column[~again] for column in (startup.node, startup.start, startup.end, startup.kind))),
        tasks=tasks,
        selection=w.Waits(startup.node[again], startup.start[again], startup.end[again]),
        choices=choices,
        bubble=bubble,
        reach=reach,
    )


def build(recording: Recording, device: int, waits: HostWaits, *, doubtful: Spans = EMPTY) -> Ledger:
    """The ledger of one device; of the host (-1) where no device did anything, and it is not known to be a CPU program.

    *doubtful* is time in which an idle device may have done what was not recorded.

    Programs on the CPU have a ledger of their own: :func:`advisor.timeline.cpu.ledger`.
    """
    layers = _busy_layers(recording, device) + _idle_layers(recording, device, waits, doubtful)
    return partition(recording, device, layers, early_work(recording, waits.startup))


def partition(recording: Recording, device: int, layers: list[Layer], early: Bools | None = None) -> Ledger:
    """The extent divided among layers: each moment is the first layer's that covers it, but for the ends of the recording.

    *early* flags GPU work that start-up launched: it is the device's, and not counted.
    """
    low, high = recording.extent
    bounds = recording.bounds
    layers = [*_ends(low, int(bounds[0]), int(bounds[-1]), high), *layers]
    edges = [np.array([low, high], np.int64), bounds]
    for layer in layers:
        edges += [layer.start, layer.end]
    points = distinct(np.clip(np.concatenate(edges), low, high))
    start, end = points[:-1], points[1:]
    cause = np.full(len(start), CODE["unknown"], np.int64)
    row = np.full(len(start), -1, np.int64)
    free = np.ones(len(start), np.bool_)
    for layer in layers:
        if not len(layer.start):
            continue
        at = np.searchsorted(layer.start, start, side="right") - 1
        mask = free & (at >= 0) & (start < layer.end[np.maximum(at, 0)])
        cause[mask] = layer.cause
        row[mask] = layer.row[at[mask]]
        free &= ~mask
    idle = cause >= len(BUSY + OUTSIDE)
    fresh = idle & ~np.concatenate([np.zeros(1, np.bool_), idle[:-1]])
    gap = np.where(idle, np.cumsum(fresh) - 1, -1)
    outside = (cause == CODE["before"]) | (cause == CODE["after"])
    step = np.where(outside, -1, recording.step_of(start))
    counted = (step >= 0) & (cause != CODE["startup"])
    if early is not None and early.any():
        working = np.flatnonzero((cause < len(BUSY)) & (row >= 0))  # rows of other causes are of other tables
        counted[working] &= ~early[row[working]]
    dur = end - start
    if recording.step_count > _FEW_STEPS and recording.steps:
        # A first step that start-up fills is none like the others, not even in what is left of it.
        first = step == 0
        lost = int(dur[first & ~counted].sum())
        filled = lost >= _STARTED_SHARE * int(dur[first].sum())
        steady = summed(step[counted], dur[counted], recording.step_count)
        working = counted & (cause < len(BUSY))
        busy = summed(step[working], dur[working], recording.step_count)
        if (filled or _unlike_the_others(recording, steady, busy)) and (counted & ~first).any():
            counted &= ~first
    # Hundreds of thousands of segments: codes and numbers take 32 bits, times 64.
    cause, row, step, gap = fitted(cause), fitted(row), fitted(step), fitted(gap)
    return Ledger(device, start, dur, cause, row, step, counted, gap, int(dur[counted].sum()))


def _unlike_the_others(recording: Recording, steady: Ints, busy: Ints) -> bool:
    """Tell whether the first of some steps is none of them by its length: it is far longer, or those after it are alike.

    The profiler has just begun, and queues fill or were full: what such a step is made of, no other is. Where steps end with
    the GPU's work, the first is longer by the host's lead, and holds calls of two: it counts.
    """
    begun = np.array([step.start for step in recording.steps], np.int64)
    if not np.isin(recording.bounds[1:-1], begun).all():
        return False
    first, others = float(steady[0]), steady[1:].astype(np.float64)
    median = float(np.median(others))
    work = busy[1:]
    even = typical_ms(median, float(others.mean())) == median and np.ptp(work) <= _ALIKE * np.median(work)
    longer, shorter = first - float(others.max()), float(others.min()) - first
    # A shorter one among steps that differ by as much is one of them: the first of some that get longer.
    beyond = max(longer, shorter if shorter > float(np.ptp(others)) else 0.0)
    far = longer > max(float(np.ptp(others)), _FAR * median)
    return bool(far or (even and beyond > _UNLIKE * median))


def _ends(low: int, first: int, last: int, high: int) -> list[Layer]:
    """Layers of what lies before the first step and behind the last."""
    nobody = np.array([-1], np.int64)
    return [
        Layer(CODE[cause], np.array([start], np.int64), np.array([end], np.int64), nobody)
        for cause, start, end in (("before", low, first), ("after", last, high))
        if end > start
    ]


def layer_of(cause: str, start: Ints, end: Ints, row: Ints | None = None, rank: Ints | None = None) -> Layer:
    """A layer of spans that may overlap: the earlier start owns, then the lower *rank*. Without *row* they are nobody's."""
    row = np.full(len(start), -1, np.int64) if row is None else row
    own = exclusive(start, end, rank if rank is not None else np.zeros(len(start), np.int64))
    keep = own.end > own.start
    first, last, who = own.start[keep], own.end[keep], row[keep]
    order = np.argsort(first, kind="stable")
    return Layer(CODE[cause], first[order], last[order], who[order])


def _busy_layers(recording: Recording, device: int) -> list[Layer]:
    work = recording.work
    here = work.device == device
    kinds = (
        ("compute", (work.kind == KERNEL) & ~work.communication),
        ("communication", work.communication),
        ("copy", work.kind == COPY),
        ("memset", work.kind == MEMSET),
    )
    layers = []
    for cause, mask in kinds:
        rows = np.flatnonzero(mask & here)
        start, end, stream = work.start[rows], work.end[rows], work.stream[rows]
        # Of copies that run at once, one that ends before another shortens nothing: the later end owns. It is the same, with
        # time running backwards.
        layers.append(
            _backwards(layer_of(cause, -end, -start, rows, stream))
            if cause == "copy"
            else layer_of(cause, start, end, rows, stream)
        )
    return layers


def _backwards(layer: Layer) -> Layer:
    """The layer with time running the other way."""
    return Layer(layer.cause, -layer.end[::-1], -layer.start[::-1], layer.row[::-1])


def _idle_layers(recording: Recording, device: int, waits: HostWaits, doubtful: Spans) -> list[Layer]:
    def wait_layer(cause: str, table: w.Waits) -> Layer:
        return layer_of(cause, table.start, table.end, np.arange(len(table.start)))

    layers = [wait_layer("profiler", waits.profiler), wait_layer("startup", waits.startup)]
    if not recording.host.size:
        return layers
    held = _held_calls(recording, waits)
    if device >= 0 and not doubtful.length:
        layers.append(_of_others(recording, device, waits))
    if doubtful.length:
        # What the device did is not known for sure. That one call held the host meanwhile is; but where the work that ends
        # the idle stretch was queued before it began, nobody knows that the device idled for a copy.
        if device >= 0:
            syncs, copying = waits.syncs, waits.syncs.kind == w.COPY_SYNC
            copies = union(syncs.begin[copying], waits.reach[copying])
            queued = intersect(intersect(unexplained_idle(recording, device), doubtful), copies)
            layers.append(layer_of("unknown", queued.start, queued.end))
        # A launch behind a full queue waits for the device, which waits for nothing of the host's.
        layers += _doubtful_layers(waits, _held_calls(recording, waits, queued=False), doubtful)
    if device >= 0:
        waiting = subtract(unexplained_idle(recording, device), held)
        layers.append(layer_of("unknown", waiting.start, waiting.end))
    layers += [
        wait_layer("compile", waits.compile),
        wait_layer("allocator", waits.allocator),
        wait_layer("gc", waits.gc),
        wait_layer("loader", waits.loader),
        *_waiting(waits),
    ]
    host, tasks, choices = recording.host, waits.tasks, waits.choices
    start, end = (
        np.concatenate([of[tasks], own[choices]])
        for of, own in ((host.start, waits.selection.start), (host.end, waits.selection.end))
    )
    layers.append(layer_of("operator", start, end, np.arange(len(start))))
    low, high = host_extent(recording)
    if high - (last := last_event(recording)) > SILENCE_NS:
        high = last
    layers.append(layer_of("host", np.array([low], np.int64), np.array([high], np.int64)))
    return layers


def _of_others(recording: Recording, device: int, waits: HostWaits) -> Layer:
    """The layer of what other devices do while this one waits for it, each ns the earliest start's."""
    spans, work = handovers.waiting(recording, device, waits.syncs), recording.work
    if not spans.length:
        none = np.zeros(0, np.int64)
        return Layer(CODE["other_device"], none, none, none)
    rows = handovers.others_work(recording, device)
    layer = layer_of("other_device", work.start[rows], work.end[rows], rows, work.stream[rows])
    points = distinct(np.concatenate([layer.start, layer.end, spans.start, spans.end]))
    start, end = points[:-1], points[1:]
    at = np.searchsorted(layer.start, start, side="right") - 1
    inside = (at >= 0) & (start < layer.end[np.maximum(at, 0)]) & (covered(spans, start, end) > 0)
    return Layer(layer.cause, start[inside], end[inside], layer.row[at[inside]])


def _until_it_computes(recording: Recording, syncs: w.Syncs, tasks: Ints, reach: Ints) -> Ints:
    """End what is laid at the door of a copy to the host where an operator computes there.

    It computes with what was copied: no host that ran ahead could have begun it sooner.
    """
    to_host = np.array(["DtoH" in name for name in recording.names], np.bool_)
    work = recording.work
    chosen = (syncs.kind == w.COPY_SYNC) & (syncs.copy >= 0)
    chosen[chosen] = to_host[work.name[syncs.copy[chosen]]]
    if not len(tasks) or not chosen.any():
        return reach
    starts = np.sort(recording.host.start[tasks])
    at = np.searchsorted(starts, syncs.end, side="left")
    begins = np.append(starts, np.iinfo(np.int64).max)[at]
    return np.where(chosen, np.minimum(reach, begins), reach)


def _doubtful_layers(waits: HostWaits, held: Spans, doubtful: Spans) -> list[Layer]:
    """Layers of the calls that hold the host in *doubtful* time, and of the rest of it, which nobody owns.

    While the profiler waits for the device at its end, the device works: what it does was not recorded either.
    """
    launches = subtract(held, waits.syncs.spans())
    rest = [("host", intersect(launches, doubtful)), ("unknown", doubtful)]
    return [*_waiting(waits), *(layer_of(cause, spans.start, spans.end) for cause, spans in rest)]


def _waiting(waits: HostWaits) -> list[Layer]:
    """Layers of the host's waits for the device: blocking copies first, then other synchronizations."""
    syncs = waits.syncs
    kinds = (
        ("blocking_copy", syncs.kind == w.COPY_SYNC),
        ("sync", np.isin(syncs.kind, (w.SCALAR, w.EXPLICIT, w.EVENT))),
    )
    rows = [(cause, np.flatnonzero(chosen)) for cause, chosen in kinds]
    return [layer_of(cause, syncs.begin[at], waits.reach[at], at) for cause, at in rows]


def _held_calls(recording: Recording, waits: HostWaits, *, queued: bool = True) -> Spans:
    """Time of calls that hold the host: waits, copies it waits for, and launches that take over 1 ms. These say why.

    With *queued* launches behind a full queue as well.
    """
    host = recording.host
    own = waits.syncs.kind != w.PROFILER
    codes = [code for code, name in enumerate(recording.names) if _LAUNCHES.search(name)]
    long = host.lasting(host.group == RUNTIME, SILENCE_NS + 1)
    long = long[np.isin(host.name[long], codes)]
    long = long if queued else long[~queue_full(recording, long)]
    start = np.concatenate([waits.syncs.begin[own], host.start[long]])
    return union(start, np.concatenate([waits.syncs.end[own], host.end[long]]))
