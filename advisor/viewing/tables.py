"""Tables of what ran on the GPU and what the host waited for: classes, kernels, copies, synchronizations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.intervals import Bools
from advisor.viewing.grid import Groups, Labels, Values, counted, ms, of_places, spoken_extent, table
from advisor.views import Grid, Heading

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
    columns: list[list[Any]] = [
        [kind.text(code) for code in kind.codes[groups.first].tolist()],
        groups.sizes().tolist(),
        ms(time),
        _shares(time),
        [None if none else value for none, value in zip(silent.tolist(), ms(on), strict=True)],
        ms(unsaid),
    ]
    headings = [
        Heading(name="class", meaning="what the kernels do, by their names"),
        Heading(name="kernels", unit="count"),
        Heading(name="GPU time", unit="ms", meaning="their durations, summed"),
        Heading(name="share", unit="share", meaning="of all kernel time"),
        Heading(name="on Tensor Cores", unit="ms", meaning="of that time; missing where no name says"),
        Heading(name="unsaid", unit="ms", meaning="of that time: in kernels whose names do not say"),
    ]
    return table(headings, columns, time, spoken_extent(trace))


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
    columns: list[list[Any]] = [
        [name.text(code) or "(no name)" for code in name.codes[first].tolist()],
        [kind.text(code) for code in kind.codes[first].tolist()],
        [dtype.text(code) for code in groups.heaviest(dtype.codes, dur).tolist()],
        count.tolist(),
        ms(time),
        _shares(time),
        [total / n / 1e6 for total, n in zip(time.tolist(), count.tolist(), strict=True)],
        ms(groups.most(dur)),
        [None if no else bool(tc) for no, tc in zip(unknown[first].tolist(), yes[first].tolist(), strict=True)],
        groups.mean(frame["blocks_per_sm"].to_numpy()[keep], dur),
        [None if v is None else v / 100 for v in groups.mean(frame["occupancy"].to_numpy()[keep], dur)],
        [op.text(code) for code in groups.heaviest(op.codes, dur).tolist()],
        [module.text(code) for code in groups.heaviest(module.codes, dur).tolist()],
    ]
    headings = [
        Heading(name="kernel", meaning="its name"),
        Heading(name="class", meaning="what it does, by its name"),
        Heading(name="dtype", meaning="number format, by its name, else by its operator's operands"),
        Heading(name="calls", unit="count"),
        Heading(name="total", unit="ms", meaning="durations, summed"),
        Heading(name="share", unit="share", meaning="of all kernel time"),
        Heading(name="mean", unit="ms", meaning="mean duration"),
        Heading(name="max", unit="ms", meaning="longest duration"),
        Heading(name="Tensor Cores", meaning="whether it runs on them; missing where the name does not say"),
        Heading(name="blocks per SM", unit="count", meaning="mean by duration"),
        Heading(name="occupancy", unit="share", meaning="estimated by the profiler; mean by duration"),
        Heading(name="operator", meaning="the operator that launched most of its time"),
        Heading(name="module", meaning="the nn.Module that launched most of its time"),
    ]
    return table(headings, columns, time, spoken_extent(trace))


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
    columns: list[list[Any]] = [
        [way.text(code) for code in way.codes[first].tolist()],
        [memory.text(code) for code in memory.codes[first].tolist()],
        [op.text(code) for code in op.codes[first].tolist()],
        [places[code] if code >= 0 else None for code in place[first].tolist()],
        groups.sizes().tolist(),
        [value / 1e6 if told else None for value, told in zip(moved.tolist(), any_known.tolist(), strict=True)],
        ms(time),
        [value / ns if ns else None for value, ns in zip(fast_bytes.tolist(), fast_time.tolist(), strict=True)],
        groups.sum(frame["blocking"].to_numpy()[keep].astype(np.int64)).tolist(),
        ms(groups.sum(frame["exposed_ns"].to_numpy()[keep])),
    ]
    headings = [
        Heading(name="direction", meaning="HtoD: host to device; DtoH: device to host; DtoD, PtoP: between devices"),
        Heading(name="host memory", meaning="pageable or pinned; missing between devices"),
        Heading(name="operator", meaning="the operator that copies"),
        Heading(name="place", meaning="in the source"),
        Heading(name="copies", unit="count"),
        Heading(name="size", unit="MB", meaning="bytes moved, in millions; missing where unknown"),
        Heading(name="GPU time", unit="ms", meaning="durations, summed"),
        Heading(name="rate", unit="GB/s", meaning="bytes over duration, together"),
        Heading(name="blocking", unit="count", meaning="of the copies: the host waited for them"),
        Heading(name="exposed", unit="ms", meaning="of the GPU time: no kernel ran meanwhile"),
    ]
    return table(headings, columns, time, spoken_extent(trace))


def syncs(trace: Trace) -> Grid:
    """Calls in which the host waits for the device, by place in the source."""
    frame, keep = _rows(trace, "syncs")
    kind, name, op = (Labels(frame[column]).where(keep) for column in ("kind", "name", "op"))
    place, places = of_places(frame, keep)
    groups = Groups(kind.codes, name.codes, op.codes, place)
    first = groups.first
    wait = groups.sum(frame["dur_ns"].to_numpy()[keep])
    idle = groups.sum(frame["bubble_ns"].to_numpy()[keep])
    columns: list[list[Any]] = [
        [places[code] if code >= 0 else None for code in place[first].tolist()],
        [kind.text(code) for code in kind.codes[first].tolist()],
        [op.text(code) for code in op.codes[first].tolist()],
        [name.text(code) for code in name.codes[first].tolist()],
        groups.sizes().tolist(),
        ms(wait),
        ms(idle),
        ms(groups.sum(frame["cost_ns"].to_numpy()[keep])),
    ]
    headings = [
        Heading(name="place", meaning="in the source"),
        Heading(
            name="kind",
            meaning="scalar: a value read back; copy: a blocking copy; explicit; event; allocator; "
            "profiler: its own stop",
        ),
        Heading(name="operator", meaning="the operator that waits"),
        Heading(name="call", meaning="the runtime call"),
        Heading(name="waits", unit="count"),
        Heading(name="host waits", unit="ms", meaning="durations of the calls, summed"),
        Heading(name="GPU idle after", unit="ms", meaning="until the GPU's next work, summed"),
        Heading(name="cost", unit="ms", meaning="idle time of the GPU that the wait owns"),
    ]
    return table(headings, columns, wait + idle, spoken_extent(trace))


def _rows(trace: Trace, name: str) -> tuple[pd.DataFrame, Bools]:
    frame = trace.frame(name)
    return frame, counted(trace, frame)


def _tensor_cores(frame: pd.DataFrame, keep: Bools) -> tuple[Bools, Bools]:
    """Which kernels ran on Tensor Cores, and of which that is unknown."""
    column = frame["tensor_cores"]
    return column.to_numpy(np.bool_, na_value=False)[keep], column.isna().to_numpy()[keep]


def _shares(time: Values) -> list[float | None]:
    whole = int(time.sum())
    return [value / whole if whole else None for value in time.tolist()]
