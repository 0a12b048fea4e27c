"""Tables of what ran on the GPU and what the host waited for: classes, kernels, copies, synchronizations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from advisor.intervals import Bools, Ints
from advisor.results.field import Cell
from advisor.results.views import Grid, Heading
from advisor.views.grid import Groups, Labels, Values, counted_rows, extent_note, ms, of_places, table

if TYPE_CHECKING:
    from advisor.columns import Columns
    from advisor.trace import Trace


Column = tuple[Heading, Sequence[Cell]]


def classes(trace: Trace) -> Grid:
    """Kernels by class, with what of each ran on Tensor Cores."""
    frame, keep, labels = _rows(trace, "kernels")
    kind = labels("class")
    dur = frame["dur_ns"].to_numpy()[keep]
    yes, unknown = _tensor_cores(frame, keep)
    groups = Groups(kind.codes)
    time = groups.sum(dur)
    on, unsaid = groups.sum(np.where(yes, dur, 0)), groups.sum(np.where(unknown, dur, 0))
    silent = groups.sum(unknown.astype(np.int64)) == groups.sizes()
    on_cores = [None if blank else value for blank, value in zip(silent.tolist(), ms(on), strict=True)]
    columns = [
        _column("class", kind.cells(kind.codes[groups.first]), "what the kernels do, by their names"),
        _column("kernels", groups.sizes().tolist(), unit="count"),
        _column("GPU time", ms(time), "their durations, summed", unit="ms"),
        _column("share", _shares(time), "of all kernel time", unit="share"),
        _column("on Tensor Cores", on_cores, "of that time; missing where no name says", unit="ms"),
        _column("unsaid", ms(unsaid), "of that time: in kernels whose names do not say", unit="ms"),
    ]
    return table(columns, time, extent_note(trace))


def kernels(trace: Trace) -> Grid:
    """Kernels by name."""
    frame, keep, labels = _rows(trace, "kernels")
    name, kind, dtype, op, module = (labels(column) for column in ("name", "class", "dtype", "op", "module"))
    dur = frame["dur_ns"].to_numpy()[keep]
    yes, unknown = _tensor_cores(frame, keep)
    groups = Groups(name.codes)
    time, count = groups.sum(dur), groups.sizes()
    first = groups.first
    names = [name.text(code) or "(no name)" for code in name.codes[first].tolist()]
    means = [total / n / 1e6 for total, n in zip(time.tolist(), count.tolist(), strict=True)]
    on_cores = [None if no else bool(tc) for no, tc in zip(unknown[first].tolist(), yes[first].tolist(), strict=True)]
    blocks = groups.mean(frame["blocks_per_sm"].to_numpy()[keep], dur)
    occupancy = [None if v is None else v / 100 for v in groups.mean(frame["occupancy"].to_numpy()[keep], dur)]
    formats, ops, modules = (part.cells(groups.heaviest(part.codes, dur)) for part in (dtype, op, module))
    columns = [
        _column("kernel", names, "its name"),
        _column("class", kind.cells(kind.codes[first]), "what it does, by its name"),
        _column("dtype", formats, "number format, by its name, else by its operator's operands"),
        _column("calls", count.tolist(), unit="count"),
        _column("total", ms(time), "durations, summed", unit="ms"),
        _column("share", _shares(time), "of all kernel time", unit="share"),
        _column("mean", means, "mean duration", unit="ms"),
        _column("max", ms(groups.most(dur)), "longest duration", unit="ms"),
        _column("Tensor Cores", on_cores, "whether it runs on them; missing where the name does not say"),
        _column("blocks per SM", blocks, "mean by duration", unit="count"),
        _column("occupancy", occupancy, "estimated by the profiler; mean by duration", unit="share"),
        _column("operator", ops, "the operator that launched most of its time"),
        _column("module", modules, "the nn.Module that launched most of its time"),
    ]
    return table(columns, time, extent_note(trace))


def copies(trace: Trace) -> Grid:
    """Copies by direction, memory, operator and place in the source."""
    frame, keep, labels = _rows(trace, "copies")
    way, memory, op = (labels(column) for column in ("direction", "host_memory", "op"))
    place, places = of_places(frame, keep)
    dur = frame["dur_ns"].to_numpy()[keep]
    size = frame["bytes"].to_numpy(np.int64, na_value=-1)[keep]
    groups = Groups(way.codes, memory.codes, op.codes, place)
    first = groups.first
    time = groups.sum(dur)
    known = size >= 0
    moved, any_known = groups.sum(np.where(known, size, 0)), groups.sum(known.astype(np.int64)) > 0
    timed = known & (dur > 0)
    fast_bytes, fast_time = groups.sum(np.where(timed, size, 0)), groups.sum(np.where(timed, dur, 0))
    sizes = [
        value / 1e6 if has_size else None for value, has_size in zip(moved.tolist(), any_known.tolist(), strict=True)
    ]
    rates = [value / ns if ns else None for value, ns in zip(fast_bytes.tolist(), fast_time.tolist(), strict=True)]
    blocking = groups.sum(frame["blocking"].to_numpy()[keep].astype(np.int64)).tolist()
    exposed = ms(groups.sum(frame["exposed_ns"].to_numpy()[keep]))
    directions = "HtoD: host to device; DtoH: device to host; DtoD, PtoP: between devices"
    columns = [
        _column("direction", way.cells(way.codes[first]), directions),
        _column("host memory", memory.cells(memory.codes[first]), "pageable or pinned; missing between devices"),
        _column("operator", op.cells(op.codes[first]), "the operator that copies"),
        _column("place", _places(place[first], places), "in the source"),
        _column("copies", groups.sizes().tolist(), unit="count"),
        _column("size", sizes, "bytes moved, in millions; missing where unknown", unit="MB"),
        _column("GPU time", ms(time), "durations, summed", unit="ms"),
        _column("rate", rates, "bytes over duration, together", unit="GB/s"),
        _column("blocking", blocking, "of the copies: the host waited for them", unit="count"),
        _column("exposed", exposed, "of the GPU time: no kernel ran meanwhile", unit="ms"),
    ]
    return table(columns, time, extent_note(trace))


def syncs(trace: Trace) -> Grid:
    """Calls in which the host waits for the device, by place in the source."""
    frame, keep, labels = _rows(trace, "syncs")
    kind, name, op = (labels(column) for column in ("kind", "name", "op"))
    place, places = of_places(frame, keep)
    groups = Groups(kind.codes, name.codes, op.codes, place)
    first = groups.first
    wait, idle, cost = (groups.sum(frame[column].to_numpy()[keep]) for column in ("dur_ns", "bubble_ns", "cost_ns"))
    kinds = "scalar: a value read back; copy: a blocking copy; explicit; event; allocator; profiler: its own stop"
    columns = [
        _column("place", _places(place[first], places), "in the source"),
        _column("kind", kind.cells(kind.codes[first]), kinds),
        _column("operator", op.cells(op.codes[first]), "the operator that waits"),
        _column("call", name.cells(name.codes[first]), "the runtime call"),
        _column("waits", groups.sizes().tolist(), unit="count"),
        _column("host waits", ms(wait), "durations of the calls, summed", unit="ms"),
        _column("GPU idle after", ms(idle), "until the GPU's next work, summed", unit="ms"),
        _column("cost", ms(cost), "idle time of the GPU that the wait owns", unit="ms"),
    ]
    return table(columns, wait + idle, extent_note(trace))


def _column(name: str, cells: Sequence[Cell], meaning: str = "", *, unit: str = "") -> Column:
    return Heading(name=name, unit=unit, meaning=meaning), cells


def _rows(trace: Trace, name: str) -> tuple[Columns, Bools, Callable[[str], Labels]]:
    """Return a frame, the flags of its rows that count, and the labels of these by column."""
    frame = trace.columns(name)
    keep = counted_rows(trace, frame)
    return frame, keep, lambda column: Labels(frame[column]).where(keep)


def _places(codes: Ints, places: Sequence[str]) -> list[str | None]:
    return [places[code] if code >= 0 else None for code in codes.tolist()]


def _tensor_cores(frame: Columns, keep: Bools) -> tuple[Bools, Bools]:
    """Flag the kernels that ran on Tensor Cores, and those of which that is unknown."""
    column = frame["tensor_cores"]
    return column.to_numpy(np.bool_, na_value=False)[keep], column.isna()[keep]


def _shares(time: Values) -> list[float | None]:
    total = int(time.sum())
    return [value / total if total else None for value in time.tolist()]
