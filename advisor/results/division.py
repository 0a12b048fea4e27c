"""Division of the difference between two recordings: parts of the program that add up to it, each with its reason."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.results.field import FilePath, Name, Text, Wording, doc

Reason = Literal[
    "type", "shape", "layout", "operator", "kernel", "calls", "appeared", "vanished", "clock", "slower", "exposed", "batch",
    "device", "bytes", "waits", "loader", "host", "unknown", "other",
]  # fmt: skip
"""Reasons, the most telling first: see the page on comparing in the docs."""
Unit = Literal["step", "sample", "window"]


class Portion(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a part. Times are ms a step, or of what else the division is of."""

    gpu_ms: Annotated[float, doc("What it owns of the time in which the GPU works.")]
    host_ms: Annotated[float, doc("What it owns of the rest: idle GPU, and in a program on the CPU all.")]
    calls: Annotated[float, doc("Kernels, copies or operators, hidden ones too; of waits, how many.")]
    kernels: Annotated[list[Name], doc("The heaviest of its kernels, at most three.")] = []
    shapes: Annotated[Name, doc("Shapes of its heaviest operator; empty where unknown.")] = ""
    dtype: Annotated[Name, doc("Number format of most of its time; empty where unknown.")] = ""
    limit_ms: Annotated[
        float | None, doc("Least ms in which the hardware could do what is known of it; None where nothing is.")
    ] = None

    @property
    def ms(self) -> float:
        """Time that it owns, in all."""
        return self.gpu_ms + self.host_ms


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the program on both sides. Parts own disjoint time on either: their changes add up."""

    label: Annotated[Text, doc("Where it is: module, operator, phase.")]
    reason: Annotated[Reason, doc("Why it changed.")]
    because: Annotated[Text, doc("The reason in words.")]
    change_ms: Annotated[float, doc("What it owns after, less what it owned before.")]
    noise_ms: Annotated[
        float | None,
        doc(
            "Half the width of the interval that holds the change at 95 %, by the spread of steps; None with one step."
        ),
    ]
    real: Annotated[
        bool, doc("Whether the change is beyond the noise of steps, and of runs as the gate takes it to be.")
    ]
    paired: Annotated[bool, doc("Whether both sides have it; what one side lacks appeared or vanished.")]
    before: Annotated[Portion, doc("On the first side.")]
    after: Annotated[Portion, doc("On the second side.")]
    file: Annotated[FilePath | None, doc("The user's file that it is called from; None where unknown.")] = None
    line: Annotated[int | None, doc("Line in that file, on the second side where it is there; None where unknown.")] = (
        None
    )
    function: Annotated[Name | None, doc("The user's function; None where unknown.")] = None
    parts: Annotated[list[Part], doc("Parts that it was put together from, the heaviest; empty of a single one.")] = []


class Division(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of the step, or of a sample where the batch changed, divided over parts of the program."""

    per: Annotated[Unit, doc("What the ms are of: a step; a sample, where the batch changed; a window without steps.")]
    before_ms: Annotated[float, doc("All parts of the first side together.")]
    after_ms: Annotated[float, doc("All parts of the second side together.")]
    change_ms: Annotated[float, doc("after_ms less before_ms: what the changes of the parts add up to.")]
    noise_ms: Annotated[float | None, doc("Half the width of its interval at 95 %; None with one step on a side.")]
    steps: Annotated[tuple[int, int], doc("Steps on either side; 0 without steps.")]
    batch: Annotated[tuple[float, float] | None, doc("Samples a step on either side; None but where they differ.")]
    parts: Annotated[list[Part], doc("What is beyond noise first; of each the largest change first.")]
    other_ms: Annotated[float, doc("Change of the parts that are too small to list.")]
    other_parts: Annotated[int, doc("How many these are.")]
    earlier_ms: Annotated[tuple[float, float], doc("ms a step of work launched before the window: on neither side.")]
    startup_ms: Annotated[tuple[float, float], doc("Start-up in either recording: part of no step.")]
    paired_share: Annotated[float | None, doc("Share of the device's time, both sides together, that is paired.")]
    whole: Annotated[bool, doc("Whether both sides hold all of their program; a baseline keeps the heaviest of it.")]
    notes: Annotated[list[Wording], doc("What to know of it; may be empty.")]
