"""Embeddings, gathers and scatters: bytes alone, but for the additions of what is summed.

Sources: native_functions.yaml. Which rows are gathered was not recorded, and the same row may be read again and again from a
cache: the output and the indices are the least, and the work is a lower bound. A scatter reads and writes what its source covers.
"""

from __future__ import annotations

import math

from advisor.roofline.signature import Shape, Signature, Tensor
from advisor.roofline.work import UNSIZED, Formula, Hints, Work, dense, finish


def _embedding(signature: Signature, hints: Hints) -> Work | None:
    """embedding(weight, indices, …)."""
    weight, indices = signature.tensor(0), signature.tensor(1)
    if weight is None or indices is None or not weight.shape:
        return None
    result = dense((indices.elements, weight.shape[-1]), weight.type)
    return finish("indexing", 0, [indices, result], hints, exact=False)


def _embedding_backward(signature: Signature, hints: Hints) -> Work | None:
    """embedding_dense_backward(grad_output, indices, num_weights, …): all of the weight's gradient is written."""
    grad, indices, rows = signature.tensor(0), signature.tensor(1), signature.operand(2).numbers
    if grad is None or indices is None or not grad.shape:
        return None
    shape: Shape | None = (rows[0], grad.shape[-1]) if rows and len(rows) == 1 else None
    shape = shape or next((near for near in hints.near if len(near) == 2 and near[1] == grad.shape[-1]), None)
    result = None if shape is None else dense(shape, grad.type)
    tensors = [grad, indices, result]
    return finish("indexing", grad.elements, tensors, hints, arithmetic=grad.type, missing=None if result else UNSIZED)


def _bag(signature: Signature, hints: Hints) -> Work | None:
    """_embedding_bag(weight, indices, offsets, …): the rows of a bag are added up."""
    weight, indices, offsets = (signature.tensor(at) for at in range(3))
    if weight is None or indices is None or offsets is None or len(weight.shape) != 2:
        return None
    bags = indices.shape[0] if len(indices.shape) == 2 else offsets.elements
    result = dense((bags, weight.shape[1]), weight.type)
    flops = indices.elements * weight.shape[1]
    return finish("indexing", flops, [indices, offsets, result], hints, arithmetic=weight.type, exact=False)


def _index(signature: Signature, hints: Hints) -> Work | None:
    """index(self, indices): the output's shape follows from the indices', where these were recorded."""
    source, indices = signature.tensor(0), signature.operand(1).tensors
    if source is None:
        return None
    shape: Shape | None = None
    if indices and all(tensor.type != "bool" for tensor in indices):
        # None among the indices (a dimension that is kept) is recorded as an empty shape.
        given = [tensor for tensor in indices if tensor.shape]
        picked = max((tensor.shape for tensor in given), key=math.prod, default=())
        kept = [size for at, size in enumerate(source.shape) if at >= len(indices) or not indices[at].shape]
        shape = (*picked, *kept)
    if shape is None:
        shape = next((near for near in hints.near if near and _may_be_index(near, source)), None)
    result = None if shape is None else dense(shape, source.type)
    # It reads as many elements as it writes, some of them perhaps more than once.
    missing = None if result else UNSIZED
    if result is None:
        return Work("indexing", 0, None, None, False, missing)
    return finish("indexing", 0, [result], hints, exact=False)


def _may_be_index(shape: Shape, source: Tensor) -> bool:
    """Tell whether a shape ends as the source does: the dimensions that were not indexed stay."""
    kept = source.shape[1:]
    return bool(kept) and len(shape) > len(kept) and shape[-len(kept) :] == kept


def _select(indices: int) -> Formula:
    """Return the formula of index_select(self, dim, index), gather(self, dim, index), take(self, index)."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        source, index = signature.tensor(0), signature.tensor(indices)
        if source is None or index is None:
            return None
        count = index.elements
        if signature.name.endswith("index_select"):
            dims = signature.operand(1).numbers
            axis = dims[0] if dims else 0
            if not -len(source.shape) <= axis < len(source.shape):
                return None
            count = source.elements // max(source.shape[axis], 1) * index.elements
        return finish("indexing", 0, [index, dense((count,), source.type)], hints, exact=False)

    return formula


def _put(values: int, indices: int | None) -> Formula:
    """Return the formula of an operator that writes values to places: read once, written once."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        target, value = signature.tensor(0), signature.tensor(values)
        index = None if indices is None else signature.tensor(indices)
        if target is None:
            return None
        if value is None or (index is not None and value.elements < index.elements):
            value = index  # one number for all places
        if value is None:
            return Work("indexing", 0, None, None, False, UNSIZED)
        written = dense(value.shape, target.type)
        return finish("indexing", 0, [value, None if value is index else index, written], hints, exact=False)

    return formula


def _nonzero(signature: Signature, hints: Hints) -> Work | None:
    """nonzero(self), masked_select(self, mask), unique: how much they write follows from the values."""
    read = [tensor for tensor in (signature.tensor(0), signature.tensor(1)) if tensor is not None]
    return finish("indexing", 0, read, hints, missing=UNSIZED) if read else None


def _search(values: int) -> Formula:
    """Return the formula of bucketize(self, boundaries) and searchsorted(boundaries, self)."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        value, bounds = signature.tensor(values), signature.tensor(1 - values)
        if value is None:
            return None
        result = dense(value.shape, "int64")
        return finish("indexing", 0, [value, bounds, result], hints, exact=False)

    return formula


FORMULAS: dict[str, Formula] = {
    "aten::embedding": _embedding,
    "aten::embedding_dense_backward": _embedding_backward,
    "aten::_embedding_bag": _bag,
    "aten::_embedding_bag_forward_only": _bag,
    "aten::index": _index,
    "aten::_unsafe_index": _index,
    "aten::index_select": _select(2),
    "aten::gather": _select(2),
    "aten::take": _select(1),
    "aten::take_along_dim": _select(1),
    "aten::index_put_": _put(2, None),
    "aten::_index_put_impl_": _put(2, None),
    "aten::_unsafe_index_put": _put(2, None),
    "aten::index_copy_": _put(3, None),
    "aten::index_add_": _put(3, None),
    "aten::index_fill_": _put(3, 2),
    "aten::scatter_": _put(3, 2),
    "aten::scatter_add_": _put(3, 2),
    "aten::scatter_reduce_": _put(3, 2),
    "aten::masked_scatter_": _put(2, None),
    "aten::nonzero": _nonzero,
    "aten::masked_select": _nonzero,
    "aten::_unique2": _nonzero,
    "aten::unique_dim": _nonzero,
    "aten::unique_consecutive": _nonzero,
    "aten::repeat_interleave": _nonzero,
    "aten::bincount": _nonzero,
    "aten::histc": _nonzero,
    "aten::bucketize": _search(0),
    "aten::searchsorted": _search(1),
}
