"""The kernels' time, divided by what they compute."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import Name, doc


class KernelTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time of kernels that compute the same kind of thing."""

    family: Annotated[Name, doc("What they compute: `family` in `kernels`.")]
    ms: Annotated[float, doc("What they own of a step in the mean of all (of the window without steps), in ms.")]
    share: Annotated[float, doc("That, of the time that all kernels but those of communication own.")]
    casts_ms: Annotated[
        float, doc("What kernels of the family `casts` take that convert what these read or write, in ms; not in `ms`.")
    ] = 0.0
