"""Excess work of a late rank on the CPU: larger inputs, more operators, or more loading and Python than the others'.

Time itself does not tell: on the CPU another process may have had the core. So an operator's work is measured by those of its
operands that are not the same in all steps and on all ranks (weights are), and priced at what such an element usually takes.
Loading and Python have no such measure: there speaks what nearly all steps have, without what the rank is slower at equal work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from msgspec import Struct

from advisor.intervals import Ints
from advisor.ranks.digest import Digest
from advisor.ranks.work import NEAR
from advisor.timeline.ledger import CAUSES, CODE

Numbers = npt.NDArray[np.float64]
_CALLS = 0.5
"""Calls a step by which a rank has more of them."""
_ALONE = 0.9
"""Part of the time in more calls than the others have from which on it is one rank's own work."""
_MOSTLY = 0.75
"""Part of the steps in which a rank must load longer, or run Python longer, than the others."""
_LEAST_STEPS = 5
"""Steps that say which rank always has more: of two ranks, chance makes one the larger in all of four every eighth time."""


class Excess(Struct, frozen=True):
    """Excess of each rank over the median of the others. By step's number and rank: ns of ``larger`` inputs, and of ``more``
    calls. By rank: how much ``slower`` it is than the others at equal work. By rank and cause: ns ``beyond`` that slowness."""

    numbers: Ints
    larger: Numbers
    more: Numbers
    slower: Numbers
    beyond: Numbers

    def of(self, step: Ints, member: Ints, cause: Ints, lead: Ints) -> dict[str, Numbers]:
        """Return the parts of the *lead* ns by which ranks came late in these steps, and how much slower they are."""
        at = np.searchsorted(self.numbers, step)
        known = at < len(self.numbers)
        known[known] = self.numbers[at[known]] == step[known]
        names = ("larger_share", "larger_steps", "more_share", "beyond_share", "slower")
        out = {name: np.full(len(step), np.nan) for name in names}
        at, who = at[known], member[known]
        larger, more = self.larger[at, who], self.more[at, who]
        whole = np.maximum(lead[known], larger + more)
        out["larger_share"][known], out["more_share"][known] = larger / whole, more / whole
        beyond = np.where(cause[known] >= 0, self.beyond[who, cause[known]], np.nan)
        out["beyond_share"][known] = np.minimum(beyond / lead[known], 1.0)
        out["slower"][known] = self.slower[who]
        if len(self.numbers) >= _LEAST_STEPS:
            out["larger_steps"][known] = (self.larger > 0).mean(axis=0)[who]
        return out


def excess(digests: Sequence[Digest]) -> Excess:
    """Compare ranks on the CPU, step by step; nothing of ranks on a GPU, and without shapes."""
    common = _common(digests)
    shape = (len(common), len(digests))
    if not all(len(digest.host.steps) and "shapes" in digest.features for digest in digests) or not len(common):
        blank = np.full((0, len(digests)), np.nan)
        return Excess(common[:0], blank, blank, np.full(shape[1], np.nan), np.full((shape[1], len(CAUSES)), np.nan))
    names = sorted({str(name) for digest in digests for name in digest.host.operators["name"].cat.categories})
    count, ns = (_dense(digests, common, names, figure) for figure in ("count", "ns"))
    amount = _amounts(digests, common, names)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(amount > 0, ns / amount, np.nan)
    known = ~np.isnan(rate).all(axis=(0, 1))
    usual = np.zeros(len(names))
    usual[known] = np.nanmedian(rate[:, :, known], axis=(0, 1))
    calls, work = count - _others(count), (amount - _others(amount)) * usual
    more = np.maximum(np.where(calls >= _CALLS, work, 0).sum(axis=2), 0)
    larger = np.maximum(np.where(np.abs(calls) < _CALLS, work, 0).sum(axis=2), 0)
    if (
        more.any() and more.sum(axis=0).max() < _ALONE * more.sum()
    ):  # loops over inputs, which are longer now here, now there
        larger, more = larger + more, np.zeros(shape)
    same = (np.ptp(amount, axis=(0, 1)) <= NEAR * amount.max(axis=(0, 1))) & (np.ptp(count, axis=(0, 1)) < _CALLS)
    slower = _slower(ns, amount * usual, same)
    return Excess(common, larger, more, slower, _beyond(digests, common, slower))


def _common(digests: Sequence[Digest]) -> Ints:
    """Numbers of the steps that each rank has once, rising: by its place alone no step is known to be another rank's."""
    ranks_of = Counter[int]()
    for digest in digests:
        numbers, count = np.unique(digest.step_numbers, return_counts=True)
        ranks_of.update(numbers[(count == 1) & (numbers >= 0)].tolist())
    return np.array(sorted(number for number, ranks in ranks_of.items() if ranks == len(digests)), np.int64)


def _others(figures: Numbers) -> Numbers:
    """Median of the other ranks, by step, rank and more; NaN of a rank that is alone."""
    count = figures.shape[1] - 1
    if not count:
        return np.full(figures.shape, np.nan)
    order = np.argsort(figures, axis=1)
    rising = np.take_along_axis(figures, order, axis=1)
    place = np.argsort(order, axis=1)  # of each rank among all
    middle = (
        np.take_along_axis(rising, np.where(at < place, at, at + 1), axis=1) for at in ((count - 1) // 2, count // 2)
    )
    median: Numbers = np.mean(list(middle), axis=0)
    return median


def _slower(ns: Numbers, expected: Numbers, same: npt.NDArray[np.bool_]) -> Numbers:
    """By how much each rank is slower than the others at equal work: in the median of the steps."""
    taken = ns.sum(axis=2)
    due = np.where(same, np.median(ns, axis=(0, 1)), expected).sum(axis=2)
    pace = np.median(taken / np.maximum(due, 1), axis=0)
    usual = _others(pace[None])[0]
    return np.where(usual > 0, pace / np.where(usual > 0, usual, 1) - 1, np.nan)


def _beyond(digests: Sequence[Digest], common: Ints, slower: Numbers) -> Numbers:
    """ns a step, by rank and cause, that a rank spends more than the others, were they as slow: at least so much in three of four
    steps. Less often it is what the machine does to a rank."""
    rows = [
        np.argsort(numbers)[np.searchsorted(np.sort(numbers), common)]
        for numbers in (digest.step_numbers for digest in digests)
    ]
    each = np.stack([digest.host.steps[own] for digest, own in zip(digests, rows, strict=True)], axis=1)
    apart = each - np.maximum(1 + slower, 1)[:, None] * _others(each.astype(np.float64))
    beyond = np.maximum(np.quantile(apart, 1 - _MOSTLY, axis=0), 0)
    beyond[:, CODE["communication"]] = 0
    return beyond


def _amounts(digests: Sequence[Digest], steps: Ints, names: Sequence[str]) -> Numbers:
    """Elements of operands by step, rank and name, but for shapes that all steps of all ranks have as many of."""
    parts = [
        digest.host.operands.astype({"name": object, "shape": object}).assign(member=member)
        for member, digest in enumerate(digests)
    ]
    out = np.zeros((len(steps), len(digests), len(names)))
    place = {name: at for at, name in enumerate(names)}
    cells = len(steps) * len(digests)
    table = pd.concat(parts, ignore_index=True)
    for (name, text), rows in table[np.isin(table["step"], steps)].groupby(["name", "shape"]):
        tensors = rows["count"].to_numpy(np.int64)
        if len(rows) == cells and (tensors == tensors[0]).all():
            continue
        at = np.searchsorted(steps, rows["step"].to_numpy(np.int64))
        elements = float(np.prod([int(part) for part in str(text).split(",")]))
        # A step of a rank has one row.
        out[at, rows["member"].to_numpy(np.int64), place[str(name)]] += tensors * elements
    return out


def _dense(digests: Sequence[Digest], steps: Ints, names: Sequence[str], figure: str) -> Numbers:
    """A figure of the tables of operators by step, rank and name, 0 where there is none."""
    out = np.zeros((len(steps), len(digests), len(names)))
    place = {name: at for at, name in enumerate(names)}
    for member, digest in enumerate(digests):
        table = digest.host.operators
        table = table[np.isin(table["step"], steps)]
        at = np.searchsorted(steps, table["step"].to_numpy(np.int64))
        out[at, member, table["name"].astype(object).map(place).to_numpy(np.int64)] = table[figure].to_numpy(np.float64)
    return out
