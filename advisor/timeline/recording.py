"""A recording: the columns as read, and what all frames share: the host's forest, GPU work with its links, steps, window."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from advisor import hardware
from advisor.intervals import Bools, Ints, Spans, distinct, fetch, union
from advisor.privacy import scrub, scrub_all
from advisor.reading import machine
from advisor.reading.metadata import Device
from advisor.reading.stream import Recorded
from advisor.threads import once_property
from advisor.timeline import lean
from advisor.timeline import steps as iterations
from advisor.timeline.calls import OP, RUNTIME, Host, stack_rows
from advisor.timeline.communication_names import communicates
from advisor.timeline.steps import Step

KERNEL, COPY, MEMSET = range(3)
WORK = ("kernel", "copy", "memset")
# Types of device as c10 numbers them, in events on memory: CPU, MKLDNN and IDEEP are the host; a meta tensor lies nowhere.
# All others (CUDA 1, HIP 6, XPU 12, MPS 13, MTIA 19, PrivateUse1 20 ...) are devices.
HOST_DEVICES, NO_DEVICE = (0, 2, 5), 14
_HOUR_NS = 3_600_000_000_000

Floats = npt.NDArray[np.float64]


class Work(Struct):
    """All GPU work, sorted by start: kernels, copies and memsets. Times are ns since the first event."""

    kind: Ints
    row: Ints
    name: Ints
    start: Ints
    end: Ints
    device: Ints
    stream: Ints
    correlation: Ints
    launch: Ints  # node of the host's forest that launched it, -1 where the trace does not hold it
    communication: Bools

    def __len__(self) -> int:
        return len(self.start)

    def indices(self, kind: int) -> Ints:
        """Indices of the kernels, of the copies or of the memsets."""
        return np.flatnonzero(self.kind == kind)


def clean(recorded: Recorded) -> None:
    """Take credentials and persons out of every text of a trace, in place: from here on all of it may be shown."""
    recorded.names = scrub_all(recorded.names)
    recorded.stacks = scrub_all(recorded.stacks)
    recorded.texts = scrub_all(recorded.texts)
    recorded.raws, recorded.inputs = _clean_bytes(recorded.raws), _clean_bytes(recorded.inputs)
    recorded.notes = [(code, scrub(text)) for code, text in recorded.notes]


def _clean_bytes(raws: list[bytes]) -> list[bytes]:
    texts = [raw.decode("utf-8", "surrogateescape") for raw in raws]
    return [text.encode("utf-8", "surrogateescape") for text in scrub_all(texts)]


class Recording:
    """Source of the builders of frames. Everything is worked out on first use and kept."""

    def __init__(
        self,
        recorded: Recorded,
        libraries: Iterable[str] = (),
        kept: Callable[[Recorded], Host | None] | None = None,
        rates: Iterable[hardware.Hardware] = (),
    ) -> None:
        self.recorded = recorded
        self.rates = tuple(rates)
        """Rates of devices that somebody gave, the later before the earlier."""
        self.libraries = tuple(libraries)
        self._kept = kept  # may know the host's forest from last time
        self.part = recorded.part
        self.asked: int | None = None
        """The device that findings are to speak of, in place of the busiest."""
        self.capture: Recording | None = None
        """Recording of the capture of the graphs that are replayed here, where one was given beside."""
        clean(recorded)
        self.names = recorded.names
        self.tables = recorded.tables
        self.metadata = recorded.metadata
        self.problems: list[tuple[str, str]] = []

    @once_property
    def zero_ns(self) -> int:
        """Clock reading of the first event, on the file's own clock."""
        if self.part is not None:
            return self.part.zero_ns
        work = [self.tables[g]["ts"].min() for g in self.tables if g != "span"]
        return int(min(work)) if work else int(self.tables["span"]["ts"].min())

    @once_property
    def host(self) -> Host:
        """The host's forest."""
        forest = self._kept(self.recorded) if self._kept is not None else None
        forest = forest or Host(self.recorded, self.zero_ns, self.libraries)
        lean.replace(self.tables, forest, self.zero_ns)
        machine.give_back(forest.size)
        return forest

    @property
    def has_host(self) -> bool:
        """True where host operators or Python frames were recorded; launch calls alone say too little."""
        return "op" in self.tables or "python" in self.tables or "annotation" in self.tables

    # ---- GPU work

    @once_property
    def work(self) -> Work:
        """GPU work in order of start, linked to its launches by correlation."""
        keys = ("name", "ts", "dur", "device", "stream", "correlation")
        columns = {key: values.astype(np.int64) for key, values in stack_rows(self.tables, WORK, keys).items()}
        start = columns["ts"] - self.zero_ns
        order = np.lexsort((columns["stream"], start))
        columns = {key: value[order] for key, value in columns.items()}
        start = start[order]
        duration = self._sound_durations(start, columns["dur"], columns["device"], columns["stream"])
        kernels = columns["kind"] == KERNEL
        codes = distinct(columns["name"][kernels])
        communicating = codes[np.array([communicates(self.names[code]) for code in codes.tolist()], np.bool_)]
        is_comm = kernels & np.isin(columns["name"], communicating)
        return Work(
            kind=columns["kind"],
            row=columns["row"],
            name=columns["name"],
            start=start,
            end=start + duration,
            device=columns["device"],
            stream=columns["stream"],
            correlation=columns["correlation"],
            launch=self._links(columns["correlation"]),
            communication=is_comm,
        )

    def _sound_durations(self, start: Ints, duration: Ints, device: Ints, stream: Ints) -> Ints:
        """Durations with the absurd cut: negative ones are 0, those of hours end where their stream goes on."""
        negative = duration < 0
        if negative.any():
            count = int(negative.sum())
            self.problems.append(("negative-durations", f"{count:,} GPU events with a negative duration count as 0"))
            duration = np.where(negative, 0, duration)
        absurd = np.flatnonzero(duration > _HOUR_NS)
        if len(absurd):
            duration = duration.copy()
            for at in absurd.tolist():
                later = np.flatnonzero((stream == stream[at]) & (device == device[at]) & (start > start[at]))
                duration[at] = min(int(start[later[0]] - start[at]) if len(later) else 0, int(duration[at]))
            what = "GPU events lasting over an hour were cut at the next on their stream"
            self.problems.append(("absurd-durations", f"{len(absurd):,} {what}"))
        return duration

    def _links(self, correlation: Ints) -> Ints:
        """Forest node of the runtime call with each correlation, or -1."""
        out = np.full(len(correlation), -1, np.int64)
        calls = self.tables.get("runtime")
        if calls is None or not len(correlation):
            return out
        known = calls["correlation"]
        order = np.argsort(known, kind="stable")
        order = order[known[order] > 0]
        if not len(order):
            return out
        at = np.searchsorted(known[order], correlation, side="right") - 1
        hit = (at >= 0) & (known[order[np.maximum(at, 0)]] == correlation) & (correlation > 0)
        out[hit] = self.host.node_of["runtime"][order[at[hit]]]
        return out

    @once_property
    def devices(self) -> list[int]:
        """Devices with GPU work, the busiest first; before it the one that was asked for."""
        work = self.work
        ids = distinct(work.device).tolist()
        busy = {device: self.busy(device).length for device in ids}
        return sorted(ids, key=lambda device: (device != self.asked, -busy[device], device))

    def busy(self, device: int) -> Spans:
        """When the device did any work."""
        rows = self.work.device == device
        return union(self.work.start[rows], self.work.end[rows])

    @once_property
    def vendor(self) -> str:
        """Maker of the device that did the work; by the launching runtime first, since names may be empty."""
        if self.metadata.accelerator is not None:
            return hardware.ACCELERATORS.get(self.metadata.accelerator, "unknown")
        calls = self.tables.get("runtime")
        hip = cuda = False
        if calls is not None:
            used = {self.names[code] for code in distinct(calls["name"]).tolist()}
            hip = any(name.startswith("hip") for name in used)
            cuda = any(name.startswith(("cuda", "cu")) for name in used) and not hip
        hip = hip or self.metadata.hip
        device = self.device_properties(self.devices[0]) if self.devices else (self.metadata.devices or (None,))[0]
        name = device.name if device else None
        return hardware.vendor(name, hip=hip, cuda=cuda or self.metadata.cuda_runtime is not None)

    def device_properties(self, device: int) -> Device | None:
        """deviceProperties of a device.

        ROCm numbers physical devices, beyond the list: then any of a uniform list stands in.
        """
        listed = self.metadata.devices
        for entry in listed:
            if entry.id == device:
                return entry
        kinds = {(entry.name, entry.memory_bytes, entry.sms) for entry in listed}
        return listed[0] if len(kinds) == 1 else None

    def device_name(self, device: int) -> str | None:
        """Name of a device: of its properties, or by them, else the word that its events' category has for it."""
        entry = self.device_properties(device)
        name = hardware.full_name(entry.name, entry.sms, entry.memory_bytes) if entry else None
        return name or self.metadata.accelerator

    # ---- steps and window

    @once_property
    def marked(self) -> list[Step]:
        """ProfilerStep#N on the host, by start: what the profiler's schedule marked."""
        if self.part is not None:
            return [Step(*step) for step in self.part.steps]
        return iterations.marked(self)

    @once_property
    def _found(self) -> tuple[list[Step], str]:
        return iterations.found(self) if self.part is None else ([], "")

    @property
    def steps(self) -> list[Step]:
        """Steps on the host, by start: ProfilerStep#N, else what was found to mark iterations."""
        return self.marked or self._found[0]

    @property
    def steps_by(self) -> str:
        """Marks of the steps in words: ProfilerStep, an optimizer, the DataLoader, an engine's annotation, a range; else ''."""
        return "ProfilerStep" if self.marked else self._found[1]

    @once_property
    def whole_steps(self) -> int:
        """Steps that figures speak of: all but a last one in which nothing happens.

        prof.step() began it, and the recording stopped.
        """
        steps = self.steps
        if not self.marked or len(steps) < 2 or not self._is_empty(steps[-1]):
            return len(steps)
        if all(self._is_empty(step) for step in steps[:-1]):
            return len(steps)
        what = f"{steps[-1].name} at the end holds no operator and no GPU work: figures a step leave it out"
        self.problems.append(("empty-step", what))
        return len(steps) - 1

    def _is_empty(self, step: Step) -> bool:
        """Tell whether a step holds no operator, no annotation but its own, and launches no GPU work."""
        work, names = self.work, self.names
        for group in ("op", "annotation"):
            table = self.tables.get(group)
            if table is None:
                continue
            at = table["ts"] - self.zero_ns
            inside = distinct(table["name"][(at >= step.start) & (at < max(step.end, step.start + 1))])
            if any(not names[code].startswith("ProfilerStep#") for code in inside.tolist()):
                return False
        launched = np.where(work.launch >= 0, fetch(self.host.start, work.launch), work.start)
        return not bool(np.any((launched >= step.start) & (launched < step.end)))

    @once_property
    def window(self) -> tuple[int, int]:
        """First step's start (else the first GPU event's) to the later of the last step's end and the last GPU event's."""
        if self.part is not None:
            return self.part.edges[0], self.part.edges[-1]
        work, steps = self.work, self.marked
        if len(work):
            start = steps[0].start if steps else int(work.start[0])
            end = max(int(work.end.max()), steps[-1].end if steps else 0)
            return start, max(end, start)
        if steps:
            return steps[0].start, max(step.end for step in steps)
        host = self.host
        if host.size:
            return int(host.start.min()), int(host.end.max())
        timed = [table for table in self.tables.values() if "dur" in table]
        spans = [(int(t["ts"].min()), int((t["ts"] + np.maximum(t["dur"], 0)).max())) for t in timed]
        if not spans:
            return 0, 0
        return min(s for s, _ in spans) - self.zero_ns, max(e for _, e in spans) - self.zero_ns

    @once_property
    def last_work(self) -> int:
        """End of the last operator, call or GPU work."""
        host, work = self.host, self.work
        acts = host.end[(host.group == OP) | (host.group == RUNTIME)]
        return max(
            int(acts.max()) if len(acts) else self.window[1], int(work.end.max()) if len(work) else self.window[0]
        )

    def bytes_of(self, index: int) -> int | None:
        """Bytes of a copy, by its index in `work`; None for other work, and where the trace does not say."""
        if self.work.kind[index] != COPY:
            return None
        size = int(self.tables["copy"]["bytes"][self.work.row[index]])
        return size if size >= 0 else None

    @once_property
    def extent(self) -> tuple[int, int]:
        """The time that the ledger divides: the window; the host's span where that is over twice the window, without steps."""
        if self.part is not None or self.marked or not len(self.work):
            return self.window
        return iterations.host_span(self) or self.window

    @once_property
    def ends(self) -> tuple[int, int]:
        """Part of the extent that is the program's: behind what was queued before the recording, before the tail of it."""
        low, high = self.extent
        if self.part is not None:
            return low, high
        if self.extent != self.window:
            return low, min(iterations.end_of_program(self), high)
        first = min(iterations.first_moment(self, low), high)
        return first, max(iterations.last_moment(self, high), first)

    @once_property
    def bounds(self) -> Ints:
        """Edges of the steps: n + 1 times for n steps (or for the one interval where there are none)."""
        if self.part is not None:
            return np.array(self.part.edges, np.int64)
        low, high = self.ends
        if not self.steps:
            return np.array([low, high], np.int64)
        count = self.whole_steps
        starts = np.array([step.start for step in self.steps[:count]], np.int64)
        if not self.marked:
            high = min(max(self._end_of_found(), int(starts[-1])), high)
        elif count < len(self.steps):
            high = min(high, max(self.steps[count].start, int(starts[-1])))
        edges = np.append(np.clip(starts, low, high), high)
        work = self.work
        linked = np.flatnonzero(work.launch >= 0)
        if count < 2 or not len(linked):
            return edges
        launched = np.searchsorted(starts, self.host.start[work.launch[linked]], side="right") - 1
        ran = np.searchsorted(starts, work.start[linked], side="right") - 1
        time = (work.end - work.start)[linked]
        if not iterations.runs_ahead(launched, ran, time, count):
            return edges
        # The host runs ahead: a step of the GPU ends with the last work that the host's step launched.
        low = max(low, self._end_of_before(low, launched, linked))
        last = np.full(count, low, np.int64)
        inside = launched >= 0
        np.maximum.at(last, launched[inside], work.end[linked][inside])
        edges = np.concatenate([np.array([low], np.int64), np.maximum.accumulate(np.maximum(last, low))])
        edges[-1] = max(high, int(edges[-2]))
        ends: Ints = np.minimum(edges, max(high, low))
        return ends

    def _end_of_before(self, low: int, launched: Ints, linked: Ints) -> int:
        """End of what a host ahead of the device had launched before its first step: there the device begins it; else *low*.

        What names no launch in the recording is such work where it lies before all that later steps launch; else it tells nothing.
        """
        work = self.work
        foreign = np.flatnonzero(work.launch < 0)
        later = work.start[linked][launched > 0]
        if not len(foreign) or not len(later) or work.start[foreign].max() >= later.min():
            return low
        ends = int(work.end[linked][launched == 0].max(initial=low))
        return min(int(work.end[foreign].max()), ends)

    @once_property
    def runs_ahead(self) -> bool:
        """True where steps end with the device's work, as the host is in a later one by then."""
        inner = self.bounds[1:-1]
        starts = np.array([step.start for step in self.steps[1 : len(inner) + 1]], np.int64)
        return not np.array_equal(inner, np.clip(starts, self.bounds[0], self.bounds[-1]))

    def _end_of_found(self) -> int:
        """End of the last found step: that of the work that the host launched in it."""
        last, work = self.steps[-1], self.work
        own = np.flatnonzero(work.launch >= 0)
        own = own[self.host.start[work.launch[own]] < last.end]
        return max(last.end, int(work.end[own].max()) if len(own) else last.end)

    def step_of(self, times: Ints) -> Ints:
        """Index of the step that each time falls into, -1 outside."""
        edges = self.bounds
        at = np.searchsorted(edges, times, side="right") - 1
        # The end of the extent itself belongs to the last step; the end of steps that the extent outlasts to none.
        last = edges[-1] if edges[-1] == self.extent[1] else edges[-1] - 1
        return np.where((times >= edges[0]) & (times <= last), np.minimum(at, len(edges) - 2), -1)

    def host_step_of(self, times: Ints) -> Ints:
        """Index of the step that the host was in at each time; -1 before the first, or without steps."""
        starts = np.array([step.start for step in self.steps], np.int64)
        step = np.searchsorted(starts, times, side="right") - 1
        if self.part is not None and self.part.later:
            step = np.where(times < self.part.later[0], step, -1)
        return step

    @property
    def step_count(self) -> int:
        """Number of intervals that the window is divided into: the steps, or one."""
        return len(self.bounds) - 1

    @once_property
    def sampled(self) -> Bools:
        """Flags of the steps that `step_ms` is the median of: those after the first, all where there are fewer than three."""
        flags = np.ones(self.step_count, np.bool_)
        if self.step_count >= 3 and self.steps:
            flags[0] = False
        return flags
