"""Claims of rules on time: rules that match the same ns do not both own it, and none is saved twice.

Time is counted in segments of the trace's ledger, which partition the window. First, rules that yield give up what the
rules they yield to own. Then each finding, the most valuable first, claims what it saves, and what is claimed is gone:
so the savings together are part of the step by construction.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor.intervals import Bools, Ints
from advisor.results.analysis import Saving, Severity
from advisor.rulebook.rule import CONFIDENCES, SEVERITIES, Rule


@dataclass(frozen=True)
class Claim:
    """A rule that fires: the rows of its frame that are its own, and the counted segments that they own."""

    rule: Rule
    rows: Bools
    segments: Ints
    cost_ns: int = 0
    severity: Severity = "note"
    saving: Saving | None = None

    @property
    def rank(self) -> float:
        """Worth of the finding: its hopeful saving, less what is uncertain about it."""
        return (self.saving.high_ms if self.saving else 0.0) * CONFIDENCES[self.rule.confidence]


@dataclass(frozen=True)
class Scale:
    """Scale that severities are judged by: ns of each segment that count, and their sum over all counted segments.

    It is the counted time itself, but where much of that is start-up: then what is left without it.
    """

    ns: Ints
    whole_ns: int

    def share(self, segments: Ints) -> float:
        """Share of the whole that some segments hold."""
        return int(self.ns[segments].sum()) / self.whole_ns if self.whole_ns else 0.0


@dataclass(frozen=True)
class Settlement:
    """The claims that stand, best first; the rules that pass; and those whose time others own, with the reason."""

    claims: list[Claim]
    passes: list[str]
    owned: dict[str, str]


def settle(
    matches: Sequence[Claim], dur_ns: Ints, whole_ns: int, whole_ms: float, scale: Scale | None = None
) -> Settlement:
    """Divide the time among the rules that match.

    *dur_ns* holds the length of each segment, *whole_ns* that of all counted ones, *whole_ms* what a share is a share
    of: the median step, or the window. The segments of a match are counted ones, each once. *scale* is what severities
    are judged by, where that is not the counted time.
    """
    scale = scale or Scale(dur_ns, whole_ns)
    passes: list[str] = []
    standing: list[Claim] = []
    for match in matches:
        cost = int(dur_ns[match.segments].sum())
        severity = severity_of(match.rule, scale.share(match.segments))
        if severity is None:
            passes.append(match.rule.id)
        else:
            standing.append(replace(match, cost_ns=cost, severity=severity))
    rest, reasons = _yield(standing, dur_ns, scale)
    worth = priced(rest, dur_ns, whole_ns, whole_ms)
    return Settlement(sorted(worth, key=_order), passes, reasons)


def severity_of(rule: Rule, share: float) -> Severity | None:
    """Return the severity of a share of the time by the rule's own levels; None where it is below all of them."""
    if rule.severity is not None:
        return rule.severity
    reached = [name for name in SEVERITIES if name in rule.levels and share >= rule.levels[name]]
    return reached[-1] if reached else None


def _order(claim: Claim) -> tuple[bool, float, int, int, str]:
    note = claim.severity == "note"
    return note, -claim.rank, -SEVERITIES.index(claim.severity), -claim.cost_ns, claim.rule.id


def _yield(standing: Sequence[Claim], dur_ns: Ints, scale: Scale) -> tuple[list[Claim], dict[str, str]]:
    """Return the rest of each claim once the rules that it yields to have theirs; and who lost all that mattered, to whom."""
    claims = {claim.rule.id: claim for claim in standing}
    settled: dict[str, Claim | None] = {}
    owned: dict[str, str] = {}

    def visit(rule: str) -> Claim | None:
        """The final claim of a rule; those that it yields to come first, and the rulebook allows no circle."""
        if rule in settled or rule not in claims:
            return settled.get(rule)
        claim = claims[rule]
        rows, segments, takers = claim.rows, claim.segments, []
        for other in claim.rule.yields_to:
            owner = visit(other)
            if owner is None:
                continue
            left = np.setdiff1d(segments, owner.segments, assume_unique=True)
            less = rows & ~owner.rows if owner.rule.match.frame == claim.rule.match.frame else rows
            if len(left) < len(segments) or less.sum() < rows.sum():
                takers.append(other)
            rows, segments = less, left
        settled[rule] = _remainder(claim, rows, segments, dur_ns, scale)
        if settled[rule] is None:
            owned[rule] = f"its time is already owned by {' and '.join(takers)}"
        return settled[rule]

    kept = [claim for claim in (visit(rule) for rule in claims) if claim is not None]
    return kept, owned


def _remainder(claim: Claim, rows: Bools, segments: Ints, dur_ns: Ints, scale: Scale) -> Claim | None:
    cost = int(dur_ns[segments].sum())
    severity = severity_of(claim.rule, scale.share(segments))
    if severity is None or not rows.any():
        return None
    return replace(claim, rows=rows, segments=segments, cost_ns=cost, severity=severity)


def priced(claims: Sequence[Claim], dur_ns: Ints, whole_ns: int, whole_ms: float) -> list[Claim]:
    """Each claim with its saving; the most valuable first, each ns once."""
    owner = np.full(len(dur_ns), -1, np.int64)
    left_ms = whole_ms
    done: dict[int, Claim] = {}

    def free(index: int) -> Ints:
        segments = claims[index].segments
        return segments[owner[segments] < 0]

    def worth(index: int) -> float:
        rule = claims[index].rule
        return (
            -int(dur_ns[free(index)].sum()) * (rule.replay.high if rule.replay else 0.0) * CONFIDENCES[rule.confidence]
        )

    # A claim can only lose worth as others take from it, so a stale top of the heap is weighed again, and no other.
    heap = [(worth(index), claim.rule.id, index) for index, claim in enumerate(claims)]
    heapq.heapify(heap)
    while heap:
        _, rule_id, index = heapq.heappop(heap)
        if heap and (now := worth(index)) > heap[0][0]:
            heapq.heappush(heap, (now, rule_id, index))
            continue
        claim, segments = claims[index], free(index)
        others = np.unique(owner[claim.segments])
        shared = [claims[other].rule.id for other in others if other >= 0]
        saving = _saving(claim, int(dur_ns[segments].sum()), whole_ns, whole_ms, left_ms, shared)
        if saving is not None:
            owner[segments] = index
            left_ms -= saving.high_ms
        done[index] = replace(claim, saving=saving)
    return [done[index] for index in range(len(claims))]


def _saving(
    claim: Claim, free_ns: int, whole_ns: int, whole_ms: float, left_ms: float, shared: Sequence[str]
) -> Saving | None:
    """Return the saving out of the time that no other fix saves; None where the rows own no time or nothing is claimed."""
    replay = claim.rule.replay
    if replay is None or not claim.cost_ns or not whole_ns:
        return None
    free_ms = free_ns / whole_ns * whole_ms
    high = max(0.0, min(replay.high * free_ms, left_ms))  # the sum of many roundings may not pass the whole either
    low = min(replay.low * free_ms, high)
    basis = f"bound: {100 * replay.low:.3g} to {100 * replay.high:.3g} % of the time it owns; {replay.basis}"
    if shared:
        basis += f"; what {' and '.join(shared)} would save is not counted again"
    return Saving(
        low_ms=low,
        high_ms=high,
        low_share=low / whole_ms if whole_ms else 0.0,
        high_share=high / whole_ms if whole_ms else 0.0,
        basis=basis,
    )
