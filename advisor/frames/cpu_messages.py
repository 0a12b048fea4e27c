"""Messages of the CPU's collectives: the call that sent each, the calls of its run, and the parts of its time."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from advisor.columns import Columns
from advisor.intervals import Ints, alike, distinct
from advisor.regex import regex
from advisor.timeline.calls import OP
from advisor.timeline.context import Context
from advisor.timeline.cpu import flying, main_thread
from advisor.timeline.waits import nodes_by_name

_CALL = regex(r"^c10d::\w+$")
_SIZES = regex(r"\[\[\[(\d{1,12}(?:,\d{1,12}){0,15})\]\]")
"""Shape of the one tensor of a call, as `[[[32,3]],[],[]…`."""
_SMALL = 16_384
"""Elements of messages of which the time is that of a round of the ranks: 64 kB of floats take 0.05 ms at 10 Gbit/s."""
Floats = npt.NDArray[np.float64]


def nodes(context: Context) -> Ints:
    """Forest node of each row, in order of start; none where a GPU works."""
    if not context.cpu_program:
        return np.zeros(0, np.int64)
    found = flying(context.recording)
    return found[np.argsort(context.recording.host.start[found], kind="stable")]


class Runs(Struct, eq=False):
    """The call of each row, -1 without one; the run that it is of, and the calls of that; and parts of its time, as documented."""

    calls: Ints
    run: Ints
    size: Ints
    round_share: Floats
    own_share: Floats


def runs(context: Context) -> Runs:
    """Pair rows with their calls, and sum up runs.

    The backend takes calls in their order. Where there are as many of them as rows, and each row begins behind its call, they
    are those. A run are calls of one kind from one line in one step; where no lines are recorded, from one operator.
    """
    host, rows = context.recording.host, context.once(nodes)
    none, unknown = np.full(len(rows), -1, np.int64), np.full(len(rows), np.nan)
    calls = nodes_by_name(context.recording, _CALL, (OP,))
    calls = calls[host.thread[calls] == main_thread(context.recording)] if len(calls) else calls
    calls = calls[np.argsort(host.start[calls], kind="stable")]
    if not len(rows) or len(calls) != len(rows) or (host.start[calls] > host.start[rows]).any():
        return Runs(none, none, none, unknown, unknown)
    dur = (host.end - host.start)[rows]
    places = context.common(start=host.start[calls], dur=host.end[calls] - host.start[calls], cost=dur, node=calls)
    at = Columns({name: places[name] for name in ("step", "file", "line")})
    first, kind = alike(host.name[rows], *(at[name].values for name in at))
    run = np.argsort(np.argsort(first))[kind]  # in the order in which they begin
    many = elements(context, calls)
    small = many <= _SMALL
    least = np.full(len(run), np.nan)
    since = np.full(len(run), np.inf)  # from the end of the one before it in its run
    for one in range(int(run.max()) + 1):
        members = np.flatnonzero(run == one)
        since[members[1:]] = host.start[calls[members[1:]]] - host.end[rows[members[:-1]]]
        taken = dur[members[small[members]]]
        if len(taken):
            least[members] = np.median(taken)
    # What a rank computes longer than another is waited for in the first: the next begin where all ranks have come.
    follows = since <= least
    share = np.where(small & follows, 1.0, np.minimum(least / np.maximum(dur, 1), 1.0))
    share[np.isnan(least)] = np.nan
    typical = np.full(len(run), np.nan)
    for size in distinct(many[follows & (many >= 0)]).tolist():
        typical[many == size] = np.median(dur[follows & (many == size)])
    own = np.where(follows, 1.0, np.minimum(np.fmax(typical, least) / np.maximum(dur, 1), 1.0))
    return Runs(calls, run, np.bincount(run)[run], share, own)


def elements(context: Context, calls: Ints) -> Floats:
    """Elements that each call sends; NaN where that is not recorded, or of several tensors."""
    codes = context.op_column(calls, "dims")
    texts = context.shape_texts
    known = {code: _SIZES.match(texts[code]) for code in set(codes.tolist()) if code >= 0}
    sizes = {code: float(math.prod(map(int, found[1].split(",")))) for code, found in known.items() if found}
    return np.array([sizes.get(code, np.nan) for code in codes.tolist()])
