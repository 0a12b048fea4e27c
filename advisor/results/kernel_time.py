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


class ShortKernels(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of less than 10 µs each, of which each is mostly start and end."""

    count: Annotated[float, doc("How many there are in a step in the mean of all (in the window without steps).")]
    kernels: Annotated[float, doc("How many kernels there are in all, those of communication left out.")]
    ms: Annotated[float, doc("What the short ones own of a step in the mean of all, in ms.")]
