"""Reductions and scans: each element of the input takes part once.

Sources: native_functions.yaml, and torch.sum's rule for the output: the reduced dimensions vanish, or stay as 1. Where the
dimensions were not recorded the output is left out: it is no larger than the input. A variance takes three operations an element
(subtract, square, add), a norm two. A scan writes as much as it reads.
"""

from __future__ import annotations

from advisor.roofline.signature import Shape, Signature, Tensor
from advisor.roofline.types import is_floating
from advisor.roofline.work import UNSIZED, Formula, Hints, Work, dense, finish


def reduced(shape: Shape, dims: Shape, keep: bool = False) -> Shape:
    """The shape that is left of *shape* without *dims*; all go where there are none."""
    rank = len(shape)
    gone = {dim % rank for dim in dims} if dims and rank else set(range(rank))
    return tuple(1 if at in gone else size for at, size in enumerate(shape) if keep or at not in gone)


def _output(signature: Signature, source: Tensor, place: int | None) -> Shape | None:
    if place is None:
        return ()
    # With dimensions comes keepdim: two operands are the input and a type, or a flag.
    if place >= len(signature.operands) or (len(signature.operands) == 2 and "count" not in signature.name):
        return ()
    operand = signature.operand(place)
    dims = operand.numbers
    if dims is not None:
        return reduced(source.shape, dims)
    if signature.has_values and not operand.value:
        return ()  # None: all dimensions
    return () if operand.type and operand.type not in ("ScalarList", "GenericList", "Scalar", "Int", "") else None


def _formula(place: int | None, operations: int = 1, kind: str | None = None, outputs: int = 1) -> Formula:
    """Return the formula of a reduction whose dimensions stand at *place*; None: over all."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        source = signature.tensor(0)
        if source is None:
            return None
        shape = _output(signature, source, place)
        given = source.type or hints.type
        result = kind or given
        if kind == "sum":
            result = given if given is None or is_floating(given) else "int64"
        results = [] if shape is None else [dense(shape, result)] * outputs
        if outputs == 2 and kind == "index" and shape is not None:
            results = [dense(shape, given), dense(shape, "int64")]
        missing = None if shape is not None else UNSIZED
        # An output that is not known is left out: what is read has to be read.
        return finish(
            "reduction", operations * source.elements, [source, *results], hints, arithmetic=given, missing=missing
        )

    return formula


def _overloaded(place: int) -> Formula:
    """Return the formula of max and min: over all, over a dimension with the places, or of two tensors."""
    over_dim, over_all = _formula(place, kind="index", outputs=2), _formula(None)

    def formula(signature: Signature, hints: Hints) -> Work | None:
        other = signature.tensor(1)
        if other is not None:
            a = signature.tensor(0)
            if a is None:
                return None
            larger = a if a.elements >= other.elements else other
            return finish(
                "pointwise", larger.elements, [a, other, dense(larger.shape, a.type)], hints, arithmetic=a.type
            )
        return (over_dim if len(signature.operands) > 1 else over_all)(signature, hints)

    return formula


def _scan(signature: Signature, hints: Hints) -> Work | None:
    source = signature.tensor(0)
    if source is None:
        return None
    kind = source.type if source.type is None or is_floating(source.type) else "int64"
    return finish("scan", source.elements, [source, dense(source.shape, kind)], hints, arithmetic=source.type)


def _sort(outputs: int) -> Formula:
    """Return the formula of a sort: the elements and their places are written."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        source = signature.tensor(0)
        if source is None:
            return None
        results = [dense(source.shape, source.type), dense(source.shape, "int64")][-outputs:]
        return finish("sort", source.elements, [source, *results], hints, arithmetic=source.type, exact=False)

    return formula


def _topk(signature: Signature, hints: Hints) -> Work | None:
    """topk(self, k, dim): the input is read; the output is small beside it and left out where k was not recorded."""
    source = signature.tensor(0)
    if source is None or not source.shape:
        return None
    k, dims = signature.operand(1).numbers, signature.operand(2).numbers
    if not k:
        return finish("reduction", source.elements, [source], hints, arithmetic=source.type, missing=UNSIZED)
    axis = dims[0] if dims else -1
    count = (
        source.elements // max(source.shape[axis], 1) * k[0] if -len(source.shape) <= axis < len(source.shape) else 0
    )
    results = [dense((count,), source.type), dense((count,), "int64")]
    return finish("reduction", source.elements, [source, *results], hints, arithmetic=source.type)


FORMULAS: dict[str, Formula] = {
    "aten::sum": _formula(1, kind="sum"),
    "aten::nansum": _formula(1, kind="sum"),
    "aten::mean": _formula(1),
    "aten::prod": _formula(1, kind="sum"),
    "aten::amax": _formula(1),
    "aten::amin": _formula(1),
    "aten::logsumexp": _formula(1, operations=4),
    "aten::var": _formula(1, operations=3),
    "aten::std": _formula(1, operations=3),
    "aten::var_mean": _formula(1, operations=3, outputs=2),
    "aten::std_mean": _formula(1, operations=3, outputs=2),
    "aten::norm": _formula(2, operations=2),
    "aten::linalg_vector_norm": _formula(2, operations=2),
    "aten::any": _formula(1, kind="bool"),
    "aten::all": _formula(1, kind="bool"),
    "aten::is_nonzero": _formula(None, kind="bool"),
    "aten::equal": _formula(None, kind="bool"),
    "aten::argmax": _formula(1, kind="int64"),
    "aten::argmin": _formula(1, kind="int64"),
    "aten::count_nonzero": _formula(1, kind="int64"),
    "aten::aminmax": _formula(1, outputs=2),
    "aten::max": _overloaded(1),
    "aten::min": _overloaded(1),
    "aten::cumsum": _scan,
    "aten::cumsum_": _scan,
    "aten::cumprod": _scan,
    "aten::_cummax_helper": _scan,
    "aten::_cummin_helper": _scan,
    "aten::logcumsumexp": _scan,
    "aten::sort": _sort(2),
    "aten::argsort": _sort(1),
    "aten::topk": _topk,
}
