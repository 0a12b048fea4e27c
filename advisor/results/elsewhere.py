"""Steady time that no finding speaks of."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import Name, Text, doc


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of one family, or of one name, in a place."""

    name: Annotated[
        Text, doc("Their family, as in `kernel_time`; of a place that is of one family the kernel's name, cut.")
    ]
    ms: Annotated[float, doc("What of the place's time they own, in ms.")]
    count: Annotated[float, doc("How many there are in a step (in the window without steps).")]


class SlowRound(msgspec.Struct, frozen=True, kw_only=True):
    """Collectives that were in flight together, where they took far longer than all other such rounds."""

    number: Annotated[int, doc("Its place among the rounds, from 1 on.")]
    rounds: Annotated[int, doc("How many there are, of as many collectives each.")]
    ms: Annotated[float, doc("From the begin of the first of them to the end of the last.")]
    usual_ms: Annotated[float, doc("The median of the others.")]


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """Collectives of one name on the CPU."""

    count: Annotated[float, doc("How many there are in a step (in the window without steps).")]
    median_ms: Annotated[float, doc("The median of their durations.")]
    longest_ms: Annotated[float, doc("The longest.")]
    most_bytes: Annotated[int | None, doc("Size of the largest message; None where shapes or types were not recorded.")]
    rate: Annotated[
        float | None, doc("Bytes of the largest messages over their time in the median, in GB/s; None likewise.")
    ]
    ranks: Annotated[int | None, doc("Ranks of the job; None where unknown.")]
    slow_round: Annotated[
        SlowRound | None,
        doc("The one round of several alike that took half as long again as each other, or longer; None without."),
    ] = None


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
    calls: Annotated[
        Calls | None, doc("Of collectives on the CPU: how many there are, how large and how long; None for all else.")
    ] = None
    kernels: Annotated[
        float | None,
        doc("Of kernels whose limit is not known: how many there are in a step (in the window without steps)."),
    ] = None
    short: Annotated[float | None, doc("How many of these take less than 10 µs each.")] = None
    short_ms: Annotated[float | None, doc("What these short ones own, in ms.")] = None
    made_of: Annotated[
        list[Made], doc("What these kernels are, the longest first: families; where they are of one, kernels by name.")
    ] = []


class Unmodelled(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels whose limit is not known, for one reason."""

    reason: Annotated[Text, doc("What the recording lacks, or what cannot be told from it.")]
    ms: Annotated[float, doc("The time that they own, in ms of the step (of the window without steps).")]
