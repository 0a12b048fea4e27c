"""Sites of a trace: who owns the typical step, by place in the program, so that two programs can be paired.

A step is divided as the ledger divides it. The typical step is the median of the steps, which is none of them in particular:
it is a weighted sum of all, with the weights nearest to even ones that give it exactly, and so are its sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from advisor.frames import FRAMES
from advisor.intervals import Bools, Ints, coded, fetch, summed, without
from advisor.results.sites import Site, Sites
from advisor.timeline.kernel_names import DTYPES
from advisor.timeline.launch_origin import outermost_ops
from advisor.timeline.ledger import CAUSES, CODE
from advisor.timeline.recording import COPY, MEMSET

if TYPE_CHECKING:
    from advisor.timeline.context import Context
    from advisor.trace import Trace

Floats = npt.NDArray[np.float64]
_MS = 1e6
_MB = 1e6
_LONGEST = 300
_LINKED = 0.5
"""Share of the GPU work that must be linked to its launch for work without one to have been launched before the recording."""


class _Table(Struct):
    """Pieces of time with what tells them apart: columns of codes, and of each code its text."""

    columns: dict[str, tuple[Ints, Sequence[str]]]
    owned: Ints
    """Of each segment, the row of the columns that owns it; rows may own nothing."""
    segments: Ints
    at: Ints
    """Of each row, the place of its step among the chosen ones."""
    dur_ns: Ints
    """Length of each row, hidden or not."""
    mb: Floats | None = None
    limit_ns: Floats | None = None


def sites_of(trace: Trace) -> Sites | None:
    """Collect the sites of the steps that the typical step is taken from; None where there is no steady work."""
    context = trace.context
    ledger = context.ledger
    if not ledger.counted_ns:
        return None
    steps, weights = _weights(context)
    place = np.full(context.recording.step_count + 1, -1, np.int64)
    place[steps] = np.arange(len(steps))
    chosen = np.flatnonzero(ledger.counted & (place[ledger.step] >= 0))
    tables, earlier = _tables(trace, chosen, place)
    sites = [site for table in tables for site in _rows(table, ledger.step, ledger.dur_ns, place, weights)]
    rest = _ms_of(earlier, ledger.step, ledger.dur_ns, place, weights)
    entry = context.recording.device_name(context.device) if context.device >= 0 else None
    return Sites(
        step_ms=context.step_ns / _MS,
        steps=len(steps) if context.recording.steps else 0,
        sites=sorted(sites, key=lambda site: (-site.ms, site.cause, site.module, site.unit, site.kernel, site.shapes)),
        earlier_ms=rest,
        startup_ms=ledger.of_extent()["startup"] / _MS,
        device=(entry or "")[:_LONGEST],
    )


def _weights(context: Context) -> tuple[Ints, Floats]:
    """Return the steps that the typical one is taken from, and a weight for each: with these they add up to it.

    Of all weights that do, those nearest to even ones, and none below 0.
    """
    ledger, recording = context.ledger, context.recording
    counted = ledger.counted_steps()
    length = ledger.step_ns(recording.step_count).astype(np.float64)
    sampled = np.intersect1d(counted, np.flatnonzero(recording.sampled))
    target = context.step_ns
    median = len(sampled) > 0 and bool(recording.steps) and abs(float(np.median(length[sampled])) - target) < 1.0
    steps = sampled if median else counted
    values = length[steps]
    weights = np.full(len(steps), 1.0 / len(steps))
    used = np.ones(len(steps), np.bool_)
    while used.any():
        mean = values[used].mean()
        spread = float(((values[used] - mean) ** 2).sum())
        weights[:] = 0.0
        weights[used] = 1.0 / used.sum() + ((target - mean) / spread * (values[used] - mean) if spread > 0 else 0.0)
        if not (weights < 0).any():
            break
        used &= weights > 0
    total = float(weights @ values)
    return steps, weights * (target / total) if total > 0 else weights


def _ms_of(segments: Ints, step: Ints, dur: Ints, place: Ints, weights: Floats) -> float:
    return float((dur[segments] * weights[place[step[segments]]]).sum()) / _MS


def _tables(trace: Trace, chosen: Ints, place: Ints) -> tuple[list[_Table], Ints]:
    """Divide the chosen segments among tables of work, of waits, and of what is known by its cause alone.

    Returned beside are the segments of work that was launched before the window.
    """
    context = trace.context
    ledger = context.ledger
    owned = chosen[ledger.busy[chosen] & (ledger.row[chosen] >= 0)]
    tables, earlier = [], owned[:0]
    if context.cpu_program:
        tables.append(_operators(trace, owned, place))
    else:
        late = _launched_before(context)
        early = late[ledger.row[owned]]
        earlier, owned = owned[early], owned[~early]
        tables.append(_work(trace, owned, place, late))
    calls, held = _calls(trace, without(chosen, np.concatenate([owned, earlier])), place)
    waits, taken = _gaps(trace, without(chosen, held), place)
    tables += [calls, waits]
    left = without(chosen, np.concatenate([owned, earlier, held, taken]))
    cause = (ledger.cause[left], CAUSES)
    tables.append(_Table({"cause": cause}, np.arange(len(left)), left, place[ledger.step[left]], ledger.dur_ns[left]))
    return tables, earlier


def _launched_before(context: Context) -> Bools:
    """Flag GPU work that was launched before the first step began, or before the recording did."""
    recording = context.recording
    work, steps = recording.work, recording.steps
    linked = work.launch >= 0
    late = np.zeros(len(work), np.bool_)
    if not steps or not len(work) or linked.mean() < _LINKED:
        return late
    launched = fetch(recording.host.start, work.launch)
    late[linked] = launched[linked] < steps[0].start
    first = np.flatnonzero(linked & ~late)
    if len(first):
        late |= ~linked & (work.start < work.start[first[0]])
    return late


def _work(trace: Trace, owned: Ints, place: Ints, late: Bools) -> _Table:
    """Make the table of GPU work: all that runs in the chosen steps on the device, also what owns nothing."""
    context = trace.context
    recording, ledger = context.recording, context.ledger
    work, host = recording.work, recording.host
    here = np.flatnonzero((work.device == context.device) & ~late)
    here = here[place[recording.step_of(work.start[here])] >= 0]
    rows = np.union1d(here, ledger.row[owned])
    launch = work.launch[rows]
    cause = np.full(len(rows), CODE["compute"], np.int64)
    cause[work.communication[rows]] = CODE["communication"]
    for kind, name in ((COPY, "copy"), (MEMSET, "memset")):
        cause[work.kind[rows] == kind] = CODE[name]
    kernels = context.kernel_rows
    index = np.full(len(work), -1, np.int64)
    index[kernels] = np.arange(len(kernels))
    number = index[rows]
    formats, texts = _numbered(context.kernel_dtypes.to_numpy())
    kinds, words = _numbered(np.array([context.kernel_names[code].kind for code in work.name[kernels]], object))
    columns = {
        "cause": (cause, CAUSES),
        **_origin(context, launch),
        "op": (fetch(host.name, fetch(host.attributes.op, launch)), context.names),
        "kernel": (work.name[rows], context.names),
        "kind": (fetch(kinds, number), words),
        "dtype": (fetch(formats, number), texts),
    }
    step = np.maximum(place[recording.step_of(work.start[rows])], 0)
    back = np.full(len(work), -1, np.int64)
    back[rows] = np.arange(len(rows))
    limits = trace.columns("kernels", ("limit_ns",))["limit_ns"].to_numpy(np.float64, na_value=np.nan)
    limit = np.where(number >= 0, np.append(limits, np.nan)[number], np.nan)
    return _Table(
        columns,
        back[ledger.row[owned]],
        owned,
        step,
        (work.end - work.start)[rows],
        _megabytes(trace, rows),
        limit,
    )


def _numbered(values: npt.NDArray[np.object_]) -> tuple[Ints, list[str]]:
    """Return texts as codes into a table of them; -1 for None."""
    texts: dict[object, int] = {}
    numbers = [-1 if value is None else texts.setdefault(value, len(texts)) for value in values.tolist()]
    return np.array(numbers, np.int64), [str(text) for text in texts]


def _origin(context: Context, node: Ints) -> dict[str, tuple[Ints, Sequence[str]]]:
    """Return the columns on the place that some forest nodes are called from."""
    host = context.recording.host
    user = fetch(host.attributes.user, node)
    places = host.places
    return {
        "phase": (
            np.where(node >= 0, context.phases(node), -1),
            ("forward", "backward", "optimizer", "zero_grad", "other"),
        ),
        "module": (fetch(host.attributes.module, node), host.module_paths),
        "file": (user, [entry.file for entry in places]),
        "function": (user, [entry.function for entry in places]),
        "line": (user, [str(entry.line) for entry in places]),
        "unit": (outermost_ops(context, node), context.names),
        "shapes": (context.op_column(node, "dims"), context.shape_texts),
    }


def _megabytes(trace: Trace, rows: Ints) -> Floats:
    """Return the MB that each piece of work moves: of copies and collectives; NaN where unknown, and of other work."""
    recording = trace.context.recording
    work = recording.work
    out = np.full(len(rows), np.nan)
    copying = work.kind[rows] == COPY
    if copying.any():
        size = recording.tables["copy"]["bytes"][work.row[rows[copying]]].astype(np.float64)
        out[copying] = np.where(size >= 0, size / _MB, np.nan)
    if work.communication[rows].any():
        table = trace.columns("collectives")
        size = table["bytes"].to_numpy(np.float64, na_value=np.nan) / _MB
        by_start = dict(zip(table["start_ns"].tolist(), size.tolist(), strict=True))
        for at in np.flatnonzero(work.communication[rows]).tolist():
            out[at] = by_start.get(int(work.start[rows[at]]), np.nan)
    return out


def _operators(trace: Trace, owned: Ints, place: Ints) -> _Table:
    """Make the table of operators of a program on the CPU: those of its main thread, which own its time."""
    context = trace.context
    ledger, host = context.ledger, context.recording.host
    rows, back = coded(ledger.row[owned])
    ops = trace.columns("ops")
    node = context.op_rows[rows]
    cause = np.zeros(len(rows), np.int64)
    cause[back] = ledger.cause[owned]
    length = summed(back, ledger.dur_ns[owned], len(rows))
    kind, number_format = ops["kind"], ops["dtype"]
    columns: dict[str, tuple[Ints, Sequence[str]]] = {
        "cause": (cause, CAUSES),
        **_origin(context, node),
        "op": (host.name[node], context.names),
        "kernel": (host.name[node], context.names),
        "kind": (kind.values.astype(np.int64)[rows], kind.words or ()),
        "dtype": (
            number_format.values.astype(np.int64)[rows],
            [DTYPES.get(name, name) for name in number_format.words or ()],
        ),
    }
    first = np.zeros(len(rows), np.int64)
    first[back[::-1]] = place[ledger.step[owned]][::-1]
    limits = ops["limit_ns"].to_numpy(np.float64, na_value=np.nan)[rows]
    return _Table(columns, back, owned, first, length, None, limits)


def _calls(trace: Trace, chosen: Ints, place: Ints) -> tuple[_Table, Ints]:
    """Make the table of waits in calls that the ledger knows: where these are called, not what runs when they end."""
    context = trace.context
    ledger, waits, host = context.ledger, context.waits, context.recording.host
    tables = {
        "loader": waits.loader.node, "sync": waits.syncs.node, "blocking_copy": waits.syncs.node,
        "allocator": waits.allocator.node, "compile": waits.compile.node, "gc": waits.gc.node,
    }  # fmt: skip
    node = np.full(len(ledger.cause), -1, np.int64)
    for cause, nodes in tables.items():
        mine = chosen[(ledger.cause[chosen] == CODE[cause]) & (ledger.row[chosen] >= 0)]
        node[mine] = nodes[ledger.row[mine]]
    segments = chosen[node[chosen] >= 0]
    keys, first, back = np.unique(
        np.stack([ledger.cause[segments], ledger.row[segments]]), axis=1, return_index=True, return_inverse=True
    )
    back = back.ravel()
    at = node[segments[first]]
    op = fetch(host.attributes.op, at)
    origin = _origin(context, at)
    del origin["shapes"]
    columns = {
        "cause": (keys[0], CAUSES),
        **origin,
        "unit": (fetch(host.name, np.where(op >= 0, op, at)), context.names),
    }
    length = summed(back, ledger.dur_ns[segments], len(first))
    return _Table(columns, back, segments, place[ledger.step[segments[first]]], length), segments


_OF_GAPS = {
    "cause": "cause", "phase": "phase", "module": "module", "file": "file", "function": "function", "unit": "op",
    "op": "next_op", "kernel": "holder_function", "kind": "owner",
}  # fmt: skip


def _gaps(trace: Trace, chosen: Ints, place: Ints) -> tuple[_Table, Ints]:
    """Make the table of all other idle stretches, and return the segments that it divides."""
    ledger = trace.context.ledger
    frame = FRAMES["gaps"]
    assert frame.parts is not None  # gaps own segments
    segments, row = frame.parts(trace.context)
    inside = np.isin(segments, chosen)
    segments, row = segments[inside], row[inside]
    rows, back = coded(row)
    gaps = trace.columns("gaps").rows(rows)
    columns: dict[str, tuple[Ints, Sequence[str]]] = {}
    for name, source in _OF_GAPS.items():
        column = gaps[source]
        columns[name] = (column.values.astype(np.int64), column.words or ())
    columns["line"] = _numbered(gaps["line"].to_numpy(np.int64).astype(object))
    length = summed(back, ledger.dur_ns[segments], len(rows))
    first = np.zeros(len(rows), np.int64)
    first[back[::-1]] = place[ledger.step[segments]][::-1]
    return _Table(columns, back, segments, first, length), segments


def _rows(table: _Table, step: Ints, dur: Ints, place: Ints, weights: Floats) -> list[Site]:
    """Sum a table by all that its columns tell apart."""
    if not len(table.at):
        return []
    count = len(weights)
    keys = np.stack([codes for codes, _ in table.columns.values()], axis=1)
    groups, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.ravel()
    size = len(groups)
    cell = group[table.owned] * count + place[step[table.segments]]
    owned = summed(cell, dur[table.segments], size * count).reshape(size, count) / _MS
    ms = owned @ weights
    calls = summed(group, 1, size) / count
    busy = summed(group, table.dur_ns, size) / count / _MS
    mb = _total(table.mb, group, size, count)
    limit = _total(table.limit_ns, group, size, count * _MS)
    names = list(table.columns)
    found = []
    for at, codes in enumerate(groups.tolist()):
        values = {name: table.columns[name][1][code] for name, code in zip(names, codes, strict=True) if code >= 0}
        texts = {name: str(value)[:_LONGEST] for name, value in values.items() if value and name != "line"}
        found.append(
            Site(
                ms=float(ms[at]),
                calls=float(calls[at]),
                busy_ms=float(busy[at]),
                mb=_known(mb[at]),
                limit_ms=_known(limit[at]),
                samples=[round(value, 6) for value in owned[at].tolist()],
                line=int(values.get("line", -1)),
                **texts,
            )
        )
    return found


def _total(values: Floats | None, group: Ints, size: int, divisor: float) -> Floats:
    """Sum values by group; NaN where one is unknown."""
    if values is None:
        return np.full(size, np.nan)
    return np.bincount(group, weights=values, minlength=size) / divisor


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
