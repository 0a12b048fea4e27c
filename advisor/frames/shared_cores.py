"""`shared_cores`: one row per operator of a program on the CPU whose loader's workers take cores of the machine meanwhile."""

from __future__ import annotations

import numpy as np

from advisor.columns import Columns
from advisor.frames import operator_parts
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, integer, real, text
from advisor.frames.worker_time import worker_time
from advisor.intervals import Ints, summed
from advisor.privacy import clean_path
from advisor.reading.program_settings import Recorded
from advisor.timeline.context import Context
from advisor.timeline.unprofiled import slowed_by_workers

_BY = "`advisor record`"
_STALLED = 1.5
"""Factor of what operators lose over the part of the cores that workers take: threads with a core wait for those without."""
_MOST_LOST = 0.55
SCHEMA = Schema(
    "shared_cores",
    "an operator of a program on the CPU that shares the machine's cores with the workers of its loaders, at the line of the "
    "program at which these do most of what `workers_work` of `trace` names (else that of the loader), as `advisor record` "
    "counted; no rows where it did not, or without workers",
    (
        *COMMON,
        text("name", "the operator", "name"),
        integer("workers", "", "worker processes of the loaders", _BY),
        real("own_cores", "", "cores that the process itself takes, on average over the recorded steps", _BY),
        real("workers_cores", "", "cores that its workers take", _BY),
        real("workers_share", "share", "of what both take: the workers' part", _BY),
        real(
            "taken_share",
            "share",
            "of the cores that the process may use: those that it, its workers and others take",
            _BY,
        ),
        real("waited_share", "share", "of the recorded time: the thread that waited most had no core", _BY),
        real(
            "lost_share",
            "share",
            "of the operators' time: what they take longer at most. One and a half times the workers' share, as threads of "
            "one operator wait for the one that has no core; on one thread no more than it has no core; never over 0.55; more "
            "where steps without the profiler show it, with more workers than cores: those that wait for no batch take less",
        ),
        real(
            "line_share",
            "share",
            "of the workers' time: what they spend at that line; NULL where only the loader is known",
            _BY,
        ),
    ),
)


def _counted(context: Context) -> Recorded | None:
    """Settings of the recording, where they say how much workers took."""
    recorded = context.metadata.recorded
    if recorded is None or not recorded.workers_cores or recorded.own_cores is None or not recorded.cores:
        return None
    return recorded if any(loader.workers for loader in recorded.loaders) else None


def nodes(context: Context) -> Ints:
    """Forest node of each row."""
    return operator_parts.nodes(context)[: None if _counted(context) else 0]


def build(context: Context) -> Columns:
    """The frame."""
    host, rows, recorded = context.recording.host, nodes(context), _counted(context)
    size = len(rows)
    segments, row = _parts(context)
    cost = summed(row, context.ledger.dur_ns[segments], size)
    frame = context.common(start=host.start[rows], dur=host.end[rows] - host.start[rows], cost=cost, node=rows)
    file, line, function, share = _place(recorded) if recorded is not None else ("", 0, "", np.nan)
    taken = _shares(recorded) if recorded is not None else dict.fromkeys(_OF_ALL, 0.0)
    workers = sum(loader.workers for loader in recorded.loaders) if recorded is not None else 0
    at = np.full(size, 0 if file else -1, np.int64)
    frame |= {
        "file": context.labels(at, [clean_path(file)]),
        "line": context.known(np.full(size, line or -1, np.int64)),
        "function": context.labels(at if function else np.full(size, -1, np.int64), [function]),
        "name": context.labels(host.name[rows], context.names),
        "workers": np.full(size, workers, np.int64),
        **{name: np.full(size, taken[name]) for name in _OF_ALL},
        "line_share": np.full(size, share),
    }
    return Columns({name: frame[name] for name in SCHEMA.names()})


_OF_ALL = ("own_cores", "workers_cores", "workers_share", "taken_share", "waited_share", "lost_share")


def _shares(recorded: Recorded) -> dict[str, float]:
    own, workers = recorded.own_cores or 0.0, recorded.workers_cores or 0.0
    share = workers / (own + workers)
    without_core = 1 - own if recorded.threads == 1 else 1.0
    return {
        "own_cores": own,
        "workers_cores": workers,
        "workers_share": share,
        "taken_share": (own + workers + (recorded.others_cores or 0.0)) / (recorded.cores or 1),
        "waited_share": recorded.waited_share or 0.0,
        "lost_share": max(min(_STALLED * share, without_core, _MOST_LOST), slowed_by_workers(recorded) or 0.0, 0.0),
    }


def _place(recorded: Recorded) -> tuple[str, int, str, float]:
    """Place of the workers' time: file, line, function, and the line's share of it."""
    if most := worker_time(recorded):
        return most.line.file, most.line.line, most.line.function, most.line.share
    loader = max(recorded.loaders, key=lambda entry: entry.workers)
    return loader.file, loader.line, "", np.nan


def _parts(context: Context) -> tuple[Ints, Ints]:
    """Segments that the rows own as ``operator_calls`` does, with the row of each."""
    segments, row = operator_parts.parts(context)
    return (segments, row) if _counted(context) else (segments[:0], row[:0])


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("workers", "workers_cores", "own_cores", "line_share", COUNT, *TIME),
    rows=Rows(nodes=nodes),
    owns=owns_parts(_parts),
    parts=_parts,
)
