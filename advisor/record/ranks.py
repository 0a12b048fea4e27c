"""Ranks that end together: where a program is to stop once it is recorded, none ends before all of those that record are done.

One that ended alone would break off what another waits for, which then lacks its stacks, or all of its file. Each rank tells of
itself in the store by which torch's ranks found one another, and asks nothing that has to be waited for: no collective, which could
meet one of the program's. Until all are done the program trains on, and what comes is not recorded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

LONGEST = (60.0, 20)
"""Seconds and steps for which a rank that is done waits for others, until both are over: one step may take another rank as long as
writing its recording does."""
_YET_TO_BEGIN_S = 2.0
"""Seconds for which a rank that is done waits for others to begin: it may be done before another, which started later, has. Of
ranks that are not recorded it hears nothing ever."""
_AHEAD = 2
"""Steps from the one in which it is decided to the one with which all end: ranks that exchange in each are one apart at most."""
_BEGUN, _DONE, _END = "begun", "done", "end"


class Store(Protocol):
    """The part of torch's stores that is used, of which none waits for another rank."""

    def add(self, key: str, amount: int) -> int:
        """Add to a count, and return what it is then."""

    def check(self, keys: list[str]) -> bool:
        """Tell whether values are there."""

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """Keep a value where that *expected* is there, or for an empty one none; return what is there then."""


class Ranks:
    """The ranks of a program, seen from one of them.

    Whichever finds first that all that record are done decides with which step they end; so does one that has waited too long,
    as for a rank that was killed. A store that fails, as the process that serves it has ended, lets the rank end.
    """

    def __init__(self, store: Store, count: int, now: Callable[[], float] = time.monotonic) -> None:
        self._store, self._ranks, self._now = store, count, now
        self._done_at: float | None = None
        self._waited = 0  # steps
        self._last: int | None = None  # the step with which all end

    @property
    def is_done(self) -> bool:
        """True once :meth:`done` was called."""
        return self._done_at is not None

    def begin(self) -> None:
        """Tell the others that this rank records."""
        self._count(_BEGUN)

    def done(self) -> None:
        """Tell the others that this rank has nothing left to record."""
        if self._done_at is None:
            self._done_at = self._now()
            self._count(_DONE)

    def may_end(self, step: int) -> bool:
        """Tell whether this rank, which is done, is to end with the *step* that is over now: its number, alike in all ranks."""
        if self._done_at is None:
            return False
        self._waited += 1
        try:
            return step >= self._decided(step)
        except Exception:  # noqa: BLE001  (whatever a store raises: it is gone, and the ranks with it)
            return True

    def _decided(self, step: int) -> float:
        """Return the step with which all end; infinity while that is not decided."""
        if self._last is None:
            done = self._store.add(_DONE, 0)
            begun = self._store.add(_BEGUN, 0)  # behind that: who begins between the two is waited for
            begun_all = begun >= self._ranks or self._since() > _YET_TO_BEGIN_S
            if (done >= begun and begun_all) or self._is_late() or self._store.check([_END]):
                end = step + (_AHEAD if begun > 1 else 0)
                self._last = int(self._store.compare_set(_END, "", str(end)))
        return float("inf") if self._last is None else self._last

    def _since(self) -> float:
        return self._now() - (self._done_at or 0.0)

    def _is_late(self) -> bool:
        return self._since() > LONGEST[0] and self._waited > LONGEST[1]

    def _count(self, key: str) -> None:
        try:
            self._store.add(key, 1)
        except Exception:  # noqa: BLE001  (as above: the others wait for a while)
            return


def exchanging(torch: Any) -> bool:
    """Tell whether this is one of several ranks."""
    distributed = torch.distributed
    return bool(distributed.is_available() and distributed.is_initialized())


def ranks(torch: Any) -> Ranks | None:
    """Return the ranks of this program; None where it is alone, or they have no store, as those of MPI."""
    if not exchanging(torch):
        return None
    try:
        store = torch.distributed.distributed_c10d._get_default_store()
        return Ranks(torch.distributed.PrefixStore("advisor", store), torch.distributed.get_world_size())
    except Exception:  # noqa: BLE001  (torch's own way to its store differs by version)
        return None


def settle(torch: Any) -> None:
    """Wait for what this rank has launched on a GPU: else its host would be steps ahead of the other ranks'."""
    if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
        torch.cuda.synchronize()
