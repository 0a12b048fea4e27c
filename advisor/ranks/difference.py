"""In what work ranks differ: kernels that some run and others do not or more often, operators on other shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from advisor.ranks.job import Job
from advisor.ranks.work import NEAR, table
from advisor.results.ranks import Difference

MOST = 10
# Work that comes to less of a step is not told of: cuBLAS may pick another kernel for a matrix here and there.
LEAST_SHARE = 0.005


def differences(job: Job) -> list[Difference]:
    """List the kernels and the shapes in which ranks differ from most; what weighs most first."""
    if len(job.digests) < 3:
        return []  # of two, neither is the usual one
    if not all(digest.step_count for digest in job.digests):
        return []  # recordings of different lengths hold different work
    whole_ms = job.whole_ms
    gaps = [*_kernels(job, whole_ms), *_shapes(job, whole_ms)]
    gaps.sort(key=lambda row: (-abs(row.ms) * len(row.ranks), row.what, row.name, row.ranks))
    return gaps[:MOST]


def _kernels(job: Job, whole_ms: float) -> list[Difference]:
    counts, times = table(job.digests, ["name"])
    ranks_of: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for name in counts.index:
        count, ms = counts.loc[name].to_numpy(), times.loc[name].to_numpy()
        usual, usual_ms = float(np.nanmedian(count)), float(np.nanmedian(ms))
        off = np.abs(count - usual) > np.maximum(NEAR * usual, 0.5)
        for member in np.flatnonzero(off & (np.abs(ms - usual_ms) >= LEAST_SHARE * whole_ms)).tolist():
            key = (str(name), _times(float(count[member])), _times(usual))
            ranks_of.setdefault(key, []).append((job.ranks[member], float(ms[member]) - usual_ms))
    return [_difference("kernel", name, here, usual, on) for (name, here, usual), on in ranks_of.items()]


def _shapes(job: Job, whole_ms: float) -> list[Difference]:
    """Operators that a rank runs on other shapes than most ranks do."""
    counts, times = table(job.digests, ["op", "shapes"])
    ranks_of: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for op in dict.fromkeys(counts.index.get_level_values("op")):
        count, ms = counts.loc[[op]], times.loc[[op]]
        shapes = [str(shape) for shape in count.index.get_level_values("shapes")]
        here, usual = count.to_numpy(), np.nanmedian(count.to_numpy(), axis=1)
        total = np.nansum(ms.to_numpy(), axis=0)
        apart = total - float(np.median(total))
        others = (np.abs(here - usual[:, None]) > 0.5) & (here > 0)
        for member in np.flatnonzero(others.any(axis=0) & (np.abs(apart) >= LEAST_SHARE * whole_ms)).tolist():
            own_ms = np.where(others[:, member], ms.to_numpy()[:, member], -1.0)
            most = shapes[int(np.argmax(usual))] if usual.max(initial=0.0) > 0 else "differs from rank to rank"
            key = (str(op), shapes[int(np.argmax(own_ms))], most)
            if key[1] != key[2]:
                ranks_of.setdefault(key, []).append((job.ranks[member], float(apart[member])))
    return [_difference("shapes", name, here, usual, on) for (name, here, usual), on in ranks_of.items()]


def _difference(what: str, name: str, here: str, usual: str, on: Sequence[tuple[int, float]]) -> Difference:
    ranks = sorted(rank for rank, _ in on)
    return Difference(
        ranks=ranks, what=what, name=name, here=here, usual=usual, ms=float(np.mean([ms for _, ms in on]))
    )


def _times(count: float) -> str:
    return "none" if count == 0 else f"{count:.3g} per step"
