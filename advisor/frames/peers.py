"""Messages from one rank to one other: who sends to whom, in which kernel, and whether a pipeline's stages pass them.

Stages of a pipeline send activations to the next stage and get their gradients back: each of at most two neighbours is sent to
and received from, as much one way as the other, and in each step something is sent before anything is received, or the other
way round. A ring (attention over parts of a sequence, borders of images) sends and receives at once, always as many.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from advisor.frames.message_sizes import messages
from advisor.intervals import Bools, Ints, distinct, fetch
from advisor.regex import regex
from advisor.timeline.calls import ANNOTATION, OP
from advisor.timeline.context import Context
from advisor.timeline.recording import KERNEL

# c10d's own names, of ranks in the group: nccl:send 0->1, nccl:recv 1<-0.
_CALL = regex(r"^(?:nccl|xccl|hccl):(?:(send) (\d{1,9})->(\d{1,9})|(recv) (\d{1,9})<-(\d{1,9}))$")
_NAMES = {"send": True, "recv": False}
# Messages that are coalesced run in one such kernel, launched behind their calls.
_KERNEL = regex(r"send_?recv", re.IGNORECASE)
# A record is around its annotation, and that around the launch: so far up.
_AROUND = 4
_NUMBERS = regex(r"\d+")
_MOST_NEIGHBOURS = 2
_ALIKE = 0.01
"""Part by which the largest message to a neighbour may differ from the largest from it."""
_STEPS = 0.5
"""Share of the steps in which something is only sent, and something only received."""
_BETWEEN = 0.05
"""Of the usual computation between two messages: less lies between messages that belong together."""
_USUAL = 90


class Peers(NamedTuple):
    """Messages in the order in which the host called for them.

    ``node`` is the call, ``work`` the kernel (an index into `Recording.work`, -1 unknown), ``rank`` the other rank (-1
    unknown), ``sends`` its direction, ``sent`` its bytes (-1 unknown), ``step`` the host's step, ``run`` counts the stretches
    between computation, ``group`` stands for the process group. ``staged`` flags those that stages of a pipeline pass.
    """

    node: Ints
    work: Ints
    rank: Ints
    sends: Bools
    sent: Ints
    step: Ints
    run: Ints
    group: Ints
    staged: Bools


class _Calls(NamedTuple):
    node: Ints
    sends: Bools
    rank: Ints


def peers(context: Context) -> Peers:
    """Find the messages of the recording."""
    calls, host = _calls(context), context.recording.host
    if not len(calls.node):
        none, flags = np.zeros(0, np.int64), np.zeros(0, np.bool_)
        return Peers(none, none, none, flags, none, none, none, none, flags)
    order = np.argsort(host.start[calls.node], kind="stable")
    node, sends, rank = calls.node[order], calls.sends[order], calls.rank[order]
    at = host.start[node]
    found = Peers(
        node=node,
        work=_kernels(context, node),
        rank=rank,
        sends=sends,
        sent=messages(context, node, node)[0],
        step=context.recording.host_step_of(at),
        run=_runs(context, at),
        group=_codes(context.op_column(node, "group_name"), context.op_column(node, "group_ranks")),
        staged=np.zeros(len(node), np.bool_),
    )
    for group in distinct(found.group).tolist():
        here = found.group == group
        found.staged[here] = _staged(Peers(*(column[here] for column in found)))
    return found


def carries(context: Context) -> Bools:
    """Flag the pieces of GPU work that pass messages between the stages of a pipeline."""
    found = context.once(peers)
    flags = np.zeros(len(context.recording.work), np.bool_)
    flags[found.work[found.staged & (found.work >= 0)]] = True
    return flags


def meets(context: Context, groups: Ints, sizes: Ints) -> Bools:
    """Flag collectives in which stages of a pipeline meet: this rank and a neighbour of it are of the group.

    *groups* are the ranks of each group, as a code of `Recorded.texts`, *sizes* their number.
    """
    found, texts = context.once(peers), context.recording.recorded.texts
    if not found.staged.any():
        return np.zeros(len(groups), np.bool_)
    neighbours = {str(rank) for rank in distinct(found.rank[found.staged]).tolist()}
    joint = [
        code for code in distinct(groups).tolist() if code >= 0 and neighbours & set(_NUMBERS.findall(texts[code]))
    ]
    every = context.metadata.world_size
    flags: Bools = np.isin(groups, joint) | (sizes == (every if every and every > 1 else -2))
    return flags


def _calls(context: Context) -> _Calls:
    """Records of single sends and receives, and annotations of such where nothing else records them."""
    host, names = context.recording.host, context.names
    texts = [text.lower() for text in context.recording.recorded.texts]
    said = np.array([_NAMES.get(text, -1) for text in texts] + [-1], np.int64)
    ops = context.op_rows
    way = said[context.op_column(ops, "collective")] if len(ops) else np.zeros(0, np.int64)
    records, way = ops[way >= 0], way[way >= 0]
    match = [_CALL.match(name) for name in names]
    called = np.array([one is not None for one in match], np.bool_)
    marks = np.flatnonzero(called[host.name] & np.isin(host.group, (ANNOTATION, OP))) if called.any() else ops[:0]
    if not len(records) and not len(marks):
        return _Calls(records, np.zeros(0, np.bool_), records)
    around = _paired(context, records, marks)
    own, other, sends = _said(match, host.name[marks])
    spoken = context.op_column(records, "peer")
    inner = dict(zip(around.tolist(), other.tolist(), strict=True))
    rank = [
        peer if peer >= 0 else _global(ranks, inner.get(at, -1))
        for at, peer, ranks in zip(records.tolist(), spoken.tolist(), _groups(context, records), strict=True)
    ]
    alone = around < 0
    # Without a record the group is unknown: where this rank's number in it is its own, it is the group of all.
    other = np.where(own == (-1 if context.metadata.rank is None else context.metadata.rank), other, -1)
    return _Calls(
        np.concatenate([records, marks[alone]]),
        np.concatenate([way > 0, sends[alone]]),
        np.concatenate([np.array(rank, np.int64), other[alone]]),
    )


def _paired(context: Context, records: Ints, marks: Ints) -> Ints:
    """Return the record that each annotation belongs to: around it, or inside where both begin and end at once; -1 for none."""
    host = context.recording.host
    flags = np.zeros((2, host.size), np.bool_)
    flags[0, records], flags[1, marks] = True, True
    if not len(records) or not len(marks):
        return np.full(len(marks), -1, np.int64)
    around = host.above(marks, flags[0], _AROUND)
    outside = host.above(records, flags[1], _AROUND)
    inner = dict(zip(outside.tolist(), records.tolist(), strict=True))
    own = np.array([inner.get(mark, -1) for mark in marks.tolist()], np.int64)
    return np.where(around >= 0, around, own)


def _said(match: list[re.Match[str] | None], name: Ints) -> tuple[Ints, Ints, Bools]:
    """Return what annotations say: this rank and the other in their group, and whether it sends."""
    parts = [match[code] for code in name.tolist()]
    rows = [(int(one[2] or one[5]), int(one[3] or one[6]), one[1] is not None) for one in parts if one is not None]
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2] > 0


def _groups(context: Context, node: Ints) -> list[list[int]]:
    """Return the ranks of the group of each record; none where the trace does not list them all."""
    texts = context.recording.recorded.texts
    codes = context.op_column(node, "group_ranks")
    lists = {
        code: [] if code < 0 or "..." in texts[code] else _NUMBERS.findall(texts[code]) for code in set(codes.tolist())
    }
    return [[int(number) for number in lists[code]] for code in codes.tolist()]


def _codes(names: Ints, ranks: Ints) -> Ints:
    """Number the groups by name and ranks."""
    codes: Ints = np.unique(np.stack([names, ranks]), axis=1, return_inverse=True)[1].reshape(-1)
    return codes


def _global(ranks: list[int], place: int) -> int:
    return ranks[place] if 0 <= place < len(ranks) else -1


def _kernels(context: Context, node: Ints) -> Ints:
    """Return the kernel of each call: the one launched in it, else the next of such a name, on its thread, that is of no call."""
    host, work, names = context.recording.host, context.recording.work, context.names
    out = np.full(len(node), -1, np.int64)
    named = np.array([_KERNEL.search(name) is not None for name in names], np.bool_)
    rows = np.flatnonzero(work.communication & (work.launch >= 0))
    if not len(rows):
        return out
    rows = rows[named[work.name[rows]]]
    is_call = np.zeros(host.size, np.bool_)
    is_call[node] = True
    own = host.above(work.launch[rows], is_call, 2 * _AROUND) if len(rows) else rows
    place = {at: index for index, at in enumerate(node.tolist())}
    for row, call in zip(rows[own >= 0].tolist(), own[own >= 0].tolist(), strict=True):
        out[place[call]] = row
    texts = context.recording.recorded.texts
    blank = [code for code, text in enumerate(texts) if not text]
    loose = rows[own < 0]
    loose = loose[np.isin(context.op_column(work.launch[loose], "collective"), [-1, *blank])]
    loose = loose[np.argsort(host.start[work.launch[loose]], kind="stable")]
    for thread in distinct(host.thread[work.launch[loose]]).tolist():
        here = loose[host.thread[work.launch[loose]] == thread]
        waiting = np.flatnonzero((out < 0) & (host.thread[node] == thread))
        # The first of these that is launched behind the call.
        after = np.searchsorted(host.start[work.launch[here]], host.start[node[waiting]])
        out[waiting] = fetch(here, np.where(after < len(here), after, -1))
    return out


def _runs(context: Context, at: Ints) -> Ints:
    """Number the stretches of messages that were called for at times *at* with no computation launched between them."""
    work, host = context.recording.work, context.recording.host
    computes = np.flatnonzero((work.kind == KERNEL) & ~work.communication & (work.launch >= 0))
    launched = host.start[work.launch[computes]]
    order = np.argsort(launched, kind="stable")
    reached = np.concatenate([np.zeros(1, np.int64), np.cumsum((work.end - work.start)[computes[order]])])
    between = np.diff(reached[np.searchsorted(launched[order], at)], prepend=0)
    between[:1] = 0
    usual = float(np.percentile(between[between > 0], _USUAL)) if (between > 0).any() else 0.0
    runs: Ints = np.cumsum((between > 0) & (between >= _BETWEEN * usual))
    return runs


def _staged(found: Peers) -> bool:
    """Tell whether stages of a pipeline pass the messages."""
    around = distinct(found.rank).tolist()
    if not 1 <= len(around) <= _MOST_NEIGHBOURS or around[0] < 0:
        return False
    return all(_both_ways(found, rank) for rank in around) and _one_way(found)


def _both_ways(found: Peers, rank: int) -> bool:
    """Tell whether messages go to a rank and come from it, the largest as large."""
    there = found.rank == rank
    to, back = found.sent[there & found.sends], found.sent[there & ~found.sends]
    if not len(to) or not len(back):
        return False
    largest, other = int(to.max()), int(back.max())
    return largest < 0 or other < 0 or abs(largest - other) <= _ALIKE * max(largest, other)


def _one_way(found: Peers) -> bool:
    """Tell whether in the steps something is only sent, and something only received, between computation."""
    count = int(found.run.max()) + 1
    to, back = np.bincount(found.run, found.sends, count), np.bincount(found.run, ~found.sends, count)
    steps = distinct(found.step)
    out, in_ = (
        np.isin(steps, found.step[chosen])
        for chosen in ((back == 0)[found.run] & found.sends, (to == 0)[found.run] & ~found.sends)
    )
    return float((out & in_).mean()) >= _STEPS
