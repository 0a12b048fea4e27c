"""The pictures and tables of a report, made from a trace and what the rules came to: the contract is ``advisor.results.views``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from advisor.results.views import Views
from advisor.views.flame import flames
from advisor.views.marks import Marks
from advisor.views.memory import curves
from advisor.views.modules import modules
from advisor.views.operators import operators
from advisor.views.queue import queue
from advisor.views.roofline import roofline
from advisor.views.steps import bars, others, representative
from advisor.views.tables import classes, copies, kernels, syncs
from advisor.views.timeline import MOST_CAUSES_OF_OTHERS, MOST_EVENTS_OF_OTHERS, timeline

if TYPE_CHECKING:
    from advisor.engine.claims import Claim
    from advisor.trace import Trace

__all__ = ["build"]


def build(trace: Trace, matches: Mapping[str, Claim], order: Sequence[str]) -> Views:
    """All views of a trace. *matches* are the rows of the rules that fired, *order* their ids as the findings are ordered."""
    extent = representative(trace)
    few = (MOST_EVENTS_OF_OTHERS, MOST_CAUSES_OF_OTHERS)
    more = [timeline(trace, other, Marks(trace, other, matches, order), *few) for other in others(trace, extent)]
    return Views(
        steps=bars(trace),
        timeline=timeline(trace, extent, Marks(trace, extent, matches, order)),
        others=[line for line in more if line is not None],
        flames=flames(trace),
        memory=curves(trace),
        queue=queue(trace, extent),
        classes=classes(trace),
        operators=operators(trace),
        kernels=kernels(trace),
        modules=modules(trace),
        copies=copies(trace),
        syncs=syncs(trace),
        roofline=roofline(trace.context),
    )
