"""The clock of steady work: recorded times without start-up, and without both ends of the recording.

What happens once is no part of a price. On this clock it takes no time: what follows moves up, on the host and on the device.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from advisor.intervals import EMPTY, Ints, Spans, covered, union
from advisor.timeline.context import Context


class Clock(Struct, frozen=True):
    """Map of recorded times to steady ones; *removed* is what takes no time."""

    removed: Spans

    def at(self, times: Ints) -> Ints:
        """Each time less what was removed before it."""
        if not len(self.removed.start):
            return times
        first = int(self.removed.start[0])
        out: Ints = times - covered(self.removed, np.full(len(times), first, np.int64), np.maximum(times, first))
        return out

    def spans(self, spans: Spans) -> Spans:
        """Spans on this clock; what lies in removed time vanishes."""
        return union(self.at(spans.start), self.at(spans.end)) if len(self.removed.start) else spans


def clock(context: Context) -> Clock:
    """The clock of a recording: all that its ledger does not count takes no time."""
    ledger = context.ledger
    rest = ~ledger.counted
    if not rest.any():
        return Clock(EMPTY)
    # Neither is what the host did before the extent begins.
    host, low = context.recording.host, int(ledger.start_ns[0])
    early = [min(low, int(host.start.min()) if host.size else low)]
    start, end = np.append(early, ledger.start_ns[rest]), np.append([low], ledger.end_ns[rest])
    return Clock(union(start, end))
