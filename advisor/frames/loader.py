"""`loader`: one row per wait of the training loop for its next batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.columns import Columns
from advisor.frames.fetches import fetches
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_waits
from advisor.frames.patterns.late_pick import spent_in
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.frames.worker_time import worker_time
from advisor.intervals import Bools, Ints, Spans, coded, fetch, summed, union
from advisor.privacy import clean_path
from advisor.reading.program_settings import Recorded, Samples
from advisor.regex import regex
from advisor.timeline.context import Context
from advisor.timeline.unprofiled import bare_times
from advisor.timeline.waits import LOADER, unpickling

Floats = npt.NDArray[np.float64]
_PREFETCHED = 2
"""Batches that each worker holds ready, unless it is told otherwise."""
_MOSTLY = 0.5
"""Share of a wait that a line takes for the wait to be its."""
_NAMED = 0.25
"""Share of a wait from which on what is computed and not taken is the wait's line, where no other takes most of it."""
_NOTICED_NS = 1_000_000
# A rhythm is told from chance by so many of its periods, and by how alike they are.
_PERIODS, _ALIKE = 4, 0.6
_MOST_WORKERS = 128
_BY = "`advisor record`"

SCHEMA = Schema(
    "loader",
    "a wait of the training loop for its next batch",
    (
        *COMMON,
        text("name", "the annotation", "name"),
        text("iterator", "single-process (the main process loads), multi-process (workers load) or other"),
        text("iterator_class", "class of the DataLoader's iterator"),
        integer("idle_ns", "ns", "what of it the device idles"),
        integer("unpickling_ns", "ns", "what of it takes the batch apart that a worker sent; NULL where no Python was recorded"),
        flag("on_launching_thread", "whether the waiting thread also launches the device's work"),
        flag("restart", "at the end of an epoch, where workers end and new ones start: the last wait, and the first of "
             "the next"),
        real("line_share", "share", "of the wait: what its line takes, where that is a line of the dataset's that takes half of it "
             "or more, or of all waits as `advisor record` saw them with stacks, a fifth or more; of the time of workers that it "
             "watched, where a line takes half of it; else NULL, and the line is the loop's"),
        integer("burst", "", "batches after which long waits come again: workers that started together deliver together, so it "
                "is their number; NULL where the waits have no rhythm"),
        integer("samples", "", "samples put together, fetched one by one in this process, where each is a row of tensors in "
                "memory, no more: views and copies; NULL where a sample takes work, where rows differ in size, and of an "
                "IterableDataset"),
        real("copied_share", "share", "of the wait: what copies numbers, which one indexing of the whole batch copies as well; "
             "NULL likewise"),
        text("work", "what is done for each sample in this process: files (one is read or decoded), table (a row of a pandas table "
             "is picked) or rows (Python lists or arrays are converted); NULL where it is none of these, or not known", _BY),
        text("work_call", "the library's call that takes most for it", _BY),
        real("fixed_share", "share", "of the waits: what makes of each sample what is the same whenever it comes again: all before "
             "something random is drawn, and the reading of files; NULL where it is not known", _BY),
        flag("again", "whether samples come again: the program trains, or has iterated the loader before; false where not known"),
        real("cache_share", "share", "of the memory: what all samples of the dataset take as they are in the batch", _BY),
        real("repeat_share", "share", "of the waits: the function of this process that takes most with arguments (numbers, words) "
             "that came in an earlier batch as well; from a fourth on the line is the function's; NULL where it was not seen", _BY),
        real("late_share", "share", "of the wait: operators of this process on a whole tensor of which a quarter is taken then, at "
             "most, as a crop of a picture does, times the part that is not taken; NULL without shapes"),
        integer("bare_wait_ns", "ns", "what a step waits for batches without the profiler, on average; NULL where not recorded",
                _BY),
        real("fetched_share", "share", "of the waits: what of them is left out where this process fetches the batches itself, each "
             "in the time that a worker takes for one; NULL where not recorded, and with no more workers than cores", _BY),
        integer("shuffled_ns", "ns", "of it: the draw of an order of all samples with which an iteration begins in this process, "
                "and the list of it; 0 where none begins"),
        real("short_by", "", "times as many batches a second as would keep the device fed: steady time over what is left of it "
             "without the loader; NULL where nothing is left"),
    ),
)  # fmt: skip


_SEEDED = ["aten::empty", "aten::random_", "aten::item", "aten::randperm"]
"""Operators with which RandomSampler begins: a seed, and an order of all samples from it."""
_OPENING = len(_SEEDED) + 3
_LISTED = regex(r"^aten::resolve_(?:conj|neg)$")
_LIST_TIMES = 8
"""Times as long as their draw that numbers take as a list of Python's: 3.3 measured with 500,000."""


def build(context: Context) -> Columns:
    """The frame."""
    waits, host = context.waits.loader, context.recording.host
    cost = context.ledger.cost(len(waits.start), "loader")
    frame = context.common(start=waits.start, dur=waits.end - waits.start, cost=cost, node=waits.node)
    names = host.name[waits.node]
    codes, inverse = coded(names)
    classes = [match[1] if (match := LOADER.match(context.names[code])) else "" for code in codes.tolist()]
    kinds = [
        "single-process" if "SingleProcess" in c else "multi-process" if "MultiProcessing" in c else "other"
        for c in classes
    ]
    idle = context.idle_during(waits.start, waits.end) if context.device >= 0 else np.zeros(len(waits.start), np.int64)
    inner, share = _lines(context)
    late, at_line = spent_in(context, waits.start, waits.end, host.thread[waits.node])
    late_share = np.where(late < 0, np.nan, late / np.maximum(waits.end - waits.start, 1))
    inner = np.where((inner < 0) & (late_share >= _NAMED), at_line, inner)
    attributes = host.attributes
    user = np.where(inner >= 0, inner, fetch(attributes.user, waits.node))
    frame |= context.places(user, fetch(attributes.library, waits.node))
    several = np.array([kind == "multi-process" for kind in kinds], np.bool_)[inverse]
    burst = rhythm((waits.end - waits.start)[several & ~waits.restart])
    fetched = fetches(context)
    frame |= {
        "name": context.labels(names, context.names),
        "iterator": context.labels(inverse, kinds),
        "iterator_class": context.labels(inverse, classes),
        "idle_ns": idle,
        "unpickling_ns": context.known(unpickling(context.recording, waits)),
        "on_launching_thread": host.thread[waits.node] == host.launching_thread(),
        "restart": waits.restart,
        "burst": context.known(np.where(several, burst, -1)),
        "samples": context.known(fetched.samples),
        "copied_share": np.where(fetched.samples < 0, np.nan, fetched.copied),
        **_sampled(
            context, np.array([kind == "single-process" for kind in kinds], np.bool_)[inverse], several, frame, share
        ),
        "late_share": late_share,
        "bare_wait_ns": _bare_wait_ns(context),
        "fetched_share": np.where(several & ~waits.restart, _fetched_share(context, several), np.nan),
        "shuffled_ns": _shuffled(context),
        "short_by": np.full(len(names), _short_by(context, waits.start[several & ~waits.restart], cost, burst)),
    }
    return Columns({name: frame[name] for name in SCHEMA.names()})


def _sampled(context: Context, single: Bools, several: Bools, frame: dict[str, Any], share: Floats) -> dict[str, Any]:
    """Return the columns of what samples take, as recorded; the line of these is written into *frame*, where waits are *single*,
    and that of the workers where they are for *several* processes.

    *share* is what other lines take of each wait.
    """
    recorded = context.metadata.recorded
    if most := worker_time(recorded):
        first = most.line
        if first.share >= _MOSTLY:
            _place(context, frame, several, (first.file, first.line, first.function))
            share = np.where(several, first.share, share)
    samples = recorded.samples if recorded is not None else None
    repeat = recorded.fetch_repeat if recorded is not None else None
    size, fetched = len(single), single
    if recorded is None or samples is None:
        recorded, samples, single = Recorded(), Samples(0, 0.0), np.zeros(size, np.bool_)
    if samples.file:
        _place(context, frame, single, (samples.file, samples.line, samples.function))
        share = np.where(single, samples.line_share, share)
    if repeat is not None and repeat.share >= _NAMED:
        _place(context, frame, fetched, (repeat.file, repeat.line, repeat.function))
        share = np.where(fetched, repeat.share, share)
    loaders = [loader for loader in recorded.loaders if not loader.workers]
    held = max((loader.samples or 0 for loader in loaders), default=0) * (recorded.batch_bytes or 0)
    of = samples.count * (recorded.memory_bytes or 0)
    again = bool(recorded.optimizers) or any((loader.passes or 0) > 1 for loader in loaders)
    at = np.where(single, 0, -1)
    return {
        "line_share": share,
        "repeat_share": np.where(fetched, repeat.share if repeat is not None else np.nan, np.nan),
        "work": context.labels(at, [samples.kind]),
        "work_call": context.labels(at, [samples.through]),
        "fixed_share": np.where(single, samples.fixed_share, np.nan),
        "again": single & again,
        "cache_share": np.where(single & (min(held, of) > 0), held / max(of, 1), np.nan),
    }


def _place(context: Context, frame: dict[str, Any], waits: Bools, place: tuple[str, int, str]) -> None:
    """Write the place (file, line, function) that *waits* have into the frame."""
    file, line, function = place
    for name, value in (("file", clean_path(file)), ("function", function)):
        words = [*frame[name].words, value]
        frame[name] = context.labels(np.where(waits, len(words) - 1, frame[name].values), words)
    frame["line"] = np.where(waits, line, frame["line"])


def _bare_wait_ns(context: Context) -> Any:
    """Return what a step without the profiler waits for batches, on average; unknown where that was not recorded."""
    recorded = context.metadata.recorded
    waits = bare_times(recorded)[1] if recorded is not None else None
    size = len(context.waits.loader.start)
    return context.known(np.full(size, -1 if waits is None or not len(waits) else round(float(waits.mean())), np.int64))


def _fetched_share(context: Context, several: Bools) -> float:
    """Return the part of the waits for workers (*several*) that goes where this process fetches the batches itself.

    A batch then takes no longer than a worker takes for one, who shares the cores with all others: handing it over goes, and so
    does the wait for the workers' turns. NaN where there are no more workers than cores, or of several loaders.
    """
    recorded, waits = context.metadata.recorded, context.waits.loader
    loaders = [loader for loader in recorded.loaders if loader.workers] if recorded is not None else []
    if recorded is None or recorded.worker_fetch_ms is None or len(loaders) != 1 or not several.any():
        return math.nan
    if loaders[0].workers <= (recorded.cores or math.inf):
        return math.nan
    counted = several & ~waits.restart
    steps = max(context.recording.step_count, 1)
    waited = float((waits.end - waits.start)[counted].sum()) / steps
    bare = bare_times(recorded)[1]
    if bare is not None and len(bare):
        waited = float(bare.mean())
    fetching = recorded.worker_fetch_ms * 1e6 * int(counted.sum()) / steps
    return max(1 - fetching / waited, 0.0) if waited > 0 else math.nan


def _lines(context: Context) -> tuple[Ints, Floats]:
    """Return for each wait the place of the user's inside it that takes at least half of it, and its share.

    -1 and NaN where there is none, and where it is the loop's own. An operator's time is its line's; the Python before it is
    where the recorder found it, or of the line that both operators beside it have.
    """
    waits, host = context.waits.loader, context.recording.host
    size = len(waits.start)
    place, share = np.full(size, -1, np.int64), np.full(size, np.nan)
    if not size:
        return place, share
    ops = context.op_rows[context.top(context.op_rows)]
    ops = ops[np.argsort(host.start[ops], kind="stable")]
    at = np.searchsorted(waits.start, host.start[ops], side="right") - 1
    inside = (at >= 0) & (host.thread[ops] == host.thread[waits.node[at]]) & (host.end[ops] <= waits.end[at])
    ops, at = ops[inside], at[inside]
    if not len(ops):
        return place, share
    user = host.attributes.user[ops]
    first = np.flatnonzero(np.r_[True, at[1:] != at[:-1]])
    since = np.r_[waits.start[at[:1]], np.maximum.accumulate(host.end[ops])[:-1]]
    since[first] = waits.start[at[first]]
    own = np.r_[-1, np.where(user[1:] == user[:-1], user[1:], -1)]
    own[first] = -1
    if host.user_before is not None:
        recorded = host.user_before[ops]
        own = np.where(recorded >= 0, recorded, own)
    codes = np.concatenate([user, own])
    ns = np.concatenate([host.end[ops] - host.start[ops], np.maximum(host.start[ops] - since, 0)])
    wait = np.concatenate([at, at])
    known = (codes >= 0) & (codes != host.attributes.user[waits.node[wait]])
    width = int(codes.max(initial=0)) + 1
    keys, inverse = coded(wait[known] * width + codes[known])
    total = summed(inverse, ns[known], len(keys))
    # Of the lines of one wait the heaviest is written last, and stays.
    order = np.argsort(total, kind="stable")
    heaviest = np.full(size, -1, np.int64)
    heaviest[keys[order] // width] = order
    chosen = np.flatnonzero(heaviest >= 0)
    part = total[heaviest[chosen]] / np.maximum((waits.end - waits.start)[chosen], 1)
    chosen, part = chosen[part >= _MOSTLY], part[part >= _MOSTLY]
    place[chosen], share[chosen] = keys[heaviest[chosen]] % width, part
    return place, share


def _shuffled(context: Context) -> Ints:
    """Return what of each wait draws an order of the samples, with all numbers of it as a list: to the operator behind it.

    RandomSampler draws it first of all, from a seed that it draws for it; a dataset that draws numbers of its own does so later,
    or without such a seed. An operator that comes much later belongs to the batch: a number takes Python some times as long as
    the draw.
    """
    waits, host = context.waits.loader, context.recording.host
    found = np.zeros(len(waits.start), np.int64)
    if "aten::randperm" not in context.names or not len(found):
        return found
    ops = context.op_rows[context.top(context.op_rows)]
    ops = ops[np.argsort(host.start[ops], kind="stable")]
    for wait, node in enumerate(waits.node.tolist()):
        start, end = int(waits.start[wait]), int(waits.end[wait])
        low, high = np.searchsorted(host.start[ops], [start, end])
        inner = ops[low:high]
        inner = inner[host.thread[inner] == host.thread[node]]
        names = [context.names[code] for code in host.name[inner[:_OPENING]].tolist()]
        if names[: len(_SEEDED)] != _SEEDED:
            continue
        draw = inner[len(_SEEDED) - 1]
        behind = next(
            (at for at, name in enumerate(names) if at >= len(_SEEDED) and not _LISTED.match(name)), len(names)
        )
        ended, length = int(host.end[draw]), int(host.end[draw] - host.start[draw])
        until = int(host.start[inner[behind]]) if behind < len(inner) else end
        found[wait] = min(until, ended + _LIST_TIMES * length) - start
    return found


def _short_by(context: Context, begun: Ints, cost: Ints, burst: int) -> float:
    """Return the steady time over what is left of it without the waits; NaN where nothing is left.

    What the workers held ready when the recording began is no batch of theirs: batches that nobody waited for, as many as they
    prefetch, are left out where waits follow. *begun* are the starts of several processes' waits, *cost* that of all.
    """
    ledger = context.ledger
    counted = ledger.counted.copy()
    late = context.waits.loader.start[cost > _NOTICED_NS]
    late = late[np.isin(late, begun[1:])]  # for the first the workers start
    first = int(np.searchsorted(begun, late[0])) if len(late) else len(begun)
    rounds = (len(begun) - 1 - first) // burst if burst > 1 else 0
    if rounds and first <= _PREFETCHED * burst + 1:
        # Whole rounds of the workers, as a round begins with its longest wait.
        counted &= (ledger.start_ns >= late[0]) & (ledger.start_ns < begun[first + rounds * burst])
    whole = int(ledger.dur_ns[counted].sum())
    fed = whole - int(ledger.dur_ns[ledger.through("loader") & counted].sum())
    return whole / fed if fed > 0 else np.nan


def rhythm(waits: Ints) -> int:
    """Return the number of waits after which long ones come again, from 2 on; -1 where there is no such number.

    It is the shift that lays the waits best on themselves: the least of those that do nearly as well, as multiples do too.
    """
    if len(waits) < 2 * _PERIODS:
        return -1
    # The first batch, for which workers start, is longer than any; it is no more than the next in length here.
    length = np.minimum(waits, np.partition(waits, -2)[-2]).astype(np.float64)
    length -= length.mean()
    whole = float(length @ length)
    shifts = range(1, min(len(waits) // _PERIODS, _MOST_WORKERS) + 1)
    alike = np.array([float(length[at:] @ length[:-at]) * len(length) / (len(length) - at) for at in shifts])
    best = float(alike.max())
    if best < _ALIKE * whole or not whole:
        return -1
    least = int(np.flatnonzero(alike >= 0.8 * best)[0]) + 1
    return least if least > 1 else -1


def _stretches(context: Context, mask: Bools) -> Spans:
    """The waits; the first of an epoch begins with the making of its iterator."""
    waits = context.waits.loader
    return union(waits.start[mask], waits.end[mask])


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("iterator", "name", COUNT, *TIME),
    rows=Rows(nodes=lambda context: context.waits.loader.node),
    owns=owns_waits("loader"),
    shortens=_stretches,
)
