"""Tables of what ran on the GPU and what the host waited for: classes, kernels, copies, synchronizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from advisor.intervals import Bools
from advisor.results.field import Cell
from advisor.results.views import Grid, Heading
from advisor.views.grid import Groups, Labels, Values, counted_rows, extent_note, ms, of_places, table

if TYPE_CHECKING:
    import pandas as pd

    from advisor.trace import Trace


def classes(trace: Trace) -> Grid:
    """Kernels by class, with what of each ran on Tensor Cores."""
    frame, keep = _rows(trace, "kernels")
    kind = Labels(frame["class"]).where(keep)
    dur = frame["dur_ns"].to_numpy()[keep]
    yes, unknown = _tensor_cores(frame, keep)
    groups = Groups(kind.codes)
    time = groups.sum(dur)
    on, unsaid = groups.sum(np.where(yes, dur, 0)), groups.sum(np.where(unknown, dur, 0))
    silent = groups.sum(unknown.astype(np.int64)) == groups.sizes()
    columns: list[tuple[Heading, Sequence[Cell]]] = [
        (Heading(name="class", meaning="what the kernels do, by their names"), kind.cells(kind.codes[groups.first])),
        (Heading(name="kernels", unit="count"), groups.sizes().tolist()),
        (Heading(name="GPU time", unit="ms", meaning="their durations, summed"), ms(time)),
        (Heading(name="share", unit="share", meaning="of all kernel time"), _shares(time)),
        (
            Heading(name="on Tensor Cores", unit="ms", meaning="of that time; missing where no name says"),
            [None if blank else value for blank, value in zip(silent.tolist(), ms(on), strict=True)],
        ),
        (Heading(name="unsaid", unit="ms", meaning="of that time: in kernels whose names do not say"), ms(unsaid)),
    ]
    return table(columns, time, extent_note(trace))


def kernels(trace: Trace) -> Grid:
    """Kernels by name."""
    frame, keep = _rows(trace, "kernels")
    name = Labels(frame["name"]).where(keep)
    kind, dtype = Labels(frame["class"]).where(keep), Labels(frame["dtype"]).where(keep)
    op, module = Labels(frame["op"]).where(keep), Labels(frame["module"]).where(keep)
    dur = frame["dur_ns"].to_numpy()[keep]
    yes, unknown = _tensor_cores(frame, keep)
    groups = Groups(name.codes)
    time, count = groups.sum(dur), groups.sizes()
    first = groups.first
    columns: list[tuple[Heading, Sequence[Cell]]] = [
        (
            Heading(name="kernel", meaning="its name"),
            [name.text(code) or "(no name)" for code in name.codes[first].tolist()],
        ),
        (Heading(name="class", meaning="what it does, by its name"), kind.cells(kind.codes[first])),
        (
            Heading(name="dtype", meaning="number format, by its name, else by its operator's operands"),
            dtype.cells(groups.heaviest(dtype.codes, dur)),
        ),
        (Heading(name="calls", unit="count"), count.tolist()),
        (Heading(name="total", unit="ms", meaning="durations, summed"), ms(time)),
        (Heading(name="share", unit="share", meaning="of all kernel time"), _shares(time)),
        (
            Heading(name="mean", unit="ms", meaning="mean duration"),
            [total / n / 1e6 for total, n in zip(time.tolist(), count.tolist(), strict=True)],
        ),
        (Heading(name="max", unit="ms", meaning="longest duration"), ms(groups.most(dur))),
        (
            Heading(name="Tensor Cores", meaning="whether it runs on them; missing where the name does not say"),
            [None if no else bool(tc) for no, tc in zip(unknown[first].tolist(), yes[first].tolist(), strict=True)],
        ),
        (
            Heading(name="blocks per SM", unit="count", meaning="mean by duration"),
            groups.mean(frame["blocks_per_sm"].to_numpy()[keep], dur),
        ),
        (
            Heading(name="occupancy", unit="share", meaning="estimated by the profiler; mean by duration"),
            [None if v is None else v / 100 for v in groups.mean(frame["occupancy"].to_numpy()[keep], dur)],
        ),
        (
            Heading(name="operator", meaning="the operator that launched most of its time"),
            op.cells(groups.heaviest(op.codes, dur)),
        ),
        (
            Heading(name="module", meaning="the nn.Module that launched most of its time"),
            module.cells(groups.heaviest(module.codes, dur)),
        ),
    ]
    return table(columns, time, extent_note(trace))


def copies(trace: Trace) -> Grid:
    """Copies by direction, memory, operator and place in the source."""
    frame, keep = _rows(trace, "copies")
    way, memory = Labels(frame["direction"]).where(keep), Labels(frame["host_memory"]).where(keep)
    op = Labels(frame["op"]).where(keep)
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
    columns: list[tuple[Heading, Sequence[Cell]]] = [
        (
            Heading(
                name="direction", meaning="HtoD: host to device; DtoH: device to host; DtoD, PtoP: between devices"
            ),
            way.cells(way.codes[first]),
        ),
        (
            Heading(name="host memory", meaning="pageable or pinned; missing between devices"),
            memory.cells(memory.codes[first]),
        ),
        (Heading(name="operator", meaning="the operator that copies"), op.cells(op.codes[first])),
        (
            Heading(name="place", meaning="in the source"),
            [places[code] if code >= 0 else None for code in place[first].tolist()],
        ),
        (Heading(name="copies", unit="count"), groups.sizes().tolist()),
        (
            Heading(name="size", unit="MB", meaning="bytes moved, in millions; missing where unknown"),
            [
                value / 1e6 if has_size else None
                for value, has_size in zip(moved.tolist(), any_known.tolist(), strict=True)
            ],
        ),
        (Heading(name="GPU time", unit="ms", meaning="durations, summed"), ms(time)),
        (
            Heading(name="rate", unit="GB/s", meaning="bytes over duration, together"),
            [value / ns if ns else None for value, ns in zip(fast_bytes.tolist(), fast_time.tolist(), strict=True)],
        ),
        (
            Heading(name="blocking", unit="count", meaning="of the copies: the host waited for them"),
            groups.sum(frame["blocking"].to_numpy()[keep].astype(np.int64)).tolist(),
        ),
        (
            Heading(name="exposed", unit="ms", meaning="of the GPU time: no kernel ran meanwhile"),
            ms(groups.sum(frame["exposed_ns"].to_numpy()[keep])),
        ),
    ]
    return table(columns, time, extent_note(trace))


def syncs(trace: Trace) -> Grid:
    """Calls in which the host waits for the device, by place in the source."""
    frame, keep = _rows(trace, "syncs")
    kind, name, op = (Labels(frame[column]).where(keep) for column in ("kind", "name", "op"))
    place, places = of_places(frame, keep)
    groups = Groups(kind.codes, name.codes, op.codes, place)
    first = groups.first
    wait = groups.sum(frame["dur_ns"].to_numpy()[keep])
    idle = groups.sum(frame["bubble_ns"].to_numpy()[keep])
    columns: list[tuple[Heading, Sequence[Cell]]] = [
        (
            Heading(name="place", meaning="in the source"),
            [places[code] if code >= 0 else None for code in place[first].tolist()],
        ),
        (
            Heading(
                name="kind",
                meaning="scalar: a value read back; copy: a blocking copy; explicit; event; allocator; "
                "profiler: its own stop",
            ),
            kind.cells(kind.codes[first]),
        ),
        (Heading(name="operator", meaning="the operator that waits"), op.cells(op.codes[first])),
        (Heading(name="call", meaning="the runtime call"), name.cells(name.codes[first])),
        (Heading(name="waits", unit="count"), groups.sizes().tolist()),
        (Heading(name="host waits", unit="ms", meaning="durations of the calls, summed"), ms(wait)),
        (Heading(name="GPU idle after", unit="ms", meaning="until the GPU's next work, summed"), ms(idle)),
        (
            Heading(name="cost", unit="ms", meaning="idle time of the GPU that the wait owns"),
            ms(groups.sum(frame["cost_ns"].to_numpy()[keep])),
        ),
    ]
    return table(columns, wait + idle, extent_note(trace))


def _rows(trace: Trace, name: str) -> tuple[pd.DataFrame, Bools]:
    frame = trace.frame(name)
    return frame, counted_rows(trace, frame)


def _tensor_cores(frame: pd.DataFrame, keep: Bools) -> tuple[Bools, Bools]:
    """Flag the kernels that ran on Tensor Cores, and those of which that is unknown."""
    column = frame["tensor_cores"]
    return column.to_numpy(np.bool_, na_value=False)[keep], column.isna().to_numpy()[keep]


def _shares(time: Values) -> list[float | None]:
    total = int(time.sum())
    return [value / total if total else None for value in time.tolist()]
