"""Recording: the only place that knows torch. From a training script to a trace that the rest of the house can read.

:func:`run` records a script, :class:`profile` a block of code.
"""

from __future__ import annotations

from advisor.errors import UsageError


def require_torch() -> None:
    """Raise UsageError where torch is not installed."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise UsageError("recording needs torch, which is not installed here: pip install 'trace-advisor[record]'")
