"""A trace: one file of one process, as read: metadata, quality, and frames that are built on first use and kept."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from advisor.columns import Columns
from advisor.counting import counted
from advisor.errors import UsageError
from advisor.frames import FRAMES
from advisor.hardware import Hardware
from advisor.intervals import Bools, Ints
from advisor.reading import machine, stream
from advisor.reading.metadata import Metadata
from advisor.reading.remote import is_url, machine_of, public
from advisor.timeline.context import Context
from advisor.timeline.cpu import shows_device
from advisor.timeline.graph_origins import notes as graph_notes
from advisor.timeline.harness import mostly
from advisor.timeline.lean import Lean
from advisor.timeline.program import Program, program_of
from advisor.timeline.recording import Recording
from advisor.timeline.surroundings import around, held
from advisor.timeline.unprofiled import Unprofiled, unprofiled

if TYPE_CHECKING:
    import pandas as pd

    from advisor.cache.entry import Kept
    from advisor.reading.columns import Table
    from advisor.reading.held import Snapshot
    from advisor.reading.progress import Progress
    from advisor.timeline.ledger import Ledger
    from advisor.timeline.selection import Ends


class Note(Struct, frozen=True):
    """A fact on the quality of the profile: a code, what was found, and what to do next time."""

    code: str
    message: str
    advice: str


_ADVICE = {
    "truncated": "Copy the file again once the profiler has closed it: writing goes on for a while after the last step.",
    "gzip-truncated": "Copy the file again once the profiler has closed it.",
    "gzip-damaged": "Copy the file again, in binary mode.",
    "gzip-checksum": "Copy the file again, in binary mode; gzip -t says whether the copy is sound.",
    "empty-step": "Nothing: the last prof.step() began a step that the end of the recording cut off.",
    "other-process": "Record the process that runs the model, with its own schedule: shares of this window say little of it.",
    "device": "Nothing, if the device is right: torch writes deviceProperties into traces of CUDA and of newer ROCm.",
    "graph-origins": "Record the start too, in which the graphs are captured, with stacks, and give that trace as --capture FILE.",
    "provenance": "Nothing, if the file is of the same program: a call that may be one of several keeps what the trace says of it.",
    "graph-capture": "Nothing, if FILE is the start of the same program: what it does not tell surely stays empty.",
    "not-recorded": "Where that matters, record the run with torch.profiler and export_chrome_trace('trace.json.gz').",
    "graphs-whole": "Record their kernels: nsys profile --cuda-graph-trace=node. It slows the replays down: take times from here.",
    "several-processes": "Give each its own report where a launcher starts them (nsys profile -o rank_%q{RANK}), and pass it here.",
    "snapshot-apart": "Take the snapshot in the recorded run: _record_memory_history() before it, _dump_snapshot() right after.",
    "part": "Nothing: without --steps and --window the whole trace is read.",
    "repaired": "Names with unescaped quotes come from torch before 2.2; a newer torch writes them whole.",
    "skipped": "Record the trace again with a current torch; older exporters write broken JSON.",
}

_MANY_ROWS = 100_000
"""Rows of a frame from which on it is not kept without need."""


class Trace:
    """A recording as frames. ``trace.kernels`` is ``trace.frame("kernels")``."""

    def __init__(
        self,
        recorded: stream.Recorded,
        path: str,
        libraries: Iterable[str] = (),
        kept: Kept | None = None,
        rates: Iterable[Hardware] = (),
        capture: stream.Recorded | None = None,
        gpu: int | None = None,
    ) -> None:
        self.path = path
        self.machine = ""
        """A number for the host, where the name of the file tells it: the same for all files of one, and not its name."""
        self._kept = kept
        self.libraries = tuple(libraries)
        self._recording = Recording(recorded, libraries, kept.host if kept is not None else None, rates)
        if gpu is not None:
            self._recording.asked = gpu
            if gpu not in self._recording.devices:
                used = ", ".join(map(str, sorted(self._recording.devices))) or "none"
                raise UsageError(f"{path}: GPU {gpu} did no work here; those that did: {used}")
        if capture is not None:
            self._recording.capture = Recording(capture, self._recording.libraries)
        self._context = Context(self._recording)
        self._frames: dict[str, Columns] = {}
        self._tables: dict[str, pd.DataFrame] = {}
        self._locks: dict[str, RLock] = {}
        self._forgotten: set[str] = set()

    # ---- what it is

    @property
    def metadata(self) -> Metadata:
        """Allowlisted facts of the file's root."""
        return self._recording.metadata

    @property
    def snapshot(self) -> Snapshot | None:
        """The memory snapshot that was read beside it, or that it is."""
        return self._recording.recorded.snapshot

    @property
    def events(self) -> int:
        """Events in the file, of every kind."""
        return self._recording.recorded.events

    @property
    def is_timeless(self) -> bool:
        """True where it holds many events, and each duration is 0 or less: whoever wrote it lost them. A few may be as short."""
        tables = self._recording.tables
        timed = [table["dur"] for name, table in tables.items() if "dur" in table and name not in ("instant", "span")]
        if self._recording.recorded.part is not None or sum(map(len, timed)) < _FEW_EVENTS:
            return False
        return not any((dur > 0).any() for dur in timed)

    @property
    def program(self) -> Program:
        """Facts of the program: its kind, framework, precision, compiler and device."""
        return self._context.once(program_of)

    @property
    def zero_ns(self) -> int:
        """Clock reading of the first event, from which the times of all frames count: ns since the Unix epoch, where
        the file says what its own clock counts from."""
        return self._recording.zero_ns + self.metadata.base_ns

    @property
    def window(self) -> tuple[int, int]:
        """Start and end of the window, ns since the first event."""
        return self._recording.window

    @cached_property
    def span_ns(self) -> int:
        """From the first event to the end of the last."""
        spans = [_span(table) for table in self._recording.tables.values()]
        return max(end for _, end in spans) - min(start for start, _ in spans)

    @cached_property
    def tail_ns(self) -> int:
        """Recorded ns behind the window, or behind the host's span where that is judged; 0 of a part that was asked for."""
        recording = self._recording
        if recording.part is not None:
            return 0
        last = max(_span(table)[1] for table in recording.tables.values())
        return max(last - recording.zero_ns - int(recording.extent[1]), 0)

    @cached_property
    def early_ns(self) -> int:
        """Recorded ns before the first step, where the profiler's steps begin the window; 0 of a part that was asked for."""
        recording = self._recording
        if recording.part is not None or not recording.marked:
            return 0
        first = min(_span(table)[0] for table in recording.tables.values())
        return max(int(recording.window[0]) - (first - recording.zero_ns), 0)

    @cached_property
    def quality(self) -> list[Note]:
        """Faults of the file that reading found; the profile's own weaknesses are what the profile/* rules tell."""
        recording = self._recording
        # Steps and work find problems as they are worked out.
        any_work = recording.whole_steps + len(recording.work)
        problems = recording.problems if any_work else []
        notes = [*recording.recorded.notes, *problems, *graph_notes(self._context)]
        return [Note(code, message, _ADVICE.get(code, "Nothing, unless figures look odd.")) for code, message in notes]

    @cached_property
    def features(self) -> frozenset[str]:
        """Features that were recorded: gpu, host, steps, shapes, stacks, memory, distributed, loader, idle."""
        from advisor.frames.trace import features

        names = {name.removeprefix("has_") for name, present in features(self._context).items() if present}
        if self._context.device >= 0 and self._context.idle_trusted:
            names.add("idle")
        return frozenset(names)

    @cached_property
    def gpu_expected(self) -> bool:
        """True where a GPU did or should have done work: GPU work, launches, or operators that run on GPUs only; not just a
        device in the list."""
        if len(self._recording.work) or self._recording.recorded.truncated:
            return True
        return shows_device(self._recording)

    # ---- time

    @property
    def window_ns(self) -> int:
        """Length of the window."""
        low, high = self._recording.window
        return high - low

    @property
    def steps_recorded(self) -> int:
        """Steps of the trace, marked or found, without a last one in which nothing happens."""
        return self._recording.whole_steps

    @cached_property
    def step_samples_ns(self) -> Ints:
        """Durations of the steps that the median speaks of: after the first, all where fewer than three; empty without."""
        if not self._recording.steps:
            return np.zeros(0, np.int64)
        return np.diff(self._recording.bounds)[self._recording.sampled]

    @property
    def mean_step_ns(self) -> float:
        """Mean duration of the steps that steady work is counted in: all, but for a first one that start-up fills."""
        length = np.diff(self._recording.bounds)
        steps = self.ledger.counted_steps()
        return float(length[steps].mean() if len(steps) else length.mean())

    @property
    def step_ms(self) -> float | None:
        """Median step: after the first, over all where there are fewer than three; None without steps."""
        samples = self.step_samples_ns
        return float(np.median(samples)) / 1e6 if len(samples) else None

    @property
    def whole_ms(self) -> float:
        """Time of which shares are taken, in ms: steady work of a typical step, or of the window without steps."""
        return self._context.step_ns / 1e6

    @property
    def priced_ms(self) -> float:
        """The step that prices are of, in ms: without the profiler where the recorder timed such steps, else as recorded."""
        return self.unprofiled.step_ms if self.unprofiled is not None else self.whole_ms

    @property
    def unprofiled(self) -> Unprofiled | None:
        """The steps that the recorder timed without the profiler, where they tell what it slowed down."""
        return self._context.once(unprofiled)

    @property
    def steps_by(self) -> str:
        """Marks of the steps in words; '' without steps."""
        return self._recording.steps_by

    @property
    def step_count(self) -> int:
        """Steps that costs are summed over: all of them; 0 without steps."""
        return self.steps_recorded

    @property
    def device(self) -> int:
        """The busiest device; -1 without GPU work."""
        return self._context.device

    @property
    def vendor(self) -> str:
        """Maker of that device."""
        return self._recording.vendor

    @property
    def context(self) -> Context:
        """Source of the frames, for pictures that draw single events."""
        return self._context

    @property
    def ledger(self) -> Ledger:
        """Owners of every ns of the window, on the busiest device; on the host where there is none."""
        return self._context.ledger

    # ---- frames

    @property
    def facts(self) -> Mapping[str, Any]:
        """The one row of the frame `trace`, as plain values by column; None for what is unknown."""
        from advisor.frames.trace import row

        return self._context.once(row)

    def frame(self, name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A frame by name; with *columns* what it has of those, and maybe others. Raises UsageError for a name that is none."""
        if name in self._tables:
            return self._tables[name]
        found = self.columns(name, columns)
        if found is not self._frames.get(name):  # some columns
            return found.pandas()
        with self._locks.setdefault(name, RLock()):
            if name not in self._tables:
                self._tables[name] = found.pandas()
            return self._tables[name]

    def columns(self, name: str, columns: Sequence[str] | None = None) -> Columns:
        """The same, without pandas.

        Whole frames are kept; a few columns of one of very many rows are not.
        """
        if name in self._frames:
            return self._frames[name]
        if name not in FRAMES:
            raise UsageError(f"no frame {name!r}; the frames are {', '.join(FRAMES)}")
        frame = FRAMES[name]
        machine.give_back(self.events)
        if columns is not None and frame.makers is not None:
            return frame.table(self._context, columns)
        with self._locks.setdefault(name, RLock()):
            if name not in self._frames:
                self._frames[name] = self._context.found(frame.build)
            return self._frames[name]

    def build_ahead(self, name: str) -> None:
        """Build a frame that nobody has asked for."""
        if name not in self._forgotten:
            self.columns(name)

    def forget(self, name: str) -> None:
        """Let go of a frame: where something more is asked of it, it is built again."""
        self._forgotten.add(name)
        self._frames.pop(name, None)
        self._tables.pop(name, None)

    def let_go(self) -> None:
        """Let go of frames of very many rows, which few ask for behind the rules, and which are then built again."""
        self._frames = {name: table for name, table in self._frames.items() if len(table) < _MANY_ROWS}
        self._tables = {name: table for name, table in self._tables.items() if len(table) < _MANY_ROWS}
        self._context.let_go()

    def query(self, sql: str) -> pd.DataFrame:
        """Rows of one SELECT of DuckDB over the frames, as ``advisor query`` runs it: files and the network are out of reach.

        Raises UsageError with the nearest frame or column for what cannot be run.
        """
        from advisor.engine import query

        return query.table(self, sql)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in FRAMES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.frame(name)

    def __dir__(self) -> Sequence[str]:
        return [*super().__dir__(), *FRAMES]

    def __repr__(self) -> str:
        return f"<Trace {self.path!r}: {counted(self.events, 'event')}, {counted(self.steps_recorded, 'step')}>"

    def _repr_html_(self) -> str:
        """Return the trace as a notebook shows it: what was recorded, what is wrong with it, and its frames."""
        from advisor.report import notebook

        return str(notebook.trace(self))

    def keep(self) -> str:
        """Put what reading came to into the cache that it was looked for in, for the next time.

        Small traces, parts and standard input are not kept. Returns why it could not be done, in words; else nothing.
        """
        return "" if self._kept is None else self._kept.keep(self._recording)

    def lacks_events(self, segments: Ints) -> bool:
        """Tell whether most of some segments of the ledger is idle time in a file from which events were taken out."""
        ledger = self.ledger
        if not self._context.thinned:
            return False
        unknown = ledger.through("unknown")[segments]
        return 2 * int(ledger.dur_ns[segments][unknown].sum()) > int(ledger.dur_ns[segments].sum())

    def claims(self, frame: str, mask: Bools) -> Ints:
        """Segments of the ledger that the chosen rows of a frame own, each once: as the frame declares."""
        return FRAMES[frame].claims(self._context, mask)

    def harness(self, frame: str) -> Bools:
        """Rows of a frame that lie in what a benchmark does around what it measures; none of the frame `steps`."""
        table = self.columns(frame, ("start_ns", "dur_ns"))
        if frame == "steps" or not {"start_ns", "dur_ns"} <= set(table):
            return np.zeros(len(table), np.bool_)
        start = table["start_ns"].to_numpy(np.int64)
        return mostly(self._context, start, start + table["dur_ns"].to_numpy(np.int64))

    def failed(self, frame: str) -> Mapping[str, Exception]:
        """Errors for which a frame lacks rows, by the word that these would say; none where the whole frame failed, or nothing."""
        find = FRAMES[frame].failed
        return find(self._context) if find is not None else {}

    def around(self, frame: str, mask: Bools, weights: Ints, op: str) -> str | None:
        """Outermost operators and range of the program around the chosen rows, which lie in *op*; None for neither."""
        nodes = self._nodes(frame, mask)
        return None if nodes is None else around(self._context, nodes, weights, op)

    def held(self, frame: str, mask: Bools, weights: Ints) -> list[tuple[str, float]]:
        """Parts of the program that the chosen rows lie in, with their parts of the *weights*, the most first."""
        nodes = self._nodes(frame, mask)
        return [] if nodes is None else held(self._context, nodes, weights)

    def _nodes(self, frame: str, mask: Bools) -> Ints | None:
        """Nodes of the host that the chosen rows of a frame are, or lie in; None for a frame whose rows lie nowhere."""
        rows = FRAMES[frame].rows
        if (nodes := rows.nodes or rows.within) is not None:
            return nodes(self._context)[mask]
        return None if rows.work is None else self._context.recording.work.launch[rows.work(self._context)[mask]]

    def returns(self, frame: str, mask: Bools) -> tuple[float, float]:
        """Parts of the time that the chosen rows own which a fix can return: cautiously, and at most."""
        find = FRAMES[frame].returns
        return find(self._context, mask) if find is not None else (1.0, 1.0)

    def behind(self, frame: str, mask: Bools) -> tuple[Ints, Ints]:
        """Pairs of segments of the ledger that the chosen rows of a frame own: one, and one of an operator with which it goes."""
        find = FRAMES[frame].behind
        return find(self._context, mask) if find is not None else (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def costs(self, frame: str, mask: Bools, segments: Ints) -> Ints | None:
        """ns that each of the chosen rows of a frame owns of some segments of the ledger; None where it cannot be told."""
        return FRAMES[frame].costs(self._context, mask, segments)


def _span(table: Table) -> tuple[int, int]:
    """Start of the first event of a table, and the latest end."""
    if isinstance(table, Lean):
        return table.span
    end = table["ts"] + np.maximum(table["dur"], 0) if "dur" in table else table["ts"]
    return int(table["ts"].min()), int(end.max())


_FEW_EVENTS = 20
"""Events with durations, fewer of which may all be of no length: a toy, or what a test made."""


@contextmanager
def without_gc() -> Iterator[None]:
    """Without the garbage collector: many small objects are made, none is cyclic, and it would look at them again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def read(
    path: str,
    *,
    source: str | None = None,
    libraries: Iterable[str] = (),
    rates: Iterable[Hardware] = (),
    steps: Ends | None = None,
    window_ms: Ends | None = None,
    device: str | None = None,
    capture: str | None = None,
    snapshot: str | None = None,
    provenance: str | None = None,
    gpu: int | None = None,
    cache: bool | float = False,
    progress: Progress | None = None,
) -> Trace:
    """Read a trace, whose format its content tells: JSON, ``.pftrace``, SQLite of Nsight Systems, JSON of rocprofv3, a memory
    snapshot, each plain or gzip; a path, a URL, ``-`` for standard input. Raises TraceError.

    *source* is the name to show for it; *libraries* are top-level packages whose frames are not the user's own; *rates* are those
    of devices, which come before the advisor's table. *steps*
    ``(3, 6)`` reads ProfilerStep#3 to #5 alone, *window_ms* ``(10.0, 20.0)`` that stretch of the window; None leaves an end
    open. *snapshot* is the path of a memory snapshot of the same run, *capture* that of the trace in which the graphs that are
    replayed were captured: kernels have operator, module and line of it. *provenance* is that of the log or JSON in which Inductor
    wrote which lines its kernels compute. *gpu* is the device that findings and figures speak of,
    where one process drives several; else the busiest.
    *device* is what the trace was recorded on, such as "MI300X", for one that does not name it. *cache*
    looks for what ``Trace.keep`` left of the same file; a number is the most GB that the cache may take.
    *progress* is called, as the file is read, with how many bytes are done, and of how many (None for a pipe).
    """
    kept: Kept | None = None
    libraries = tuple(libraries)
    if cache and path != "-" and not is_url(str(path)):
        from advisor.cache import DEFAULT_GB, Store, entry, folder

        root = folder()
        most = DEFAULT_GB if cache is True else cache
        if root is not None:
            kept = entry.Kept(Store(root, int(most * 1e9)), str(path), libraries)
    with without_gc():
        recorded = kept.recorded() if kept is not None else None
        if recorded is None:
            try:
                recorded = stream.read(path, progress, kept.see if kept is not None else None)
            finally:
                if kept is not None:
                    kept.done()
        if steps is not None or window_ms is not None:
            from advisor.timeline.selection import take

            recorded, kept = take(recorded, public(path), steps=steps, window_ms=window_ms), None
        if device is not None:
            from advisor.timeline.naming import name_device

            recorded, kept = name_device(recorded, device), None
        if snapshot is not None:
            from advisor.reading.snapshot import attach

            recorded, kept = attach(recorded, snapshot), None
        if provenance is not None:
            from advisor.reading import provenance as inductor

            recorded, kept = inductor.attach(recorded, provenance), None
        beside = stream.read(capture) if capture is not None else None
    trace = Trace(recorded, source or public(path), libraries, kept, rates, beside, gpu)
    trace.machine = machine_of(path)
    return trace
