"""Launching threads that take turns: ranks of one host of which a constant number runs at once share so many cores.

Threads that stop for reasons of their own do so independently of each other: how many run at once then varies as chance has it.
Where the cores are too few, one runs as soon as another stops, and their number hardly varies.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from msgspec import Struct

from advisor.frames.launchers import SCHEMA, empty
from advisor.frames.schema import COMMON
from advisor.intervals import Ints
from advisor.ranks.clocks import ONE_CLOCK_NS, Clocks
from advisor.ranks.digest import Digest
from advisor.ranks.standing import running
from advisor.regex import regex

# The part of their windows that the ranks of a host must share to be counted.
_SHARED = 0.5
_PROCESS = regex(r"_(\d{1,12})\.\d{9,}\.pt\.trace\.json", re.IGNORECASE)
Numbers = npt.NDArray[np.float64]


class Host(Struct, frozen=True):
    """The ranks of one host, by their index, and how many of their threads run at once.

    ``running`` is the number that most often runs while another stands still, ``still`` how many stand still then, ``share`` the
    part of the time that the recordings have in common in which it is so, ``held`` that in which any stands still, ``chance`` what
    ``share`` would be if the threads stood still independently of each other.
    """

    members: list[int]
    running: int
    still: int
    share: float
    held: float
    chance: float


def launchers(digests: Sequence[Digest], ranks: Sequence[int], found: Sequence[Host], caused_ns: Ints) -> pd.DataFrame:
    """The frame `launchers`: a row for each rank of the hosts. *caused_ns* is what others wait for each rank."""
    rows = [(number, host, member) for number, host in enumerate(found) for member in host.members]
    if not rows:
        return empty().pandas()
    members = [member for _, _, member in rows]
    still = np.array([int((digests[at].still[:, 1] - digests[at].still[:, 0]).sum()) for at in members], np.int64)
    window = np.array([digests[at].window[1] - digests[at].window[0] for at in members], np.float64)
    stopped = np.array([digests[at].stopped_ns for at in members], np.float64)
    idle = np.array([digests[at].idle_ns for at in members], np.int64)
    each = [host for _, host, _ in rows]
    frame = _blank(len(rows)) | {
        "step": np.zeros(len(rows), np.int64),
        "start_ns": np.zeros(len(rows), np.int64),
        "dur_ns": still,
        "cost_ns": idle + caused_ns[members],
        "rank": np.array([ranks[at] for at in members], np.int64),
        "host": np.array([number for number, _, _ in rows], np.int64),
        "still_share": still / np.maximum(window, 1.0),
        "stopped_share": stopped / np.maximum(still, 1),
        "idle_ns": idle,
        "caused_ns": caused_ns[members],
    }
    return pd.DataFrame(frame | _of_hosts(each))[SCHEMA.names()]


def _blank(size: int) -> dict[str, Any]:
    """The columns that all frames have, and nothing in them."""
    blank = {"BIGINT": np.full(size, -1, np.int64), "VARCHAR": pd.Categorical([None] * size)}
    return {column.name: blank[column.type] for column in COMMON}


def _of_hosts(found: Sequence[Host]) -> dict[str, Any]:
    """The columns on the host of each row."""
    return {
        "host_ranks": np.array([len(host.members) for host in found], np.int64),
        "host_running": np.array([host.running for host in found], np.int64),
        "host_still": np.array([host.still for host in found], np.int64),
        "host_share": np.array([host.share for host in found]),
        "host_held_share": np.array([host.held for host in found]),
        "host_chance_share": np.array([host.chance for host in found]),
    }


def hosts(digests: Sequence[Digest], clocks: Clocks) -> list[Host]:
    """Count the threads of each host that two ranks and more are known to be of, by its own clock: no other host's."""
    groups: dict[str, list[int]] = {}
    for member, digest in enumerate(digests):
        if (name := host_of(digest)) and clocks.linked[member]:
            groups.setdefault(name, []).append(member)
    counted = [_counted(digests, members) for members in groups.values() if _is_one(digests, clocks, members)]
    return [host for host in counted if host is not None]


def host_of(digest: Digest) -> str:
    """A name for the host of a rank, the same on all its ranks; '' where the trace does not tell.

    The file's name says it where torch's handler wrote it, host and process. Else, where a process sees all devices of its machine
    and works on the one that torchrun would have given it, its rank does.
    """
    process = _PROCESS.search(digest.path)
    if digest.machine and process and int(process[1]) != digest.rank:  # else it is a name of the user's, and the rank
        return digest.machine
    if digest.rank is None or digest.devices < 2 or digest.device != digest.rank % digest.devices:
        return ""
    return f"{digest.rank // digest.devices} of {digest.devices}"


def _is_one(digests: Sequence[Digest], clocks: Clocks, members: Sequence[int]) -> bool:
    """Tell whether ranks can be of one host: each has a device of its own, and they leave collectives together by their own
    clocks as they are."""
    seen = [digests[at].device for at in members if digests[at].devices > 1]
    apart = int(np.ptp(clocks.offset_ns[list(members)]))
    return len(members) > 1 and len(seen) == len(set(seen)) and apart <= ONE_CLOCK_NS


def _counted(digests: Sequence[Digest], members: list[int]) -> Host | None:
    windows = [
        (digests[at].zero_ns + digests[at].window[0], digests[at].zero_ns + digests[at].window[1]) for at in members
    ]
    low, high = max(start for start, _ in windows), min(end for _, end in windows)
    if high - low < _SHARED * float(np.median([end - start for start, end in windows])):
        return None
    zero = low
    runs, stills = [], []
    for at in members:
        digest = digests[at]
        # Differences of whole ns first: a clock that counts from 1970 is no float64.
        shift = digest.zero_ns - zero
        spans = running(digest.window, digest.still, digest.waiting)
        runs.append((spans.start + shift, spans.end + shift))
        stills.append((digest.still[:, 0] + shift, digest.still[:, 1] + shift))
    length, run, still = _levels(runs, stills, high - low)
    held = still > 0
    if not length[held].sum():
        return None
    usual = int(np.argmax(np.bincount(run[held], weights=length[held])))
    at_once = held & (run == usual)
    return Host(
        members=members,
        running=usual,
        still=int(np.argmax(np.bincount(still[at_once], weights=length[at_once]))),
        share=float(length[at_once].sum() / (high - low)),
        held=float(length[held].sum() / (high - low)),
        chance=_chance(runs, stills, usual, high - low),
    )


def _levels(
    runs: Sequence[tuple[Ints, Ints]], stills: Sequence[tuple[Ints, Ints]], span: int
) -> tuple[Numbers, Ints, Ints]:
    """Lengths of the stretches of a window in which nothing changes, and how many threads run and stand still in each."""
    edges = [np.array([0, span], np.int64)]
    steps = [np.zeros((2, 2), np.int64)]
    for column, spans in ((0, runs), (1, stills)):
        for start, end in spans:
            for at, by in ((start, 1), (end, -1)):
                edges.append(np.clip(at, 0, span))
                step = np.zeros((len(at), 2), np.int64)
                step[:, column] = by
                steps.append(step)
    moments, changes = np.concatenate(edges), np.concatenate(steps)
    order = np.argsort(moments, kind="stable")
    levels = np.cumsum(changes[order], axis=0)[:-1]
    return np.diff(moments[order]).astype(np.float64), levels[:, 0], levels[:, 1]


def _chance(runs: Sequence[tuple[Ints, Ints]], stills: Sequence[tuple[Ints, Ints]], usual: int, span: int) -> float:
    """The part of the time in which *usual* threads would run and another stand still if each did so as often, but by itself."""
    # by how many run, and whether one stands still
    odds = np.zeros((len(runs) + 1, 2))
    odds[0, 0] = 1.0
    for (start, end), (from_, until) in zip(runs, stills, strict=True):
        run = float((np.clip(end, 0, span) - np.clip(start, 0, span)).sum()) / span
        still = float((np.clip(until, 0, span) - np.clip(from_, 0, span)).sum()) / span
        rest = max(1 - run - still, 0.0)
        after = odds * rest
        after[1:] += odds[:-1] * run
        after[:, 1] += odds.sum(axis=1) * still
        odds = after
    return float(odds[usual, 1])
