"""Steady time that no finding speaks of: what of each cause lies where, so that nothing large goes without a name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from advisor.frames.copies import parse as copied
from advisor.frames.families import families
from advisor.frames.limits import FAR
from advisor.intervals import Bools, Ints, covered, distinct, fetch, summed, union
from advisor.results.elsewhere import Elsewhere, Made
from advisor.roofline import unknown
from advisor.roofline.limits import Floats, limits
from advisor.roofline.reasons import REASONS, told
from advisor.timeline.calls import OP, PHASES
from advisor.timeline.context import Context
from advisor.timeline.cpu import main_thread
from advisor.timeline.launch_origin import launch_behind
from advisor.timeline.ledger import BUSY
from advisor.timeline.marked import outermost_ranges
from advisor.timeline.recording import COPY
from advisor.views import cpu_messages, owners
from advisor.views.collective_owners import collective_owners
from advisor.views.owners import Owner, short_kernel

# Of the steady time: less is not worth a line, and of one cause so many places are.
_LEAST, _MOST = 0.05, 3
# From this share on each place is named, however many there are.
_LARGE = 0.1
# Of a place's time: less tells nothing of it, and less than this only between bounds; and what is worth a name of its own in it.
_MOSTLY, _GREAT = 0.9, 0.75
_PART, _NAMED = 0.05, 4
_IN_PHASE = {
    "forward": "launches of the forward pass",
    "backward": "launches of the backward pass",
    "optimizer": "the optimizer's step",
    "zero_grad": "zero_grad",
}
_SHORT_NS, _SHORT_KERNELS = 10_000, "short kernels (under 10 µs each)"
_BEFORE_COPIES = "what precedes copies to the GPU"


def build(context: Context, whole_ms: float, claims: Iterable[Ints]) -> list[Elsewhere]:
    """Say of each cause, the longest first, where what of it no finding claims lies; *claims* hold each finding's segments."""
    ledger = context.ledger
    whole = ledger.counted_ns
    free = owners.unclaimed(ledger, claims)
    out: list[Elsewhere] = []
    for cause, ns in sorted(owners.by_cause(ledger, free).items(), key=lambda pair: -pair[1]):
        # What is not in the trace lies wherever the host happened to be.
        if ns < _LEAST * whole or (cause == "unknown" and context.lacks_work):
            continue
        chosen = np.flatnonzero(free & ledger.through(cause))
        found = _parts(context, cause, chosen)
        if not found and (one := owners.owner(context, cause, free)) is not None:
            found = [owners.surrounded(context, cause, free, one)]
        if cause == "host" and len(found) == 1 and not context.recording.devices:
            found = _of_operators(context, chosen, found[0])
        large = sorted((part for part in found if part.ns >= _LEAST * whole), key=lambda part: -part.ns)
        named = [part for at, part in enumerate(large) if at < _MOST or part.ns >= _LARGE * whole]
        out += [
            _told(context, cause, part, whole_ms / whole)
            for whole_part in named
            for part in _apart(context, whole_part, whole)
        ]
    return out


def _told(context: Context, cause: str, part: Owner, ms: float) -> Elsewhere:
    """Say of a place what is known of it; *ms* are those of a step for each ns."""
    reached = _reached(context, part)
    made = _made_of(context, part, ms) if reached.unknown else _Made()
    return Elsewhere(
        cause=cause,
        where=part.name,
        ms=part.ns * ms,
        of_reachable=reached.least,
        most_of_reachable=reached.most,
        reason=reached.reason,
        unknown=reached.unknown,
        calls=cpu_messages.calls(context, part.name) if cause == "communication" and context.cpu_program else None,
        kernels=made.kernels,
        short=made.short,
        short_ms=made.short_ms,
        made_of=list(made.of),
    )


def most_of(context: Context, cause: str, segments: Bools) -> Owner | None:
    """Return the owner of most of a cause's time among *segments*: the innermost of which that is true, else the one with most.

    Of collectives the kind and what issued it with most of it: their kernels and operators are the same everywhere.
    """
    chosen = np.flatnonzero(segments & context.ledger.through(cause))
    if _issued(context, cause):
        return max(_parts(context, cause, chosen), key=lambda part: part.ns, default=None)
    found = owners.owner(context, cause, segments)
    if found is None or 2 * found.ns >= int(context.ledger.dur_ns[chosen].sum()):
        return found
    around = max(_parts(context, cause, chosen), key=lambda part: part.ns, default=found)
    return around if 2 * around.ns >= int(context.ledger.dur_ns[chosen].sum()) else found


def _issued(context: Context, cause: str) -> bool:
    """Tell whether a cause is that of collectives on devices which a training step issues."""
    return cause == "communication" and bool(context.recording.devices) and context.training()


def _parts(context: Context, cause: str, segments: Ints) -> list[Owner]:
    """Divide some time of one cause among operators and kinds of kernels, or ranges of the program; nothing where none is known."""
    if (mine := owners.of_harness(context, segments)) is not None:
        return [mine]
    if cause == "communication" and context.cpu_program:
        return cpu_messages.in_flight(context, segments)
    if _issued(context, cause):
        return collective_owners(context, segments, _LEAST * context.ledger.counted_ns)
    if cause in BUSY and not context.cpu_program and context.recording.devices:
        return _of_work(context, segments)
    if cause in ("host", "unknown", "operator"):
        return _of_ranges(context, segments) or (_of_phases(context, segments) if cause == "host" else [])
    return []


def _of_work(context: Context, segments: Ints) -> list[Owner]:
    """Divide the device's time by the operator that launched the work; what replays launched, or nothing, by kind and name.

    A kind of which most has no operator is counted whole: the same products are not said by two names. Short kernels that no
    operator launched, of kinds that are little each, are named together where they are much together.
    """
    ledger, work, host = context.ledger, context.recording.work, context.recording.host
    row, dur = ledger.row[segments], ledger.dur_ns[segments]
    row, dur = row[row >= 0], dur[row >= 0]
    operator = fetch(host.attributes.op, work.launch[row]) if host.size else np.full(len(row), -1, np.int64)
    replayed = np.isin(work.launch[row], context.graph_nodes)
    known = (operator >= 0) & ~replayed
    known[known] = host.group[operator[known]] == OP
    codes = distinct(work.name[row]).tolist()
    labels = {code: owners.KINDS.get(owners.kind_of(context, code)) for code in codes}
    own, without = (summed(work.name[row[rows]], dur[rows], len(context.names)) for rows in (known, ~known))
    for kind in set(labels.values()) - {None}:
        alike = [code for code in codes if labels[code] == kind]
        if without[alike].sum() >= own[alike].sum():
            known &= ~np.isin(work.name[row], alike)
    numbers: dict[str, int] = {}
    part = np.full(len(row), -1, np.int64)
    for launched in (True, False):
        at = np.flatnonzero(known == launched)
        codes, back = np.unique(host.name[operator[at]] if launched else work.name[row[at]], return_inverse=True)
        told = [
            context.names[code] if launched else labels[code] or short_kernel(context.names[code])
            for code in codes.tolist()
        ]
        part[at] = np.array([numbers.setdefault(name, len(numbers)) for name in told], np.int64)[back]
    whole = ledger.counted_ns
    small = summed(part, dur, len(numbers)) < _LEAST * whole
    short = ~known & small[part] & ((work.end - work.start)[row] < _SHORT_NS)
    if dur[short].sum() >= _LEAST * whole:
        part[short] = numbers.setdefault(_SHORT_KERNELS, len(numbers))
    order = np.argsort(part, kind="stable")
    bounds = np.searchsorted(part[order], np.arange(len(numbers) + 1))
    groups = [order[low:high] for low, high in pairwise(bounds.tolist())]
    return [Owner(name, int(dur[at].sum()), row[at], dur[at]) for name, at in zip(numbers, groups, strict=True)]


class _Reached(NamedTuple):
    """Nearness of a place's kernels to what programs reach, at least and at most; else why that is not known."""

    least: float | None = None
    most: float | None = None
    unknown: str | None = None
    reason: str | None = None


def _apart(context: Context, part: Owner, whole: int) -> list[Owner]:
    """Divide a place into kernels far from what programs reach and others, where the far ones are large beside the step."""
    rows = np.searchsorted(context.kernel_rows, part.rows)
    inside = rows < len(context.kernel_rows)
    inside[inside] = context.kernel_rows[rows[inside]] == part.rows[inside]
    far = inside.copy()
    far[inside] = context.once(told).most[rows[inside]] < FAR
    far_ns = int(part.dur_ns[far].sum())
    if far_ns < _LARGE * whole or part.ns - far_ns < _LEAST * whole:
        return [part]
    return [Owner(part.name, int(part.dur_ns[at].sum()), part.rows[at], part.dur_ns[at]) for at in (~far, far)]


def _reached(context: Context, part: Owner) -> _Reached:
    rows = np.flatnonzero(np.isin(context.kernel_rows, part.rows))
    if not len(rows):
        return _Reached()
    work, found = context.recording.work, context.once(limits)
    dur = (work.end - work.start)[context.kernel_rows[rows]].astype(np.float64)
    known = ~np.isnan(found.limit_ns[rows])
    if known.any() and dur[known].sum() >= _MOSTLY * dur.sum():
        least = np.fmax(found.reachable_ns, found.limit_ns)[rows]
        most = np.fmax(found.uncached_ns[rows], least)
        low, high = (float(np.minimum(ns, dur)[known].sum() / dur[known].sum()) for ns in (least, most))
        return _Reached(low, high, reason=_reason(context, rows, dur) if high < FAR else None)
    if known.any() and dur[known].sum() >= _GREAT * dur.sum():
        # What is not known of the rest: that it takes all of its time in vain at the least, none at the most.
        least = np.fmax(found.reachable_ns, found.limit_ns)[rows]
        most = np.fmax(found.uncached_ns[rows], least)
        low = float(np.minimum(least, dur)[known].sum() / dur.sum())
        high = float((np.minimum(most, dur)[known].sum() + dur[~known].sum()) / dur.sum())
        if high < FAR:
            return _Reached(low, high)
    why = context.once(unknown.reasons)
    lacking = why.code[rows] >= 0
    of_each = np.bincount(why.code[rows[lacking]], dur[lacking], len(why.texts))
    heaviest = int(of_each.argmax())
    return _Reached(unknown=why.texts[heaviest]) if 2 * of_each[heaviest] > dur.sum() else _Reached()


class _Made(NamedTuple):
    """Kernels of a place: how many, how many short ones and what these own in ms, and what they are."""

    kernels: float | None = None
    short: float | None = None
    short_ms: float | None = None
    of: Sequence[Made] = ()


def _made_of(context: Context, part: Owner, ms: float) -> _Made:
    """Divide kernels of which no limit is known by their families; where they are of one, by their names.

    *ms* are those of a step for each ns.
    """
    work, found = context.recording.work, context.once(families)
    place = np.searchsorted(context.kernel_rows, part.rows)
    inside = place < len(context.kernel_rows)
    inside[inside] = context.kernel_rows[place[inside]] == part.rows[inside]
    row, dur, place = part.rows[inside], part.dur_ns[inside], place[inside]
    if not len(row):
        return _Made()
    steps = max(len(context.ledger.counted_steps()), 1) if context.recording.steps else 1
    row, first, back = np.unique(row, return_index=True, return_inverse=True)
    own, place = summed(back, dur, len(row)), place[first]
    short = (work.end - work.start)[row] < _SHORT_NS
    of_each = np.bincount(found.code[place], own, len(found.names))
    names: Sequence[str] = found.names
    code: Ints = found.code[place]
    if of_each.max() >= _MOSTLY * own.sum():
        codes, code = np.unique(work.name[row], return_inverse=True)
        names = [short_kernel(context.names[one]) for one in codes.tolist()]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        code, names = np.array([numbers[name] for name in names], np.int64)[code], list(numbers)
    of_each, count = np.bincount(code, own, len(names)), np.bincount(code, minlength=len(names))
    order = [at for at in np.argsort(-of_each, kind="stable").tolist() if of_each[at] >= _PART * own.sum()]
    # A library's name of a product tells the sizes of its tiles.
    if 2 * int(own[_products(context, work.name[row])].sum()) > int(own.sum()) and names is not found.names:
        order = []
    return _Made(
        kernels=len(row) / steps,
        short=float(short.sum()) / steps,
        short_ms=float(own[short].sum()) * ms,
        of=[Made(name=names[at], ms=float(of_each[at]) * ms, count=float(count[at]) / steps) for at in order[:_NAMED]],
    )


def _products(context: Context, codes: Ints) -> Bools:
    """Flag the kernels, by the codes of their names, that are products, convolutions or fused attention."""
    flags = np.zeros(len(context.names), np.bool_)
    flags[[code for code, name in context.kernel_names.items() if name.matrix]] = True
    chosen: Bools = flags[codes]
    return chosen


def _reason(context: Context, rows: Ints, dur: Floats) -> str | None:
    """Return the reason that the sizes tell of most of some kernels' time."""
    codes = context.once(told).reason[rows]
    of_each = np.bincount(codes[codes >= 0], dur[codes >= 0], len(REASONS))
    heaviest = int(of_each.argmax())
    return REASONS[heaviest] or None if 2 * of_each[heaviest] > dur.sum() else None


def _of_ranges(context: Context, segments: Ints) -> list[Owner]:
    """Divide idle time by the outermost ranges of the main thread that the program marked; nothing where these hold little."""
    ledger, host = context.ledger, context.recording.host
    if not host.size:
        return []
    nodes = context.once(outermost_ranges)
    within = covered(union(ledger.start_ns[segments], ledger.end_ns[segments]), host.start[nodes], host.end[nodes])
    if 2 * int(within.sum()) < int(ledger.dur_ns[segments].sum()):
        return []
    total: dict[str, int] = {}
    _add(total, context.names, host.name[nodes], within)
    return [Owner(name, ns) for name, ns in total.items()]


def _of_operators(context: Context, segments: Ints, within: Owner) -> list[Owner]:
    """Divide the main thread's time in the one range *within* among the outermost operators; that alone where it is no range."""
    ledger, host = context.ledger, context.recording.host
    if not any(part.name == within.name for part in _of_ranges(context, segments)):
        return [within]
    spans = union(ledger.start_ns[segments], ledger.end_ns[segments])
    nodes = np.flatnonzero((host.group == OP) & (host.thread == main_thread(context.recording)))
    nodes = nodes[host.above(nodes, host.group == OP) < 0]
    total: dict[str, int] = {}
    _add(total, context.names, host.name[nodes], covered(spans, host.start[nodes], host.end[nodes]))
    rest = within.ns - sum(total.values())
    found = [Owner(name, ns) for name, ns in total.items()]
    return [*found, Owner(f"{within.name}, between operators", rest)] if rest > 0 else found


def _of_phases(context: Context, segments: Ints) -> list[Owner]:
    """Divide idle time by the part of a training step that the work behind it was launched in.

    What lies before a batch's copy to the device is no launch of the forward pass: there the batch is made.
    """
    if not context.training() or not context.recording.host.size:
        return []
    ledger, work = context.ledger, context.recording.work
    dur = ledger.dur_ns[segments]
    following = launch_behind(context, ledger.end_ns[segments])
    sent = [
        code for code in distinct(work.name[work.kind == COPY]).tolist() if copied(context.names[code])[0] == "HtoD"
    ]
    batch = np.isin(following, work.launch[np.isin(work.name, sent)]) & (following >= 0)
    phase = context.phases(following)
    known = (following >= 0) & (phase >= 0) & ~batch
    total = summed(phase[known], dur[known], len(PHASES))
    found = [
        Owner(_IN_PHASE[name], int(ns)) for name, ns in zip(PHASES, total, strict=True) if ns and name in _IN_PHASE
    ]
    return [*found, Owner(_BEFORE_COPIES, int(dur[batch].sum()))] if batch.any() else found


def _add(total: dict[str, int], names: Sequence[str], codes: Ints, dur: Ints) -> None:
    sums = summed(codes, dur, len(names))
    for code in np.flatnonzero(sums).tolist():
        total[names[code]] = total.get(names[code], 0) + int(sums[code])
