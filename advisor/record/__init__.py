"""Recording: the only package that imports torch. It turns a training script into a trace that the others can read.

:mod:`~advisor.record.launch` records a script, :class:`~advisor.record.block.profile` a block of code.
"""

from __future__ import annotations

from advisor.errors import UsageError

SECOND_PASS, INLINE, NONE = "second pass", "inline", "none"
STACKS = {"second": SECOND_PASS, "inline": INLINE, "none": NONE}
"""Ways to record stacks: the word of ``--stacks`` and ``stacks=``, and its name in the trace."""


def require_torch() -> None:
    """Raise UsageError where torch is not installed."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise UsageError(
            "recording needs torch, which is not installed here: pip install torch, or in a checkout of the advisor "
            "pip install '.[record]'"
        )
