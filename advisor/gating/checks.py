"""Checks of a candidate beside its baseline, one a metric and one a rule, with what grew, by how much, where."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from msgspec.structs import replace

from advisor.gating.baseline import Baseline, RuleRecord
from advisor.gating.division import clock, digest
from advisor.gating.significance import (
    LEAST_STEPS,
    LEVEL,
    QUIET_RUNS,
    Decision,
    Runs,
    Statistic,
    decide,
    summed_up,
    usable,
)
from advisor.gating.significance import Outcome as Answer
from advisor.privacy import excerpt
from advisor.results.analysis import Analysis, Finding, Place
from advisor.results.judgement import Check, Level, Outcome
from advisor.views.metrics import BUSY, MEAN_STEP, METRICS, STEP, Metric

_RULE_TOLERANCE = 0.10
_RULE_FLOOR_MS = 0.05
_RULE_FLOOR_SHARE = 0.01
_LONG = 1.25
_LONGEST = 100
_LOOKS = 2
"""The step is judged twice, by its median and its mean; its parts together may err as often."""
_RAN = {"fires", "passes", "not_applicable"}
OUTCOMES: Mapping[Answer, Outcome] = {
    "worse": "regression",
    "better": "improvement",
    "same": "same",
    "inconclusive": "inconclusive",
}


@dataclass
class Comparison:
    """A candidate beside its baseline; both are runs of one workload."""

    base: Baseline
    now: Baseline
    candidates: Sequence[Analysis]
    tolerances: Mapping[str, float]

    def checks(self) -> list[Check]:
        """Make a check for every metric and every rule that either side knows, and for the step in any case."""
        known = self.base.metrics.keys() | self.now.metrics.keys() | {STEP.name}
        metrics = [METRICS[name] for name in sorted(METRICS) if METRICS[name].source in known]
        rules = sorted(self.base.rules.keys() | self.now.rules.keys())
        return [*map(self._metric, metrics), *map(_unknown, sorted(known - METRICS.keys())), *map(self._rule, rules)]

    # ---- metrics

    def _decide(self, metric: Metric) -> tuple[Decision, float]:
        """Decide on a metric, and return the least change of it that matters beside."""
        default = max(metric.margin.tolerance, self.tolerances.get(metric.source, 0.0))
        tolerance = self.tolerances.get(metric.name, default)
        floor = max(metric.margin.floor, metric.margin.floor_share * self._typical(STEP))
        threshold = min(max(tolerance * abs(self._typical(metric)), floor), sys.float_info.max)
        runs = [_runs(side, metric) for side in (self.base, self.now)]
        exact = metric.unit in ("", "MB")
        whole = metric.source == STEP.name
        decision = decide(
            runs[0], runs[1], threshold=threshold, worse=metric.worse, exact=exact, name=metric.name,
            statistic=metric.statistic, quiet=self._quiet(metric), level=LEVEL if whole else self._level,
        )  # fmt: skip
        if metric.unit == "ms" and (whole or metric.of_step):
            decision = self._at_pace(decision, whole=whole)
        return decision, threshold

    def _quiet(self, metric: Metric) -> float | None:
        """Return the spread between runs that a metric hardly exceeds: a part's moves the step; None for a share of its own."""
        if metric is STEP or metric is MEAN_STEP or not metric.of_step:
            return None
        return QUIET_RUNS * (1.0 if metric.unit == "share" else self._typical(STEP))

    @cached_property
    def _level(self) -> float:
        """The chance of a false alarm that each part of the step is allowed: all share those of the step."""
        sides = (self.base, self.now)
        parts = {name for side in sides for name in side.metrics if name in METRICS and METRICS[name].of_step}
        costly = {
            rule
            for side in sides
            for rule, record in side.rules.items()
            if any(cost for run in record.runs for cost in run)
        }
        return _LOOKS * LEVEL / max(1, len(parts) + len(costly))

    def _typical(self, metric: Metric) -> float:
        """Return the baseline's figure; 0 where it has none that can be used."""
        runs = _runs(self.base, metric)
        samples = [value for run in runs for value in run]
        return summed_up(samples, metric.statistic) if samples and usable(runs) else 0.0

    @cached_property
    def _step(self) -> Decision:
        return self._decide(STEP)[0]

    @cached_property
    def _mean_step(self) -> Decision:
        return self._decide(MEAN_STEP)[0]

    def _metric(self, metric: Metric) -> Check:
        decision, threshold = self._decide(metric)
        outcome = OUTCOMES[decision.outcome]
        level, note = self._weight(metric, decision)
        rare = self._slow_steps() if metric is MEAN_STEP and outcome == "inconclusive" else ""
        notes = [note for note in (decision.because, note, rare) if note]
        where = self._places(metric) if outcome == "regression" else []
        figures = _figures(decision, metric.unit, self._step.base, each="" if metric.statistic == "peak" else " a step")
        growth = self._growth(metric) if outcome == "regression" else ""
        return Check(
            kind="metric",
            name=metric.name,
            title=metric.meaning,
            outcome=outcome,
            level=level,
            message=f"{metric.name} ({metric.meaning}): {figures}{growth or _location(where)}{_notes(notes)}",
            unit=metric.unit,
            where=where,
            threshold=threshold,
            **_fields(decision),
        )

    def _weight(self, metric: Metric, decision: Decision) -> tuple[Level, str]:
        """Return the level of a metric's check, and why it is lower where it is."""
        lacks = not any(_runs(self.base, metric))
        if lacks and self.base.advisor != self.now.advisor and metric.source != STEP.name:
            return "warn", "update the baseline"  # a metric that the advisor did not take when the baseline was made
        if decision.base is None or decision.now is None:
            return "error", ""
        grown_perhaps = decision.outcome == "worse" or decision.doubtful
        if metric.of_step and decision.outcome == "inconclusive" and not decision.doubtful:
            return "warn", ""  # the step answers for what its parts are too noisy to
        if grown_perhaps and metric.of_step and (excuse := self._excuse(decision, metric.unit, self._step)):
            return "warn", excuse
        grew = decision.outcome in ("worse", "inconclusive") and (decision.change or 0.0) > 0
        if metric.unit == "" and grew and self._shorter:
            return "warn", "the step got shorter all the same"
        return "error", ""

    @cached_property
    def _pace(self) -> clock.Pace | None:
        """By which factor all work of a program on the CPU takes longer, where it is the same work, in one run; None else."""
        sites = [analysis.samples.sites for analysis in self.candidates if analysis.samples and analysis.samples.sites]
        if self.base.program is None or len(self.now.steps) != 1 or len(sites) != 1:
            return None
        now = digest(sites, like=self.base.program)
        if now is None or self.base.program.device or now.device:
            return None
        return clock.pace(self.base.program, now)

    def _at_pace(self, decision: Decision, *, whole: bool = False) -> Decision:
        """Return the decision on the *whole* step or a part, without an answer where one run shows no more than that all is slower.

        On the CPU other programs share the cores, the caches and the clock. Of a step that got longer by more, each part is told.
        """
        if decision.outcome != "worse" or not decision.base:
            return decision
        if not whole and "worse" in (self._step.outcome, self._mean_step.outcome):
            return decision
        if self._pace is None or (decision.now or 0.0) / decision.base > self._pace.most:
            return decision
        because = (
            f"the same operators, called as often, take {self._pace.typical:.3g} times as long everywhere: threads, clocks, or "
            "other programs on the machine may do that; several runs would tell"
        )
        return replace(decision, outcome="inconclusive", because=because)

    def _slow_steps(self) -> str:
        """Say how many steps take far longer than the others on either side; empty where no more than before do."""
        steps = [[value for run in _runs(side, STEP) for value in run] for side in (self.base, self.now)]
        slow = [sum(value >= _LONG * statistics.median(values) for value in values) for values in steps if values]
        if len(slow) < 2 or slow[1] / len(steps[1]) <= slow[0] / len(steps[0]):
            return ""
        counts = (
            f"{slow[1]} of {len(steps[1])} steps take a quarter longer than the median, or more, where {slow[0]} of "
        )
        return f"{counts}{len(steps[0])} did: record more steps, or several runs, to tell if that is chance"

    @property
    def _shorter(self) -> bool:
        """True where the step got shorter by more than its noise, and single slow steps did not take that back."""
        return self._step.outcome == "better" and (self._mean_step.change or 0.0) <= 0

    def _excuse(self, decision: Decision, unit: str, step: Decision) -> str:
        """Explain why a part that grew is no regression: the step did not get longer by it. Empty where it may have."""
        grown = abs(decision.change or 0.0)
        if step.outcome == "better":
            return "the step got shorter all the same"
        likely_shorter = step.change is not None and step.likely is not None and step.likely < 0
        if unit == "share":  # of idle time, as it were
            grown, unit = grown * (step.base or 0.0), "ms"
        if unit == "ms" and likely_shorter and -(step.change or 0.0) > grown:
            return "the step got shorter by more"
        if unit == "ms" and step.outcome == "same" and step.high is not None and step.high < 0.5 * grown:
            return "the step did not get longer by it: the time moved from one part to another"
        return ""

    def _growth(self, metric: Metric) -> str:
        """Return the parts that grew most, by name; of the step, what owns its time."""
        idle_only = metric.name == "gpu_busy_share"
        if idle_only:
            metric = STEP
        was, now = (side.parts.get(metric.source, {}) for side in (self.base, self.now))
        gains = {name: value - was.get(name, 0.0) for name, value in now.items() if not (idle_only and name in BUSY)}
        most = sorted(((gain, name) for name, gain in gains.items() if gain > 0), key=lambda gain: (-gain[0], gain[1]))
        total = sum(gain for gain, _ in most)
        unit = f" {metric.unit}" if metric.unit else ""
        worst = [f"{name} +{_in_digits(gain)}{unit}" for gain, name in most[:3] if gain >= min(0.1 * total, most[0][0])]
        return f", most in {', '.join(worst)}" if worst else ""

    def _places(self, metric: Metric) -> list[Place]:
        for category in metric.findings:
            for analysis in self.candidates:
                for finding in analysis.findings:
                    if finding.category == category and finding.where:
                        return finding.where[:3]
        return []

    # ---- rules

    @cached_property
    def _findings(self) -> dict[str, Finding]:
        return {finding.rule: finding for analysis in reversed(self.candidates) for finding in analysis.findings}

    @cached_property
    def _needs(self) -> dict[str, list[str]]:
        """Needs that the candidate lacks for each rule that could not run on it."""
        return {lack.rule: lack.needs for analysis in reversed(self.candidates) for lack in analysis.verdicts.not_run}

    def _rule(self, rule: str) -> Check:
        was, now, finding = self.base.rules.get(rule), self.now.rules.get(rule), self._findings.get(rule)
        title = finding.title if finding else ""
        unmet = _unmet(rule, was, now, self._needs.get(rule, []))
        if unmet is not None or was is None or now is None:
            return unmet or Check(kind="rule", name=rule, title="", outcome="same", level="warn", message=rule)
        quiet = ["fires" not in record.verdicts for record in (was, now)]
        if all(quiet):
            return _rule_check(rule, title, "same", "error", f"{rule}: is quiet, as before")
        costs = [cost for run in was.runs for cost in run]
        unpriced = (
            self.base.work is None and not quiet[0] and not any(costs)
        )  # by an advisor that took no excess for a cost
        if unpriced or not any(any(run) for record in (was, now) for run in record.runs):
            return self._timeless(rule, was, now, finding)
        typical = statistics.median(costs or [0.0])
        threshold = max(_RULE_TOLERANCE * typical, _RULE_FLOOR_MS, _RULE_FLOOR_SHARE * self._typical(STEP))
        if quiet[0] and not any(costs):
            threshold = 0.0  # what the rule calls a symptom was not there at all, and now is
        decision, statistic = self._decide_cost(rule, was, now, threshold)
        return self._priced(rule, decision, statistic, threshold, quiet, finding)

    def _decide_cost(self, rule: str, was: RuleRecord, now: RuleRecord, threshold: float) -> tuple[Decision, Statistic]:
        """Decide on a rule's cost by its median; where its rows are in single steps, so that this says nothing, by its mean."""
        quiet, level = QUIET_RUNS * self._typical(STEP), self._level
        decided = partial(decide, was.runs, now.runs, threshold=threshold, name=rule, quiet=quiet, level=level)
        typical = self._at_pace(decided())
        if typical.outcome != "same":
            return typical, "median"
        mean = self._at_pace(decided(statistic="mean"))
        rare = typical.base == 0.0 and typical.now == 0.0
        return (mean, "mean") if rare or mean.outcome == "worse" else (typical, "median")

    def _priced(
        self,
        rule: str,
        decision: Decision,
        statistic: Statistic,
        threshold: float,
        quiet: Sequence[bool],
        finding: Finding | None,
    ) -> Check:
        """Check a rule whose rows own time, or take too long, by what became of its cost."""
        outcome = OUTCOMES[decision.outcome]
        level, note = self._weight_of_cost(decision, statistic, quiet)
        where = finding.where[:3] if finding and outcome == "regression" else []
        figures = _figures(decision, "ms", self._step.base)
        notes = [note for note in (decision.because, note) if note]
        if outcome == "same" and quiet[0] != quiet[1]:
            notes.append(f"it {'passes' if quiet[1] else 'fires'} now, at its limit")
        return Check(
            kind="rule",
            name=rule,
            title=finding.title if finding else "",
            outcome=outcome,
            level=level,
            message=_cost_message(rule, decision, quiet, finding, figures + _location(where)) + _notes(notes),
            unit="ms",
            where=where,
            threshold=threshold,
            **_fields(decision),
        )

    def _weight_of_cost(self, decision: Decision, statistic: Statistic, quiet: Sequence[bool]) -> tuple[Level, str]:
        """Return the level of a rule's check, and why it is lower where it is."""
        if decision.base is None or decision.now is None:
            return "error", ""
        if decision.outcome == "inconclusive" and not decision.doubtful:
            return "warn", ""  # the step answers for what its parts are too noisy to
        if decision.outcome != "worse" and not decision.doubtful:
            return "error", ""
        step = self._mean_step if statistic == "mean" else self._step
        if excuse := self._excuse(decision, "ms", step):
            appeared = quiet[0] and not quiet[1]
            shorter = step.outcome == "better" or (step.change or 0.0) < 0
            return ("warn", excuse) if shorter or not appeared else ("error", "")
        return ("warn", "the rule is quiet: it is not enough to matter") if quiet[1] else ("error", "")

    def _timeless(self, rule: str, was: RuleRecord, now: RuleRecord, finding: Finding | None) -> Check:
        """Judge a change of the verdict of a rule that costs no time."""
        title = finding.title if finding else ""
        fired = [set(record.verdicts) == {"fires"} for record in (was, now)]
        quiet = ["fires" not in record.verdicts for record in (was, now)]
        least = min(min(side.steps, default=0) for side in (self.base, self.now))
        if fired[0] and fired[1]:
            return _rule_check(rule, title, "same", "error", f"{rule}: fires, as before")
        if not (fired[0] or quiet[0]) or not (fired[1] or quiet[1]):
            return _rule_check(rule, title, "inconclusive", "error", f"{rule}: fires in some runs and not in others")
        if least < LEAST_STEPS:
            text = f"{rule}: {'fires, and did not' if fired[1] else 'fired, and does not'}; too few steps to say why"
            return _rule_check(rule, title, "inconclusive", "error" if fired[1] else "warn", text)
        if fired[0]:
            return _rule_check(rule, title, "improvement", "error", f"{rule}: is gone")
        where = finding.where[:3] if finding else []
        is_note = finding is not None and finding.severity == "note"
        message = f"{title}, and did not before{_location(where)} ({rule})"
        return _rule_check(rule, title, "regression", "warn" if is_note else "error", message, where)


def _runs(side: Baseline, metric: Metric) -> Runs:
    """Return the samples of a metric, a list a run; none where that side lacks them in the metric's unit."""
    series = side.metrics.get(metric.source)
    return series.runs if series and series.unit == metric.unit else []


def _unknown(name: str) -> Check:
    """Make the check of a figure that the baseline holds and nobody here can take: it is lost, and so it counts."""
    message = f"{excerpt(name, _LONGEST)}: is not known to this advisor, which is older than the baseline's, or newer"
    return Check(kind="metric", name=name, title="", outcome="inconclusive", level="error", message=message)


def _cost_message(rule: str, decision: Decision, quiet: Sequence[bool], finding: Finding | None, figures: str) -> str:
    """Say what became of a rule's cost."""
    title, outcome = finding.title if finding else "", OUTCOMES[decision.outcome]
    if outcome == "regression" and quiet[0] and not quiet[1]:
        came = " more than before" if decision.base else ", and did not before"
        return f"{title}{came}: {figures} ({rule})"
    if outcome == "improvement" and quiet[1]:
        return f"{rule}: is gone: {figures}"
    verb = {"regression": "costs more", "improvement": "costs less", "inconclusive": "has no answer"}
    message = f"{title or rule}: {verb.get(outcome, 'costs the same')}: {figures}"
    return f"{message} ({rule})" if title else message


def _unmet(rule: str, was: RuleRecord | None, now: RuleRecord | None, needs: Sequence[str]) -> Check | None:
    """Return the check of a rule that one side does not know or could not run; None where both came to a verdict.

    What the baseline never judged was never promised, so it counts only where the rule fires now; what it could judge,
    and no longer can be, is lost, and counts.
    """
    sides = (("the baseline", was), ("the candidate", now))
    unknown = [side for side, record in sides if record is None]
    lacking = [side for side, record in sides if record is not None and not set(record.verdicts) <= _RAN]
    if not unknown and not lacking:
        return None
    message, note = _unmet_words(rule, unknown, lacking, needs)
    had_verdict = was is not None and not {"fires", "passes"}.isdisjoint(was.verdicts)
    lost = had_verdict and "the candidate" in (unknown or lacking) and len(lacking) < 2
    fires = now is not None and "fires" in now.verdicts
    if fires:
        message += ", and fires now"
    return _rule_check(rule, "", "inconclusive", "error" if lost or fires else "warn", message, note=note)


def _unmet_words(rule: str, unknown: Sequence[str], lacking: Sequence[str], needs: Sequence[str]) -> tuple[str, str]:
    """Return the message of such a check, and its note: what is missing, else on which side."""
    where = f"{'is not known to' if unknown else 'could not run on'} {' and '.join(unknown or lacking)}"
    if unknown or not needs:
        return f"{rule}: {where}", where
    note = f"for lack of {', '.join(needs)}"
    return f"{rule}: {where}, {note}", note


def _rule_check(
    rule: str, title: str, outcome: Outcome, level: Level, message: str, where: Sequence[Place] = (), note: str = ""
) -> Check:
    return Check(
        kind="rule", name=rule, title=title, outcome=outcome, level=level, message=message, where=list(where), note=note
    )


# ---- words


def _fields(decision: Decision) -> dict[str, Any]:
    """Return the figures of a decision, by the names of the fields of its check."""
    share = _share(decision.change, abs(decision.base or 0.0))
    fields = {name: getattr(decision, name) for name in ("base", "now", "change", "low", "high")}
    return {**fields, "change_share": share, "note": decision.because}


def _share(part: float | None, whole: float) -> float | None:
    """Return what *part* is of *whole*; None where that is 0, or so near it that no number is as large as the share."""
    share = part / whole if part is not None and whole else math.inf
    return share if math.isfinite(share) else None


def _figures(decision: Decision, unit: str, step: float | None, each: str = " a step") -> str:
    """Return ``123 → 152 ms a step (+23.0 %)``; times that began near 0 as a share of the baseline's step."""
    if decision.base is None or decision.now is None:
        return "no answer"
    if unit == "share":
        return f"{100 * decision.base:.1f} → {100 * decision.now:.1f} %"
    share = ""
    if decision.base and decision.now < 10 * decision.base:
        share = f" ({100 * (decision.now / decision.base - 1):+.1f} %)"
    elif unit == "ms" and (of_step := _share(100 * decision.now, step or 0.0)) is not None:
        share = f" ({of_step:.1f} % of the baseline's step)"
    return f"{_in_digits(decision.base)} → {_in_digits(decision.now)}{' ' * bool(unit)}{unit}{each}{share}"


def _in_digits(value: float) -> str:
    whole = abs(value) < 1e15 and (value == int(value) or abs(value) >= 1000)
    return f"{value:,.0f}" if whole else f"{value:.3g}"


def _location(where: Sequence[Place]) -> str:
    place = next((place for place in where if place.file), None)
    return f", at {place.file}:{place.line}{f' in {place.function}' if place.function else ''}" if place else ""


def _notes(notes: Sequence[str]) -> str:
    return f"; {'; '.join(notes)}" if notes else ""
