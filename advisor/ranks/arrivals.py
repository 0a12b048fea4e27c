"""The frame `arrivals`: when each rank came to each collective, who came last, and what held that rank up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from msgspec import Struct

from advisor.frames.arrivals import SCHEMA, empty
from advisor.intervals import Bools, Ints
from advisor.ranks.clocks import SIGMAS, Clocks, ends, kinds_of, starts
from advisor.ranks.digest import Digest
from advisor.ranks.excess import excess
from advisor.ranks.matching import KINDS, TOGETHER, Group
from advisor.ranks.pipelines import Pipelines
from advisor.ranks.work import more_compute, same_work
from advisor.timeline.ledger import CAUSES, CODE

# Timestamps of older traces are whole us: two of them make no lag.
_RESOLUTION_NS = 2_000
_FAR = np.int64(1 << 62)
# Of what a rank computed longer: so much in products is experts', whose activation functions are beside them.
_PRODUCTS = 0.5
# By so much more than the others a rank must send to have got more tokens.
_MORE_TOKENS = 0.02
Numbers = npt.NDArray[np.float64]


class Arrivals(Struct, frozen=True):
    """The frame, and what the clocks leave open: ns waited in collectives whose lag is within their scatter, and how many
    collectives end before their last rank has come, which cannot be."""

    frame: pd.DataFrame
    undecided_ns: int
    impossible: int
    collectives: int
    noise_ns: float


def arrivals(
    digests: Sequence[Digest],
    ranks: Sequence[int],
    groups: Sequence[Group],
    clocks: Clocks,
    pipelines: Pipelines | None = None,
) -> Arrivals:
    """Every matched collective of every rank whose clock can be compared. *ranks* are the ranks of the digests."""
    zero = min(
        (digest.zero_ns - int(offset) for digest, offset in zip(digests, clocks.offset_ns, strict=True)), default=0
    )
    parts: list[pd.DataFrame] = []
    undecided = impossible = number = 0
    noises: list[float] = []
    for group in groups:
        columns = [column for column, member in enumerate(group.members) if clocks.usable[member]]
        rows = group.rows[:, columns]
        chosen = (kinds_of(digests, group) < TOGETHER) & ((rows >= 0).sum(axis=1) > 1)
        if len(columns) < 2 or not chosen.any():
            continue
        members = [group.members[column] for column in columns]
        noise = max(SIGMAS * float(clocks.spread_ns[members].max()), float(_RESOLUTION_NS))
        part, open_ns, wrong = _of_group(digests, ranks, group.name, members, rows[chosen], clocks, zero, noise)
        part["collective"] += number
        told = _told(digests, members, rows[chosen]) | (pipelines is not None and pipelines.part(group.members))
        part["across_stages"] = np.repeat(told, len(members))[part["_cell"].to_numpy()]
        kinds = np.array(KINDS, dtype=object)[kinds_of(digests, group)[chosen]]
        part["kind"] = pd.Categorical(
            np.repeat(kinds, len(members))[part.pop("_cell").to_numpy()], categories=list(KINDS)
        )
        number += int(chosen.sum())
        undecided, impossible = undecided + open_ns, impossible + wrong
        noises.append(noise)
        parts.append(part)
    if not parts:
        return Arrivals(empty().pandas(), 0, 0, 0, 0.0)
    frame = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]
    for name in ("op", "module", "file", "function", "library", "group_name", "late_cause"):
        frame[name] = frame[name].astype("category")
    return Arrivals(frame[SCHEMA.names()], undecided, impossible, number, max(noises))


def _of_group(
    digests: Sequence[Digest],
    ranks: Sequence[int],
    name: str,
    members: Sequence[int],
    rows: Ints,
    clocks: Clocks,
    zero: int,
    noise: float,
) -> tuple[pd.DataFrame, int, int]:
    """Rows of one group; the ns that the clocks leave open, and the collectives that end before all have come."""
    shape = rows.shape
    there = rows >= 0
    start, end, cost = np.full(shape, -_FAR), np.full(shape, _FAR), np.zeros(shape, np.int64)
    steps, lows = np.full(shape, -1, np.int64), []
    for column, member in enumerate(members):
        digest, present = digests[member], there[:, column]
        shift = int(clocks.offset_ns[member]) + zero
        at = rows[present, column]
        start[present, column] = starts(digest)[at] - shift
        end[present, column] = ends(digest)[at] - shift
        cost[present, column] = digest.collectives["cost_ns"].to_numpy(np.int64)[at]
        steps[present, column] = digest.collectives["step"].to_numpy(np.int64)[at]
        lows.append(digest.zero_ns + digest.window[0] - shift)
    last = start.max(axis=1)
    lag = last - np.where(there, start, _FAR).min(axis=1)
    late = start.argmax(axis=1)
    decided = lag > noise
    impossible = int((np.where(there, end, _FAR).min(axis=1) < last - noise).sum())
    ahead = np.where(there, last[:, None] - start, 0)
    until = np.minimum(last[:, None], end)
    # A rank waits from its own first step on, whatever the others' steps: when they came is known before these as well.
    raw = np.where(there, np.maximum(until - np.maximum(start, np.array(lows, np.int64)), 0), 0)
    undecided = int(np.minimum(raw, cost)[~decided & (steps >= 0).any(axis=1)].sum())
    wait = np.where(decided[:, None], raw, 0)
    who = np.array([ranks[member] for member in members], np.int64)
    those = [digests[member] for member in members]
    same, more = same_work(those), more_compute(those)
    before = _Before(those, rows, start, end)
    lead, cause, above = _held_up(before, start, there, late)
    sent, experts = _tokens(digests, members, rows, late, above)
    cells = np.flatnonzero(there.ravel())
    collective, who_row = np.divmod(cells, shape[1])
    known = decided[collective]
    frame: dict[str, Any] = _places(digests, members, rows)
    reasons = _excess(those, steps, late, cause, lead, decided)
    frame |= {name: figure[collective] for name, figure in reasons.items()}
    frame |= {
        "start_ns": start.ravel()[cells],
        "dur_ns": (end - start).ravel()[cells],
        "cost_ns": np.minimum(wait, cost).ravel()[cells],
        "rank": who[who_row],
        "collective": collective,
        "group_name": pd.Categorical([name] * len(cells)),
        "ranks_seen": there.sum(axis=1)[collective],
        "ahead_ns": ahead.ravel()[cells],
        "wait_ns": wait.ravel()[cells],
        "late": known & (late[collective] == who_row),
        "late_rank": pd.arrays.IntegerArray(who[late][collective], ~known),
        "late_by_ns": pd.arrays.IntegerArray(lead[collective], ~known),
        "late_cause": pd.Categorical(
            np.array([*CAUSES, None], dtype=object)[np.where(known, cause[collective], -1)], categories=list(CAUSES)
        ),
        "late_more_compute": np.where(known, more[late][collective], np.nan),
        "late_same_work": _flags(same)[late][collective],
        "late_more_sent": np.where(known, sent[collective], np.nan),
        "late_by_experts": known & (experts & (cause == CODE["compute"]))[collective],
        "_cell": cells,
    }
    return pd.DataFrame(frame), undecided, impossible


def _told(digests: Sequence[Digest], members: Sequence[int], rows: Ints) -> Bools:
    """Flag the collectives of a group of which a rank knows that stages of its pipeline meet in them."""
    out = np.zeros(len(rows), np.bool_)
    for column, member in enumerate(members):
        flags = np.append(digests[member].collectives["across_stages"].to_numpy(np.bool_), False)
        out |= flags[rows[:, column]]
    return out


def _flags(values: Sequence[bool | None]) -> Any:
    """Flags of which some are unknown."""
    return pd.array([pd.NA if value is None else value for value in values], dtype="boolean")


class _Before:
    """ns of each cause, by collective and rank, since the collective before; NaN where a rank does not hold it.

    On the CPU several are in flight at once, and it is since the last that all ranks had left by then and in which they met: each
    waited for its end, or came last. One cause at a time: all at once would be thirteen times the collectives of all ranks.
    """

    def __init__(self, digests: Sequence[Digest], rows: Ints, start: Ints, end: Ints) -> None:
        self.digests, self.rows = digests, rows
        self.on_cpu = all(digest.on_cpu for digest in digests)
        if self.on_cpu:
            # How many, from the first, each rank has left when it comes to each.
            left = [
                np.searchsorted(
                    np.maximum.accumulate(np.where(rows[:, at] >= 0, end[:, at], -_FAR)), start[:, at], "right"
                )
                for at in range(rows.shape[1])
            ]
            there = np.where(rows >= 0, np.stack(left, axis=1), len(rows))
            waits = np.stack(
                [np.append(digest.host.waits, 1)[rows[:, at]] for at, digest in enumerate(digests)], axis=1
            )
            met = ((waits > 0) | (start >= start.max(axis=1, keepdims=True))).all(axis=1)
            last = np.append(np.maximum.accumulate(np.where(met, np.arange(len(rows)), -1)), -1)
            self.since = last[np.minimum(there.min(axis=1), np.arange(len(rows))) - 1]

    def of(self, code: int) -> Numbers:
        """Return it for a cause."""
        out = np.full(self.rows.shape, np.nan)
        for column, digest in enumerate(self.digests):
            own = self.rows[:, column]
            present = own >= 0
            if not self.on_cpu:
                out[present, column] = digest.before[own[present], code]
                continue
            from_ = np.where(self.since >= 0, own[np.maximum(self.since, 0)], -1)[present]
            left = np.append(digest.host.left[:, code], 0)[from_]
            out[present, column] = digest.host.begun[own[present], code] - left
        return out


def _held_up(before: _Before, start: Ints, there: Bools, late: Ints) -> tuple[Ints, Ints, Numbers]:
    """For each collective: how long after the median of the others the last rank came, the cause of which it spent most above
    the others' median since the collective before, -1 where it spent more on none; and the ns that it computed longer."""
    count = len(start)
    line = np.arange(count)
    others = there.copy()
    others[line, late] = False
    times = np.where(others, start, 0).astype(np.float64)
    times[~others] = np.nan
    base = np.where(others, start, _FAR).min(axis=1)
    lead = start[line, late] - base - np.rint(np.nanmedian(times - base[:, None], axis=1)).astype(np.int64)
    above = np.zeros((count, len(CAUSES)))
    for code in range(len(CAUSES)):
        if code == CODE["communication"]:
            continue
        spent = before.of(code)
        above[:, code] = spent[line, late] - np.nanmedian(np.where(others, spent, np.nan), axis=1)
    return lead, np.where(above.max(axis=1) > 0, above.argmax(axis=1), -1), above[:, CODE["compute"]]


def _excess(
    digests: Sequence[Digest], steps: Ints, late: Ints, cause: Ints, lead: Ints, decided: Bools
) -> dict[str, Numbers]:
    """For each collective, the parts of the lag of its last rank that more work explains; NaN on GPUs."""
    found = excess(digests)
    places = steps[np.arange(len(late)), late]
    numbers = np.full(len(late), -1, np.int64)
    for column, digest in enumerate(digests):
        own = (late == column) & (places >= 0) & (places < len(digest.step_numbers))
        numbers[own] = digest.step_numbers[places[own]]
    figures = found.of(numbers, late, cause, np.maximum(lead, 1))
    return {f"late_{name}": np.where(decided, figure, np.nan) for name, figure in figures.items()}


def _tokens(
    digests: Sequence[Digest], members: Sequence[int], rows: Ints, late: Ints, longer: Numbers
) -> tuple[Numbers, Bools]:
    """For each all-to-all by which share its last rank sends more than the others on average, NaN for other collectives; and
    whether that rank came late because its experts got more tokens, where *longer* is what it computed longer, ns."""
    count = len(rows)
    sizes, products = np.full(rows.shape, np.nan), np.full(rows.shape, np.nan)
    named, exchanges = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    for column, member in enumerate(members):
        digest, present = digests[member], rows[:, column] >= 0
        at = rows[present, column]
        sizes[present, column] = digest.collectives["bytes"].astype("Float64").to_numpy(np.float64, na_value=np.nan)[at]
        products[present, column] = digest.products[at]
        named[present] |= digest.tokens[at] > 0
        exchanges[present] |= (digest.collectives["kind"] == "all_to_all").to_numpy(np.bool_)[at]
    more, experts = np.full(count, np.nan), np.zeros(count, np.bool_)
    for line in np.flatnonzero(exchanges).tolist():
        own, others = sizes[line, late[line]], np.delete(sizes[line], late[line])
        usual = float(np.mean(others[~np.isnan(others)])) if not np.isnan(others).all() else np.nan
        more[line] = own / usual - 1 if usual else np.nan
        rest = np.delete(products[line], late[line])
        in_products = products[line, late[line]] - float(np.median(rest[~np.isnan(rest)]))
        tokens = bool(named[line]) if np.isnan(more[line]) else more[line] >= _MORE_TOKENS
        experts[line] = tokens and longer[line] > 0 and in_products >= _PRODUCTS * longer[line]
    return more, experts


def _places(digests: Sequence[Digest], members: Sequence[int], rows: Ints) -> dict[str, Any]:
    """The columns that each rank's own table holds, collective by collective, rank by rank."""
    names = ["step", "device", "stream", "thread", "op", "module", "file", "line", "function", "library"]
    names += ["bytes", "group_size"]
    cells: list[Ints] = []
    tables: list[pd.DataFrame] = []
    for column, member in enumerate(members):
        present = np.flatnonzero(rows[:, column] >= 0)
        cells.append(present * rows.shape[1] + column)
        table = digests[member].collectives.iloc[rows[present, column]][names]
        tables.append(table.astype({name: object for name in names if table[name].dtype == "category"}))
    order = np.argsort(np.concatenate(cells), kind="stable")
    joint = pd.concat(tables, ignore_index=True).iloc[order]
    return {name: joint[name].array for name in names}
