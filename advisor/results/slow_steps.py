"""Single steps that take much longer than the others."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import Name, doc


class SlowSteps(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that take over a quarter longer than the median one, and more than these differ among themselves."""

    count: Annotated[int, doc("Number of them.")]
    steps: Annotated[int, doc("Steps that they are of: those after the first, all where there are fewer than three.")]
    name: Annotated[Name, doc("The longest, as its mark has it.")]
    least_ms: Annotated[float, doc("Duration of the shortest of them, in ms.")]
    most_ms: Annotated[float, doc("Duration of the longest, in ms.")]
    median_ms: Annotated[float, doc("The median of all, in ms.")]
    cause: Annotated[
        Name | None, doc("The cause that grew most in the longest against the median step; None for none.")
    ]
    cause_ms: Annotated[float, doc("By how much, in ms.")]
