"""Two traces side by side, as `advisor compare` shows them to people: renderers read it, and nothing here fails a build."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.results.analysis import Place
from advisor.results.division import Division, Unit
from advisor.results.encoding import to_json
from advisor.results.field import FilePath, Name, Text, Wording, doc

SCHEMA_VERSION = 2
Turn = Literal["fixed", "new", "better", "worse", "same", "untold"]
Fate = Literal["appeared", "vanished", "more", "less"]
Kind = Literal["kernel", "operator", "module"]
Answer = Literal["applied and holds", "applied, does not hold", "cost fell", "cannot be told", "not applied"]


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two traces."""

    path: Annotated[FilePath, doc("The file, as it was given.")]
    device: Annotated[Name | None, doc("Name of its busiest GPU; None without one, or without a name.")]
    steps: Annotated[int, doc("Steps counted; 0 where it has none.")]
    step_ms: Annotated[float | None, doc("Its typical step, as `analyze` has it; None without steps.")]
    p10_ms: Annotated[float | None, doc("10th percentile of its steps; None without steps.")]
    p90_ms: Annotated[float | None, doc("90th percentile of its steps; None without steps.")]
    window_ms: Annotated[float, doc("Length of its window.")]


class Shift(msgspec.Struct, frozen=True, kw_only=True):
    """One figure on both sides, of a step or of a sample."""

    name: Annotated[Name, doc("A metric of the gate, or a cause.")]
    meaning: Annotated[Wording, doc("What it is, in a few words.")]
    unit: Annotated[Wording, doc("ms, MB or share; empty for counts.")]
    before: Annotated[float | None, doc("On the first side; None where that does not tell.")]
    after: Annotated[float | None, doc("On the second side; None where that does not tell.")]
    outcome: Annotated[
        Literal["worse", "better", "same", "inconclusive"],
        doc("What the gate would say; of a cause, which side has more, whether that is significant or not."),
    ]
    note: Annotated[Text, doc("Why there is no answer, or what to know of it; may be empty.")] = ""


class Turned(msgspec.Struct, frozen=True, kw_only=True):
    """A finding on either side."""

    rule: Annotated[Name, doc("Id of the rule.")]
    title: Annotated[Text, doc("The finding in one line, the second side's where it has it.")]
    turn: Annotated[Turn, doc("What became of it; untold where the rule could not run on a side.")]
    before_ms: Annotated[float | None, doc("Its cost on the first side, in ms; None where it is not known.")]
    after_ms: Annotated[float | None, doc("Its cost on the second side, in ms; None where it is not known.")]
    verdicts: Annotated[tuple[Name, Name], doc("On each side: fires, passes, not_applicable, not_run, error, unknown.")]
    where: Annotated[list[Place], doc("The place that carries most of the cost; empty where none is known.")]


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Promise of a fix of the first trace's findings, and the second trace's answer to it."""

    rule: Annotated[Name, doc("Id of the rule.")]
    fix: Annotated[Wording, doc("The fix in one line.")]
    verify: Annotated[Wording, doc("What a new trace should show once it is done.")]
    answer: Annotated[
        Answer,
        doc(
            "Whether the second trace shows the fix in place, and then whether what it was to mend is gone; `cost fell` where "
            "it does not show it, and what it was to mend costs less all the same."
        ),
    ]
    because: Annotated[Text, doc("What the answer follows from.")]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel, an operator or a module that is not as it was; figures are a step's or a sample's."""

    kind: Annotated[Kind, doc("What it is.")]
    name: Annotated[Text, doc("Its name; of a module, its path.")]
    shape: Annotated[Name, doc("Of an operator its shapes, where they tell it apart; else empty.")]
    fate: Annotated[Fate, doc("What became of it.")]
    calls_before: Annotated[float, doc("Calls on the first side; 0 where it appeared.")]
    calls_after: Annotated[float, doc("Calls on the second side; 0 where it vanished.")]
    gpu_ms_before: Annotated[
        float | None,
        doc("On the GPU, on the first side: of an operator or a module its own; None where nothing tells."),
    ]
    gpu_ms_after: Annotated[float | None, doc("The same on the second side.")]
    host_ms_before: Annotated[
        float | None, doc("On the host, on the first side: an operator's own; None of kernels and modules.")
    ] = None
    host_ms_after: Annotated[float | None, doc("The same on the second side.")] = None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two traces side by side."""

    schema_version: Annotated[int, doc("Version of this schema.")]
    before: Annotated[Side, doc("The first trace.")]
    after: Annotated[Side, doc("The second trace.")]
    headline: Annotated[Text, doc("What became of the step, in one line.")]
    unlike: Annotated[list[Text], doc("Why figures of the two need care; empty where they are alike.")]
    per: Annotated[
        Unit,
        doc(
            "What all figures but `step` and the sides' are of: a step; a sample, where the batch changed; a window without "
            "steps."
        ),
    ] = "step"
    division: Annotated[
        Division | None,
        doc("The difference, divided over parts of the program; None where a side holds no steady work."),
    ]
    step: Annotated[Shift, doc("The step; where the batch changed, its outcome is a sample's.")]
    causes: Annotated[list[Shift], doc("ms of each cause on average: they add up to the mean step, or sample.")]
    metrics: Annotated[list[Shift], doc("The other metrics of the gate.")]
    findings: Annotated[list[Turned], doc("Findings of either side: new, worse, fixed, better, same, untold.")]
    claims: Annotated[list[Claim], doc("What the first side's fixes promise: what holds comes first.")]
    items: Annotated[list[Item], doc("What appeared, vanished or changed most, at most 15 of each kind.")]
    hidden: Annotated[dict[Name, int], doc("By kind: how many more items changed, and less.")]

    def to_json(self) -> bytes:
        """Encode as indented JSON, the contract of ``-f json``."""
        return to_json(self)
