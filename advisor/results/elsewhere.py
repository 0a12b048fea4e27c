"""Steady time that no finding speaks of."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import Name, Text, doc


class Elsewhere(msgspec.Struct, frozen=True, kw_only=True):
    """Time of one cause that no finding claims, and that lies in one place."""

    cause: Annotated[Name, doc("The cause, as in `summary.steady_causes`.")]
    where: Annotated[
        Text, doc("The operator that launched the work, the kind of kernel, or the range or call of the program.")
    ]
    ms: Annotated[float, doc("What of it lies there, in ms of the step (of the window without steps).")]
    of_reachable: Annotated[
        float | None,
        doc(
            "Of kernels: the part of that time in which programs do the same work; None where too little is known of it."
        ),
    ] = None
    most_of_reachable: Annotated[
        float | None, doc("The same if the last cache held nothing of what is moved; None likewise.")
    ] = None
    reason: Annotated[
        Name | None,
        doc(
            "Of kernels at less than half of that: what their sizes tell of it, as `reason` in `kernels`; None likewise."
        ),
    ] = None
    unknown: Annotated[
        Text | None,
        doc("Of kernels: why the limit of most of that time is not known; None where it is known, and for other work."),
    ] = None


class Unmodelled(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels whose limit is not known, for one reason."""

    reason: Annotated[Text, doc("What the recording lacks, or what cannot be told from it.")]
    ms: Annotated[float, doc("The time that they own, in ms of the step (of the window without steps).")]
