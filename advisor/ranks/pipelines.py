"""Pipelines among the ranks: which rank is which stage, by who sends to whom, and what each waits for the others and why.

A step of a pipeline whose stages compute ``C`` each and divide it into ``m`` micro-batches lasts as long as its slowest stage
computes, and one micro-batch on each of the others. So the stages wait, on average, ``(m - 1) / m`` of what the slowest computes
above their mean, and ``(p - 1) / m`` of that mean for the pipeline to fill and drain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from msgspec import Struct

from advisor.frames.schema import COMMON
from advisor.frames.stages import SCHEMA, empty
from advisor.intervals import Ints
from advisor.ranks.digest import Digest

Numbers = npt.NDArray[np.float64]
PARTS = ("uneven", "filling", "other")
_FASTEST = 5
"""Percentile of the messages of one size that stands for those in which nobody waits: one alone may be cut off."""


class Pipelines(Struct, frozen=True):
    """By rank (its index) the pipeline that it is of and its stage in it, -1 for none; ``stages`` is their number.

    ``stages`` is 0 where no rank is of a pipeline, and None where the traces are not those of whole ones, or disagree: the stages
    of a rank then count from the first that was given.
    """

    pipeline: Ints
    stage: Ints
    stages: int | None
    micro_batches: int = 0

    def part(self, members: Sequence[int]) -> bool:
        """Tell whether ranks of different stages of one pipeline are among some."""
        seen: dict[int, int] = {}
        for member in members:
            pipeline, stage = int(self.pipeline[member]), int(self.stage[member])
            if pipeline >= 0 and seen.setdefault(pipeline, stage) != stage:
                return True
        return False


def find(digests: Sequence[Digest], ranks: Sequence[int]) -> Pipelines:
    """Find the pipelines, or the parts of them that were given. *ranks* are the ranks of the digests."""
    of = _passing(digests, ranks)
    index = {rank: member for member, rank in enumerate(ranks)}
    links: dict[bool, dict[int, int]] = {True: {}, False: {}}
    whole = True
    for member, table in of.items():
        for rank, sends in _first(table).items():
            other = index.get(rank, -1)
            whole &= other in of and member not in links[sends]
            if other in of:
                links[sends].setdefault(member, other)
    after, before = links[True], links[False]
    whole &= set(after.items()) == {(other, member) for member, other in before.items()}
    after = {member: other for member, other in after.items() if before.get(other) == member}
    chains = _chains(of, after)
    pipeline, stage = np.full(len(digests), -1, np.int64), np.full(len(digests), -1, np.int64)
    for number, chain in enumerate(sorted(chains)):
        pipeline[chain], stage[chain] = number, np.arange(len(chain))
    lengths = {len(chain) for chain in chains}
    whole &= len(lengths) < 2 and sum(map(len, chains)) == len(of)
    if not of or not whole:
        return Pipelines(pipeline, stage, None if of else 0)
    counts = [_sends(of[member], ranks[other]) for member, other in after.items()]
    return Pipelines(pipeline, stage, lengths.pop(), round(float(np.median(counts))))


def _passing(digests: Sequence[Digest], ranks: Sequence[int]) -> dict[int, pd.DataFrame]:
    """Messages between stages, by rank (its index).

    Of one that sends once a step and gets an answer nothing but its neighbour tells that they are such.
    """
    tables = {member: digest.messages for member, digest in enumerate(digests) if len(digest.messages)}
    of = {member: table[table["staged"].to_numpy(np.bool_)] for member, table in tables.items()}
    of = {member: table for member, table in of.items() if len(table)}
    for member, table in tables.items():
        if member not in of:
            known = [ranks[other] for other, passed in of.items() if (passed["peer"].to_numpy() == ranks[member]).any()]
            passed = table[table["peer"].isin(known)]
            if len(passed) and len(passed) == len(table):
                of[member] = passed
    return of


def _first(table: pd.DataFrame) -> dict[int, bool]:
    """Tell of each rank that messages go to and come from whether it is sent to before anything comes from it, in most steps."""
    first = table.drop_duplicates(["step", "peer"])
    share = first.groupby("peer")["sends"].mean()
    return {int(peer): float(part) > 0.5 for peer, part in zip(share.index, share, strict=True)}


def _chains(of: Mapping[int, pd.DataFrame], after: Mapping[int, int]) -> list[list[int]]:
    """Follow the links from each rank that none leads to. In a ring (stages in turn on the ranks) that is the rank which sends
    before it receives."""
    linked = set(after.values())
    heads = [member for member in of if member not in linked]
    heads += [member for member in of if member in linked and _sends_first(of[member])]
    chains: list[list[int]] = []
    seen: set[int] = set()
    for head in heads:
        chain: list[int] = []
        here: int | None = head
        while here is not None and here not in seen:
            seen.add(here)
            chain.append(here)
            here = after.get(here)
        if chain:
            chains.append(chain)
    return chains


def _sends_first(table: pd.DataFrame) -> bool:
    first = table.drop_duplicates("step")
    return bool(first["sends"].mean() > 0.5)


def _sends(table: pd.DataFrame, rank: int) -> float:
    """Stretches of computation in a step behind which something is sent to a rank."""
    sent = table[table["sends"].to_numpy(np.bool_) & (table["peer"].to_numpy() == rank)]
    return float(sent.groupby("step")["run"].nunique().median()) if len(sent) else 0.0


def stages(digests: Sequence[Digest], ranks: Sequence[int], found: Pipelines, met: Mapping[int, int]) -> pd.DataFrame:
    """The frame `stages`. *met* is what each rank (by number) waits in collectives in which stages meet, ns."""
    members: list[int] = np.flatnonzero(found.pipeline >= 0).tolist()
    if not found.stages or not members or not found.micro_batches:
        return empty().pandas()
    passing = _passing(digests, ranks)
    steps = np.array([_steps(digests[member]) for member in members], np.float64)
    waited = _waited([passing[member] for member in members])
    waited += np.array([met.get(ranks[member], 0) for member in members], np.float64)
    passes = np.array([digests[member].passes_ns for member in members], np.float64) / steps
    stage = found.stage[members]
    each = np.array([passes[stage == number].min() for number in range(found.stages)])
    shares = _shares(each, waited / steps, stage, found.micro_batches)
    count = len(members)
    cost = np.stack([waited * shares[part] for part in PARTS], axis=1)
    frame: dict[str, Any] = _blank(count * len(PARTS)) | {
        "step": np.zeros(count * len(PARTS), np.int64),
        "start_ns": np.zeros(count * len(PARTS), np.int64),
        "cost_ns": np.rint(cost).astype(np.int64).ravel(),
        "part": pd.Categorical(np.tile(np.array(PARTS, dtype=object), count), categories=list(PARTS)),
    }
    of_rank = {
        "dur_ns": waited,
        "rank": [ranks[member] for member in members],
        "stage": stage,
        "stages": [found.stages] * count,
        "pipelines": [int(found.pipeline.max()) + 1] * count,
        "micro_batches": [found.micro_batches] * count,
        "computes_ns": passes,
        "stage_ns": each[stage],
        "mean_ns": [each.mean()] * count,
    }
    frame |= {
        name: np.repeat(np.rint(np.asarray(values, np.float64)).astype(np.int64), len(PARTS))
        for name, values in of_rank.items()
    }
    frame["slowest"] = np.repeat(stage == int(each.argmax()), len(PARTS))
    return pd.DataFrame(frame)[SCHEMA.names()]


def _steps(digest: Digest) -> float:
    """Number of steps that a rank's counted time is of; 1 where there are none."""
    return max(digest.counted_ns / (digest.step_ms * 1e6), 1.0) if digest.step_ms else 1.0


def _shares(each: Numbers, waited: Numbers, stage: Ints, micro_batches: int) -> dict[str, float]:
    """Part the waiting by the mean over the ranks, as shares that add up to 1: no part is more than what they wait.

    A stage is the slowest where it computes longest and waits least: the smaller of both differences counts.
    """
    mean_wait = float(waited.mean())
    if not mean_wait:
        return dict.fromkeys(PARTS, 0.0)
    slowest = int(each.argmax())
    more = min(float(each[slowest] - each.mean()), mean_wait - float(waited[stage == slowest].mean()))
    uneven = min(max(more, 0.0) * (micro_batches - 1) / micro_batches, mean_wait)
    filling = min((len(each) - 1) / micro_batches * float(each.mean()), mean_wait - uneven)
    return {
        "uneven": uneven / mean_wait,
        "filling": filling / mean_wait,
        "other": 1.0 - (uneven + filling) / mean_wait,
    }


def _waited(messages: Sequence[pd.DataFrame]) -> Numbers:
    """ns of counted steps that each rank's messages last beyond what the fastest of their sizes take, as far as nothing hides it.

    Of two ranks the one that comes to a message last sees the exchange alone, so over all ranks the fastest do.
    """
    tables = []
    for member, passed in enumerate(messages):
        table = passed.sort_values(["kernel", "bytes"], kind="stable")
        kernels = table.groupby("kernel").agg(
            dur_ns=("dur_ns", "max"), cost_ns=("cost_ns", "sum"), sizes=("bytes", lambda sent: tuple(sent.tolist()))
        )
        tables.append(kernels.assign(member=member))
    every = pd.concat(tables, ignore_index=True)
    fastest = every.groupby("sizes")["dur_ns"].apply(lambda durations: float(np.percentile(durations, _FASTEST)))
    known = dict(zip(fastest.index, fastest, strict=True))
    # Messages that only ever go together take no longer than one after the other.
    takes = {sizes: min(ns, sum(known.get((size,), np.inf) for size in sizes)) for sizes, ns in known.items()}
    beyond = every["dur_ns"].to_numpy(np.float64) - every["sizes"].map(takes).to_numpy(np.float64)
    waits = np.minimum(np.maximum(beyond, 0.0), every["cost_ns"].to_numpy(np.float64))
    out = np.zeros(len(messages))
    np.add.at(out, every["member"].to_numpy(), waits)
    return out


def _blank(size: int) -> dict[str, Any]:
    """The columns that all frames have, and nothing in them."""
    blank = {"BIGINT": np.full(size, -1, np.int64), "VARCHAR": pd.Categorical([None] * size)}
    return {column.name: blank[column.type] for column in COMMON}
