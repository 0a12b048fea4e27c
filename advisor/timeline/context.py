"""A context of one recording: its ledger, its kernels' names, and the columns that all frames share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import RLock
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from advisor.columns import Series
from advisor.intervals import EMPTY, Bools, Ints, Spans, alike, clip, covered, distinct, fetch, summed, union
from advisor.results.analysis import typical_ms
from advisor.threads import once_property
from advisor.timeline import cpu, waits
from advisor.timeline import ledger as ledgers
from advisor.timeline.calls import ANNOTATION, BACKWARD, OP, PHASES, RUNTIME
from advisor.timeline.handovers import covered_by_others
from advisor.timeline.kernel_names import KernelName, classify, operand_dtype
from advisor.timeline.recording import KERNEL, Recording
from advisor.timeline.replays import pending
from advisor.timeline.thinned import taken_out
from advisor.timeline.unexplained import silent, unexplained_idle
from advisor.timeline.unrecorded import unsized_copies

_UNDERRECORDED_SHARE = 0.05
_THINNED_SHARE = 0.1
_MEDIAN_STEPS = 3
# Warps per SM that are 1 % of the 64 that fit the largest: an occupancy of 0 % cannot stand beside them.
_WARPS_SEEN = 0.64
# Words in lists of argument types that name no tensor.
_NO_TENSOR = frozenset({"", "Scalar", "ScalarList", "TensorList", "GenericList", "Int", "Bool", "Double", "Device"})
_OF_FRAMES = ("advisor.frames.", "advisor.timeline.memory")
_LARGE = 1 << 20
"""Bytes of a result that is worth finding again."""
Codes = Ints
Result = TypeVar("Result")


def _room(result: object) -> int:
    """Bytes of the arrays in a result: an array, or some by name or place."""
    if isinstance(result, np.ndarray):
        return result.nbytes
    parts = result if isinstance(result, tuple) else result.values() if isinstance(result, dict) else ()
    return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))


class Aside(Protocol):
    """Whatever works out results beside whoever asks for them."""

    def take(self, find: Callable[[Context], Result]) -> Result:
        """Return a result. Raises ``LookupError`` where it is left to whoever asks."""
        ...


class Context:
    """Source of all builders of frames; everything is worked out on first use."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.names = recording.names
        self.metadata = recording.metadata
        self.tables = recording.tables
        self._results: dict[Callable[[Context], Any], Any] = {}
        self._locks: dict[Callable[[Context], Any], RLock] = {}
        self._ledgers: dict[int, ledgers.Ledger] = {}
        self._of_ledgers = RLock()
        self.aside: Aside | None = None

    def once(self, find: Callable[[Context], Result]) -> Result:
        """Result of *find* for this recording, worked out at the first call and kept; once also where two threads ask for it."""
        if find not in self._results:
            with self._locks.setdefault(find, RLock()):
                if find not in self._results:
                    self._results[find] = self.found(find)
        result: Result = self._results[find]
        return result

    def found(self, find: Callable[[Context], Result]) -> Result:
        """Result of *find*, not kept: what another process has begun to work out comes from there."""
        if self.aside is not None:
            with suppress(LookupError):
                return self.aside.take(find)
        return find(self)

    def let_go(self) -> None:
        """Let go of large results that the rules' frames were made of: what is asked for once more is found again."""
        self._results = {
            find: result
            for find, result in self._results.items()
            if not find.__module__.startswith(_OF_FRAMES) or _room(result) < _LARGE
        }

    def forget(self, *finds: Callable[[Context], Any]) -> None:
        """Let go of the results of *finds*."""
        for find in finds:
            self._results.pop(find, None)

    # ---- device and ledger

    @property
    def device(self) -> int:
        """The busiest device, which the summary speaks of; -1 where no device did anything."""
        return self.recording.devices[0] if self.recording.devices else -1

    @once_property
    def waits(self) -> ledgers.HostWaits:
        """Tables of what the host waits for."""
        return ledgers.host_waits(self.recording)

    @once_property
    def graph_nodes(self) -> Ints:
        """Forest nodes of calls that replay a graph."""
        return waits.nodes_by_name(self.recording, waits.GRAPH, (RUNTIME,))

    @once_property
    def graphs_underrecorded(self) -> bool:
        """True where graph replays lack work: a replay without any, or long idle stretches with work queued beside replays."""
        work = self.recording.work
        if not len(self.graph_nodes) or not len(work):
            return False
        if not np.isin(self.graph_nodes, work.launch).all():
            return True
        low, high = self.recording.extent
        idle = unexplained_idle(self.recording, self.device)
        elsewhere = covered_by_others(self.recording, self.device, idle)
        return bool(idle.length - elsewhere.length > _UNDERRECORDED_SHARE * (high - low))

    @once_property
    def taken_out(self) -> Spans:
        """Time of which events were taken out of the file, within what the ledger divides."""
        return clip(taken_out(self.recording), *self.recording.extent)

    @once_property
    def thinned(self) -> bool:
        """True where that is over a tenth of it."""
        return self.taken_out_share > _THINNED_SHARE

    @property
    def taken_out_share(self) -> float:
        """The share of it."""
        low, high = self.recording.extent
        return self.taken_out.length / max(1, high - low)

    @property
    def lacks_work(self) -> bool:
        """True where the device did work that is not in the trace: how busy it was, and how long it idled, nobody knows."""
        return self.graphs_underrecorded or self.thinned

    @property
    def idle_trusted(self) -> bool:
        """True where idle time may be explained: the host was recorded, replays whole, and the file not cut off or thinned.

        The exporter writes events in no order of time: what a cut-off file lacks is missing everywhere, and reads as idle.
        """
        complete = not self.recording.recorded.truncated
        return self.recording.has_host and complete and not self.lacks_work

    @once_property
    def cpu_program(self) -> bool:
        """True where the program is known to have run on the CPU alone."""
        return self.device < 0 and cpu.is_cpu_program(self.recording)

    @once_property
    def ledger(self) -> ledgers.Ledger:
        """The ledger of the busiest device; of the main thread of a CPU program; else of the host."""
        return cpu.ledger(self.recording, self.waits) if self.cpu_program else self.ledger_of(self.device)

    def ledger_of(self, device: int) -> ledgers.Ledger:
        """The ledger of any device."""
        with self._of_ledgers:
            if device in self._ledgers:
                return self._ledgers[device]
            self._ledgers[device] = ledgers.build(self.recording, device, self.waits, doubtful=self._doubtful(device))
        return self._ledgers[device]

    def _doubtful(self, device: int) -> Spans:
        """Time in which an idle device may have done what is not in the trace."""
        if device < 0 or self.idle_trusted:
            return EMPTY
        if self.recording.recorded.truncated:
            low, high = self.recording.extent
            return union(np.array([low], np.int64), np.array([high], np.int64))
        # Runtime calls alone do not say what the host did between them, but that it was late.
        gone = self.taken_out if self.thinned else EMPTY
        late = pending(self.recording, self.graph_nodes) if self.graphs_underrecorded else EMPTY
        return union(np.concatenate([gone.start, late.start]), np.concatenate([gone.end, late.end]))

    @once_property
    def step_ns(self) -> float:
        """Steady work of a typical step in ns: the median, the mean of all where the two differ; of the window without steps."""
        ledger, recording = self.ledger, self.recording
        if not recording.steps:
            return float(ledger.counted_ns)
        steady = ledger.step_ns(recording.step_count)
        count = max(len(ledger.counted_steps()), 1)
        return typical_ms(float(np.median(steady[recording.sampled])), ledger.counted_ns / count)

    @once_property
    def silent_ns(self) -> int:
        """ns of the host's idle time, of steady work, in which no event of it was recorded: nobody knows what it did."""
        ledger = self.ledger
        mine = ledger.counted & ledger.through("host")
        spans = silent(self.recording) if mine.any() and not self.cpu_program else EMPTY
        return int(covered(spans, ledger.start_ns[mine], ledger.end_ns[mine]).sum())

    @once_property
    def longest_host_ns(self) -> int:
        """ns of the longest single stretch of the host's idle time in steady work; 0 without any, and of under three steps."""
        ledger = self.ledger
        if self.recording.step_count < _MEDIAN_STEPS:
            return 0
        mine = ledger.counted & ledger.through("host")
        return int((ledger.end_ns[mine] - ledger.start_ns[mine]).max(initial=0))

    @once_property
    def doubtful_ns(self) -> int:
        """ns of the host's idle time, of steady work, in copies of unknown size, where nothing of a device was recorded.

        Whether it copied there or waited for the device nobody knows.
        """
        ledger = self.ledger
        mine = ledger.counted & ledger.through("host")
        spans = unsized_copies(self.recording) if mine.any() and not self.cpu_program else EMPTY
        return int(covered(spans, ledger.start_ns[mine], ledger.end_ns[mine]).sum())

    def median_causes(self) -> dict[str, float]:
        """Median ns of each cause in the steps that `step_ns` is the median of; empty where these are under three."""
        ledger, recording = self.ledger, self.recording
        steps = np.intersect1d(ledger.counted_steps(), np.flatnonzero(recording.sampled))
        if not recording.steps or len(steps) < _MEDIAN_STEPS:
            return {}
        causes, rows = len(ledgers.CAUSES), np.flatnonzero(ledger.counted)
        cell = ledger.step[rows] * causes + ledger.cause[rows]
        total = summed(cell, ledger.dur_ns[rows], recording.step_count * causes).reshape(-1, causes)
        medians = np.median(total[steps], axis=0)
        return dict(zip(ledgers.CAUSES, medians.tolist(), strict=True))

    @once_property
    def work_cost(self) -> Ints:
        """ns of the window that each piece of GPU work owns on its device."""
        cost = np.zeros(len(self.recording.work), np.int64)
        for device in self.recording.devices:
            cost += self.ledger_of(device).cost(len(cost), *ledgers.OWN)
        return cost

    @once_property
    def idle(self) -> Spans:
        """Idle time of the busiest device inside the window."""
        idle = self.ledger.idle
        return union(self.ledger.start_ns[idle], self.ledger.end_ns[idle])

    def idle_during(self, start: Ints, end: Ints) -> Ints:
        """ns of each span that the busiest device idles."""
        return covered(self.idle, start, end)

    # ---- kernels' names

    @once_property
    def kernel_names(self) -> dict[int, KernelName]:
        """Meaning of each kernel's name, by name code."""
        work = self.recording.work
        codes = distinct(work.name[work.kind == KERNEL]).tolist()
        return {code: classify(self.names[code], self.recording.vendor) for code in codes}

    @once_property
    def kernel_rows(self) -> Ints:
        """Indices of the kernels in the GPU work."""
        return self.recording.work.indices(KERNEL)

    # ---- operators

    @once_property
    def op_rows(self) -> Ints:
        """Forest nodes of operators, in order of start."""
        return self.recording.host.nodes_of(OP).astype(np.int32)

    def op_column(self, node: Ints, name: str, default: int = -1) -> Ints:
        """A column of the operator (or annotation) that each forest node is inside of."""
        host = self.recording.host
        out = np.full(len(node), default, np.int64)
        if not host.size:
            return out
        inside = fetch(host.attributes.op, node)
        kinds = fetch(host.group, inside)
        for group, key in ((OP, "op"), (ANNOTATION, "annotation")):
            table = self.tables.get(key)
            if table is None:
                continue
            rows = np.flatnonzero(kinds == group)
            out[rows] = table[name][host.row[inside[rows]]]
        return out

    @once_property
    def shape_texts(self) -> list[str]:
        """The table of raw argument lists as compact text."""
        return [b"".join(raw.split()).decode("utf-8", "replace")[:400] for raw in self.recording.recorded.raws]

    @once_property
    def raw_dtypes(self) -> list[str]:
        """The number format of the first tensor in each raw list of types, in C++ terms; '' for none."""
        out = []
        for text in self.shape_texts:
            words = (part.strip('"') for part in text.strip("[]").split(","))
            out.append(next((word for word in words if word not in _NO_TENSOR), ""))
        return out

    # ---- shared columns

    def labels(self, codes: Codes, table: Sequence[str]) -> Series:
        """Codes into *table* as texts, with the words that are used; -1 is missing, and so is empty text."""
        if not len(codes):
            return Series(codes, words=())
        present = np.zeros(len(table) + 1, np.bool_)
        present[codes] = True  # -1 lands in the spare last place
        used = [code for code in np.flatnonzero(present[:-1]).tolist() if table[code] != ""]
        values: dict[str, int] = {}
        remap = np.full(len(table) + 1, -1, np.int64)
        for code in used:
            remap[code] = values.setdefault(table[code], len(values))
        return Series(remap[codes], words=tuple(values))

    def common(
        self,
        *,
        start: Ints,
        dur: Ints,
        cost: Ints,
        node: Ints,
        device: Ints | int = -1,
        stream: Ints | int = -1,
    ) -> dict[str, object]:
        """The columns that come first in every frame; *node* is where on the host it belongs, or -1."""
        makers = self.common_makers(start, dur, lambda: cost, node, device, stream)
        return {name: make() for name, make in makers.items()}

    def common_makers(
        self,
        start: Ints,
        dur: Ints,
        cost: Callable[[], Ints],
        node: Ints,
        device: Ints | int = -1,
        stream: Ints | int = -1,
    ) -> dict[str, Callable[[], object]]:
        """Give a maker for each of these columns, for frames of which only those are made that are asked for."""
        size = len(start)
        host = self.recording.host
        attributes = host.attributes
        return {
            "step": lambda: self.step_from(start, dur),
            "start_ns": lambda: start,
            "dur_ns": lambda: dur,
            "cost_ns": cost,
            "device": lambda: np.full(size, device, np.int64) if isinstance(device, int) else device,
            "stream": lambda: np.full(size, stream, np.int64) if isinstance(stream, int) else stream,
            "thread": lambda: fetch(host.thread, node).astype(np.int64),
            "op": lambda: self.labels(fetch(host.name, fetch(attributes.op, node)), self.names),
            "module": lambda: self.labels(fetch(attributes.module, node), host.module_paths),
            **self._place_makers(lambda: fetch(attributes.user, node), lambda: fetch(attributes.library, node)),
        }

    def step_from(self, start: Ints, dur: Ints) -> Ints:
        """Index of the step that holds each stretch of time; -1 outside the window."""
        first = int(self.recording.bounds[0])  # what goes on into the first step is part of it
        return self.recording.step_of(np.where((start < first) & (start + dur > first), first, start))

    def places(self, user: Ints, library: Ints) -> dict[str, object]:
        """The columns that say where a row is, by codes of places."""
        return {name: make() for name, make in self._place_makers(lambda: user, lambda: library).items()}

    def _place_makers(self, user: Callable[[], Ints], library: Callable[[], Ints]) -> dict[str, Callable[[], object]]:
        files, lines, functions, texts = self._place_tables
        return {
            "file": lambda: self.labels(user(), files),
            "line": lambda: fetch(lines, user()),
            "function": lambda: self.labels(user(), functions),
            "library": lambda: self.labels(library(), texts),
        }

    def top(self, node: Ints) -> Bools:
        """Flag the forest nodes that no operator is around."""
        host = self.recording.host
        found: Bools = fetch(host.group, fetch(host.attributes.op, host.parent[node])) != OP
        return found

    def lines(self, node: Ints) -> Ints:
        """The line of the user's that each forest node is called from, -1 where unknown."""
        return fetch(self._place_tables[1], fetch(self.recording.host.attributes.user, node))

    def common_of_work(self, rows: Ints, cost: Ints | None = None) -> dict[str, object]:
        """The common columns of pieces of GPU work: indices into ``Recording.work``. They cost what they own."""
        return {name: make() for name, make in self.common_makers_of_work(rows, cost).items()}

    def common_makers_of_work(self, rows: Ints, cost: Ints | None = None) -> dict[str, Callable[[], object]]:
        """Makers of the same columns, as :meth:`common_makers`."""
        work = self.recording.work
        return self.common_makers(
            work.start[rows],
            work.end[rows] - work.start[rows],
            lambda: self.work_cost[rows] if cost is None else cost,
            work.launch[rows],
            work.device[rows],
            work.stream[rows],
        )

    @once_property
    def _place_tables(self) -> tuple[list[str], Ints, list[str], list[str]]:
        places = self.recording.host.places
        return (
            [place.file for place in places],
            np.array([place.line for place in places], np.int64),
            [place.function for place in places],
            [place.text for place in places],
        )

    def depth(self, counted: Bools) -> Ints:
        """For each forest node, how many of the *counted* nodes are around it."""
        host = self.recording.host
        depth = np.zeros(host.size, np.int64)
        for level in host.levels[1:]:
            depth[level] = depth[host.parent[level]] + counted[host.parent[level]]
        return depth

    def phases(self, node: Ints) -> Ints:
        """Phase code of each forest node; 'other' where it is unknown."""
        return fetch(self.recording.host.attributes.phase, node, len(PHASES) - 1)

    def phase(self, node: Ints) -> Series:
        """Phase of each forest node, in words."""
        return self.labels(self.phases(node), PHASES)

    @once_property
    def kernel_dtypes(self) -> Series:
        """Number format of every kernel: by the operands of the product that launched it, else by its name."""
        work, rows = self.recording.work, self.kernel_rows
        if not len(rows):
            return Series.texts(())
        host, launch = self.recording.host, work.launch[rows]
        types, ops = self.op_column(launch, "types"), fetch(host.name, fetch(host.attributes.op, launch))
        first, back = alike(work.name[rows], types, ops)
        found = [
            operand_dtype(
                self.kernel_names[name],
                self.names[op] if op >= 0 else "",
                self.raw_dtypes[kind] if kind >= 0 else None,
            )
            for name, op, kind in zip(
                work.name[rows[first]].tolist(), ops[first].tolist(), types[first].tolist(), strict=True
            )
        ]
        return Series.texts(found)[back.ravel()]

    @once_property
    def occupancy(self) -> npt.NDArray[np.float64]:
        """Estimated achieved occupancy of each kernel in %; NaN where it was not recorded.

        Some profilers write 0 for a figure that they lack. So it is where all are 0, and beside more warps than round to 0.
        """
        if not len(self.kernel_rows):
            return np.zeros(0, np.float64)
        values = self.work_column("kernel", "occupancy", self.kernel_rows).astype(np.float64)
        warps = self.work_column("kernel", "warps_per_sm", self.kernel_rows).astype(np.float64)
        values[~(values > 0) & (warps >= _WARPS_SEEN)] = np.nan
        if not (values > 0).any():
            values[:] = np.nan
        return values

    def kernel_spans(self, device: int) -> Spans:
        """Time in which kernels run on a device."""
        work = self.recording.work
        rows = (work.device == device) & (work.kind == KERNEL)
        return union(work.start[rows], work.end[rows])

    def work_column(self, group: str, name: str, rows: Ints) -> Ints:
        """A column of the table of kernels, copies or memsets, for pieces of GPU work that are in it."""
        return self.tables[group][name][self.recording.work.row[rows]] if len(rows) else np.zeros(0, np.int64)

    def training(self) -> bool:
        """Tell whether a backward pass was seen."""
        return bool((self.recording.host.attributes.phase == BACKWARD).any())

    @staticmethod
    def known(values: Ints) -> Series:
        """Whole numbers of which the negative ones stand for unknown: those are missing, and enter no sum."""
        return Series(values.astype(np.int64), values < 0)

    @staticmethod
    def boolean(values: Bools, unknown: Bools) -> Series:
        """Truth values of which some are unknown."""
        return Series(values.copy(), unknown.copy())
