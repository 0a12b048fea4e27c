"""Rules over a trace: what each came to, and what the findings are worth.

A rule first needs what was recorded, then asks whether it speaks of such a trace at all (``given``), then whether the
symptom is there (``when``), then for rows (``where``), then whether they matter together (``having``), and last whether
they own enough of the time (``levels``).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any, Protocol

import msgspec
import numpy as np
import pandas as pd
from msgspec import Struct, field
from msgspec.structs import replace

from advisor.counting import duration
from advisor.engine import ranking
from advisor.engine.acts import acts_of, with_lines
from advisor.engine.claims import Claim, Settlement, settle
from advisor.engine.evaluation import Evaluator, Question, cell, explain, of_part
from advisor.engine.places import COLUMNS, places, surrounded
from advisor.engine.recorded_settings import settings
from advisor.frames import FRAMES
from advisor.intervals import Bools, Ints, Spans, covered, distinct
from advisor.results.analysis import (
    Evidence,
    Finding,
    Fix,
    NotApplicable,
    NotRun,
    Place,
    QualityNote,
    Reference,
    RuleFailure,
    Setting,
    Verdicts,
)
from advisor.rulebook import Rulebook
from advisor.rulebook.conditions import Condition
from advisor.rulebook.releases import noted
from advisor.rulebook.rule import PROFILE, Rule, with_figures
from advisor.rulebook.rule import Fix as FixOfRule
from advisor.timeline.unprofiled import Unprofiled

HALF = 0.5
"""Share of a finding's cost from which on rows decide which fix fits."""
_WEIGHS = 0.1
"""Share of a finding's cost from which on a row of its table is named in the fix."""
_LINES = 20
"""Lines of a fix that rewrites them, at most: a loop's body has some."""
_SMALL_PART = 0.1
"""Part of what a finding's rows cost below which the device that they are of is not named."""
_ONCE = 0.99
"""Part of each row that is start-up, where all of a finding is: the ledger may give moments of it to another cause."""
_OF_ROWS = frozenset([*COLUMNS, "step", "start_ns", "dur_ns", "cost_ns", "device", "linked"])
"""Columns that are asked of whatever rows a rule matches."""
_ACTIVITIES = "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
HOW = {
    "gpu": f"Record the GPU too: profile({_ACTIVITIES}), with no other profiler attached to the process.",
    "host": f"Record the host too: profile({_ACTIVITIES}).",
    "steps": "Give the profiler a schedule, and call prof.step() at the end of each iteration.",
    "shapes": "Record with record_shapes=True.",
    "stacks": "Record with with_stack=True.",
    "memory": "Record with profile_memory=True.",
    "distributed": "Record a run of several processes.",
    "loader": "Profile the loop that takes batches from the DataLoader.",
    "ranks": "Record every rank, and give the advisor the traces of all of them at once.",
    "gc": (
        "Record with with_stack=True and experimental_config=torch._C._profiler._ExperimentalConfig("
        "record_python_gc_info=True), torch 2.9 or later."
    ),
    "idle": (
        f"Record host and GPU together, profile({_ACTIVITIES}), after a few steps of warm-up, and without CUDA graphs "
        "where their replays come out incomplete: only then can idle time be explained."
    ),
}
"""Advice on what to record next time, by need."""

# Without these the program is not of the kind that the rule speaks of; recording more would not change that.
_ABSENT = {
    "distributed": "the program runs in one process and communicates with no other",
    "loader": "nothing in the trace waits for a DataLoader",
}
_NEED_GPU = {"gpu", "idle"}
_COPIES = "Its profiler leaves this out of copies, as that of AMD GPUs does; CUDA's writes it."
_MESSAGES = "Record with record_shapes=True, and with torch 2.2 or later, which writes the sizes of collectives."
_STAGES = "Record all ranks of the pipeline over the same steps, and give the advisor their traces at once."
_UNSAID = {"stage_count": _STAGES} | {
    "copy_memory": _COPIES,
    "bytes_copied": _COPIES,
    "sized_messages_share": _MESSAGES,
}
"""Advice on an unknown column of `trace`, where it is not the device's properties that are missing."""


class Ledger(Protocol):
    """The owner of every ns of the window, as segments."""

    @property
    def dur_ns(self) -> Ints: ...
    @property
    def step(self) -> Ints: ...
    @property
    def counted(self) -> Bools: ...
    @property
    def counted_ns(self) -> int: ...
    def spans(self, cause: str) -> Spans: ...


class Trace(Protocol):
    """Interface of a trace to the engine."""

    @property
    def features(self) -> frozenset[str]: ...
    @property
    def gpu_expected(self) -> bool: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def step_ms(self) -> float | None: ...
    @property
    def whole_ms(self) -> float: ...
    @property
    def unprofiled(self) -> Unprofiled | None: ...
    @property
    def step_count(self) -> int: ...
    @property
    def window_ns(self) -> int: ...
    def frame(self, name: str, columns: Sequence[str] | None = None, /) -> pd.DataFrame: ...
    def claims(self, frame: str, mask: Bools, /) -> Ints: ...
    def lacks_events(self, segments: Ints, /) -> bool: ...
    def returns(self, frame: str, mask: Bools, /) -> tuple[float, float]: ...
    def behind(self, frame: str, mask: Bools, /) -> tuple[Ints, Ints]: ...
    def costs(self, frame: str, mask: Bools, segments: Ints, /) -> Ints | None: ...
    def harness(self, frame: str, /) -> Bools: ...
    def failed(self, frame: str, /) -> Mapping[str, Exception]: ...
    def around(self, frame: str, mask: Bools, weights: Ints, op: str, /) -> str | None: ...
    def held(self, frame: str, mask: Bools, weights: Ints, /) -> list[tuple[str, float]]: ...


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
        return _Run(trace, rulebook, evaluator, forget).outcome(rules)


def chosen(rule: Rule, only: Sequence[str], skip: Sequence[str]) -> bool:
    """Tell whether the id of a rule fits one of the globs *only* (any, where there are none) and none of *skip*."""
    return (not only or _fits(rule, only)) and not _fits(rule, skip)


def _is_slow(frame: str) -> bool:
    """Tell whether a frame comes last, as one that a second thread may be building meanwhile."""
    return FRAMES[frame].slow


def _fits(rule: Rule, globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(rule.id, glob) or glob in rule.formerly for glob in globs)


class _Run:
    """One run of some rules over one trace."""

    def __init__(
        self,
        trace: Trace,
        rulebook: Rulebook,
        evaluator: Evaluator,
        forget: Callable[[str], object] | None = None,
    ) -> None:
        self.trace, self.evaluator, self.forget = trace, evaluator, forget
        self.units = {column.name: column.unit for column in rulebook.schemas["trace"].columns}
        self.unmet: dict[str, str] = {}
        self.rows_by_rule: dict[str, tuple[str, Bools]] = {}
        self.fixes: dict[str, FixOfRule] = {}
        self.by_rows: dict[str, list[FixOfRule]] = {}
        self.verdicts = Verdicts(passes=[], not_applicable=[], not_run=[], error=[])

    def outcome(self, rules: Sequence[Rule]) -> Outcome:
        matches = self.matches(self.able([self.within(rule) for rule in rules]))
        self.fixes = self.fitting([rule for rule, _, _ in matches])
        matches = [(self.of_fix(rule), mask, rows) for rule, mask, rows in matches]
        quality = [self.note(rule) for rule, _, _ in matches if rule.is_profile]
        settled = self.settle([match for match in matches if not match[0].is_profile])
        self.verdicts.passes.extend(settled.passes)
        for rule_id, because in settled.owned.items():
            self.verdicts.not_applicable.append(NotApplicable(rule=rule_id, because=because))
        found = [self.finding(claim) for claim in settled.claims]
        where = {finding.rule: finding.where for finding in found}
        rewrites = {claim.rule.id: claim.rule.rewrites for claim in settled.claims if claim.rule.rewrites}
        rewritten = {rule: self.lines(rule) for rule in rewrites}
        acts = with_lines(
            {rule: acts_of(self.fixes[rule], at) for rule, at in where.items()}, rewrites, where, rewritten
        )
        claims = {claim.rule.id: replace(claim, acts=acts[claim.rule.id]) for claim in settled.claims}
        findings = ranking.arrange(found, claims, list(claims))
        verdicts = Verdicts(
            passes=sorted(self.verdicts.passes),
            not_applicable=sorted(self.verdicts.not_applicable, key=lambda verdict: verdict.rule),
            not_run=sorted(self.verdicts.not_run, key=lambda verdict: verdict.rule),
            error=sorted(self.verdicts.error, key=lambda verdict: verdict.rule),
            noted=sorted(rule.id for rule, _, _ in matches if rule.is_profile),
        )
        return Outcome(findings, verdicts, quality, claims, self.rows_by_rule)

    def within(self, rule: Rule) -> Rule:
        """The rule with a price that this hardware's peak rates allow, where it names the figure that says so."""
        if rule.replay is None or not rule.replay.times:
            return rule
        if rule.replay.times not in self.facts:
            return rule  # whatever keeps the frame from being built is the verdict of `given`
        times = self.facts[rule.replay.times]
        return msgspec.structs.replace(rule, replay=rule.replay.within(None if times is None else float(times)))

    def of_fix(self, rule: Rule) -> Rule:
        """The rule with the price of the fix that fits this program."""
        if rule.replay is None:
            return rule
        return msgspec.structs.replace(rule, replay=rule.replay.of_fix(self.fixes[rule.id]))

    # ---- does the rule speak of this trace, and is the symptom there

    def able(self, rules: Sequence[Rule]) -> list[Rule]:
        """The rules that go on to the rows; the verdicts of the others are given."""
        wanted = {
            (rule.id, slot): condition
            for rule in rules
            for slot, condition in (("given", rule.compiled.given), ("when", rule.compiled.when))
            if condition is not None
        }
        answers = self.evaluator.conditions("trace", wanted)
        self.unmet = self.parts([rule for rule in rules if answers.get((rule.id, "given")) is False])
        return [
            rule
            for rule in rules
            if self.applies(rule, answers.get((rule.id, "given"), True))
            and self.shows(rule, answers.get((rule.id, "when"), True))
        ]

    def parts(self, rules: Sequence[Rule]) -> dict[str, str]:
        """For rules whose ``given`` is false: the first part of it that is, and what the trace holds instead."""
        questions: dict[tuple[str, str], Question] = {}
        for rule in rules:
            condition = rule.compiled.given
            for sql, columns in (condition.parts or [(condition.sql, condition.columns)]) if condition else ():
                questions[rule.id, sql] = of_part(sql, columns)
        answers = self.evaluator.truths("trace", questions)
        unmet: dict[str, str] = {}
        for rule in rules:
            failed = [key for key in questions if key[0] == rule.id and answers[key] is False][:1]
            text = " and ".join(_plain_sql(sql) for _, sql in failed)
            names = dict.fromkeys(name for key in failed for name in questions[key].columns)
            unmet[rule.id] = f"asks for {text}; here {', '.join(f'{name} is {self.figure(name)}' for name in names)}"
        return unmet

    def applies(self, rule: Rule, given: bool | Exception | None) -> bool:
        features = self.trace.features
        missing = [need for need in rule.needs if need not in features]
        if "gpu" not in features and not _NEED_GPU.isdisjoint(missing):
            # What `given` says of a GPU means nothing here.
            if not self.trace.gpu_expected:
                known = self.facts.get("cpu_only")
                alone = "the program ran on the CPU alone" if known else "the trace shows no GPU and no sign of one"
                return self.not_applicable(rule, alone)
            return self.not_run(rule, missing)
        if isinstance(given, Exception):
            return self.fail(rule, given, "given")
        if given is False:
            # Before what is missing: recording more would not make the rule speak of this program.
            return self.not_applicable(rule, self.unmet[rule.id])
        for need, because in _ABSENT.items():
            if need in missing and "host" in features:
                return self.not_applicable(rule, because)
        if missing:
            return self.not_run(rule, missing)
        return given is not None or self.unknown(rule, rule.compiled.given)

    def shows(self, rule: Rule, when: bool | Exception | None) -> bool:
        if isinstance(when, Exception):
            return self.fail(rule, when, "match.when")
        if when is False:
            self.verdicts.passes.append(rule.id)
        return bool(when) if when is not None else self.unknown(rule, rule.compiled.when)

    # ---- verdicts; all return False, as the rule goes no further

    def fail(self, rule: Rule, error: Exception, doing: str) -> bool:
        self.verdicts.error.append(RuleFailure(rule=rule.id, message=f"{doing}: {explain(error)}"))
        return False

    def not_applicable(self, rule: Rule, because: str) -> bool:
        self.verdicts.not_applicable.append(NotApplicable(rule=rule.id, because=because))
        return False

    def not_run(self, rule: Rule, missing: Sequence[str]) -> bool:
        # Who records host and GPU together has done what idle time needs.
        needs = [need for need in missing if need != "idle" or not {"gpu", "host"} & set(missing)]
        how = " ".join(HOW[need] for need in needs)
        self.verdicts.not_run.append(NotRun(rule=rule.id, needs=list(missing), how=how))
        return False

    def unknown(self, rule: Rule, condition: Condition | None) -> bool:
        columns = condition.columns if condition else ()
        blank = [name for name in columns if name in self.units and self.facts.get(name) is None]
        names = list(blank or columns)
        advice = dict.fromkeys(_UNSAID.get(name, "A current torch writes the device's properties.") for name in names)
        how = " ".join([f"The trace does not say: {', '.join(map(_plain_name, names))}.", *advice])
        self.verdicts.not_run.append(NotRun(rule=rule.id, needs=names, how=how))
        return False

    # ---- which rows match

    def matches(self, rules: Sequence[Rule]) -> list[tuple[Rule, Bools, Bools]]:
        """Rules with all the rows that match, and those of them in counted steps, of which there is at least one."""
        matches: list[tuple[Rule, Bools, Bools]] = []
        for frame in sorted(dict.fromkeys(rule.match.frame for rule in rules), key=_is_slow):
            on_frame = [rule for rule in rules if rule.match.frame == frame]
            found = self.having(frame, self.rows(frame, on_frame))
            if not found:
                self.evaluator.let_go(frame)
            elif self.evaluator.keep(frame, _asked_later([rule for rule, _, _ in found])) and self.forget is not None:
                self.forget(frame)
            matches += found
        return sorted(matches, key=lambda match: match[0].id)

    def rows(self, frame: str, rules: Sequence[Rule]) -> list[tuple[Rule, Bools, Bools]]:
        wheres = {rule.id: rule.compiled.where for rule in rules if rule.compiled.where is not None}
        masks: dict[str, Bools | Exception] = self.evaluator.masks(frame, wheres)
        try:
            table = self.evaluator.frame(frame, ("step",))
            counted = self.counted(table)
            all_rows: Bools | Exception = np.ones(len(table), np.bool_)
            # What a benchmark does around what it measures is none of the program's.
            of_program = ~self.trace.harness(frame)
            masks |= self.lacking(frame, rules)
        except Exception as error:  # noqa: BLE001  (the verdict of each rule on this frame)
            all_rows = error
        matches: list[tuple[Rule, Bools, Bools]] = []
        for rule in rules:
            mask = all_rows if isinstance(all_rows, Exception) else masks.get(rule.id, all_rows)
            if isinstance(mask, Exception):
                self.fail(rule, mask, "match.where")
            elif (rows := mask & counted & of_program).any():
                matches.append((rule, mask & of_program, rows))
                self.rows_by_rule[rule.id] = (frame, rows)
            else:
                self.verdicts.passes.append(rule.id)
        return matches

    def lacking(self, frame: str, rules: Sequence[Rule]) -> dict[str, Exception]:
        """The errors of rules that ask for rows which the frame lacks, as these could not be found, or for rows of every word."""
        failed = self.trace.failed(frame)
        asked = {rule.id: "" if rule.compiled.where is None else rule.compiled.where.sql for rule in rules}
        return {
            rule: error
            for word, error in failed.items()
            for rule, sql in asked.items()
            if f"'{word}'" in sql or "'" not in sql
        }

    def counted(self, table: pd.DataFrame) -> Bools:
        """Rows in the steps that figures speak of; all rows of a trace or a frame without steps."""
        if not self.trace.step_count or "step" not in table:
            return np.ones(len(table), np.bool_)
        return np.isin(table["step"].to_numpy(), self._counted_steps)

    @cached_property
    def _counted_steps(self) -> Ints:
        ledger = self.trace.ledger
        return distinct(ledger.step[ledger.counted])

    def having(self, frame: str, matches: Sequence[tuple[Rule, Bools, Bools]]) -> list[tuple[Rule, Bools, Bools]]:
        # Rows are those of counted steps: a first one that is left out has none of them.
        steps = len(self._counted_steps) if self.trace.step_count else 0
        late = {"steps": max(1, steps), "window_ns": self.trace.window_ns}
        questions: dict[str, Question] = {}
        masks: dict[str, Bools] = {}
        for index, (rule, _, rows) in enumerate(matches):
            if (having := rule.compiled.having) is not None:
                masks[f"rows {index}"] = rows
                questions[rule.id] = Question(having.bind(rows=f'"rows {index}"', **late), having.columns)
        answers = self.evaluator.truths(frame, questions, masks)
        rest: list[tuple[Rule, Bools, Bools]] = []
        for match in matches:
            rule, answer = match[0], answers.get(match[0].id, True)
            if isinstance(answer, Exception):
                self.fail(rule, answer, "match.having")
            elif answer is None:
                columns = rule.compiled.having.columns if rule.compiled.having else ()
                self.not_applicable(rule, f"unknown: {', '.join(columns)} of {frame}")
            elif answer:
                rest.append(match)
            else:
                self.verdicts.passes.append(rule.id)
        return rest

    def fitting(self, rules: Sequence[Rule]) -> dict[str, FixOfRule]:
        """The fix of each rule for this program, by its id: the first whose ``given`` is true, else the last.

        Those that ask for rows are left out: which rows a finding is left with is known once all are settled.
        """
        wanted = {
            (rule.id, place): given
            for rule in rules
            for place, given in enumerate(rule.compiled.fixes)
            if given is not None
        }
        answers = self.evaluator.conditions("trace", wanted)
        fixes = {}
        for rule in rules:
            variants = rule.variants
            # A condition that cannot be answered here fits no program, as one that is unknown.
            fits = [fix for place, fix in enumerate(variants) if answers.get((rule.id, place), bool(fix.rows)) is True]
            self.by_rows[rule.id] = list(takewhile(lambda fix: fix.rows, fits))
            fixes[rule.id] = noted(next((fix for fix in fits if not fix.rows), variants[-1]), self.facts)
        return fixes

    def fit_rows(self, rule: Rule, rows: Bools, cost: Ints | None) -> None:
        """Choose the first fix for which rows of half of what a finding costs are as it asks; what no other fits stays."""
        wheres = dict(zip(rule.variants, rule.compiled.fix_rows, strict=True))
        for fix in self.by_rows[rule.id]:
            where = wheres[fix]
            try:
                fits = where is not None and self.evaluator.share(rule.match.frame, rows, where, cost) >= HALF
            except Exception as error:  # noqa: BLE001  (the finding stands, with the fix for what no other fits)
                self.fail(rule, error, "fix.rows")
                return
            if fits:
                self.fixes[rule.id] = noted(fix, self.facts)
                return

    # ---- what they own, and what that is worth

    @property
    def whole_ms(self) -> float:
        """Time that shares are taken of: the typical step, or the window of a trace without steps."""
        return self.trace.whole_ms

    def settle(self, matches: Sequence[tuple[Rule, Bools, Bools]]) -> Settlement:
        if not matches:
            return Settlement([], [], {})
        ledger = self.trace.ledger
        claims: list[Claim] = []
        for rule, mask, rows in matches:
            try:
                segments = distinct(np.asarray(self.trace.claims(rule.match.frame, mask), np.int64))
            except Exception as error:  # noqa: BLE001  (the verdict of this rule)
                self.fail(rule, error, "cost")
                continue
            returns = self.trace.returns(rule.match.frame, mask)
            try:
                weight = self.weight(rule, rows)
            except Exception as error:  # noqa: BLE001  (the verdict of this rule)
                self.fail(rule, error, "replay.weight")
                continue
            try:
                shorter = self.shorter(rule, rows)
            except Exception as error:  # noqa: BLE001  (the verdict of this rule)
                self.fail(rule, error, "replay.launches")
                continue
            returns = (returns[0] * weight, returns[1] * weight)
            counted = segments[ledger.counted[segments]]
            behind = self.trace.behind(rule.match.frame, mask)
            if self.trace.lacks_events(counted):
                # What a fix returns of time in which work may be missing nobody knows: as without a price, at most medium.
                levels = {level: least for level, least in rule.levels.items() if level != "high"}
                rule = replace(rule, replay=None, levels=levels)
            claims.append(Claim(rule, rows, counted, returns=returns, weight=weight, shorter=shorter, behind=behind))
        bare = self.trace.unprofiled
        times = (bare.dur_ns, bare.counted_ns, bare.step_ms) if bare is not None else None
        return settle(claims, ledger.dur_ns, ledger.counted_ns, self.whole_ms, times, self.weighed)

    def weighed(self, claim: Claim) -> Claim:
        """Give a claim the weight of what is left of its rows."""
        if claim.rule.compiled.weight is None or claim.weight <= 0:
            return claim
        try:
            weight = self.weight(claim.rule, claim.rows, self.rest(claim))
        except Exception as error:  # noqa: BLE001  (the finding stands, with the weight of all its rows)
            self.fail(claim.rule, error, "replay.weight")
            return claim
        low, high = (part * weight / claim.weight for part in claim.returns)
        return replace(claim, weight=weight, returns=(low, high))

    def weight(self, rule: Rule, rows: Bools, cost: Ints | None = None) -> float:
        """Factor that the rows of a rule put on both figures of its price; none returns more than all of the time.

        *cost* is what the rows cost in ns, where others own a part of them.
        """
        if rule.replay is None or rule.compiled.weight is None:
            return 1.0
        weight = self.evaluator.weigh(rule.match.frame, rows, rule.compiled.weight, cost)
        return 1.0 if weight is None else min(max(weight, 0.0), 1 / max(rule.replay.high, 1e-9))

    def shorter(self, rule: Rule, rows: Bools) -> Bools | None:
        """Flag the rows of a rule whose launches stay where its fix removes others'; None where all go."""
        if rule.compiled.launches is None:
            return None
        gone = self.evaluator.masks(rule.match.frame, {"launches": rule.compiled.launches})["launches"]
        if isinstance(gone, Exception):
            raise gone
        return rows & ~gone

    def finding(self, claim: Claim) -> Finding:
        rule, frame = claim.rule, claim.rule.match.frame
        counted_ns = self.trace.ledger.counted_ns
        share = claim.cost_ns / counted_ns if counted_ns else 0.0
        rows, cost = claim.rows, self.rest(claim)
        if cost is not None:
            rows = rows & ((cost > 0) | (self.evaluator.frame(frame, ("cost_ns",))["cost_ns"].to_numpy() == 0))
        try:
            evidence = self.evidence(claim, rows, cost)
        except Exception as error:  # noqa: BLE001  (the finding stands; that its table failed is said beside it)
            self.fail(rule, error, "match.evidence")
            evidence = Evidence(columns=[], rows=[])
        leading: dict[str, Any] = {}
        if evidence.rows:
            leading.update(zip(evidence.columns, evidence.rows[0], strict=True))
        if {"function", "cost_ms"} <= leading.keys():
            leading["functions"] = _heaviest(evidence, "function")
        self.fit_rows(rule, rows, cost)
        fix = self.fixes[rule.id].filled({**leading, **self.facts})
        return Finding(
            rule=rule.id,
            title=rule.title,
            category=rule.category,
            severity=claim.severity,
            confidence=rule.confidence,
            cost_ms=share * self.whole_ms,
            cost_share=share,
            occurrences=int(rows.sum()),
            saving=claim.saving,
            after=None if claim.after is None else list(claim.after),
            where=self.places(frame, rows, cost),
            evidence=evidence,
            why=rule.why,
            more=rule.more,
            fix=msgspec.convert(fix, Fix, from_attributes=True),
            references=msgspec.convert(rule.references, list[Reference], from_attributes=True),
            settings=self.settings(rule),
            devices=self.devices(frame, rows, cost),
            once_ms=0.0 if claim.cost_ns or claim.saving is not None else self.once_ns(frame, rows) / 1e6,
        )

    def once_ns(self, frame: str, rows: Bools) -> int:
        """Return how long rows take that are start-up, all of them; 0 where any is not."""
        table = self.evaluator.frame(frame, ("start_ns", "dur_ns"))
        if not {"start_ns", "dur_ns"} <= set(table.columns):
            return 0
        start, dur = (table[name][rows].to_numpy(np.int64) for name in ("start_ns", "dur_ns"))
        once = covered(self.trace.ledger.spans("startup"), start, start + dur)
        return int(once.sum()) if len(dur) and bool((_ONCE * dur <= once).all()) else 0

    def devices(self, frame: str, rows: Bools, cost: Ints | None) -> list[int]:
        """List the devices that the rows are of, by what they cost; none where the process drives but one."""
        weight = self.evaluator.weight(frame, rows)
        if (self.facts.get("devices_used") or 0) < 2 or weight is None:
            return []
        table = self.evaluator.frame(frame, ("device", weight), cost)
        if "device" not in table:
            return []
        device, part = (table[name][rows].to_numpy(np.int64) for name in ("device", weight))
        by_device = {number: int(part[device == number].sum()) for number in distinct(device[device >= 0]).tolist()}
        least = _SMALL_PART * sum(by_device.values())
        return sorted((number for number in by_device if by_device[number] >= least), key=lambda n: -by_device[n])

    def places(self, frame: str, rows: Bools, cost: Ints | None) -> list[Place]:
        """List the places in the source where the rows are, by what they cost."""
        weight = self.evaluator.weight(frame, rows)
        table = self.evaluator.frame(frame, (*COLUMNS, *([weight] if weight else [])), cost)
        return surrounded(places(table, rows, weight), self.trace, frame, table, rows, weight)

    def lines(self, rule: str) -> list[Place]:
        """List the lines of all rows that a rule matched, those that it left to other rules as well: its fix rewrites them."""
        frame, rows = self.rows_by_rule[rule]
        weight = self.evaluator.weight(frame, rows)
        return places(self.evaluator.frame(frame, (*COLUMNS, *([weight] if weight else []))), rows, weight, most=_LINES)

    def settings(self, rule: Rule) -> list[Setting]:
        """List the settings in the trace that the rule shows, where `advisor record` wrote them there."""
        if not rule.settings or not self.facts.get("settings_recorded"):
            return []
        try:
            return settings(self.evaluator, rule, self.figure)
        except Exception as error:  # noqa: BLE001  (the finding stands; that its settings failed is said beside it)
            self.fail(rule, error, "settings")
            return []

    def rest(self, claim: Claim) -> Ints | None:
        """Return what each row costs, in ns, where other findings own part of the rows' time, or it is not counted; else None."""
        table = self.evaluator.frame(claim.rule.match.frame, ("cost_ns",))
        if "cost_ns" not in table or not len(claim.segments):
            return None
        if int(table["cost_ns"].to_numpy()[claim.rows].sum()) <= claim.cost_ns:
            return None
        return self.trace.costs(claim.rule.match.frame, claim.rows, claim.segments)

    def evidence(self, claim: Claim, rows: Bools, cost: Ints | None) -> Evidence:
        rule, items = claim.rule, claim.rule.compiled.evidence
        if items:
            return self.evaluator.evidence(rule.match.frame, rows, items, cost)
        names = _deciding(rule)
        return Evidence(columns=names, rows=[[cell(self.facts.get(name)) for name in names]] if names else [])

    # ---- in words

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """The one row of `trace`; None for what is unknown."""
        try:
            return self.evaluator.row("trace") or {}
        except Exception:  # noqa: BLE001  (who needs these figures has failed already, or can be told without)
            return {}

    def figure(self, name: str, form: str = "") -> str:
        """One fact of the trace, with its unit."""
        value, unit = self.facts.get(name), self.units.get(name, "")
        if value is None or isinstance(value, bool | np.bool_):
            return "unknown" if value is None else "yes" if value else "no"
        if isinstance(value, str):
            return value
        if form.endswith("%") or (unit == "share" and not form):
            return f"{100 * value:.{form[1] if form else 0}f} %"
        if form:
            return format(float(value) if form.endswith("f") else int(value), form)
        if unit == "ns":
            return duration(value / 1e6)
        if unit == "bytes":
            return f"{value / 2**30:,.1f} GiB"
        return f"{value:,}" if isinstance(value, int | np.integer) else f"{value:.3g}"

    def note(self, rule: Rule) -> QualityNote:
        """A profile rule that fires, as a fact on the quality of the trace."""
        message = with_figures(rule.title, self.figure)
        if message == rule.title:
            figures = [
                f"{_plain_name(name)} {self.figure(name)}"
                for name in _deciding(rule)
                if isinstance(self.facts.get(name), int | float) and not isinstance(self.facts[name], bool)
            ]
            message += f" ({', '.join(figures)})" if figures else ""
        fix = self.fixes[rule.id].filled(self.facts)
        advice = [fix.title, fix.caveat or (fix.verify and f"Check that {fix.verify}")]
        return QualityNote(
            code=rule.id.removeprefix(f"{PROFILE}/"),
            message=message,
            advice=" ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in advice if part),
            example=fix.after or None,
        )


def _heaviest(evidence: Evidence, column: str) -> list[Any]:
    """Values of a column in the rows of a table that cost a tenth of all and more."""
    at, cost = evidence.columns.index(column), evidence.columns.index("cost_ms")
    costs = [value if isinstance(value := row[cost], int | float) else 0 for row in evidence.rows]
    return list(
        dict.fromkeys(row[at] for row, own in zip(evidence.rows, costs, strict=True) if own >= _WEIGHS * sum(costs))
    )


def _asked_later(rules: Sequence[Rule]) -> frozenset[str]:
    """The columns of their frame that may be asked for once it is known which rows of it some rules match."""
    compiled = [rule.compiled for rule in rules]
    conditions = [part for one in compiled for part in (one.weight, one.launches, *one.evidence, *one.fix_rows)]
    return _OF_ROWS.union(*(part.columns for part in conditions if part is not None))


def _deciding(rule: Rule) -> list[str]:
    """The columns of `trace` that decide whether the symptom is there."""
    parts = (rule.compiled.when, rule.compiled.where if rule.match.frame == "trace" else None)
    return list(dict.fromkeys(name for part in parts if part for name in part.columns))


def _plain_name(column: str) -> str:
    """A column's name without its unit."""
    return re.sub(r"_(ns|share|bytes)$", "", column).replace("_", " ")


def _plain_sql(sql: str) -> str:
    """Printed SQL as a person would write it."""
    sql = re.sub(r"CAST\(([\d.e+-]+) AS DOUBLE\)", r"\1", sql).replace('"', "")
    return sql[1:-1] if sql.startswith("(") and sql.endswith(")") and "(" not in sql[1:-1] else sql
