"""Severity, and the order of findings: both follow the price, so that neither contradicts it or the other.

A severity is read off the middle of the saving, as a share of the steady step. Findings go by that middle times the
confidence; of two that are worth about the same, within a factor of two, the surer one comes first, and none is more severe
than one before it. What is only possible does not lead where something surer is worth two thirds of it. A fix that returns
nothing alone is at most medium: others come before it. A rule without a price has its severity from its cost, at most medium,
and comes behind those of the same severity that have one: what returns something known is done first, and more is recorded or
looked into after. A larger batch comes behind every other fix, as it spreads what those remove; notes come behind that; and
last a fix that returns nothing beside those before it, which is a note.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from advisor.results.analysis import Confidence, Finding, Saving, Severity
from advisor.rulebook.rule import CONFIDENCES, SEVERITIES, Rule

LEAST = 0.0005
"""A fix that returns less of the step than this returns nothing."""
HARDLY = 0.005
"""A fix that returns no more of the step than this beside others, at best, is folded: it is no advice of its own."""
LITTLE = 0.015
"""So is one that returns no more of the step than this beside others, where no other figure is said of it alone: nobody
changes a program for 1.3 %, as two blind audits said of copies from pageable memory."""
LEVELS: Mapping[Severity, float] = {"low": 0.01, "medium": 0.03, "high": 0.10}
"""Levels of a price whose rule has none of its own: of a risk that costs time as well."""
_UNPRICED: Severity = "medium"
_NEAR = 1.5
"""Times the worth of a surer fix that one which is only possible has to be worth to lead."""
_WAITS: Severity = "medium"
_BATCH = 0.5
"""Place of a larger batch: between the last fix that is more than a note and the notes."""
Place = tuple[float, float, float, float]
"""More than a note or not; the power of two of the worth; the confidence; the worth. The largest comes first."""
FIRST: Place = (-1.0, 0.0, 0.0, 0.0)


def is_batch(rule: Rule) -> bool:
    """Tell whether the fix is a larger batch."""
    return rule.replay is not None and rule.replay.action == "batch"


def assumed_middle(rule: Rule) -> float:
    """Return the middle of the share that a fix is assumed to return of what its rows own; 1 without a price: the cost."""
    return (rule.replay.low + rule.replay.high) / 2 if rule.replay is not None else 1.0


def fires(rule: Rule, middle: float) -> Severity | None:
    """Return the severity of a fix that returns the share *middle* of the steady step; None below all of the rule's levels."""
    if rule.severity is not None:
        return severity_of(rule, middle)
    return _reached(rule.levels, middle)


def severity_of(rule: Rule, middle: float) -> Severity:
    """Return the severity of a finding whose saving has its middle at this share of the steady step.

    A rule with a fixed severity has that, at most medium where it has no price, and more where its price is worth more. One
    that fires by its levels may return less than the least of them beside others: from 1 % on that is low, else a note.
    """
    fixed = rule.severity
    if fixed is None:
        return _reached(rule.levels, middle) or ("low" if "low" in rule.levels and middle >= LEVELS["low"] else "note")
    if rule.replay is None:
        return _lower(fixed, _UNPRICED)
    reached = None if is_batch(rule) else _reached(LEVELS, middle)
    return fixed if reached is None else max(fixed, reached, key=SEVERITIES.index)


def place(rule: Rule, middle: float) -> Place:
    """Return what a fix that returns the share *middle* is ranked by."""
    return _place(severity_of(rule, middle), middle, rule.confidence, batch=is_batch(rule))


def _place(severity: Severity, middle: float, confidence: Confidence, *, batch: bool = False) -> Place:
    weight = CONFIDENCES[confidence]
    worth = middle * weight
    group = _BATCH if batch else float(severity != "note")
    return group, float(math.frexp(worth)[1]) if worth > 0 else -math.inf, weight, worth


def defers(first: Rule, worth: float, other: Rule, other_worth: float) -> bool:
    """Tell whether a fix that is only possible leaves the lead to another: a surer one, with the same numbers, worth about as much.

    Both worths are middles of savings times the confidence.
    """
    surer = first.confidence == "possible" and CONFIDENCES[other.confidence] > CONFIDENCES[first.confidence]
    return surer and not other.is_inexact and not is_batch(other) and worth <= _NEAR * other_worth


def middle_of(saving: Saving | None) -> float:
    """Return the middle of a saving as a share of the step; 0 where there is none."""
    return (saving.low_share + saving.high_share) / 2 if saving is not None else 0.0


def falling(severities: Sequence[Severity]) -> list[Severity]:
    """Lower the severities of a list that is in order, so that none is above the one before it.

    They are so already but where two are worth about the same, or a fix returns more beside the one before it than alone.
    """
    most: Severity = "high"
    result: list[Severity] = []
    for severity in severities:
        most = _lower(most, severity)
        result.append(most)
    return result


class Claim(Protocol):
    """Facts on a finding beside what is shown of it."""

    @property
    def rule(self) -> Rule: ...


class Standing(NamedTuple):
    """A rule whose finding is known, and no more of it."""

    rule: Rule


def rearrange(findings: Sequence[Finding], rules: Sequence[Rule]) -> list[Finding]:
    """Order findings whose savings changed after they were ranked; those that have hardly anything left are folded."""
    known = {rule.id: Standing(rule) for rule in rules}
    findings = [
        msgspec.structs.replace(finding, saving=None, after=[])
        if finding.saving is not None and finding.saving.high_share < HARDLY
        else finding
        for finding in findings
    ]
    places = {finding.rule: place(known[finding.rule].rule, middle_of(finding.saving)) for finding in findings}
    return arrange(findings, known, sorted(places, key=lambda rule: places[rule], reverse=True))


def arrange(findings: Sequence[Finding], claims: Mapping[str, Claim], order: Sequence[str]) -> list[Finding]:
    """Give findings their severities and their order; *claims* are theirs, by rule.

    *order* holds the rules of those with a price, as they were priced. The rest, by its cost, ends each severity.
    """
    turn = {rule: at for at, rule in enumerate(order)}
    real = [finding for finding in findings if finding.after is None]
    chosen = [finding for finding in real if finding.saving is not None]
    chosen.sort(key=lambda finding: turn.get(finding.rule, len(turn)))

    def middle(finding: Finding) -> float:
        return middle_of(finding.saving) if finding.saving is not None else finding.cost_share

    severities = falling([_severity(claims[finding.rule].rule, finding) for finding in chosen])
    first = [_as(finding, severity) for finding, severity in zip(chosen, severities, strict=True)]
    rest = [
        _as(finding, severity_of(claims[finding.rule].rule, middle(finding)))
        for finding in real
        if finding.saving is None
    ]

    def key(finding: Finding) -> Place:
        return _place(finding.severity, middle(finding), finding.confidence)

    rest.sort(key=lambda finding: finding.rule)
    rest.sort(key=lambda finding: (key(finding), finding.cost_ms), reverse=True)
    spent = [_as(finding, "note") for finding in findings if finding.after is not None]
    spent.sort(key=lambda finding: (-finding.cost_ms, finding.rule))
    merged = _merge(first, rest)
    severities = falling([finding.severity for finding in merged])
    return [*(_as(finding, severity) for finding, severity in zip(merged, severities, strict=True)), *spent]


def _severity(rule: Rule, finding: Finding) -> Severity:
    """Return the severity of a finding with a price: no more than medium where the fix returns nothing alone."""
    severity = severity_of(rule, middle_of(finding.saving))
    alone = finding.saving.alone_ms if finding.saving is not None else None
    waits = alone is not None and alone.get("high", 0.0) <= 0
    return _lower(severity, _WAITS) if waits else severity


def _merge(first: Sequence[Finding], rest: Sequence[Finding]) -> list[Finding]:
    """Put each finding of *rest* behind those of *first* that are as severe; before none but notes, where *first* has others.

    One that is certain comes before those as severe that are only possible and may return nothing, the first of all included.
    Both are in order, and severities in *first* fall.
    """
    merged: list[Finding] = []
    sure = [finding for finding in rest if finding.confidence == "certain"]
    leads = bool(rest) and bool(first) and first[0].severity != "note"
    at = int(leads and not any(_is_doubtful(first[0], beside=finding) for finding in sure))
    merged.extend(first[:at])
    for finding in rest:
        while (
            at < len(first)
            and SEVERITIES.index(first[at].severity) >= SEVERITIES.index(finding.severity)
            and not (finding in sure and _is_doubtful(first[at], beside=finding))
        ):
            merged.append(first[at])
            at += 1
        merged.append(finding)
    return [*merged, *first[at:]]


def _is_doubtful(priced: Finding, *, beside: Finding) -> bool:
    """Tell whether a priced finding is only possible, may return nothing, and is no more severe than the one beside it."""
    may_be_nothing = priced.saving is not None and priced.saving.low_share <= 0
    no_more_severe = SEVERITIES.index(priced.severity) <= SEVERITIES.index(beside.severity)
    return priced.confidence == "possible" and may_be_nothing and no_more_severe


def _as(finding: Finding, severity: Severity) -> Finding:
    return msgspec.structs.replace(finding, severity=severity)


def _lower(first: Severity, second: Severity) -> Severity:
    return first if SEVERITIES.index(first) < SEVERITIES.index(second) else second


def _reached(levels: Mapping[Severity, float], share: float) -> Severity | None:
    reached = [name for name in SEVERITIES if name in levels and share >= levels[name]]
    return reached[-1] if reached else None
