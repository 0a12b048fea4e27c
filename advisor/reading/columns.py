"""Events to columns: each group of categories becomes a handful of arrays, chunk by chunk.

All times leave here as int64 ns on the trace's own clock. Strings become codes into one table of names.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from advisor.intervals import compact, fitted, narrow
from advisor.reading import accelerators, links, numbering, processes
from advisor.reading.events import BROKEN, COUNTERS, EARLY, EVENTS, GROUPS, ONE_TIME, RAWS, TIMES, Args, Event, Times
from advisor.reading.grown import Grown
from advisor.reading.tracebacks import frames
from advisor.reading.usual import Usual, category

Array = npt.NDArray[Any]
Table = dict[str, Array]

MISSING = np.iinfo(np.int64).min
# Below 2**43 us (three months, what baseTimeNanoseconds leaves) the double nearest to a decimal of three places is less
# than half a ns off, so rounding gives the ns back exactly. Above, the decimal text itself has to be read.
EXACT_FLOAT_US = float(1 << 43)
# A clock reading beyond 2**61 ns (the year 2043; durations: 73 years) is none. Sums of a few stay inside an int64.
MOST_NS = 1 << 61
_MAX_US = MOST_NS / 1000 - 1
# CUPTI's 236 years, and what else no program runs: such durations of GPU work are cut by the frames, the host's are 0.
_YEARS_NS = 10 * 365 * 86400 * 10**9
# No count, size or id of a real trace comes near; arithmetic on what is larger overflows.
_MOST_INT = 1 << 62
_GPU = ("kernel", "copy", "memset", accelerators.MIXED)
_NO_ARGS = Args()
_SMALL = ("thread", "dur", "index", "sequence", "forward_thread", "correlation", "registers", "shared")
"""Columns whose numbers fit 32 bits in most traces."""
_FEW = {"instant": ("device_type", "device")}
"""Columns whose numbers fit 16 bits, beside the codes of all groups."""
_OF_COLLECTIVES = ("in_elements", "out_elements", "group_size", "collective_seq", "peer")
MOST_UNKNOWN = 20
"""Kinds of unknown categories that are counted."""
CODED = {
    **dict.fromkeys(("dims", "types", "grid", "block"), "raws"),
    **dict.fromkeys(("strides", "concrete"), "inputs"),
    **dict.fromkeys(("stack", "python_before", "written_before"), "stacks"),
    **dict.fromkeys(
        ("generated", "collective", "comm_dtype", "group_name", "group_ranks", "kernel", "annotation"), "texts"
    ),
    "name": "names",
}
"""Columns that hold codes, and of which values."""
_VALUES = {kind: [key for key, of in CODED.items() if of == kind] for kind in dict.fromkeys(CODED.values())}
_COUNTS = ("coerced", "first_coerced", "shapeless", "counter_ranges", "early", "accelerator")


class Joined(Protocol):
    """Counts of another process; the names are those of :class:`Columns`."""

    events: int
    shapeless: int
    counter_ranges: int
    early: bool
    exact: bool
    ties: bool
    accelerator: str | None
    unknown: dict[str, int]
    programs: list[int]
    threads: list[Any]


class NeedExact(Exception):
    """A chunk holds timestamps that a float64 cannot hold."""


class Codes(dict[Any, int]):
    """Value -> code, numbered in order of first sight."""

    characters = 0
    """Length of all values together."""

    def __missing__(self, key: Any) -> int:
        code = self[key] = len(self)
        self.characters += len(key)
        return code


class Threads(dict[Any, int]):
    """``tid`` in any spelling -> int64. Text that holds no number gets one by its hash, far below any real id."""

    def __missing__(self, key: Any) -> int:
        digest = hashlib.blake2b(repr(key).encode("utf-8", "replace"), digest_size=5).digest()
        number = -(1 << 40) - int.from_bytes(digest, "big")
        if isinstance(key, str):
            digits = key.rsplit(" ", 1)[-1]
            if digits.isascii() and digits.removeprefix("-").isdigit() and len(digits) < 19:
                number = int(digits)
        elif isinstance(key, int | float) and abs(key) < 1 << 62:
            number = int(key)
        self[key] = number
        return number


def to_ns(value: Any) -> int:
    """One timestamp or duration in us, as written, to ns; ``MISSING`` where it is none."""
    try:
        if isinstance(value, int):
            ns = value * 1000
        elif isinstance(value, float):
            ns = round(value * 1000)
        elif isinstance(value, str | Decimal):
            number = Decimal(value)
            # A hostile exponent would build a number of a million digits.
            if not number.is_finite() or number.adjusted() > 18:
                return MISSING
            ns = int((number * 1000).to_integral_value())
        else:
            return MISSING
    except (ValueError, OverflowError, InvalidOperation):
        return MISSING
    return ns if abs(ns) < MOST_NS else MISSING


def to_duration(value: Any) -> int:
    """The same for a duration: one that is too long is as long as can be, and left to whoever knows what it is of."""
    ns = to_ns(value)
    if ns != MISSING or not isinstance(value, int | float | Decimal):
        return ns
    if (isinstance(value, Decimal) and value.is_nan()) or (isinstance(value, float) and math.isnan(value)):
        return ns
    return MOST_NS if value > 0 else -MOST_NS


_text = msgspec.json.Encoder().encode
"""The bytes of a raw value, as ``bytes`` gives them in twice the time."""


def _codes(codes: Codes, values: Sequence[Any]) -> Array:
    """The code of each value."""
    return np.fromiter(map(codes.__getitem__, values), np.int32, len(values))


def _blank(values: Sequence[Any]) -> bool:
    """Tell whether all values are missing, as most arguments are in most chunks."""
    return not values or (values[0] is None and values.count(None) == len(values))


def _text_codes(codes: Codes, values: Sequence[str | None]) -> Array:
    """The code of each text, that of "" where there is none."""
    if values and _blank(values):
        return np.full(len(values), codes[""], np.int32)
    return _codes(codes, [value or "" for value in values])


def _numbers(values: Sequence[Any], default: int) -> Array:
    """Whole numbers; *default* where there is none. Raises what numpy does on anything else."""
    try:
        return np.array(values, np.int64)
    except TypeError:  # as of None
        return np.array([default if value is None else value for value in values], np.int64)


class Columns:
    """Accumulates events into columns."""

    def __init__(self, *, in_ns: bool = False) -> None:
        """*in_ns*: times of events are whole ns, and their durations are numbers of ends that :meth:`finish` is given."""
        self.in_ns = in_ns
        self.names = Codes()
        self.stacks = Codes()
        self.raws = Codes()
        self.inputs = Codes()
        self.texts = Codes()
        self.threads = Threads()
        self.programs: set[int] = set()  # processes that run operators or make calls
        self.events = 0
        self.shapeless = 0
        self.coerced = 0
        self.first_coerced = 0  # the number of the event, from 1
        self.negative = 0
        self.absurd = 0
        self.unknown: dict[str, int] = {}
        self.counter_ranges = 0
        self.early = False
        self.accelerator: str | None = None
        self.ties = True  # flows and External ids are kept: no kernel has shown yet that they are not needed
        self._lacks = False
        self.notes: list[tuple[str, str]] = []
        self.exact = False
        self._ordinary = True
        self._usual = Usual()
        self._bad_row = -1
        self._grown: dict[str, Grown] = {}
        self._take: dict[str, Callable[[list[Event]], Table]] = {
            "op": self._op,
            "annotation": self._annotation,
            "python": self._host,
            "runtime": self._runtime,
            "kernel": self._kernel,
            "copy": self._copy,
            "memset": self._copy,
            accelerators.MIXED: self._kernel,
            "gpu_annotation": self._gpu,
            "instant": self._instant,
            "overhead": self._host,
            "device_sync": self._device_sync,
            "span": self._host,
            links.FLOW: self._flow,
        }

    def add(self, events: list[Event], text: bytes) -> None:
        """Take *events* in; *text* is the list they were decoded from, read again where times need it."""
        if self.exact:
            self._make_exact(events, text)
        restore = self._mark()
        sinks = _Sinks(self)
        for event in events:
            sinks[event.cat](event)
        try:
            tables = [(group, self._table_of(group, batch, events)) for group, batch in sinks.batches() if batch]
        except NeedExact:
            self.exact = True
            restore()
            sinks.close()
            self.add(events, text)
            return
        sinks.close()
        self._append({group: [table] for group, table in tables}, len(events))

    def add_pieces(self, pieces: Iterable[bytes]) -> bool:
        """Take in the lists of events that a text was cut into, as :meth:`add` would take the whole.

        The events of a piece fit the processor's cache. False, and nothing taken, where any is out of the ordinary.
        """
        if self.exact or not self._ordinary:
            return False
        restore, coerced, unknown = self._mark(), self.coerced, self.unknown.copy()
        known = {kind: len(getattr(self, kind)) for kind in _VALUES}
        groups: dict[str, list[Table]] = {}
        sinks, size = _Sinks(self), 0
        try:
            for text in pieces:
                size += self._take_piece(text, sinks, groups)
        except (*BROKEN, NeedExact):
            self._ordinary = False
        sinks.close()
        self._ordinary &= self.coerced == coerced and self.unknown == unknown
        if not self._ordinary:
            restore()
            return False
        groups = {group: tables for group, tables in groups.items() if tables}
        for kind, keys in _VALUES.items():
            numbering.renumber(getattr(self, kind), known[kind], keys, groups)
        self._append(groups, size)
        return True

    def _take_piece(self, text: bytes, sinks: _Sinks, groups: dict[str, list[Table]]) -> int:
        """Add the tables of a list of events to *groups*; returns how many events these are."""
        events = self._usual.decode(text)
        if events is not None:
            for event in events:
                sinks[event.__class__](event)
            batches = sinks.lists()
        else:
            events = EVENTS.decode(text)
            for event in events:
                sinks[event.cat](event)
            batches = sinks.batches()
        for group, batch in batches:
            tables = groups.setdefault(group, [])
            if batch:
                tables.append(self._table_of(group, batch, events))
        sinks.empty()
        return len(events)

    def _mark(self) -> Callable[[], None]:
        """Return what brings back the counts and the numbers of values of now."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        counts |= {"unknown": self.unknown.copy(), "programs": self.programs.copy()}
        known = {kind: len(getattr(self, kind)) for kind in _VALUES}
        threads = len(self.threads)

        def restore() -> None:
            for name, value in counts.items():
                setattr(self, name, value)
            for kind, size in known.items():
                numbering.forget(getattr(self, kind), size)
            while len(self.threads) > threads:
                self.threads.popitem()

        return restore

    def _append(self, groups: dict[str, list[Table]], size: int) -> None:
        """Append the tables of *size* events."""
        for group, tables in groups.items():
            grown = self.grown(group)
            for table in tables:
                grown.append(table)
        kernels = [
            table for group, tables in groups.items() if group in ("kernel", accelerators.MIXED) for table in tables
        ]
        if kernels and not self._lacks:
            self._judge_links(kernels)
        self.events += size

    def _judge_links(self, kernels: list[Table]) -> None:
        """Keep flows and External ids from now on where a kernel lacks a correlation; let go of them where all have one."""
        self._lacks = self.ties = any(links.lacks_correlation(table) for table in kernels)
        if not self.ties:
            self.untie()

    def untie(self) -> None:
        """Let go of flows and External ids: correlations say all that they do."""
        self._grown.pop(links.FLOW, None)
        for grown in self._grown.values():
            grown.drop("external")

    # ---- the part of another process

    @property
    def lacks(self) -> bool:
        """True once a kernel was without a correlation."""
        return self._lacks

    def tables(self) -> list[tuple[str, Grown]]:
        """Return what each group has come to so far."""
        return list(self._grown.items())

    def grown(self, group: str) -> Grown:
        """Return the table of a group, which may be new."""
        return self._grown.setdefault(group, Grown())

    def join(self, other: Joined) -> None:
        """Take over what another process counted in the part behind; its tables follow."""
        self.events += other.events
        self.shapeless += other.shapeless
        self.counter_ranges += other.counter_ranges
        self.early |= other.early
        self.exact |= other.exact
        self.ties &= other.ties
        self.accelerator = self.accelerator or other.accelerator
        for key, count in other.unknown.items():
            self.unknown[key] = self.unknown.get(key, 0) + count
        self.programs.update(other.programs)
        for thread in other.threads:
            self.threads[thread]

    def _table_of(self, group: str, batch: list[Event], events: list[Event]) -> Table:
        """The columns of a batch; notes where in *events* the first value lies that could not be used."""
        self._bad_row = -1
        table = self._take[group](batch)
        if group in ("op", "runtime"):
            self.programs |= {self.threads[pid] for pid in {event.pid for event in batch}}
        if self._bad_row >= 0:
            bad = batch[self._bad_row]
            number = self.events + next(at for at, event in enumerate(events, 1) if event is bad)
            self.first_coerced = min(self.first_coerced or number, number)
        return table

    def _bad(self, row: int) -> None:
        """Count a value that could not be used."""
        self.coerced += 1
        self._bad_row = row if self._bad_row < 0 else min(row, self._bad_row)

    @staticmethod
    def _make_exact(events: list[Event], text: bytes) -> None:
        times: list[Times | None]
        try:
            times = list(TIMES.decode(text))
        except BROKEN:
            times = [_time(raw) for raw in RAWS.decode(text)]
        for event, exact in zip(events, times, strict=True):
            if exact is not None:
                event.ts, event.dur = exact.ts, exact.dur  # type: ignore[assignment]

    def finish(self, ends: Array | None = None) -> dict[str, Table]:
        """The columns of every group, in file order; rows without a usable start are dropped and counted.

        *ends* are those of events whose durations are numbers so far; a row whose end is ``MISSING`` is dropped.
        """
        tables: dict[str, Table] = {}
        for group in self._take:
            grown = self._grown.pop(group, None)
            if grown is None:
                continue
            table = grown.finish()
            if group in ("op", "annotation"):
                unknown = np.broadcast_to(np.int64(-1), len(table["ts"]))
                table = table | {key: table.get(key, unknown) for key in _OF_COLLECTIVES}
            if ends is not None and "dur" in table:  # flows have none
                _end_at(table, ends)
            bad = table["ts"] == MISSING
            if bad.any():
                table = {key: column[~bad] for key, column in table.items()}
            if group not in _GPU and group != links.FLOW:
                negative, absurd = table["dur"] < 0, table["dur"] > _YEARS_NS
                self.negative += int(negative.sum())
                self.absurd += int(absurd.sum())
                table["dur"][negative | absurd] = 0
            if len(table["ts"]):
                tables[group] = table
        self.notes += processes.of_others(tables, list(self.names), self.programs)
        accelerators.divide(tables, list(self.names))
        flows = tables.pop(links.FLOW, None)
        if self.ties:
            self.notes += links.tie(tables, flows, self.names)
            for table in tables.values():
                table.pop("external", None)
        for group, table in tables.items():
            for key, column in table.items():  # one after the other: most traces lack what many columns are for
                column = narrow(column)
                if key in CODED or key in _FEW.get(group, ()):
                    column = compact(column)
                table[key] = fitted(column) if key in _SMALL else column
        return tables

    # ---- columns of each group

    def _starts(self, values: list[Any]) -> Array:
        """Starts in ns; ``MISSING``, and counted, where there is none."""
        array = self._plain_ns(values)
        if array is None:
            array = np.array([to_ns(value) for value in values], np.int64)
            for row in np.flatnonzero(array == MISSING).tolist():
                self._bad(row)
        return array

    def _durations(self, values: list[Any]) -> Array:
        """Durations in ns; 0 where there is none, and counted where there is something else."""
        if _blank(values):
            return np.zeros(len(values), np.int64)
        array = self._plain_ns(values)
        if array is None:
            array = np.array([to_duration(value) for value in values], np.int64)
            for row in np.flatnonzero(array == MISSING).tolist():
                array[row] = 0
                if values[row] is not None:
                    self._bad(row)
        return array

    def _plain_ns(self, values: list[Any]) -> Array | None:
        """Times in us as int64 ns in one go; None where they are no plain numbers. Raises NeedExact."""
        if self.in_ns:
            return np.array(values, np.int64)
        try:
            array = np.array(values)
        except (ValueError, OverflowError):
            return None
        kind = array.dtype.kind
        if kind == "i" and array.min(initial=0) > -_MAX_US and array.max(initial=0) < _MAX_US:
            return array.astype(np.int64) * 1000
        if kind == "f" and np.isfinite(array).all():
            top = float(np.abs(array).max(initial=0.0))
            if top < EXACT_FLOAT_US:
                return np.rint(array * 1000.0).astype(np.int64)
        if not self.exact and any(isinstance(v, float) and EXACT_FLOAT_US <= abs(v) < _MAX_US for v in values):
            raise NeedExact
        return None

    def _ints(self, values: Sequence[Any], default: int) -> Array:
        """Whole numbers; *default* where there is none, and counted where there is something else or too much."""
        if _blank(values):
            return np.full(len(values), default, np.int64)
        try:
            array = _numbers(values, default)
        except (TypeError, ValueError, OverflowError):
            array = np.full(len(values), default, np.int64)
            for row, value in enumerate(values):
                try:
                    array[row] = default if value is None else int(value)
                except (TypeError, ValueError, OverflowError):
                    self._bad(row)
        if array.max(initial=0) > _MOST_INT or array.min(initial=0) < -_MOST_INT:
            for row in np.flatnonzero((array > _MOST_INT) | (array < -_MOST_INT)).tolist():
                array[row] = default
                self._bad(row)
        return array

    def _floats(self, values: Sequence[Any]) -> Array:
        try:
            return np.array(values, np.float64)  # None is no number
        except (TypeError, ValueError, OverflowError):
            out = np.full(len(values), np.nan)
            for row, value in enumerate(values):
                try:
                    out[row] = np.nan if value is None else float(value)
                except (TypeError, ValueError, OverflowError):
                    self._bad(row)
            return out

    def _host(self, events: list[Event]) -> Table:
        names, threads = self.names, self.threads
        return {
            "name": _codes(names, [e.name or "" for e in events]),
            "thread": np.array([threads[e.tid] for e in events], np.int64),
            "ts": self._starts([e.ts for e in events]),
            "dur": self._durations([e.dur for e in events]),
        }

    def _op(self, events: list[Event]) -> Table:
        args = [e.args or _NO_ARGS for e in events]
        stacks, raws, inputs, texts = self.stacks, self.raws, self.inputs, self.texts
        table = self._host(events)
        self._keep_external(table, args)
        table["index"] = self._ints([a.index for a in args], -1)
        table["sequence"] = self._ints([a.sequence for a in args], -1)
        table["forward_thread"] = self._ints([a.forward_thread for a in args], -1)
        table["dims"] = _codes(raws, [_text(a.dims) or _text(a.dims_old) for a in args])
        table["types"] = _codes(raws, [_text(a.types) for a in args])
        table["strides"] = _codes(inputs, [_text(a.strides) for a in args])
        table["concrete"] = _codes(inputs, [_text(a.concrete) for a in args])
        table["stack"] = _text_codes(
            stacks, [a.stack or (frames(a.stack_trace) if a.stack_trace else None) for a in args]
        )
        self._keep_before(table, args)
        # One text for both: a column more for each operator would cost every trace.
        table["generated"] = _text_codes(
            texts, [_generated(a) if a.kernel_file or a.kernel_kwargs else None for a in args]
        )
        table["collective"] = _text_codes(texts, [a.collective for a in args])
        return table | self._collective(args)

    def _keep_before(self, table: Table, args: list[Args]) -> None:
        """Keep what `advisor record` wrote of the Python before each."""
        stacks = self.stacks
        table["python_before"] = _text_codes(stacks, [a.python_before for a in args])
        table["written_before"] = _text_codes(stacks, [a.written_before for a in args])

    def _annotation(self, events: list[Event]) -> Table:
        threads = self.threads
        return self._op(events) | {"process": np.array([threads[e.pid] for e in events], np.int64)}

    def _collective(self, args: list[Args]) -> Table:
        """The columns of a collective's record; blank where a chunk holds none, as most do: numbers are then -1 afterwards."""
        texts = self.texts
        if not any(a.collective for a in args):
            blank = np.full(len(args), texts[""], np.int32)
            return dict.fromkeys(("comm_dtype", "group_name", "group_ranks"), blank)
        args = [a if a.collective else _NO_ARGS for a in args]
        return {
            "comm_dtype": _text_codes(texts, [a.comm_dtype for a in args]),
            "group_name": _text_codes(texts, [a.group_name for a in args]),
            "in_elements": self._ints([a.in_elements for a in args], -1),
            "out_elements": self._ints([a.out_elements for a in args], -1),
            "group_size": self._ints([a.group_size for a in args], -1),
            "group_ranks": np.array([texts[_group_text(a.group_ranks)] for a in args], np.int32),
            "collective_seq": self._ints([a.collective_seq for a in args], -1),
            "peer": self._ints([a.source if a.destination is None else a.destination for a in args], -1),
        }

    def _runtime(self, events: list[Event]) -> Table:
        table = self._host(events)
        args = [e.args or _NO_ARGS for e in events]
        table["correlation"] = self._ints([a.correlation for a in args], -1)
        texts = self.texts
        table["kernel"] = _text_codes(texts, [a.kernel for a in args])
        self._keep_external(table, args)
        return table

    def _keep_external(self, table: Table, args: list[Args]) -> None:
        if self.ties:
            table["external"] = links.ids([a.external for a in args])

    def _flow(self, events: list[Event]) -> Table:
        threads = self.threads
        return {
            "ts": self._starts([e.ts for e in events]),
            "thread": np.array([threads[e.tid] for e in events], np.int64),
            "device": np.array([threads[e.pid] for e in events], np.int64),
            "id": links.ids([e.id for e in events]),
            "finish": np.array([e.ph == "f" for e in events], np.bool_),
        }

    def _gpu(self, events: list[Event]) -> Table:
        table = self._host(events)
        args = [e.args or _NO_ARGS for e in events]
        # The device and stream are args of the event; pid and tid repeat them ("stream 7" in 2021) and stand in.
        pids = [self.threads[e.pid] for e in events]
        table["device"] = self._ints([p if a.device is None else a.device for a, p in zip(args, pids, strict=True)], 0)
        tids = table["thread"].tolist()
        table["stream"] = self._ints([t if a.stream is None else a.stream for a, t in zip(args, tids, strict=True)], 0)
        table["correlation"] = self._ints([a.correlation for a in args], -1)
        self._keep_external(table, args)
        return table

    def _copy(self, events: list[Event]) -> Table:
        table = self._gpu(events)
        table["bytes"] = self._ints([e.args.bytes if e.args else None for e in events], -1)
        return table

    def _kernel(self, events: list[Event]) -> Table:
        table = self._gpu(events)
        args = [e.args or _NO_ARGS for e in events]
        raws = self.raws
        table["registers"] = self._ints([a.registers for a in args], -1)
        table["shared"] = self._ints([a.shared for a in args], -1)
        table["grid"] = _codes(raws, [_text(a.grid) for a in args])
        table["block"] = _codes(raws, [_text(a.block) for a in args])
        table["blocks_per_sm"] = self._floats([a.blocks_per_sm for a in args])
        table["warps_per_sm"] = self._floats([a.warps_per_sm for a in args])
        table["occupancy"] = self._floats([a.occupancy for a in args])
        table["graph_node"] = self._ints([a.graph_node for a in args], -1)
        texts = self.texts
        table["annotation"] = _text_codes(texts, [a.annotation for a in args])
        return table

    def _device_sync(self, events: list[Event]) -> Table:
        table = self._gpu(events)
        table["wait_stream"] = self._ints([e.args.wait_stream if e.args else None for e in events], -1)
        return table

    def _instant(self, events: list[Event]) -> Table:
        table = self._host(events)
        args = [e.args or _NO_ARGS for e in events]
        table["device_type"] = self._ints([a.device_type for a in args], 0)
        table["device"] = self._ints([a.device_id for a in args], -1)
        table["bytes"] = self._ints([a.memory_bytes for a in args], 0)
        table["allocated"] = self._ints([a.allocated for a in args], -1)
        table["reserved"] = self._ints([a.reserved for a in args], -1)
        # Addresses are unsigned; folded into int64, equal addresses stay equal.
        folded = [a.address & _WORD if isinstance(a.address, int) else 0 for a in args]
        table["address"] = np.array(folded, np.uint64).astype(np.int64)
        return table


def _end_at(table: Table, ends: Array) -> None:
    """Make durations of the numbers of ends, in place."""
    end = ends[table["dur"]]
    table["dur"] = np.where(end == MISSING, 0, end - table["ts"])
    table["ts"] = np.where(end == MISSING, MISSING, table["ts"])


_WORD = (1 << 64) - 1


def _generated(args: Args) -> str:
    """The file of generated code and the sizes chosen for it, a line each."""
    parts = (args.kernel_file, args.kernel_kwargs) if args.kernel_kwargs else (args.kernel_file,)
    return "\n".join(" ".join(f"{part}".split("\n")) for part in parts)


def _group_text(raw: msgspec.Raw) -> str:
    """The ranks of a group as text: newer exporters quote the list, older ones do not."""
    return bytes(raw)[:4096].decode("utf-8", "replace").strip('"')


def _time(raw: msgspec.Raw) -> Times | None:
    """The times of one event, exact; None where they are no numbers."""
    try:
        return ONE_TIME.decode(raw)
    except BROKEN:
        return None


class _Sinks(dict[str | type[Event] | None, Callable[[Event], None]]):
    """Category, or struct of its usual events -> where its events go. Unknown ones are counted, flows and metadata passed over."""

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self._columns = columns
        self._lists: dict[str, list[Event]] = {}

    def close(self) -> None:
        """Let go of all events. The bound methods in here make a cycle, and no collector runs while a trace is read."""
        self.clear()
        self._lists.clear()

    def empty(self) -> None:
        """Let go of the events so far."""
        for batch in self._lists.values():
            batch.clear()

    def __missing__(self, kind: str | type[Event] | None) -> Callable[[Event], None]:
        if isinstance(kind, type):
            sink = self[kind] = self[category(kind)]
            return sink
        key = (kind or "").lower()
        group = GROUPS.get(key) if key else None
        self._columns.early |= key == EARLY
        if group is None and key:
            group = accelerators.group_of(key)
            self._columns.accelerator = self._columns.accelerator or accelerators.name_of(key)
        if not key:
            sink = self._bare
        elif key == COUNTERS:
            sink = self._range
        elif group == "" or (group == links.FLOW and not self._columns.ties):
            sink = _ignore
        elif group is None:
            sink = self._strange
        elif group == "instant":
            sink = self._instant
        else:
            sink = self._lists.setdefault(group, []).append
        self[kind] = sink
        return sink

    def _bare(self, event: Event) -> None:
        """Events without a category: metadata, marks, memory instants of 2021, and all of a legacy export."""
        if event.ph == "X" and event.name:
            self._lists.setdefault("op", []).append(event)
        elif event.ph == "i":
            self._instant(event)
        elif not event.ph:
            self._columns.shapeless += 1

    def _instant(self, event: Event) -> None:
        if event.name in ("[memory]", "[OutOfMemory]"):
            self._lists.setdefault("instant", []).append(event)

    def _range(self, _: Event) -> None:
        self._columns.counter_ranges += 1

    def _strange(self, event: Event) -> None:
        self._count((event.cat or "")[:80])

    def _count(self, key: str) -> None:
        counts = self._columns.unknown
        if key in counts or len(counts) < MOST_UNKNOWN:
            counts[key] = counts.get(key, 0) + 1

    def lists(self) -> list[tuple[str, list[Event]]]:
        """Group -> events, of which all are usual."""
        return list(self._lists.items())

    def batches(self) -> list[tuple[str, list[Event]]]:
        """Group -> events, complete (``X``) ones only where the group has durations; others are counted as unknown."""
        out = []
        for group, batch in self._lists.items():
            if group not in ("instant", links.FLOW) and [e.ph for e in batch].count("X") < len(batch):
                for event in batch:
                    if event.ph != "X":
                        self._count(f"{(event.cat or '')[:80]} with ph {(event.ph or '')[:20]}")
                batch = [e for e in batch if e.ph == "X"]
            out.append((group, batch))
        return out


def _ignore(event: Event) -> None:
    """Flows, counters and metadata: nothing that a frame needs."""
