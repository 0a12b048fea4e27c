"""Division of a difference: two programs paired, and the difference of their steps laid at the door of parts that add up to it.

Sites of both sides (``advisor.results.sites``) are paired in ``pairing``, by what names and kinds of operators tell
(``families``); each pair gets a reason in ``reasons``; pairs of one reason are put together in ``lines``; ``divide`` is the
way in. ``digest`` is what a baseline keeps. Nothing here reads a trace, so that a baseline is divided by like any recording.
"""

from advisor.gating.division.digest import digest
from advisor.gating.division.divide import divide

__all__ = ["digest", "divide"]
