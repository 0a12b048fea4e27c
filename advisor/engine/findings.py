"""Findings: what the rows of a rule own, with their table, their places and the fix for this program."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from advisor.engine.claims import Claim
from advisor.engine.evaluation import cell
from advisor.engine.fix_choice import FixChoice
from advisor.engine.places import COLUMNS, places, surrounded
from advisor.engine.recorded_settings import settings
from advisor.engine.state import State, deciding
from advisor.intervals import Bools, Ints, covered, distinct
from advisor.results.analysis import Evidence, Finding, Place, Reference, Setting
from advisor.results.analysis import Fix as FixOfFinding
from advisor.rulebook.rule import Rule

_WEIGHS = 0.1
"""Share of a finding's cost from which on a row of its table is named in the fix."""
_LINES = 20
"""Lines of a fix that rewrites them, at most: a loop's body has some."""
_SMALL_PART = 0.1
"""Part of what a finding's rows cost below which the device that they are of is not named."""
_ONCE = 0.99
"""Part of each row that is start-up, where all of a finding is: the ledger may give moments of it to another cause."""


class Findings:
    """Findings of settled claims."""

    def __init__(self, state: State, choice: FixChoice) -> None:
        self.state, self.choice = state, choice

    def finding(self, claim: Claim) -> Finding:
        rule, frame = claim.rule, claim.rule.match.frame
        counted_ns = self.state.trace.ledger.counted_ns
        share = claim.cost_ns / counted_ns if counted_ns else 0.0
        rows, cost = claim.rows, rest(self.state, claim)
        if cost is not None:
            rows = rows & ((cost > 0) | (self.state.evaluator.frame(frame, ("cost_ns",))["cost_ns"].to_numpy() == 0))
        try:
            evidence = self.evidence(claim, rows, cost)
        except Exception as error:  # noqa: BLE001  (the finding stands; that its table failed is said beside it)
            self.state.fail(rule, error, "match.evidence")
            evidence = Evidence(columns=[], rows=[])
        leading: dict[str, Any] = {}
        if evidence.rows:
            leading.update(zip(evidence.columns, evidence.rows[0], strict=True))
        if {"function", "cost_ms"} <= leading.keys():
            leading["functions"] = _heaviest(evidence, "function")
        self.choice.fit_rows(rule, rows, cost)
        fix = self.choice.fixes[rule.id].filled({**leading, **self.state.facts})
        return Finding(
            rule=rule.id,
            title=rule.title,
            category=rule.category,
            severity=claim.severity,
            confidence=rule.confidence,
            cost_ms=share * self.state.whole_ms,
            cost_share=share,
            occurrences=int(rows.sum()),
            saving=claim.saving,
            after=None if claim.after is None else list(claim.after),
            where=self.places(frame, rows, cost),
            evidence=evidence,
            why=rule.why,
            more=rule.more,
            fix=msgspec.convert(fix, FixOfFinding, from_attributes=True),
            references=msgspec.convert(rule.references, list[Reference], from_attributes=True),
            settings=self.settings(rule),
            devices=self.devices(frame, rows, cost),
            once_ms=0.0 if claim.cost_ns or claim.saving is not None else self.once_ns(frame, rows) / 1e6,
        )

    def once_ns(self, frame: str, rows: Bools) -> int:
        """Return how long rows take that are start-up, all of them; 0 where any is not."""
        table = self.state.evaluator.frame(frame, ("start_ns", "dur_ns"))
        if not {"start_ns", "dur_ns"} <= set(table):
            return 0
        start, dur = (table[name][rows].to_numpy(np.int64) for name in ("start_ns", "dur_ns"))
        once = covered(self.state.trace.ledger.spans("startup"), start, start + dur)
        return int(once.sum()) if len(dur) and bool((_ONCE * dur <= once).all()) else 0

    def devices(self, frame: str, rows: Bools, cost: Ints | None) -> list[int]:
        """List the devices that the rows are of, by what they cost; none where the process drives but one."""
        weight = self.state.evaluator.weight(frame, rows)
        if (self.state.facts.get("devices_used") or 0) < 2 or weight is None:
            return []
        table = self.state.evaluator.frame(frame, ("device", weight), cost)
        if "device" not in table:
            return []
        device, part = (table[name][rows].to_numpy(np.int64) for name in ("device", weight))
        by_device = {number: int(part[device == number].sum()) for number in distinct(device[device >= 0]).tolist()}
        least = _SMALL_PART * sum(by_device.values())
        return sorted((number for number in by_device if by_device[number] >= least), key=lambda n: -by_device[n])

    def places(self, frame: str, rows: Bools, cost: Ints | None) -> list[Place]:
        """List the places in the source where the rows are, by what they cost."""
        weight = self.state.evaluator.weight(frame, rows)
        table = self.state.evaluator.frame(frame, (*COLUMNS, *([weight] if weight else [])), cost)
        return surrounded(places(table, rows, weight), self.state.trace, frame, table, rows, weight)

    def lines(self, frame: str, rows: Bools) -> list[Place]:
        """List the lines of all rows that a rule matched, those that it left to other rules as well: its fix rewrites them."""
        weight = self.state.evaluator.weight(frame, rows)
        return places(
            self.state.evaluator.frame(frame, (*COLUMNS, *([weight] if weight else []))), rows, weight, most=_LINES
        )

    def settings(self, rule: Rule) -> list[Setting]:
        """List the settings in the trace that the rule shows, where `advisor record` wrote them there."""
        if not rule.settings or not self.state.facts.get("settings_recorded"):
            return []
        try:
            return settings(self.state.evaluator, rule, self.state.figure)
        except Exception as error:  # noqa: BLE001  (the finding stands; that its settings failed is said beside it)
            self.state.fail(rule, error, "settings")
            return []

    def evidence(self, claim: Claim, rows: Bools, cost: Ints | None) -> Evidence:
        rule, items = claim.rule, claim.rule.compiled.evidence
        if items:
            return self.state.evaluator.evidence(rule.match.frame, rows, items, cost)
        names = deciding(rule)
        return Evidence(columns=names, rows=[[cell(self.state.facts.get(name)) for name in names]] if names else [])


def rest(state: State, claim: Claim) -> Ints | None:
    """Return what each row costs, in ns, where other findings own part of the rows' time, or it is not counted; else None."""
    table = state.evaluator.frame(claim.rule.match.frame, ("cost_ns",))
    if "cost_ns" not in table or not len(claim.segments):
        return None
    if int(table["cost_ns"].to_numpy()[claim.rows].sum()) <= claim.cost_ns:
        return None
    return state.trace.costs(claim.rule.match.frame, claim.rows, claim.segments)


def _heaviest(evidence: Evidence, column: str) -> list[Any]:
    """Values of a column in the rows of a table that cost a tenth of all and more."""
    at, cost = evidence.columns.index(column), evidence.columns.index("cost_ms")
    costs = [value if isinstance(value := row[cost], int | float) else 0 for row in evidence.rows]
    return list(
        dict.fromkeys(row[at] for row, own in zip(evidence.rows, costs, strict=True) if own >= _WEIGHS * sum(costs))
    )
