"""Events to columns: each group of categories becomes a handful of arrays, chunk by chunk.

All times leave here as int64 ns on the trace's own clock. Strings become codes into one table of names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.reading.events import GROUPS, TIMES, Args, Event, Times

Array = npt.NDArray[Any]
Table = dict[str, Array]

MISSING = np.iinfo(np.int64).min
# Below 2**43 us (three months, what baseTimeNanoseconds leaves) the double nearest to a decimal of three places is less
# than half a ns off, so rounding gives the ns back exactly. Above, the decimal text itself has to be read.
EXACT_FLOAT_US = float(1 << 43)
_MAX_US = 9.0e15
_NO_ARGS = Args()


class NeedExact(Exception):
    """A chunk holds timestamps that a float64 cannot hold."""


class Codes(dict[Any, int]):
    """Value -> code, numbered in order of first sight."""

    def __missing__(self, key: Any) -> int:
        code = self[key] = len(self)
        return code


class Threads(dict[Any, int]):
    """``tid`` in any spelling -> int64. Text that holds no number gets a number of its own, far below any real id."""

    def __missing__(self, key: Any) -> int:
        number = -(1 << 40) - len(self)
        if isinstance(key, str):
            digits = key.rsplit(" ", 1)[-1]
            if digits.lstrip("-").isdigit() and len(digits) < 19:
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
    return ns if abs(ns) < 1 << 62 else MISSING


class Columns:
    """Accumulates events into columns."""

    def __init__(self) -> None:
        self.names = Codes()
        self.stacks = Codes()
        self.raws = Codes()
        self.texts = Codes()
        self.threads = Threads()
        self.events = 0
        self.coerced = 0
        self.unknown: dict[str, int] = {}
        self.exact = False
        self._parts: dict[str, list[Table]] = {}
        self._sinks: dict[str | None, list[Event]] = {}
        self._take: dict[str, Callable[[list[Event]], Table]] = {
            "op": self._op,
            "annotation": self._op,
            "python": self._host,
            "runtime": self._runtime,
            "kernel": self._kernel,
            "copy": self._copy,
            "memset": self._copy,
            "gpu_annotation": self._gpu,
            "instant": self._instant,
            "overhead": self._host,
            "device_sync": self._device_sync,
            "span": self._host,
        }

    def add(self, events: list[Event], text: bytes | None = None) -> None:
        """Take *events* in; *text* is the chunk they were decoded from, read again where times need it."""
        if self.exact and text is not None:
            self._make_exact(events, text)
        sinks = _Sinks(self)
        for event in events:
            sinks[event.cat](event)
        try:
            taken = [(group, self._take[group](batch)) for group, batch in sinks.batches() if batch]
        except NeedExact:
            self.exact = True
            if text is None:
                raise
            self.add(events, text)
            return
        for group, table in taken:
            self._parts.setdefault(group, []).append(table)
        self.events += len(events)

    @staticmethod
    def _make_exact(events: list[Event], text: bytes) -> None:
        times: list[Times] = TIMES.decode(text)
        for event, exact in zip(events, times, strict=True):
            event.ts, event.dur = exact.ts, exact.dur  # type: ignore[assignment]

    def finish(self) -> dict[str, Table]:
        """The columns of every group, in file order; rows without a usable start are dropped and counted."""
        tables: dict[str, Table] = {}
        for group in self._take:
            parts = self._parts.pop(group, [])
            if not parts:
                continue
            table = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
            bad = table["ts"] == MISSING
            if bad.any():
                self.coerced += int(bad.sum())
                table = {key: column[~bad] for key, column in table.items()}
            if len(table["ts"]):
                tables[group] = table
        return tables

    # ---- columns of each group

    def _times(self, values: list[Any], missing: int) -> Array:
        try:
            array = np.array(values)
        except (ValueError, OverflowError):
            array = np.array(values, dtype=object)
        kind = array.dtype.kind
        if kind == "i" and (not len(array) or np.abs(array).max() < _MAX_US):
            return array.astype(np.int64) * 1000
        if kind == "f" and np.isfinite(array).all():
            top = float(np.abs(array).max()) if len(array) else 0.0
            if top < EXACT_FLOAT_US:
                return np.rint(array * 1000.0).astype(np.int64)
            if not self.exact and top < _MAX_US:
                raise NeedExact
        ns = np.array([to_ns(value) for value in values], np.int64)
        lost = ns == MISSING
        if missing != MISSING:
            ns[lost] = missing
            self.coerced += sum(1 for value, gone in zip(values, lost, strict=True) if gone and value is not None)
        return ns

    def _ints(self, values: Sequence[Any], default: int) -> Array:
        try:
            return np.array([default if v is None else v for v in values], np.int64)
        except (TypeError, ValueError, OverflowError):
            out = np.full(len(values), default, np.int64)
            for at, value in enumerate(values):
                try:
                    out[at] = default if value is None else int(value)
                except (TypeError, ValueError, OverflowError):
                    self.coerced += 1
            return out

    def _floats(self, values: Sequence[Any]) -> Array:
        try:
            return np.array([np.nan if v is None else v for v in values], np.float64)
        except (TypeError, ValueError, OverflowError):
            out = np.full(len(values), np.nan)
            for at, value in enumerate(values):
                try:
                    out[at] = np.nan if value is None else float(value)
                except (TypeError, ValueError, OverflowError):
                    self.coerced += 1
            return out

    def _host(self, events: list[Event]) -> Table:
        names, threads = self.names, self.threads
        return {
            "name": np.array([names[e.name or ""] for e in events], np.int32),
            "thread": np.array([threads[e.tid] for e in events], np.int64),
            "ts": self._times([e.ts for e in events], MISSING),
            "dur": self._times([e.dur for e in events], 0),
        }

    def _op(self, events: list[Event]) -> Table:
        args = [e.args or _NO_ARGS for e in events]
        stacks, raws, texts = self.stacks, self.raws, self.texts
        table = self._host(events)
        table["sequence"] = self._ints([a.sequence for a in args], -1)
        table["forward_thread"] = self._ints([a.forward_thread for a in args], -1)
        table["dims"] = np.array([raws[bytes(a.dims) or bytes(a.dims_old)] for a in args], np.int32)
        table["types"] = np.array([raws[bytes(a.types)] for a in args], np.int32)
        table["stack"] = np.array([stacks[a.stack or ""] for a in args], np.int32)
        table["collective"] = np.array([texts[a.collective or ""] for a in args], np.int32)
        if any(a.collective for a in args):
            table["comm_dtype"] = np.array([texts[a.comm_dtype or ""] for a in args], np.int32)
            table["group_name"] = np.array([texts[a.group_name or ""] for a in args], np.int32)
            table["in_elements"] = self._ints([a.in_elements for a in args], -1)
            table["out_elements"] = self._ints([a.out_elements for a in args], -1)
            table["group_size"] = self._ints([a.group_size for a in args], -1)
        else:
            blank = np.full(len(args), texts[""], np.int32)
            none = np.full(len(args), -1, np.int64)
            table |= {"comm_dtype": blank, "group_name": blank, "in_elements": none, "out_elements": none}
            table["group_size"] = none
        return table

    def _runtime(self, events: list[Event]) -> Table:
        table = self._host(events)
        args = [e.args or _NO_ARGS for e in events]
        table["correlation"] = self._ints([a.correlation for a in args], -1)
        return table

    def _gpu(self, events: list[Event]) -> Table:
        table = self._host(events)
        args = [e.args or _NO_ARGS for e in events]
        # The device and stream are args of the event; pid and tid repeat them ("stream 7" in 2021) and stand in.
        pids = [self.threads[e.pid] for e in events]
        table["device"] = self._ints([p if a.device is None else a.device for a, p in zip(args, pids, strict=True)], 0)
        tids = table["thread"].tolist()
        table["stream"] = self._ints([t if a.stream is None else a.stream for a, t in zip(args, tids, strict=True)], 0)
        table["correlation"] = self._ints([a.correlation for a in args], -1)
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
        table["grid"] = np.array([raws[bytes(a.grid)] for a in args], np.int32)
        table["block"] = np.array([raws[bytes(a.block)] for a in args], np.int32)
        table["blocks_per_sm"] = self._floats([a.blocks_per_sm for a in args])
        table["warps_per_sm"] = self._floats([a.warps_per_sm for a in args])
        table["occupancy"] = self._floats([a.occupancy for a in args])
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


_WORD = (1 << 64) - 1


class _Sinks(dict[str | None, Callable[[Event], None]]):
    """Category -> where its events go. Unknown categories are counted, flows and metadata passed over."""

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self._columns = columns
        self._lists: dict[str, list[Event]] = {}

    def __missing__(self, category: str | None) -> Callable[[Event], None]:
        key = (category or "").lower()
        group = GROUPS.get(key) if key else None
        if not key:
            sink: Callable[[Event], None] = self._bare
        elif group == "":
            sink = _ignore
        elif group is None:
            sink = self._strange
        elif group == "instant":
            sink = self._instant
        else:
            sink = self._lists.setdefault(group, []).append
        self[category] = sink
        return sink

    def _bare(self, event: Event) -> None:
        """Events without a category: metadata, marks, memory instants of 2021, and all of a legacy export."""
        if event.ph == "X" and event.name:
            self._lists.setdefault("op", []).append(event)
        elif event.ph == "i":
            self._instant(event)

    def _instant(self, event: Event) -> None:
        if event.name in ("[memory]", "[OutOfMemory]"):
            self._lists.setdefault("instant", []).append(event)

    def _strange(self, event: Event) -> None:
        counts = self._columns.unknown
        key = (event.cat or "")[:80]
        if key in counts or len(counts) < 20:
            counts[key] = counts.get(key, 0) + 1

    def batches(self) -> list[tuple[str, list[Event]]]:
        """Group -> events, complete (``X``) ones only where the group has durations."""
        out = []
        for group, batch in self._lists.items():
            if group != "instant" and any(e.ph != "X" for e in batch):
                batch = [e for e in batch if e.ph == "X"]
            out.append((group, batch))
        return out


def _ignore(event: Event) -> None:
    """Flows, counters and metadata: nothing that a frame needs."""
