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
