"""The peak of a device's memory, and who holds it, out of a memory snapshot."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import CodeLine, FilePath, Name, Text, doc


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Allocations of one place in the source that live at the peak."""

    file: Annotated[FilePath | None, doc("The innermost frame that is the user's own; None where the stack has none.")]
    line: Annotated[int | None, doc("The line of it that ran.")]
    function: Annotated[Name | None, doc("The function of it.")]
    library: Annotated[CodeLine | None, doc("The innermost frame that is a library's: file:line function.")]
    op: Annotated[
        Text | None, doc("The operator that ran when most of it was allocated; None where the trace shows none.")
    ]
    module: Annotated[Name | None, doc("Path of the nn.Module likewise.")]
    step: Annotated[int | None, doc("The step in which most of it was allocated; None outside, and without a trace.")]
    bytes: Annotated[int, doc("Their size, as it was asked for.")]
    share: Annotated[float, doc("Of what is allocated at the peak.")]
    allocations: Annotated[int, doc("How many there are.")]
    before: Annotated[bool, doc("They were made before the history begins.")] = False


class MemoryPeak(msgspec.Struct, frozen=True, kw_only=True):
    """The moment at which most is allocated on a device, and what lives then."""

    device: Annotated[int, doc("The device.")]
    bytes: Annotated[int, doc("What is allocated then, in the sizes that were asked for.")]
    at_ms: Annotated[
        float | None, doc("When, in ms from the first event of the trace; None where the trace is of another time.")
    ]
    step: Annotated[int | None, doc("The step then; None outside of steps.")]
    op: Annotated[Text | None, doc("The operator that runs then; None where the trace shows none.")]
    unknown_bytes: Annotated[
        int, doc("What of it has no stack: allocated before the history began, or without stacks.")
    ]
    holders: Annotated[list[Holder], doc("Places by what they hold, the most first; at most twenty.")]
