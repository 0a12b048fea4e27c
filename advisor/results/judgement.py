"""The gate's answer: one check a metric, a rule, or an assertion, and the verdict of all together. Renderers read it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.counting import counted
from advisor.results.analysis import Place
from advisor.results.division import Division
from advisor.results.encoding import to_json
from advisor.results.field import FilePath, Name, Text, Wording, doc

SCHEMA_VERSION = 1
Kind = Literal["metric", "rule", "assertion"]
Outcome = Literal["regression", "improvement", "same", "inconclusive"]
Level = Literal["error", "warn", "off"]
Verdict = Literal["passed", "failed", "inconclusive"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was compared or asserted. Figures are per step, in ``unit``; None where there is none."""

    kind: Annotated[Kind, doc("What was checked.")]
    name: Annotated[Name, doc("A metric, the id of a rule, or the text of an assertion.")]
    title: Annotated[Text, doc("What it is, in one line; empty for a rule that the candidate has no finding of.")]
    outcome: Annotated[Outcome, doc("What became of it; an assertion that does not hold is a regression.")]
    level: Annotated[Level, doc("error counts; warn is told and does not.")]
    message: Annotated[Text, doc("One line: what grew, by how much, where; or why there is no answer.")]
    unit: Annotated[Wording, doc("ms, MB or share; empty for counts, and where there is no figure.")] = ""
    base: Annotated[float | None, doc("Figure of the baseline's steps in `unit`: median, mean or peak.")] = None
    now: Annotated[float | None, doc("That of the candidate's steps; of an assertion, what is furthest off.")] = None
    change: Annotated[float | None, doc("now less base.")] = None
    change_share: Annotated[float | None, doc("change over base; None where base is 0.")] = None
    low: Annotated[
        float | None, doc("Lower bound of the change, at 99 %: by bootstrap, of several runs by Student's t.")
    ] = None
    high: Annotated[float | None, doc("Upper bound of the change.")] = None
    threshold: Annotated[float | None, doc("The least change that matters; of an assertion, its bound.")] = None
    where: Annotated[list[Place], doc("Places that carry most of it, at most three; of a regression only.")] = []
    note: Annotated[Text, doc("Why there is no answer, or what to know of it; part of the message.")] = ""
    waiver: Annotated[Text, doc("Reason of the waiver that keeps it from counting; may be empty.")] = ""

    def __repr__(self) -> str:
        """Return the check in a line."""
        return f"<Check {self.outcome} {self.name!r}: {self.message!r}>"

    @property
    def counts(self) -> bool:
        """True where the check bears on the verdict."""
        return self.level == "error" and not self.waiver


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The gate's answer."""

    schema_version: Annotated[int, doc("Version of this schema.")]
    verdict: Annotated[Verdict, doc("failed where one that counts regressed, inconclusive where one has no answer.")]
    headline: Annotated[Text, doc("One line: what grew, by how much, where.")]
    workload: Annotated[Name, doc("As the baseline calls it; empty where it has no name.")]
    baseline: Annotated[FilePath, doc("The file, as it was given; empty where only assertions were checked.")]
    traces: Annotated[list[FilePath], doc("The candidates, as they were given: runs of one workload.")]
    incomparable: Annotated[list[Text], doc("Why the recordings cannot be compared; empty where they can.")]
    checks: Annotated[list[Check], doc("By outcome, regressions first; of each what counts, and the largest, first.")]
    update: Annotated[Text, doc("The command that makes this the new baseline; may be empty.")] = ""
    settings: Annotated[FilePath, doc("The file of the settings that were used; empty where there is none.")] = ""
    division: Annotated[
        Division | None,
        doc("Of a failure: how the step differs from the baseline's, divided over parts of the program; None else."),
    ] = None
    undivided: Annotated[Wording, doc("Why a failure is not divided; empty where it is, and without one.")] = ""

    def __repr__(self) -> str:
        """Return the judgement in a line: its checks are many."""
        told = [check for check in self.checks if check.outcome == "regression"]
        return f"<Judgement {self.verdict}: {len(told)} of {counted(len(self.checks), 'check')} regressed; {self.headline!r}>"

    def to_json(self) -> bytes:
        """Encode as indented JSON, the contract of ``-f json``."""
        return to_json(self)
