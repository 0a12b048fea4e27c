"""Lines of the host: the threads that hand over to each other, and those that run beside.

A thread that works while another one does is no part of its line: a prefetcher with a stream of its own, a second model, a
thread a device. It takes its own time whatever becomes of the main line, but where it rests: a thread that does nothing for
a while has most likely waited for the main line, and goes on when that comes to the same point again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from advisor.intervals import Ints, Spans, coded, covered, union
from advisor.replay.steady import clock
from advisor.timeline.calls import OP, RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.cpu import main_thread

_BESIDE = 0.1
"""A thread with more than this share of its work beside that of a line is not of that line."""
_MOST_JOINED = 16
"""Lines that a thread may be found to be part of: a program hands over between a few. Any other thread is a line of its own."""
_RESTS_NS = 100_000
"""A thread that neither computes nor calls for so long waits for another one."""


def lines_of(context: Context, nodes: Ints, start: Ints) -> tuple[Ints, Ints]:
    """Number the line of each node, 0 the main one; and the main line's node to which a node behind a rest is tied, or -1."""
    host = context.recording.host
    line, tied = np.zeros(len(nodes), np.int64), np.full(len(nodes), -1, np.int64)
    thread = np.where(nodes >= 0, host.thread[np.maximum(nodes, 0)], -1)
    threads, counts = np.unique(thread[nodes >= 0], return_counts=True)
    if len(threads) < 2:
        return line, tied
    main = main_thread(context.recording)
    rest = [other for other in threads[np.argsort(-counts, kind="stable")].tolist() if other != main]
    active, of = _active(context), {-1: -1}
    lines = [active(main)]
    for other in rest:
        spans = active(other)
        total = int((spans.end - spans.start).sum())
        fitting = (
            number
            for number, line_spans in enumerate(lines[:_MOST_JOINED])
            if int(covered(line_spans, spans.start, spans.end).sum()) <= _BESIDE * total
        )
        at = next(fitting, len(lines))
        if at == len(lines):
            lines.append(spans)
        else:
            line_spans = lines[at]
            lines[at] = union(
                np.concatenate([line_spans.start, spans.start]),
                np.concatenate([line_spans.end, spans.end]),
            )
        of[other] = at
    which, back = coded(thread)
    line = np.maximum(np.array([of.get(number, 0) for number in which.tolist()], np.int64), 0)[back.ravel()]
    _tie(line, tied, start, lines)
    return line, tied


def _active(context: Context) -> Callable[[int], Spans]:
    """Make what says when a thread is in an operator or a call of the runtime."""
    host, steady = context.recording.host, context.once(clock)
    nodes = np.flatnonzero((host.group == OP) | (host.group == RUNTIME))
    nodes = nodes[np.argsort(host.thread[nodes], kind="stable")]
    threads = host.thread[nodes]

    def active(thread: int) -> Spans:
        own = nodes[np.searchsorted(threads, thread, "left") : np.searchsorted(threads, thread, "right")]
        return steady.spans(union(host.start[own], host.end[own]))

    return active


def _by_line(line: Ints) -> list[Ints]:
    """List the nodes of each line, from the lowest line on."""
    order = np.argsort(line, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(line[order])) + 1)


def _tie(line: Ints, tied: Ints, start: Ints, lines: list[Spans]) -> None:
    """Tie what follows a rest of a line beside the main one to the node of the main line before it, in place."""
    main = np.flatnonzero(line == 0)
    for nodes in _by_line(line):
        number = int(line[nodes[0]])
        active = lines[number]
        if number == 0:
            continue
        # The stretch of work that each node is in or begins, and how long the line had rested before it.
        at = np.maximum(np.searchsorted(active.start, start[nodes], side="right") - 1, 0)
        rested = np.where(at > 0, active.start[at] - active.end[np.maximum(at - 1, 0)], _RESTS_NS + 1)
        fresh = np.append(True, at[1:] != at[:-1]) & (rested > _RESTS_NS)
        before = np.searchsorted(start[main], start[nodes], side="right") - 1
        wanted = fresh & (before >= 0)
        tied[nodes[wanted]] = main[before[wanted]]


def think(start: Ints, end: Ints, line: Ints, tied: Ints) -> Ints:
    """ns from what each node follows to its start: the end of its line so far, or the start of the node it is tied to."""
    out = np.zeros(len(start), np.int64)
    for nodes in _by_line(line):
        out[nodes[0]] = start[nodes[0]] - start[0]
        out[nodes[1:]] = start[nodes[1:]] - np.maximum.accumulate(end[nodes])[:-1]
    return np.where(tied >= 0, start - start[np.maximum(tied, 0)], out)
