"""Fixes that fit a program: of each rule the first whose ``given`` holds, and which its rows ask for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from advisor.engine.state import State
from advisor.intervals import Bools, Ints
from advisor.rulebook.releases import noted
from advisor.rulebook.rule import Fix, Rule

HALF = 0.5
"""Share of a finding's cost from which on rows decide which fix fits."""


class FixChoice:
    """Fix of each rule for this program, by the rule's id."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.fixes: dict[str, Fix] = {}
        self.by_rows: dict[str, list[Fix]] = {}

    def choose(self, rules: Sequence[Rule]) -> None:
        """Choose the fix of each rule for this program: the first whose ``given`` is true, else the last.

        Those that ask for rows are left out: which rows a finding is left with is known once all are settled.
        """
        wanted = {
            (rule.id, place): given
            for rule in rules
            for place, given in enumerate(rule.compiled.fixes)
            if given is not None
        }
        answers = self.state.evaluator.conditions("trace", wanted)
        for rule in rules:
            variants = rule.variants
            # A condition that cannot be answered here fits no program, as one that is unknown.
            fits = [fix for place, fix in enumerate(variants) if answers.get((rule.id, place), bool(fix.rows)) is True]
            self.by_rows[rule.id] = list(takewhile(lambda fix: fix.rows, fits))
            self.fixes[rule.id] = noted(next((fix for fix in fits if not fix.rows), variants[-1]), self.state.facts)

    def fit_rows(self, rule: Rule, rows: Bools, cost: Ints | None) -> None:
        """Choose the first fix for which rows of half of what a finding costs are as it asks; what no other fits stays."""
        wheres = dict(zip(rule.variants, rule.compiled.fix_rows, strict=True))
        for fix in self.by_rows[rule.id]:
            where = wheres[fix]
            try:
                fits = where is not None and self.state.evaluator.share(rule.match.frame, rows, where, cost) >= HALF
            except Exception as error:  # noqa: BLE001  (the finding stands, with the fix for what no other fits)
                self.state.fail(rule, error, "fix.rows")
                return
            if fits:
                self.fixes[rule.id] = noted(fix, self.state.facts)
                return
