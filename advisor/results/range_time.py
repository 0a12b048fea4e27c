"""The host's step, divided among the ranges that the program marks, where no device was recorded."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import Name, doc


class RangeTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time in a range of one name, whatever its cause."""

    name: Annotated[Name, doc("The outermost range around that time.")]
    ms: Annotated[float, doc("In ms of the mean step (of the window without steps).")]
