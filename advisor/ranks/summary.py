"""The ranks of one run beside their findings: a row for each, how well the clocks agree, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from advisor.counting import duration
from advisor.privacy import file_names
from advisor.ranks.digest import Digest
from advisor.ranks.job import Job
from advisor.results.analysis import QualityNote
from advisor.results.ranks import Clocks, RankRow, Stage, Turns

_NAMED = 8
_APART_NS = 60_000_000_000


def ranks_of(digests: Sequence[Digest]) -> tuple[Job | None, list[QualityNote]]:
    """The ranks of one run among some traces, in order, each once; None where there are fewer than two."""
    notes: list[QualityNote] = []
    chosen: dict[int, Digest] = {}
    nameless = [digest.path for digest in digests if digest.rank is None]
    for digest in digests:
        if digest.rank is None:
            continue
        if digest.rank not in chosen:
            chosen[digest.rank] = digest
            continue
        # The newest recording, by its own clock: the last one is furthest from warm-up.
        newest, other = sorted((chosen[digest.rank], digest), key=lambda entry: -entry.zero_ns)
        chosen[digest.rank] = newest
        left_out, kept = file_names([other.path, newest.path])
        newer = ", which is newer" if newest.zero_ns > other.zero_ns else ""
        notes.append(
            QualityNote(
                code="rank-twice",
                message=f"rank {digest.rank} was given twice: {left_out} is left out beside {kept}{newer}",
                advice="Give one trace of each rank.",
            )
        )
    on_gpu = any({"distributed", "gpu"} <= digest.features for digest in chosen.values())
    alone = {rank for rank, digest in chosen.items() if not _communicates(digest, on_gpu)}
    together = {rank: digest for rank, digest in chosen.items() if rank not in alone}
    if len(together) < 2:
        return None, []
    if alone:
        notes.append(
            QualityNote(
                code="rank-without-gpu",
                message=f"{_spans_of(sorted(alone))}: no communication on a GPU was recorded there",
                advice="Record host and GPU on every rank.",
            )
        )
    if nameless:
        notes.append(
            QualityNote(
                code="rank-unknown",
                message=f"neither the trace nor the name of the file says which rank it is: {', '.join(file_names(nameless))}",
                advice="Name the files rank0.json, rank1.json and so on.",
            )
        )
    ranks = sorted(together)
    return Job([together[rank] for rank in ranks], ranks), notes


def _communicates(digest: Digest, on_gpu: bool) -> bool:
    """Tell whether the communication of a rank was recorded: on its GPU, or in a run without any on the CPU."""
    if on_gpu:
        return {"distributed", "gpu"} <= digest.features
    return "distributed" in digest.features and digest.on_cpu


def notes_of(job: Job) -> Iterator[QualityNote]:
    """Note what is missing of the run, and which ranks cannot be compared."""
    world = world_size(job)
    if world and (missing := sorted(set(range(min(world, 1 << 20))) - set(job.ranks))):
        yield QualityNote(
            code="ranks-missing",
            message=f"{len(missing):,} of {world:,} ranks were not given ({_spans_of(missing)}): a rank that seems to "
            "be late may itself have waited for one of them, and waits for them do not show",
            advice="Give the traces of all ranks.",
        )
    for name, member in job.strange:
        yield QualityNote(
            code="ranks-differ",
            message=f"rank {job.ranks[member]} does not run the collectives that the others run in group {name}",
            advice="Give ranks of one run, recorded over the same steps.",
        )
    clocks, record = job.clocks, "Record the same steps on all ranks."
    for member in np.flatnonzero(clocks.odd).tolist():
        yield QualityNote(
            code="clock-unsteady",
            message=f"rank {job.ranks[member]} leaves collectives {duration(clocks.spread_ns[member] / 1e6)} and more before or "
            "after the others: its arrivals are left out",
            advice=record,
        )
    if job.groups and (lone := np.flatnonzero(~clocks.linked).tolist()):
        ranks = _spans_of([job.ranks[member] for member in lone])
        message = f"{ranks}: too few collectives in common with the others"
        yield QualityNote(code="ranks-unmatched", message=message, advice=record)
    usable = np.flatnonzero(clocks.usable)
    if len(usable) > 1 and np.ptp(clocks.offset_ns[usable]) > _APART_NS:
        yield QualityNote(
            code="clocks-apart",
            message=f"the clocks of the ranks differ by {np.ptp(clocks.offset_ns[usable]) / 1e9:,.0f} s; they were "
            "aligned on the ends of the collectives",
            advice="If the traces are not of one run, compare ranks of one.",
        )


def world_size(job: Job) -> int | None:
    """Ranks of the run, as the traces say."""
    sizes = [digest.world_size for digest in job.digests if digest.world_size]
    return max(sizes) if sizes else None


def clocks_of(job: Job) -> Clocks:
    """Sum up how well the times of the ranks can be compared."""
    usable = job.clocks.usable
    return Clocks(
        collectives=job.arrivals.collectives,
        residual_ms=float(job.clocks.spread_ns[usable].max(initial=0.0)) / 1e6,
        comparable=not job.obstacle,
        because=job.obstacle or None,
    )


def turns_of(job: Job) -> list[Turns]:
    """Say of each host how many of its ranks run at once."""
    return [
        Turns(
            ranks=[job.ranks[member] for member in host.members],
            running=host.running,
            still=host.still,
            share=host.share,
            held_share=host.held,
            chance_share=host.chance,
        )
        for host in job.hosts
    ]


def stages_of(job: Job) -> list[Stage]:
    """Say of each stage of a pipeline what it computes and waits."""
    frame = job.stages
    if frame.empty:
        return []
    each = frame.drop_duplicates("rank")
    member = {rank: job.digests[at] for at, rank in enumerate(job.ranks)}
    rows = []
    for number, part in each.groupby("stage"):
        ranks = part["rank"].tolist()
        shares = [
            ns / member[rank].counted_ns if member[rank].counted_ns else 0.0
            for rank, ns in zip(ranks, part["dur_ns"].tolist(), strict=True)
        ]
        whole = [
            share * (member[rank].whole_ms if member[rank].step_ms is not None else 0.0)
            for rank, share in zip(ranks, shares, strict=True)
        ]
        rows.append(
            Stage(
                stage=int(str(number)),
                ranks=ranks,
                compute_ms=int(part["stage_ns"].iloc[0]) / 1e6,
                wait_ms=float(np.mean(whole)),
                wait_share=float(np.mean(shares)),
                micro_batches=int(part["micro_batches"].iloc[0]),
            )
        )
    return rows


def rows_of(job: Job) -> list[RankRow]:
    """A row for each rank."""
    known = not job.obstacle
    frame = job.arrivals.frame
    frame = frame[frame["step"].to_numpy(np.int64) >= 0] if len(frame) else frame
    spent = frame.groupby("rank")["cost_ns"].sum()
    # Where stages of a pipeline meet, who is last is so by design.
    decided = frame[frame["late_rank"].notna() & ~frame["across_stages"].to_numpy(np.bool_)]
    last = decided.groupby("rank")["late"].agg(["sum", "count"])
    caused = decided.groupby("late_rank")["cost_ns"].sum()
    return [_row(job, member, known, spent, last, caused) for member in range(len(job.ranks))]


def _row(
    job: Job, member: int, known: bool, spent: pd.Series[int], last: pd.DataFrame, caused: pd.Series[int]
) -> RankRow:
    digest, rank, clocks = job.digests[member], job.ranks[member], job.clocks
    counted_ns, steps = digest.counted_ns, max(digest.step_count, 1)
    there = known and bool(clocks.usable[member])
    wait = int(spent.get(rank, 0))
    share = wait / counted_ns if counted_ns else 0.0
    per_step = digest.whole_ms if digest.step_ms is not None else counted_ns / steps / 1e6
    middle = job.whole_ms
    counted = job.ledger.counted_ns
    collectives = int(last["count"].get(rank, 0))
    busy = digest.facts.get("busy_share")
    peak = digest.facts.get("peak_allocated_bytes")
    return RankRow(
        rank=rank,
        path=digest.path,
        steps=digest.step_count,
        step_ms=digest.step_ms,
        gpu_busy_share=None if pd.isna(busy) else float(busy),
        compute_share=digest.causes["compute"] / counted_ns if counted_ns else None,
        communication_share=digest.causes["communication"] / counted_ns if counted_ns else None,
        loader_share=digest.causes["loader"] / counted_ns if counted_ns and "loader" in digest.features else None,
        peak_memory_bytes=None if peak is None else int(peak),
        wait_ms=share * per_step if there else None,
        wait_share=share if there else None,
        late_share=(int(last["sum"].get(rank, 0)) / collectives if collectives else 0.0) if there else None,
        caused_ms=int(caused.get(rank, 0)) / counted * middle if there and counted else None,
        clock_offset_ms=float(clocks.offset_ns[member]) / 1e6 if clocks.linked[member] else None,
        clock_residual_ms=float(clocks.spread_ns[member]) / 1e6 if clocks.linked[member] else None,
    )


def _spans_of(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 1 to 4, 7`` and so on; the first few of many."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][-1] + 1:
            spans[-1][1:] = [rank]
        else:
            spans.append([rank])
    shown = [str(span[0]) if len(span) == 1 else f"{span[0]} to {span[1]}" for span in spans[:_NAMED]]
    rest = ", ..." if len(spans) > _NAMED else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(shown)}{rest}"
