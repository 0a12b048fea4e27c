"""Work of the ranks, side by side: whether one does the same as the others, and how much longer it takes.

A rank that does the same work and takes longer for it has a slower device; one that does more is late for that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from advisor.ranks.digest import Digest

NEAR = 0.02
"""Counts per step, and shares of a rank's time, that are nearer are alike: the ends of a recording may cut a step's work."""
Numbers = npt.NDArray[np.float64]


def table(digests: Sequence[Digest], keys: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Count and ms per step, a row for each of *keys*, a column for each rank; NaN where a rank's list does not tell."""
    parts = []
    for member, digest in enumerate(digests):
        steps = max(digest.step_count, 1)
        part = digest.work[[*keys]].astype(object)
        part = part.assign(member=member, count=digest.work["count"] / steps, ms=digest.work["dur_ns"] / steps / 1e6)
        parts.append(part[part[list(keys)].notna().all(axis=1)])
    sums = pd.concat(parts, ignore_index=True).groupby([*keys, "member"])[["count", "ms"]].sum()
    members = range(len(digests))
    tables = []
    for figure in ("count", "ms"):
        wide = sums[figure].unstack("member").reindex(columns=members)
        for member, digest in enumerate(digests):
            if complete(digest):
                wide[member] = wide[member].fillna(0.0)
        tables.append(wide.astype(np.float64))
    return tables[0], tables[1]


def complete(digest: Digest) -> bool:
    """Tell whether a digest lists all kernels, so that what it does not list was not run."""
    return int(digest.work["count"].sum()) == digest.work_count


def more_compute(digests: Sequence[Digest]) -> Numbers:
    """By which share each rank computes longer per step than the median of the others; NaN where a rank has no steps."""
    ns = np.array([digest.causes["compute"] / (digest.step_count or np.nan) for digest in digests], np.float64)
    usual = np.array([float(np.median(np.delete(ns, at))) if len(ns) > 1 else np.nan for at in range(len(ns))])
    return np.where(usual > 0, ns / np.where(usual > 0, usual, 1.0) - 1.0, np.nan)


def same_work(digests: Sequence[Digest]) -> list[bool | None]:
    """For each rank, whether it runs the kernels of the others, on their shapes and as often; None where unknown."""
    if len(digests) < 2 or not all("shapes" in digest.features and digest.step_count for digest in digests):
        return [None] * len(digests)
    counts, times = table(digests, ["name", "op", "shapes"])
    count, ms = counts.to_numpy(), times.to_numpy()
    listed = np.nansum(ms, axis=0) if len(ms) else np.zeros(len(digests))
    return [_is_same(member, digest, count, ms, listed) for member, digest in enumerate(digests)]


def _is_same(member: int, digest: Digest, count: Numbers, ms: Numbers, listed: Numbers) -> bool | None:
    total_ms = digest.work_ns / max(digest.step_count, 1) / 1e6
    if not total_ms or float(listed[member]) < (1 - NEAR) * total_ms:
        return None  # much of its work has no shapes, or is not listed
    own, others = count[:, member], np.delete(count, member, axis=1)
    known = ~np.isnan(own) & ~np.isnan(others).all(axis=1)
    usual = _median(others[known])
    off = np.abs(own[known] - usual) > np.maximum(NEAR * usual, 0.5)
    apart = np.maximum(ms[known, member][off], _median(np.delete(ms, member, axis=1)[known][off]))
    return bool(apart.sum() <= NEAR * total_ms)


def _median(values: Numbers) -> Numbers:
    """Median of each row of what is known."""
    out: Numbers = np.nanmedian(values, axis=1) if len(values) else np.zeros(0)
    return out
