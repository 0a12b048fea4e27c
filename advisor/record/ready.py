"""Batches that a loader's workers hold ready: while they last, no step waits for one, however slow the workers are."""

from __future__ import annotations

import math
from typing import Any

_BEYOND = 5
"""Steps behind the ready batches that tell how long the workers take."""


class Ready:
    """Batches of the loader that was asked last: how many its workers hold ``ready``, how many it has ``given``, and its
    ``length``, None where it has none."""

    def __init__(self) -> None:
        self.ready = self.given = 0
        self.length: int | None = None

    def note(self, iterator: Any) -> None:
        """Note that an iterator of a loader has given a batch."""
        workers, prefetch = (getattr(iterator, name, None) for name in ("_num_workers", "_prefetch_factor"))
        self.ready = workers * prefetch if isinstance(workers, int) and isinstance(prefetch, int) else 0
        self.given = getattr(iterator, "_num_yielded", 0)
        try:
            self.length = len(iterator)
        except Exception:  # noqa: BLE001  (a sampler's own method may raise whatever it likes)
            self.length = None

    def feeds(self, steps: int, more: int) -> bool:
        """Tell whether the *steps* so far were fed by ready batches, or by too few others to tell how long those take.

        False where the loader has too few batches to wait for that, and then record *more* steps.
        """
        a_step = max(self.given / max(steps, 1), 1.0)
        enough = self.ready + _BEYOND * a_step
        long_enough = self.length is None or self.length >= enough + math.ceil(more * a_step)
        return self.ready > 0 and self.given < enough and long_enough
