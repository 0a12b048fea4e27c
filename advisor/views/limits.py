"""Distance of kernels from what the device can do: figures of a report, weighed by the time that each owns on the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import asdict

from advisor.frames.patterns.find import find
from advisor.intervals import Bools, Ints, coded, fetch, summed
from advisor.regex import regex
from advisor.results.distance import Distance, LineDistance, ModuleDistance, Times
from advisor.results.elsewhere import Unmodelled
from advisor.roofline.limits import MEMORY, Floats, limits
from advisor.roofline.unknown import reasons
from advisor.timeline.context import Context
from advisor.timeline.ledger import BUSY

LISTED = 8
_NUMBER = regex(r"_\d+(?=/|$)")


class Figures(NamedTuple):
    """Shares of the kernels' time, and the classes of kernels with what lies between them and the limit; None where unknown."""

    modelled_share: float | None
    efficiency: float | None
    mfu: float | None
    hfu: float | None
    bandwidth_share: float | None
    distance: list[Distance]
    modules: list[ModuleDistance]
    lines: list[LineDistance]
    unmodelled: list[Unmodelled]


_UNKNOWN = Figures(None, None, None, None, None, [], [], [], [])


def figures(context: Context, returned_ms: float | None = None) -> Figures:
    """Work out the figures of steady work on the busiest device; *returned_ms* is what all kernels at their limits return."""
    found, rows = context.once(limits), context.kernel_rows
    if not len(rows):
        return _UNKNOWN
    own, dur = owned(context)
    total = float(own.sum())
    known = found.known & (own > 0)
    ms = context.step_ns / 1e6 / max(context.ledger.counted_ns, 1)
    lacking = _unmodelled(context, own * ms)
    if not total or not known.any():
        return _UNKNOWN._replace(modelled_share=0.0 if total else None, unmodelled=lacking)
    part = np.where(dur > 0, own / np.maximum(dur, 1.0), 0.0)
    products = np.nan_to_num(found.peak_ns * part) * known
    again = products[recomputed(context, rows)].sum()
    counted, matrix = max(context.ledger.counted_ns, 1), bool(found.matrix[known].any())
    reachable = np.fmin(np.fmax(found.reachable_ns, found.limit_ns) * part, own)[known]
    memory = known & (found.bound == MEMORY)
    moved = float((found.limit_ns[memory] * part[memory]).sum()), float(own[memory].sum())
    return Figures(
        modelled_share=float(own[known].sum()) / total,
        efficiency=float(reachable.sum() / own[known].sum()),
        mfu=float(products.sum() - again) / counted if matrix else None,
        hfu=float(products.sum()) / counted if matrix else None,
        bandwidth_share=min(moved[0] / moved[1], 1.0) if moved[1] else None,
        **_ledger(context, own, part, ms, returned_ms)._asdict(),
        unmodelled=lacking,
    )


def _unmodelled(context: Context, own_ms: Floats) -> list[Unmodelled]:
    """Sum the time of kernels without a limit by the reason, the most first."""
    why = context.once(reasons)
    rows = np.flatnonzero((why.code >= 0) & (own_ms > 0))
    total = np.bincount(why.code[rows], own_ms[rows], len(why.texts))
    order = [at for at in np.argsort(-total, kind="stable").tolist() if total[at] > 0]
    return [Unmodelled(reason=why.texts[at], ms=float(total[at])) for at in order[:LISTED]]


def owned(context: Context) -> tuple[Floats, Floats]:
    """Return of each kernel the ns of steady work that it owns, 0 for communication; and its duration."""
    work, rows, ledger = context.recording.work, context.kernel_rows, context.ledger
    steady = ledger.counted & ledger.through(*BUSY) & (ledger.row >= 0)
    own = summed(ledger.row[steady], ledger.dur_ns[steady], len(work))[rows] * ~work.communication[rows]
    return own.astype(np.float64), (work.end[rows] - work.start[rows]).astype(np.float64)


def recomputed(context: Context, rows: Ints) -> Bools:
    """Flag the kernels of forward work that the backward pass does again."""
    patterns = context.once(find)
    kinds = np.array([found.kind == "recompute" for found in patterns.kinds for _ in range(len(found))], np.bool_)
    if not kinds.any():
        return np.zeros(len(rows), np.bool_)
    flags: Bools = np.isin(rows, patterns.inside.index[kinds[patterns.inside.row]])
    return flags


class _Ledger(NamedTuple):
    """The distance by operator, by module and by line."""

    distance: list[Distance]
    modules: list[ModuleDistance]
    lines: list[LineDistance]


def _ledger(context: Context, own: Floats, part: Floats, ms: float, returned_ms: float | None) -> _Ledger:
    """Divide the distance of the kernels whose limit is known, those first that could return most."""
    found, host = context.once(limits), context.recording.host
    rows = np.flatnonzero(found.known & (own > 0))
    reachable = np.fmax(found.reachable_ns, found.limit_ns)
    weighed = [own[rows] * ms, (found.limit_ns * part)[rows] * ms, (reachable * part)[rows] * ms]
    most = np.inf if returned_ms is None else returned_ms

    def heaviest(codes: Ints) -> list[tuple[int, Times]]:
        """Return the codes of the groups that could return most, with their sums; of rows whose code is -1 none."""
        named = codes >= 0
        distinct, back = coded(codes[named])
        time, limit, reached = (np.bincount(back, values[named], len(distinct)) for values in weighed)
        order = np.argsort(-(time - np.minimum(reached, time)), kind="stable")[:LISTED]
        return [
            (
                int(distinct[at]),
                Times(
                    ms=float(time[at]),
                    limit_ms=float(limit[at]),
                    reachable_ms=float(reached[at]),
                    most_ms=float(min(max(time[at] - limit[at], 0.0), most)),
                ),
            )
            for at in order.tolist()
        ]

    launch = context.recording.work.launch[context.kernel_rows[rows]]
    module = fetch(host.attributes.module, launch)
    paths, kinds = _kinds(host.module_paths, module)
    classes = np.array([kinds.get(path, -1) for path in paths], np.int64)
    names = list(kinds)
    return _Ledger(
        [Distance(op=context.names[code], **asdict(times)) for code, times in heaviest(host.name[found.owner[rows]])],
        [
            ModuleDistance(module=names[code], count=int((classes == code).sum()), **asdict(times))
            for code, times in heaviest(np.append(classes, -1)[module])
        ],
        [
            LineDistance(line=host.places[code].text, **asdict(times))
            for code, times in heaviest(fetch(host.attributes.user, launch))
        ],
    )


def _kinds(paths: Sequence[str], used: Ints) -> tuple[list[str], dict[str, int]]:
    """Return each module's path without the numbers of its parts, '' for those that launch nothing; and a number for each."""
    launching = np.zeros(len(paths) + 1, np.bool_)
    launching[used] = True
    plain = [_NUMBER.sub("", path) if has else "" for path, has in zip(paths, launching.tolist(), strict=False)]
    return plain, {path: at for at, path in enumerate(dict.fromkeys(path for path in plain if path))}
