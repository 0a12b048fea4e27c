"""The step's time, divided by the models that a program calls."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import Name, doc


class ModelTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time of one model, or of another module that the program calls by itself."""

    model: Annotated[
        Name, doc("Class of the outermost module; of one that wraps another, as `OptimizedModule`, the class of that.")
    ]
    kernel_ms: Annotated[
        float, doc("What its kernels own of a step in the mean of all (of the window without steps), in ms.")
    ]
    idle_ms: Annotated[
        float,
        doc(
            "What the device idles for Python, operators and launches in its calls, in ms likewise; not in its backward pass."
        ),
    ]

    @property
    def ms(self) -> float:
        """Both together."""
        return self.kernel_ms + self.idle_ms
