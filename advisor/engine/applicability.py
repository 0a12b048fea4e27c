"""Rules that speak of a trace and whose symptom is there: what they need was recorded, and ``given`` and ``when`` hold."""

from __future__ import annotations

import re
from collections.abc import Sequence

from advisor.engine.evaluation import Question, of_part
from advisor.engine.state import State
from advisor.rulebook.rule import Rule

# Without these the program is not of the kind that the rule speaks of; recording more would not change that.
_ABSENT = {
    "distributed": "the program runs in one process and communicates with no other",
    "loader": "nothing in the trace waits for a DataLoader",
}
_NEED_GPU = {"gpu", "idle"}


class Applicability:
    """Verdicts of the rules that do not speak of a trace, or find no symptom in it."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.unmet: dict[str, str] = {}

    def able(self, rules: Sequence[Rule]) -> list[Rule]:
        """The rules that go on to the rows; the verdicts of the others are given."""
        wanted = {
            (rule.id, slot): condition
            for rule in rules
            for slot, condition in (("given", rule.compiled.given), ("when", rule.compiled.when))
            if condition is not None
        }
        answers = self.state.evaluator.conditions("trace", wanted)
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
        answers = self.state.evaluator.truths("trace", questions)
        unmet: dict[str, str] = {}
        for rule in rules:
            failed = [key for key in questions if key[0] == rule.id and answers[key] is False][:1]
            text = " and ".join(_plain_sql(sql) for _, sql in failed)
            names = dict.fromkeys(name for key in failed for name in questions[key].columns)
            unmet[rule.id] = (
                f"asks for {text}; here {', '.join(f'{name} is {self.state.figure(name)}' for name in names)}"
            )
        return unmet

    def applies(self, rule: Rule, given: bool | Exception | None) -> bool:
        features = self.state.trace.features
        missing = [need for need in rule.needs if need not in features]
        if "gpu" not in features and not _NEED_GPU.isdisjoint(missing):
            # What `given` says of a GPU means nothing here.
            if not self.state.trace.gpu_expected:
                known = self.state.facts.get("cpu_only")
                alone = "the program ran on the CPU alone" if known else "the trace shows no GPU and no sign of one"
                return self.state.not_applicable(rule, alone)
            return self.state.not_run(rule, missing)
        if isinstance(given, Exception):
            return self.state.fail(rule, given, "given")
        if given is False:
            # Before what is missing: recording more would not make the rule speak of this program.
            return self.state.not_applicable(rule, self.unmet[rule.id])
        for need, because in _ABSENT.items():
            if need in missing and "host" in features:
                return self.state.not_applicable(rule, because)
        if missing:
            return self.state.not_run(rule, missing)
        return given is not None or self.state.unknown(rule, rule.compiled.given)

    def shows(self, rule: Rule, when: bool | Exception | None) -> bool:
        if isinstance(when, Exception):
            return self.state.fail(rule, when, "match.when")
        if when is False:
            self.state.verdicts.passes.append(rule.id)
        return bool(when) if when is not None else self.state.unknown(rule, rule.compiled.when)


def _plain_sql(sql: str) -> str:
    """Printed SQL as a person would write it."""
    sql = re.sub(r"CAST\(([\d.e+-]+) AS DOUBLE\)", r"\1", sql).replace('"', "")
    return sql[1:-1] if sql.startswith("(") and sql.endswith(")") and "(" not in sql[1:-1] else sql
