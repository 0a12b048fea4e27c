"""Performance over commits, as `advisor history` shows it to people and checks it: plain data for the renderers."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.results.encoding import to_json
from advisor.results.field import Name, Text, Wording, doc

SCHEMA_VERSION = 1
Outcome = Literal["worse", "better"]
Verdict = Literal["passed", "failed", "inconclusive"]


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a series."""

    id: Annotated[Name, doc("Id of the run in the store.")]
    commit: Annotated[Text, doc("The commit, as it was given.")]
    time: Annotated[Name, doc("Time of the commit, or of the run, in UTC: 2026-11-25T02:37:12Z.")]
    advisor: Annotated[Name, doc("Version of the advisor that took its figures.")]


class Shift(msgspec.Struct, frozen=True, kw_only=True):
    """A change point: where the level of a figure changed, for longer than chance would have it."""

    metric: Annotated[Name, doc("The figure.")]
    unit: Annotated[Wording, doc("Its unit: ms, MB or share; empty for counts.")]
    outcome: Annotated[Outcome, doc("Which way it changed.")]
    at: Annotated[
        int, doc("The first run behind the change, counted from 0; it lies between this one and the one before.")
    ]
    raised: Annotated[int, doc("The run with which the change could first be told from noise.")]
    before: Annotated[float, doc("Mean of the runs before it, up to the change before.")]
    after: Annotated[float, doc("Mean of the runs behind it, up to the next change.")]
    share: Annotated[float | None, doc("The change as a share of what was before; None where that was 0.")]
    noise: Annotated[float, doc("Standard deviation of single runs about both means, in the unit.")]
    last_before: Annotated[Text, doc("The last commit before it.")]
    first_after: Annotated[Text, doc("The first commit behind it.")]
    gradual: Annotated[bool, doc("True where it came over several runs, and no step between two of them.")]
    begin: Annotated[int, doc("The run it began with, counted from 0: the one before `at`, unless it was gradual.")]
    end: Annotated[int, doc("The run that it ended with: `at`, unless it was gradual.")]
    silent: Annotated[bool, doc("True where it is within what the gate tolerates between two runs.")]
    back: Annotated[bool, doc("True of a return to the level before, after some runs only.")]
    note: Annotated[Text, doc("What else to know of it; may be empty.")] = ""


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """One figure over the runs of a series."""

    name: Annotated[Name, doc("A metric of the gate.")]
    meaning: Annotated[Wording, doc("What it is, in a few words.")]
    unit: Annotated[Wording, doc("ms, MB or share; empty for counts.")]
    figures: Annotated[list[float | None], doc("A figure a run; None where the run does not tell.")]
    shifts: Annotated[list[Shift], doc("Its change points, the first one first.")]
    noise_share: Annotated[
        float | None,
        doc("Standard deviation of single runs on its last level, as a share; None for fewer than 8 runs."),
    ]


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that are alike, and so one series; recordings that are not alike are series of their own."""

    workload: Annotated[Text, doc("Name of what was run; may be empty.")]
    device: Annotated[Name, doc("Device it ran on; cpu without a GPU.")]
    because: Annotated[list[Text], doc("Why it is not one with the series before it; empty for the first.")]
    current: Annotated[bool, doc("True where it holds the newest run of its workload on this device.")]
    runs: Annotated[list[Commit], doc("Its runs, in the order of their time.")]
    trends: Annotated[list[Trend], doc("A trend for each figure.")]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """A branch over its commits."""

    schema_version: Annotated[int, doc("Version of this schema.")]
    headline: Annotated[Text, doc("What became of it, in one line.")]
    branch: Annotated[Text, doc("The branch.")]
    branches: Annotated[dict[Text, int], doc("Runs of each branch in the store, most first.")]
    tracks: Annotated[list[Track], doc("Its series.")]

    def to_json(self) -> bytes:
        """Encode as indented JSON, the contract of ``-f json``."""
        return to_json(self)


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `advisor history check`."""

    schema_version: Annotated[int, doc("Version of this schema.")]
    verdict: Annotated[Verdict, doc("failed where a figure got worse within the runs that were looked at.")]
    headline: Annotated[Text, doc("The answer, in one line.")]
    branch: Annotated[Text, doc("The branch.")]
    runs: Annotated[int, doc("Newest runs of each series within which a change counts.")]
    worse: Annotated[list[Shift], doc("What got worse within these runs, the largest share first.")]
    better: Annotated[list[Shift], doc("What got better within these runs.")]
    unknown: Annotated[list[Text], doc("What could not be told, and why.")]

    def to_json(self) -> bytes:
        """Encode as indented JSON, the contract of ``-f json``."""
        return to_json(self)
