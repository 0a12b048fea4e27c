"""Collectives on the CPU: how many, how large and how long they are."""

from __future__ import annotations

import numpy as np

from advisor.frames.cpu_collectives import parts
from advisor.frames.cpu_messages import nodes
from advisor.frames.message_sizes import messages
from advisor.intervals import Ints, summed, union
from advisor.results.elsewhere import Calls, SlowRound
from advisor.timeline.context import Context
from advisor.views.owners import Owner


def in_flight(context: Context, segments: Ints) -> list[Owner]:
    """Divide time in which the main thread waits for collectives by their names."""
    held, row = context.once(parts)
    mine = np.isin(held, segments)
    names = context.recording.host.name[context.once(nodes)][row[mine]]
    total = summed(names, context.ledger.dur_ns[held[mine]], len(context.names))
    return [Owner(context.names[code], int(total[code])) for code in np.flatnonzero(total).tolist()]


def calls(context: Context, name: str) -> Calls | None:
    """Count the collectives of one name in a program on the CPU, of the steps that count; None where there are none."""
    host, rows = context.recording.host, context.once(nodes)
    rows = rows[[context.names[code] == name for code in host.name[rows].tolist()]]
    steps = context.ledger.counted_steps() if context.recording.steps else np.zeros(0, np.int64)
    if len(steps):
        rows = rows[np.isin(context.recording.host_step_of(host.start[rows]), steps)]
    if not len(rows):
        return None
    dur = host.ns(rows)
    sent, _ = messages(context, rows, rows)
    most = int(sent.max())
    of_largest = float(np.median(dur[sent == most])) if most > 0 else 0.0
    return Calls(
        count=len(rows) / max(len(steps), 1),
        median_ms=float(np.median(dur)) / 1e6,
        longest_ms=float(dur.max()) / 1e6,
        most_bytes=most if most > 0 else None,
        rate=most / of_largest if most > 0 and of_largest > 0 else None,
        ranks=context.recording.metadata.world_size,
        slow_round=_slow_round(host.start[rows], host.end[rows], sent),
    )


def _slow_round(start: Ints, end: Ints, sent: Ints) -> SlowRound | None:
    """Find the one of some rounds, of the same messages each, that took far longer than every other; None where there is none."""
    rounds = union(start, end)
    of = np.searchsorted(rounds.start, start, side="right") - 1
    count = len(rounds.start)
    if count < _ROUNDS or len({tuple(sorted(sent[of == at].tolist())) for at in range(count)}) > 1:
        return None
    length = rounds.end - rounds.start
    slow = int(length.argmax())
    others = np.delete(length, slow)
    if length[slow] < _SLOW * others.max():
        return None
    return SlowRound(
        number=slow + 1, rounds=count, ms=float(length[slow]) / 1e6, usual_ms=float(np.median(others)) / 1e6
    )


_ROUNDS, _SLOW = 4, 1.5
"""Rounds that have a usual time, and times each other one's that the slow one takes."""
