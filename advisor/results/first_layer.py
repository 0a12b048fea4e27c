"""The first of a model's layers where it takes far longer than those after it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import Name, doc


class FirstLayer(msgspec.Struct, frozen=True, kw_only=True):
    """Layers of one class in one pass of a model, which launch alike: first calls make the first of them long."""

    name: Annotated[Name, doc("The first, as the profiler counts modules.")]
    ms: Annotated[float, doc("Time that the host is in it, without waits for the device, in ms.")]
    others: Annotated[int, doc("Layers after it.")]
    other_ms: Annotated[float, doc("The median of theirs.")]
    counted_ms: Annotated[
        float,
        doc(
            "Idle time of the device in it beyond the median of theirs that is no start-up: the figures of the window hold it."
        ),
    ]
