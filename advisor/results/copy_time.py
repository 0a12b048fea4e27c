"""The copies of a step, by where they go."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import Name, doc


class CopyTime(msgspec.Struct, frozen=True, kw_only=True):
    """Copies in one direction: their time and size in a step, in the mean of all (in the window without steps)."""

    direction: Annotated[Name, doc("HtoD, DtoH, DtoD or PtoP.")]
    ms: Annotated[float, doc("Their durations, in ms, beside kernels or not.")]
    hidden_ms: Annotated[float, doc("What of it lies beside kernels, in ms.")]
    count: Annotated[float, doc("How many there are.")]
    bytes: Annotated[float | None, doc("Their size together; None where that of one is not known.")]
    host_memory: Annotated[
        Name | None, doc("pageable, pinned or managed, where nearly all of the time is of one kind; else None.")
    ]
    both_ms: Annotated[
        float | None,
        doc(
            "Of copies between the host and the device: what of it lies beside copies the other way, in ms. None without any, and "
            "in older analyses."
        ),
    ] = None
