"""All formulas by the operator's name, and the work of one signature."""

from __future__ import annotations

from functools import lru_cache

from advisor.roofline import (
    attention,
    convolutions,
    copies,
    fused,
    indexing,
    losses,
    normalizations,
    optimizers,
    own,
    pointwise,
    pooling,
    products,
    quantized,
    recurrent,
    reductions,
    serving,
    softmax,
    transforms,
)
from advisor.roofline.signature import Signature
from advisor.roofline.traits import of_memory
from advisor.roofline.work import NO_HINTS, Formula, Hints, Work

_FAMILIES = (
    products,
    convolutions,
    attention,
    recurrent,
    quantized,
    normalizations,
    softmax,
    indexing,
    pooling,
    losses,
    optimizers,
    copies,
    reductions,
    serving,
    transforms,
    pointwise,
)
# No call computes or moves as much; what says so is damaged, and would not fit an int64.
_MOST = 1 << 62
# A name in several families would be read by the one that happens to come last.
FORMULAS: dict[str, Formula] = {name: formula for family in _FAMILIES for name, formula in family.FORMULAS.items()}


@lru_cache(maxsize=4096)
def find(name: str) -> Formula | None:
    """The formula of an operator; None for one that is not known, or that computes nothing."""
    return FORMULAS.get(name) or fused.find(name) or serving.find(name) or products.named(name) or own.named(name)


def work(signature: Signature, hints: Hints = NO_HINTS) -> Work | None:
    """The work of an operator called with these operands; None where no formula is known or its operands do not fit it.

    A work with neither arithmetic nor bytes says in ``missing`` why these cannot be told.
    """
    formula = find(signature.name)
    if formula is None:
        return None
    try:
        found = formula(signature, hints)
    except (IndexError, ValueError, ZeroDivisionError):
        return None  # operands of another schema, or damaged ones: too few dimensions, lists of another length
    if found is None or any(not 0 <= number < _MOST for number in (found.flops or 0, found.bytes or 0)):
        return None
    if not found.matrix and (sizes := of_memory(found.kind, signature)) is not None:
        found = found._replace(sizes=sizes)
    return found if found.known or found.missing else None
