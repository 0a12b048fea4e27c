"""One stretch of idle time that comes back in each step."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import Name, Text, doc


class RecurringGap(msgspec.Struct, frozen=True, kw_only=True):
    """Stretches of like length, about one a step, that most of what idles is a few of."""

    count: Annotated[int, doc("Such stretches in the steps that count.")]
    steps: Annotated[int, doc("Steps that count.")]
    ms: Annotated[float, doc("Their median length, in ms.")]
    least_ms: Annotated[float, doc("The shortest, in ms.")]
    most_ms: Annotated[float, doc("The longest, in ms.")]
    idle_share: Annotated[float, doc("What they hold of the device's idle time in these steps.")]
    ended: Annotated[
        int, doc("How many of them end with the work that is named here: the most common of what comes next.")
    ]
    call: Annotated[Name | None, doc("The runtime's call that launches it; None where the recording lacks it.")]
    graph: Annotated[bool, doc("It replays a graph.")]
    op: Annotated[
        Text | None, doc("The innermost operator around that call, else the program's outermost range; None outside.")
    ]
    ahead_ms: Annotated[
        float | None,
        doc(
            "By how long the call ends before these stretches begin, the median in ms: the work was queued, no launch is late. "
            "None where it does not."
        ),
    ]
