"""The pace at which the host launches kernels of which none was recorded."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import doc


class LaunchRate(msgspec.Struct, frozen=True, kw_only=True):
    """Launches of kernels in steady time, of a trace that holds no kernel."""

    count: Annotated[float, doc("How many there are in the mean step (in the window without steps).")]
    ms: Annotated[float, doc("That step's steady time, or the window's, in ms.")]
    call_us: Annotated[float, doc("The mean of what a call of the runtime or driver takes, in µs.")]
