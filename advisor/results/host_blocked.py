"""Time in which the thread that launches stands in calls that wait or block, whether or not the GPU works meanwhile."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.results.field import CodeLine, Name, doc


class Blocking(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one kind at one place."""

    call: Annotated[
        Name,
        doc("`.item()`, another operator that reads values back, copies by their direction, or the runtime's call."),
    ]
    where: Annotated[
        CodeLine,
        doc(
            "The innermost function that is neither torch's nor the standard library's, the outermost range of the program's, the "
            "phase of training, or the outermost operator, whichever is known first; empty outside of all."
        ),
    ]
    kind: Annotated[Literal["function", "range", "phase", "operator", "between"], doc("Which of these `where` names.")]
    ms: Annotated[float, doc("In ms of the mean step (of the window without steps).")]
    idle_ms: Annotated[
        float | None, doc("What of it the GPU idles, in ms; None where idle time is not what the recording shows.")
    ]
    count: Annotated[float, doc("Calls a step; a copy and the wait for it are one.")]


class HostBlocked(msgspec.Struct, frozen=True, kw_only=True):
    """Time in synchronizing calls, in copies that hold the host, and in the driver's allocations and frees."""

    ms: Annotated[float, doc("In ms of the mean step (of the window without steps): all parts together.")]
    idle_ms: Annotated[
        float | None, doc("What of it the GPU idles, in ms; None where idle time is not what the recording shows.")
    ]
    parts: Annotated[list[Blocking], doc("By call and place, the longest first.")]
    step_ms: Annotated[
        float | None,
        doc(
            "The mean step that this is of, in ms (the window without steps): the host's own where it runs ahead of the GPU, which "
            "ends its last step later. None in older analyses."
        ),
    ] = None
