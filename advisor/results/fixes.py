"""Result of ``advisor fix``: edits with their prices and diffs, what became of each, and what no edit does."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.results.encoding import to_json
from advisor.results.field import FilePath, Name, Text, Wording, doc

SCHEMA_VERSION = 1
Verdict = Literal["proposed", "kept", "reverted", "not tried"]


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Prediction of the replay: shares of the step that the fix returns."""

    low: Annotated[float, doc("With the cautious assumption.")]
    high: Annotated[float, doc("With the hopeful assumption.")]


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Steps without a profiler, before and after an edit: means over the runs' own means."""

    runs: Annotated[int, doc("Runs on each side.")]
    before_ms: Annotated[float, doc("A step before, wall time.")]
    after_ms: Annotated[float, doc("A step after, wall time.")]
    low_ms: Annotated[float | None, doc("Least change, after less before; None where it is not known.")]
    high_ms: Annotated[float | None, doc("Most change, after less before; None where it is not known.")]
    before_cpu_ms: Annotated[float, doc("Processor time of the training process a step, before.")]
    after_cpu_ms: Annotated[float, doc("Processor time of the training process a step, after.")]

    elsewhere: Annotated[
        float | None, doc("Share of the cores that other programs used meanwhile; None where it is not known.")
    ] = None

    @property
    def saved(self) -> float:
        """Share of the step that is gone; negative where it is longer."""
        return 1 - self.after_ms / self.before_ms if self.before_ms else 0.0


class FixResult(msgspec.Struct, frozen=True, kw_only=True):
    """One edit, and what became of it."""

    edit: Annotated[Name, doc("Name of the edit.")]
    title: Annotated[Wording, doc("The change in one line.")]
    rules: Annotated[list[Name], doc("Rules whose findings it serves.")]
    file: Annotated[FilePath, doc("The file that it changes.")]
    what: Annotated[Text, doc("What is written there.")]
    diff: Annotated[Text, doc("The change as a unified diff.")]
    price: Annotated[Price | None, doc("What it is predicted to return; None without a price.")]
    changes_training: Annotated[bool, doc("Whether it changes what is learned: batch or precision.")]
    verdict: Annotated[Verdict, doc("proposed where nothing was run.")]
    because: Annotated[Text, doc("Why it was kept or reverted; empty where it is proposed.")] = ""
    timing: Annotated[Timing | None, doc("What was measured; None where it was not timed.")] = None
    losses: Annotated[
        list[tuple[float, float]] | None, doc("First losses before and after, where they were compared.")
    ] = None


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that no edit serves: where it is, and its fix in the rule's words."""

    rule: Annotated[Name, doc("Id of the rule.")]
    title: Annotated[Text, doc("The finding in one line.")]
    where: Annotated[Text, doc("Place in the source, as file:line; empty where it is not known.")]
    fix: Annotated[Text, doc("What to change, in one line.")]
    sketch: Annotated[Wording, doc("Code with the fix; empty where the rule shows none.")]
    price: Annotated[Price | None, doc("What it is predicted to return; None without a price.")]
    because: Annotated[Text, doc("Why it is no edit, where an edit for the rule was tried; else empty.")] = ""


class Fixes(msgspec.Struct, frozen=True, kw_only=True):
    """All that ``advisor fix`` did and says."""

    schema_version: Annotated[int, doc("Version of this form.")] = SCHEMA_VERSION
    script: Annotated[FilePath, doc("The program.")]
    headline: Annotated[Text, doc("What came out, in one line.")]
    verified: Annotated[bool, doc("Whether edits were run and judged.")]
    applied: Annotated[bool, doc("Whether kept edits were written to the user's files.")]
    fixes: Annotated[list[FixResult], doc("The edits, in the order in which they were tried.")]
    advice: Annotated[list[Advice], doc("Findings that no edit serves, in their order.")]
    patch: Annotated[FilePath | None, doc("The file that holds the kept edits as one patch; None without one.")] = None
    branch: Annotated[Text | None, doc("The branch with one commit a kept edit; None where not asked for.")] = None
    before_ms: Annotated[float | None, doc("A step at the start, timed; None where nothing was run.")] = None
    after_ms: Annotated[float | None, doc("A step with what was kept; None where nothing was kept.")] = None
    outside: Annotated[list[FilePath], doc("Files that runs wrote outside the copied tree.")] = []
    seconds: Annotated[float, doc("Time that all of it took.")] = 0.0

    def to_json(self) -> bytes:
        """Encode as indented JSON, the contract of ``-f json``."""
        return to_json(self)
