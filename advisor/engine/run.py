"""Rules over a trace: what each came to, and what the findings are worth.

A rule first needs what was recorded, then asks whether it speaks of such a trace at all (``given``), then whether the
symptom is there (``when``), then for rows (``where``), then whether they matter together (``having``), and last whether
they own enough of the time (``levels``).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from advisor.engine import ranking
from advisor.engine.acts import acts_of, with_lines
from advisor.engine.applicability import Applicability
from advisor.engine.claims import Claim, Settlement, settle
from advisor.engine.evaluation import Evaluator
from advisor.engine.findings import Findings, rest
from advisor.engine.fix_choice import FixChoice
from advisor.engine.interface import Trace
from advisor.engine.matching import Matching
from advisor.engine.state import State, deciding, plain_name
from advisor.intervals import Bools, Ints, distinct
from advisor.results.analysis import Finding, NotApplicable, QualityNote, Verdicts
from advisor.rulebook import Rulebook
from advisor.rulebook.rule import PROFILE, Rule, with_figures


class Outcome(Struct, frozen=True):
    """Results of the rules.

    ``matches`` holds, for each finding, its rows and the segments of the ledger they own; ``rows`` the frame and the rows of
    every rule that found some, whether it fired on them or not.
    """

    findings: list[Finding]
    verdicts: Verdicts
    quality: list[QualityNote]
    matches: dict[str, Claim] = field(default_factory=dict)
    rows: dict[str, tuple[str, Bools]] = field(default_factory=dict)


def run(
    trace: Trace,
    rulebook: Rulebook,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    forget: Callable[[str], object] | None = None,
) -> Outcome:
    """Run the rules whose id fits one of the globs *only* (all, where there are none) and none of *skip*.

    What goes wrong inside a rule is its verdict, ``error``, and never an exception. *forget* is called with a frame of very many
    rows once nothing but a few of its columns, which are kept here, is needed.
    """
    rules = [rule for rule in rulebook.rules if chosen(rule, only, skip)]
    with Evaluator(trace, rulebook.schemas) as evaluator:
        return _Run(State(trace, rulebook, evaluator), forget).outcome(rules)


def chosen(rule: Rule, only: Sequence[str], skip: Sequence[str]) -> bool:
    """Tell whether the id of a rule fits one of the globs *only* (any, where there are none) and none of *skip*."""
    return (not only or _fits(rule, only)) and not _fits(rule, skip)


def _fits(rule: Rule, globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(rule.id, glob) or glob in rule.formerly for glob in globs)


class _Run:
    """One run of some rules over one trace."""

    def __init__(self, state: State, forget: Callable[[str], object] | None = None) -> None:
        self.state = state
        self.applicability, self.matching = Applicability(state), Matching(state, forget)
        self.choice = FixChoice(state)
        self.findings = Findings(state, self.choice)

    def outcome(self, rules: Sequence[Rule]) -> Outcome:
        matches = self.matching.matches(self.applicability.able([self.within(rule) for rule in rules]))
        self.choice.choose([rule for rule, _, _ in matches])
        matches = [(self.of_fix(rule), mask, rows) for rule, mask, rows in matches]
        quality = [self.note(rule) for rule, _, _ in matches if rule.is_profile]
        settled = self.settle([match for match in matches if not match[0].is_profile])
        self.state.verdicts.passes.extend(settled.passes)
        for rule_id, because in settled.owned.items():
            self.state.verdicts.not_applicable.append(NotApplicable(rule=rule_id, because=because))
        found = [self.findings.finding(claim) for claim in settled.claims]
        where = {finding.rule: finding.where for finding in found}
        rewrites = {claim.rule.id: claim.rule.rewrites for claim in settled.claims if claim.rule.rewrites}
        rewritten = {rule: self.findings.lines(*self.matching.rows_by_rule[rule]) for rule in rewrites}
        acts = with_lines(
            {rule: acts_of(self.choice.fixes[rule], at) for rule, at in where.items()}, rewrites, where, rewritten
        )
        claims = {claim.rule.id: replace(claim, acts=acts[claim.rule.id]) for claim in settled.claims}
        findings = ranking.arrange(found, claims, list(claims))
        verdicts = Verdicts(
            passes=sorted(self.state.verdicts.passes),
            not_applicable=sorted(self.state.verdicts.not_applicable, key=lambda verdict: verdict.rule),
            not_run=sorted(self.state.verdicts.not_run, key=lambda verdict: verdict.rule),
            error=sorted(self.state.verdicts.error, key=lambda verdict: verdict.rule),
            noted=sorted(rule.id for rule, _, _ in matches if rule.is_profile),
        )
        return Outcome(findings, verdicts, quality, claims, self.matching.rows_by_rule)

    def within(self, rule: Rule) -> Rule:
        """The rule with a price that this hardware's peak rates allow, where it names the figure that says so."""
        if rule.replay is None or not rule.replay.times:
            return rule
        if rule.replay.times not in self.state.facts:
            return rule  # whatever keeps the frame from being built is the verdict of `given`
        times = self.state.facts[rule.replay.times]
        return replace(rule, replay=rule.replay.within(None if times is None else float(times)))

    def of_fix(self, rule: Rule) -> Rule:
        """The rule with the price of the fix that fits this program."""
        if rule.replay is None:
            return rule
        return replace(rule, replay=rule.replay.of_fix(self.choice.fixes[rule.id]))

    # ---- what they own

    def settle(self, matches: Sequence[tuple[Rule, Bools, Bools]]) -> Settlement:
        if not matches:
            return Settlement([], [], {})
        ledger = self.state.trace.ledger
        claims: list[Claim] = []
        for rule, mask, rows in matches:
            try:
                segments = distinct(np.asarray(self.state.trace.claims(rule.match.frame, mask), np.int64))
            except Exception as error:  # noqa: BLE001  (the verdict of this rule)
                self.state.fail(rule, error, "cost")
                continue
            returns = self.state.trace.returns(rule.match.frame, mask)
            try:
                weight = self.weight(rule, rows)
            except Exception as error:  # noqa: BLE001  (the verdict of this rule)
                self.state.fail(rule, error, "replay.weight")
                continue
            try:
                shorter = self.shorter(rule, rows)
            except Exception as error:  # noqa: BLE001  (the verdict of this rule)
                self.state.fail(rule, error, "replay.launches")
                continue
            returns = (returns[0] * weight, returns[1] * weight)
            counted = segments[ledger.counted[segments]]
            behind = self.state.trace.behind(rule.match.frame, mask)
            if self.state.trace.lacks_events(counted):
                # What a fix returns of time in which work may be missing nobody knows: as without a price, at most medium.
                levels = {level: least for level, least in rule.levels.items() if level != "high"}
                rule = replace(rule, replay=None, levels=levels)
            claims.append(Claim(rule, rows, counted, returns=returns, weight=weight, shorter=shorter, behind=behind))
        bare = self.state.trace.unprofiled
        times = (bare.dur_ns, bare.counted_ns, bare.step_ms) if bare is not None else None
        return settle(claims, ledger.dur_ns, ledger.counted_ns, self.state.whole_ms, times, self.weighed)

    def weighed(self, claim: Claim) -> Claim:
        """Give a claim the weight of what is left of its rows."""
        if claim.rule.compiled.weight is None or claim.weight <= 0:
            return claim
        try:
            weight = self.weight(claim.rule, claim.rows, rest(self.state, claim))
        except Exception as error:  # noqa: BLE001  (the finding stands, with the weight of all its rows)
            self.state.fail(claim.rule, error, "replay.weight")
            return claim
        low, high = (part * weight / claim.weight for part in claim.returns)
        return replace(claim, weight=weight, returns=(low, high))

    def weight(self, rule: Rule, rows: Bools, cost: Ints | None = None) -> float:
        """Factor that the rows of a rule put on both figures of its price; none returns more than all of the time.

        *cost* is what the rows cost in ns, where others own a part of them.
        """
        if rule.replay is None or rule.compiled.weight is None:
            return 1.0
        weight = self.state.evaluator.weigh(rule.match.frame, rows, rule.compiled.weight, cost)
        return 1.0 if weight is None else min(max(weight, 0.0), 1 / max(rule.replay.high, 1e-9))

    def shorter(self, rule: Rule, rows: Bools) -> Bools | None:
        """Flag the rows of a rule whose launches stay where its fix removes others'; None where all go."""
        if rule.compiled.launches is None:
            return None
        gone = self.state.evaluator.masks(rule.match.frame, {"launches": rule.compiled.launches})["launches"]
        if isinstance(gone, Exception):
            raise gone
        return rows & ~gone

    # ---- in words

    def note(self, rule: Rule) -> QualityNote:
        """A profile rule that fires, as a fact on the quality of the trace."""
        message = with_figures(rule.title, self.state.figure)
        if message == rule.title:
            figures = [
                f"{plain_name(name)} {self.state.figure(name)}"
                for name in deciding(rule)
                if isinstance(self.state.facts.get(name), int | float) and not isinstance(self.state.facts[name], bool)
            ]
            message += f" ({', '.join(figures)})" if figures else ""
        fix = self.choice.fixes[rule.id].filled(self.state.facts)
        advice = [fix.title, fix.caveat or (fix.verify and f"Check that {fix.verify}")]
        return QualityNote(
            code=rule.id.removeprefix(f"{PROFILE}/"),
            message=message,
            advice=" ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in advice if part),
            example=fix.after or None,
        )
