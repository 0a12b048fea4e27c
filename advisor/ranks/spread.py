"""Spread of figures over the ranks: of times and memory; and who waits for whom, where and how long."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from advisor.frames.collectives import NAMES, on_the_bus
from advisor.ranks.digest import Digest
from advisor.ranks.job import Job
from advisor.ranks.matching import labels
from advisor.results.ranks import Lag, RankRow, Spread, Traffic, Wait

MOST_TRAFFIC, MOST_LAGS, MOST_WAITS = 20, 10, 256
_MESSAGE = ["group", "kind", "bytes"]


def spreads(job: Job, rows: Sequence[RankRow]) -> list[Spread]:
    """Least, median and most of each figure that two ranks and more tell."""

    def cause(name: str) -> Callable[[int], float | None]:
        return lambda at: _per_step(job.digests[at], job.digests[at].causes[name])

    figures: list[tuple[str, Callable[[int], float | None]]] = [
        ("step_ms", lambda at: rows[at].step_ms),
        ("compute_ms", cause("compute")),
        ("communication_ms", cause("communication")),
        ("wait_ms", lambda at: rows[at].wait_ms),
        ("loader_ms", lambda at: None if rows[at].loader_share is None else cause("loader")(at)),
        ("host_ms", lambda at: cause("host")(at) if "idle" in job.digests[at].features else None),
        ("peak_memory_bytes", lambda at: rows[at].peak_memory_bytes),
    ]
    table = []
    for name, figure in figures:
        values = [(float(value), rows[at].rank) for at in range(len(rows)) if (value := figure(at)) is not None]
        if len(values) < 2:
            continue
        # Of ranks that are equal the first one is named, whether they are the least or the most.
        least, most = min(values), max(values, key=lambda entry: (entry[0], -entry[1]))
        table.append(
            Spread(
                figure=name,
                ranks=len(values),
                min=least[0],
                median=float(np.median([value for value, _ in values])),
                max=most[0],
                min_rank=least[1],
                max_rank=most[1],
            )
        )
    return table


def _per_step(digest: Digest, ns: int) -> float | None:
    """ns of the window as ms per step, as the ranks' other figures are; None where nothing is counted."""
    if not digest.counted_ns:
        return None
    whole_ms = digest.step_ms if digest.step_ms is not None else digest.counted_ns / max(digest.step_count, 1) / 1e6
    return ns / digest.counted_ns * whole_ms


def traffic(job: Job) -> list[Traffic]:
    """Collectives by group, kind and size, those that are exposed longest first."""
    parts = [_messages(digest) for digest in job.digests]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    if table.empty:
        return []
    waits, shortest = _waits(job), _shortest(job)
    messages = []
    means = table.groupby(_MESSAGE).agg(
        ranks=("count", "size"),
        count=("count", "mean"),
        time_ms=("time_ms", "mean"),
        exposed_ms=("exposed_ms", "mean"),
        members=("members", "max"),
    )
    for row in means.reset_index().to_dict("records"):  # a row a rank was summed up
        message = str(row["group"]), str(row["kind"]), int(row["bytes"])
        wait_ms = None if job.obstacle else waits.get(message, 0.0) / int(row["ranks"])
        messages.append(
            Traffic(
                group=message[0],
                kind=message[1],
                bytes=message[2] if message[2] >= 0 else None,
                ranks=int(row["ranks"]),
                count=float(row["count"]),
                time_ms=float(row["time_ms"]),
                exposed_ms=float(row["exposed_ms"]),
                wait_ms=wait_ms,
                bus_gbps=_bus_gbps(row, shortest.get(message)),
            )
        )
    messages.sort(key=lambda entry: (-entry.exposed_ms * entry.ranks, entry.group, entry.kind, entry.bytes or 0))
    return messages[:MOST_TRAFFIC]


def _bus_gbps(row: Mapping[Any, Any], shortest_ns: float | None) -> float | None:
    """Return the bus bandwidth of equal collectives by their mean time without waiting; None where either is unknown."""
    if not shortest_ns or row["kind"] not in NAMES:
        return None
    code, sent, members = (
        np.array([int(number)]) for number in (NAMES.index(row["kind"]), row["bytes"], row["members"])
    )
    moved = float(on_the_bus(code, sent, members)[0])
    return None if np.isnan(moved) else moved / shortest_ns


def _shortest(job: Job) -> dict[tuple[str, str, int], float]:
    """Return the mean over collectives of their shortest duration on any rank, in ns, by group, kind and size.

    It needs no clocks: the rank that comes last waits for nobody.
    """
    frame = job.arrivals.frame
    frame = frame[(frame["step"].to_numpy(np.int64) >= 0) & (frame["ranks_seen"].to_numpy(np.int64) > 1)]
    each = _keys(frame).assign(collective=frame["collective"].to_numpy(np.int64), ns=frame["dur_ns"].to_numpy(np.int64))
    least = each.groupby([*_MESSAGE, "collective"])["ns"].min()
    return _figures(least.groupby(level=_MESSAGE).mean())


def _keys(frame: pd.DataFrame) -> pd.DataFrame:
    """Group, kind and size (-1 where unknown) of rows of `arrivals`."""
    return pd.DataFrame(
        {
            "group": frame["group_name"].astype(str).to_numpy(),
            "kind": frame["kind"].astype(str).to_numpy(),
            "bytes": frame["bytes"].astype("Int64").fillna(-1).to_numpy(np.int64),
        }
    )


def _figures(figure: pd.Series[Any]) -> dict[tuple[str, str, int], float]:
    """Return a figure of each group, kind and size."""
    rows = figure.rename("figure").reset_index().to_dict("records")
    return {(str(row["group"]), str(row["kind"]), int(row["bytes"])): float(row["figure"]) for row in rows}


def _messages(digest: Digest) -> pd.DataFrame:
    """Of one rank, per step: how many, how long and how long exposed, by group, kind and size (-1 where unknown)."""
    table = digest.collectives
    inside = (table["step"] >= 0).to_numpy() if digest.step_count else np.ones(len(table), np.bool_)
    scale = _per_step(digest, 1) or 0.0
    frame = pd.DataFrame(
        {
            "group": labels(digest),
            "kind": table["kind"].astype(object).where(table["kind"].notna(), "unknown"),
            "bytes": table["bytes"].fillna(-1).to_numpy(np.int64),
            "time_ms": table["dur_ns"].to_numpy() * scale,
            "exposed_ms": table["cost_ns"].to_numpy() * scale,
            "members": table["group_size"].fillna(-1).to_numpy(np.int64),
        }
    )[inside]
    sums = frame.groupby(_MESSAGE).agg(
        count=("time_ms", "size"),
        time_ms=("time_ms", "sum"),
        exposed_ms=("exposed_ms", "sum"),
        members=("members", "max"),
    )
    return sums.assign(count=sums["count"] / max(digest.step_count, 1)).reset_index()


def _costs(job: Job) -> pd.DataFrame:
    """Rows of `arrivals` inside steps that cost something, with that as ms per step of their rank."""
    frame = job.arrivals.frame
    frame = frame[(frame["step"].to_numpy(np.int64) >= 0) & (frame["cost_ns"].to_numpy(np.int64) > 0)]
    scales = {rank: _per_step(digest, 1) or 0.0 for rank, digest in zip(job.ranks, job.digests, strict=True)}
    return frame.assign(ms=frame["cost_ns"].to_numpy() * frame["rank"].map(scales).to_numpy(np.float64))


def _late(job: Job) -> pd.DataFrame:
    """Of these rows those of which a late rank is the reason: where stages of a pipeline meet, one is last by design."""
    frame = _costs(job)
    return frame[~frame["across_stages"].to_numpy(np.bool_)]


def _waits(job: Job) -> dict[tuple[str, str, int], float]:
    """Sum the waits of all ranks, in ms per step, by group, kind and size."""
    frame = _costs(job)
    return _figures(_keys(frame).assign(ms=frame["ms"].to_numpy()).groupby(_MESSAGE)["ms"].sum())


def lags(job: Job) -> list[Lag]:
    """The collectives in which ranks waited longest, and for whom."""
    if job.obstacle:
        return []
    sums = _late(job).groupby("collective")["cost_ns"].sum()
    worst = sorted(sums.items(), key=lambda entry: (-int(entry[1]), entry[0]))[:MOST_LAGS]
    arrivals = job.arrivals.frame
    chosen = arrivals[arrivals["collective"].isin([number for number, _ in worst])]
    longest = []
    for number, cost in worst:
        rows = chosen[chosen["collective"] == number]
        last = rows[rows["late"].to_numpy()].iloc[0]
        step = int(last["step"])
        numbers = job.digests[job.ranks.index(int(last["rank"]))].step_numbers
        longest.append(
            Lag(
                collective=int(str(number)),
                kind=_text(last["kind"]),
                group=_text(last["group_name"]),
                bytes=None if pd.isna(last["bytes"]) else int(last["bytes"]),
                op=_text(last["op"]),
                step=int(numbers[step]) if 0 <= step < len(numbers) else None,
                start_ms=float(last["start_ns"]) / 1e6,
                late_rank=int(last["late_rank"]),
                late_by_ms=float(last["late_by_ns"]) / 1e6,
                late_cause=_text(last["late_cause"]),
                wait_ms=int(cost) / len(rows) / 1e6,
            )
        )
    return longest


def waits(job: Job) -> list[Wait]:
    """List who waits for whom, the longest first."""
    if job.obstacle:
        return []
    sums = _late(job).groupby(["rank", "late_rank"])["ms"].sum().reset_index()
    order = np.lexsort((sums["late_rank"], sums["rank"], -sums["ms"]))[:MOST_WAITS]
    return [
        Wait(rank=int(row["rank"]), late_rank=int(row["late_rank"]), wait_ms=float(row["ms"]))
        for row in sums.iloc[order].to_dict("records")
    ]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
