"""Rewriting of a rank's own finding on communication, once the other ranks have shown whom it waits for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pandas as pd

from advisor.counting import part_of
from advisor.engine.ranking import rearrange
from advisor.frames.rank_waits import MUCH
from advisor.replay.plan import relay
from advisor.results.analysis import Analysis, Finding, Summary
from advisor.results.ranks import RankRow
from advisor.rulebook.rule import Rule

EXPOSED = (
    "cpu/collective-wait",
    "cpu/micro-batch-reduction",
    "cpu/uneven-batches",
    "distributed/exposed-communication",
    "distributed/exposed-forward-communication",
    "distributed/slow-link",
)
_HIDE = ("distributed/exposed-communication", "distributed/exposed-forward-communication")
"""Those of them whose fix hides what ranks exchange."""
LATE = (
    "cpu/late-loader",
    "cpu/lone-work",
    "cpu/uneven-shards",
    "cpu/uneven-work",
    "distributed/few-cores",
    "distributed/straggler",
    "distributed/uneven-experts",
    "distributed/uneven-work",
    "distributed/slow-gpu",
)
"""Rules that say of all ranks what holds the late ones up."""
# Of the exposed time: from here on waiting is what the finding is about.
_MOSTLY = 0.5
_LEAST = 0.05
_NAMED = 3


def rewrite(
    analysis: Analysis, row: RankRow, arrivals: pd.DataFrame, telling: Sequence[str], rules: Sequence[Rule]
) -> Analysis:
    """*analysis* with what is said of exposed communication parted into waiting and transfer.

    Waiting is no fault of the network, and what hides or shrinks messages does not return it: the saving is cut down to
    the rest. *arrivals* is the frame of all ranks, *row* this one's; the rules *telling* say what holds the late ranks up.
    The findings and the plan are ordered anew by *rules*.
    """
    rows = arrivals[(arrivals["rank"] == row.rank) & (arrivals["step"] >= 0) & (arrivals["cost_ns"] > 0)]
    by_rank = rows.groupby("late_rank")["cost_ns"].sum().sort_values(ascending=False)
    if row.wait_ms is None or not len(by_rank):
        return analysis
    total = float(by_rank.sum())
    shares = [(int(rank), float(spent) / total) for rank, spent in zip(by_rank.index, by_rank, strict=True)]
    findings = [
        _rewrite(finding, row, shares, telling, _left_out(analysis.summary)) if finding.rule in EXPOSED else finding
        for finding in analysis.findings
    ]
    findings = rearrange(findings, rules)
    summary = analysis.summary
    plan = relay(analysis.plan, findings, summary.priced_ms, former=analysis.findings)
    return msgspec.structs.replace(analysis, findings=findings, plan=plan)


def _in_words(names: Sequence[str]) -> str:
    """``0, 6 and 2``."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def _left_out(summary: Summary) -> float:
    """Return the ms that the rank by itself knew it waits for others, where its price of what hides is without them."""
    waited = summary.rank_wait_ms or 0.0
    return waited if waited >= MUCH * summary.whole_ms else 0.0


def _rewrite(
    finding: Finding, row: RankRow, shares: Sequence[tuple[int, float]], telling: Sequence[str], left_out: float
) -> Finding:
    wait, cost = row.wait_ms or 0.0, finding.cost_ms
    share = min(wait / cost, 1.0) if cost else 0.0
    if share < _LEAST:
        return finding
    worst = [f"rank {rank} ({100 * part:.0f} % of the waiting)" for rank, part in shares[:_NAMED] if part >= _LEAST]
    more = f" and {len(shares) - len(worst)} more" if len(shares) > len(worst) else ""
    verb = "says" if len(telling) == 1 else "say"
    text = (
        f"The traces of the other ranks show: {100 * share:.0f} % of this time ({part_of(wait, cost)}) passes before the "
        f"last rank has come to the collective. Rank {row.rank} waits for {', '.join(worst)}{more}. Larger messages, a faster "
        f"network or more overlap would not return that; {_in_words(telling)} {verb} what holds the late ranks up."
    )
    saving = finding.saving
    if saving is not None:
        # What a rank by itself takes for waiting is not in the price of what hides; nothing of it is taken off twice.
        known = left_out if finding.rule in _HIDE else 0.0
        left = min((cost - wait) / (cost - known), 1.0) if wait < cost and known < cost else 0.0
        saving = msgspec.structs.replace(
            saving,
            low_ms=saving.low_ms * left,
            high_ms=saving.high_ms * left,
            low_share=saving.low_share * left,
            high_share=saving.high_share * left,
            alone_ms=None,
            basis=f"{saving.basis}; without what is waited for late ranks, {100 * share:.0f} % of the cost",
        )
    title = finding.title
    if share >= _MOSTLY:
        named = [str(rank) for rank, part in shares[:_NAMED] if part >= _LEAST]
        waiting = "Waiting" if finding.rule.startswith("cpu/") else "The GPU waits"
        title = f"{waiting} in collectives, mostly for rank{'s' if len(named) > 1 else ''} {_in_words(named)}"
    return msgspec.structs.replace(finding, title=title, why=f"{text}\n\n{finding.why}", saving=saving)
