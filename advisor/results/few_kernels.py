"""A recording of so little work that it shows no steady state."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import doc


class FewKernels(msgspec.Struct, frozen=True, kw_only=True):
    """All kernels of a recording, where they are a few, and short."""

    count: Annotated[int, doc("How many there are.")]
    ms: Annotated[float, doc("The device's work together, copies too, in ms.")]
    again: Annotated[
        bool | None, doc("An operator that lies in no other is called twice. None where none was recorded.")
    ]
