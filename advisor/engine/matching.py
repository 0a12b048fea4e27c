"""Rows that rules match: in counted steps, of the program itself, and together as many or as much as ``having`` asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from advisor.columns import Columns
from advisor.engine.evaluation import Question
from advisor.engine.places import COLUMNS
from advisor.engine.state import State
from advisor.frames import FRAMES
from advisor.intervals import Bools, Ints, distinct
from advisor.rulebook.rule import Rule

_OF_ROWS = frozenset([*COLUMNS, "step", "start_ns", "dur_ns", "cost_ns", "device", "linked"])
"""Columns that are asked of whatever rows a rule matches."""


class Matching:
    """Rows of rules, frame by frame; ``rows_by_rule`` holds those of every rule that found some."""

    def __init__(self, state: State, forget: Callable[[str], object] | None = None) -> None:
        self.state, self.forget = state, forget
        self.rows_by_rule: dict[str, tuple[str, Bools]] = {}

    def matches(self, rules: Sequence[Rule]) -> list[tuple[Rule, Bools, Bools]]:
        """Rules with all the rows that match, and those of them in counted steps, of which there is at least one."""
        matches: list[tuple[Rule, Bools, Bools]] = []
        for frame in sorted(dict.fromkeys(rule.match.frame for rule in rules), key=_is_slow):
            on_frame = [rule for rule in rules if rule.match.frame == frame]
            found = self.having(frame, self.rows(frame, on_frame))
            if not found:
                self.state.evaluator.let_go(frame)
            elif (
                self.state.evaluator.keep(frame, _asked_later([rule for rule, _, _ in found]))
                and self.forget is not None
            ):
                self.forget(frame)
            matches += found
        return sorted(matches, key=lambda match: match[0].id)

    def rows(self, frame: str, rules: Sequence[Rule]) -> list[tuple[Rule, Bools, Bools]]:
        wheres = {rule.id: rule.compiled.where for rule in rules if rule.compiled.where is not None}
        masks: dict[str, Bools | Exception] = self.state.evaluator.masks(frame, wheres)
        try:
            table = self.state.evaluator.frame(frame, ("step",))
            counted = self.counted(table)
            all_rows: Bools | Exception = np.ones(len(table), np.bool_)
            # What a benchmark does around what it measures is none of the program's.
            of_program = ~self.state.trace.harness(frame)
            masks |= self.lacking(frame, rules)
        except Exception as error:  # noqa: BLE001  (the verdict of each rule on this frame)
            all_rows = error
        matches: list[tuple[Rule, Bools, Bools]] = []
        for rule in rules:
            mask = all_rows if isinstance(all_rows, Exception) else masks.get(rule.id, all_rows)
            if isinstance(mask, Exception):
                self.state.fail(rule, mask, "match.where")
            elif (rows := mask & counted & of_program).any():
                matches.append((rule, mask & of_program, rows))
                self.rows_by_rule[rule.id] = (frame, rows)
            else:
                self.state.verdicts.passes.append(rule.id)
        return matches

    def lacking(self, frame: str, rules: Sequence[Rule]) -> dict[str, Exception]:
        """The errors of rules that ask for rows which the frame lacks, as these could not be found, or for rows of every word."""
        failed = self.state.trace.failed(frame)
        asked = {rule.id: "" if rule.compiled.where is None else rule.compiled.where.sql for rule in rules}
        return {
            rule: error
            for word, error in failed.items()
            for rule, sql in asked.items()
            if f"'{word}'" in sql or "'" not in sql
        }

    def counted(self, table: Columns) -> Bools:
        """Rows in the steps that figures speak of; all rows of a trace or a frame without steps."""
        if not self.state.trace.step_count or "step" not in table:
            return np.ones(len(table), np.bool_)
        return np.isin(table["step"].to_numpy(), self._counted_steps)

    @cached_property
    def _counted_steps(self) -> Ints:
        ledger = self.state.trace.ledger
        return distinct(ledger.step[ledger.counted])

    def having(self, frame: str, matches: Sequence[tuple[Rule, Bools, Bools]]) -> list[tuple[Rule, Bools, Bools]]:
        # Rows are those of counted steps: a first one that is left out has none of them.
        steps = len(self._counted_steps) if self.state.trace.step_count else 0
        late = {"steps": max(1, steps), "window_ns": self.state.trace.window_ns}
        questions: dict[str, Question] = {}
        masks: dict[str, Bools] = {}
        for index, (rule, _, rows) in enumerate(matches):
            if (having := rule.compiled.having) is not None:
                masks[f"rows {index}"] = rows
                questions[rule.id] = Question(having.bind(rows=f'"rows {index}"', **late), having.columns)
        answers = self.state.evaluator.truths(frame, questions, masks)
        rest: list[tuple[Rule, Bools, Bools]] = []
        for match in matches:
            rule, answer = match[0], answers.get(match[0].id, True)
            if isinstance(answer, Exception):
                self.state.fail(rule, answer, "match.having")
            elif answer is None:
                columns = rule.compiled.having.columns if rule.compiled.having else ()
                self.state.not_applicable(rule, f"unknown: {', '.join(columns)} of {frame}")
            elif answer:
                rest.append(match)
            else:
                self.state.verdicts.passes.append(rule.id)
        return rest


def _is_slow(frame: str) -> bool:
    """Tell whether a frame comes last, as one that a second thread may be building meanwhile."""
    return FRAMES[frame].slow


def _asked_later(rules: Sequence[Rule]) -> frozenset[str]:
    """The columns of their frame that may be asked for once it is known which rows of it some rules match."""
    compiled = [rule.compiled for rule in rules]
    conditions = [part for one in compiled for part in (one.weight, one.launches, *one.evidence, *one.fix_rows)]
    return _OF_ROWS.union(*(part.columns for part in conditions if part is not None))
