"""What is kept of one rank: its collectives, what it did before each, its steps and its headline figures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from advisor.frames.ledger import CAUSES
from advisor.intervals import Ints

if TYPE_CHECKING:
    from advisor.frames.ledger import Ledger
    from advisor.trace import Trace

# Point-to-point work joins two ranks, not a group: its order says nothing of the others.
_PAIRS = ("send", "recv")
_PLACE = ("step", "device", "stream", "thread", "op", "module", "file", "line", "function", "library")
_MESSAGE = ("kind", "bytes", "group_name", "group_ranks", "group_size", "seq")
_RANK = re.compile(r"rank[-_ ]?(\d{1,9})", re.IGNORECASE)


@dataclass(frozen=True)
class Digest:
    """One rank. Times in ``collectives`` and ``window`` are ns since its first event, at ``zero_ns`` on its own clock.

    ``collectives`` is in order of start; ``before`` holds, for each of them, the ns of each cause since the collective
    before it on the same stream (since the window's start for the first).
    """

    path: str
    rank: int | None
    world_size: int | None
    zero_ns: int
    window: tuple[int, int]
    step_ms: float | None
    step_count: int
    step_numbers: Ints
    counted_ns: int
    causes: dict[str, int]
    facts: dict[str, Any]
    features: frozenset[str]
    collectives: pd.DataFrame
    before: Ints


def digest(trace: Trace) -> Digest:
    """Boil one trace down. Of several devices, the busiest speaks for the rank."""
    book = trace.ledger
    frame = trace.frame("collectives")
    chosen = (frame["device"].to_numpy() == trace.device) & ~frame["kind"].isin(_PAIRS).to_numpy()
    frame = frame.loc[chosen]
    order = np.argsort(frame["start_ns"].to_numpy(), kind="stable")
    kept = frame[[*_PLACE, "start_ns", "dur_ns", "cost_ns", *_MESSAGE]].iloc[order].reset_index(drop=True)
    steps = trace.frame("steps")
    return Digest(
        path=trace.path,
        rank=rank_of(trace),
        world_size=trace.metadata.world_size,
        zero_ns=trace.zero_ns,
        window=trace.window,
        step_ms=trace.step_ms,
        step_count=trace.step_count,
        step_numbers=steps["number"].to_numpy().astype(np.int64),
        counted_ns=book.counted_ns,
        causes=book.by_cause(),
        facts={str(name): value for name, value in trace.frame("trace").to_dict("records")[0].items()},
        features=trace.features,
        collectives=kept,
        before=_before(book, kept, trace.window[0]),
    )


def rank_of(trace: Trace) -> int | None:
    """The rank: as the trace says, else as the name of the file says; None where neither does."""
    if trace.metadata.rank is not None:
        return trace.metadata.rank
    found = _RANK.findall(re.split(r"[\\/]", trace.path)[-1])
    return int(found[-1]) if found else None


def _before(book: Ledger, collectives: pd.DataFrame, low: int) -> Ints:
    """ns of each cause from the end of the previous collective on the stream to the start of each collective."""
    start = collectives["start_ns"].to_numpy()
    end = start + collectives["dur_ns"].to_numpy()
    since = np.full(len(start), low, np.int64)
    streams = collectives["stream"].to_numpy()
    for stream in np.unique(streams).tolist():
        mine = np.flatnonzero(streams == stream)
        since[mine[1:]] = end[mine[:-1]]
    since = np.minimum(since, start)
    out = np.zeros((len(start), len(CAUSES)), np.int64)
    if not len(book.start_ns) or not len(start):
        return out
    edges = np.append(book.start_ns, book.end_ns[-1])
    for code in range(len(CAUSES)):
        reached = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.where(book.cause == code, book.dur_ns, 0))])
        out[:, code] = np.rint(np.interp(start, edges, reached) - np.interp(since, edges, reached))
    return out
