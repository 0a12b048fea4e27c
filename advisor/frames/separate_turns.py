"""Lines that a step calls again and again, and how many of these turns need the one before: as ``advisor record`` saw it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.intervals import Ints
from advisor.timeline.context import Context


def turns(context: Context, rows: Ints) -> tuple[Ints, npt.NDArray[np.float64]]:
    """Return how often each row's line is called in a step, 0 where no loop is known, and the part that lies deeper, NaN there.

    A row of the backward pass has the line of what it differentiates.
    """
    host, recorded = context.recording.host, context.metadata.recorded
    chains = () if recorded is None else recorded.chains or ()
    known = {(chain.file, chain.line): chain for chain in chains}
    of_line = [known.get((place.file, place.line)) for place in host.places]
    count = np.array([0 if chain is None else chain.turns for chain in of_line] + [0], np.int64)
    deeper = np.array([np.nan if chain is None else chain.deeper for chain in of_line] + [np.nan], np.float64)
    line = host.attributes.user[rows]
    return count[line], deeper[line]
