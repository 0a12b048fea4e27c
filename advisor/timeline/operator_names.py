"""Operators that compute nothing: views of a tensor, and what only allocates, asks or hands on.

A view gives the same memory another shape. It costs its dispatch, on the CPU as on the GPU, reads and writes no element, and
is work of no number format and of no place.
"""

from __future__ import annotations

from advisor.regex import regex

# Whole names: what ends in _copy, _backward or _scatter does move data, and so do index_select and its like.
_VIEWS = regex(
    r"^aten::_?(?:"
    r"view|view_as|view_as_(?:real|complex)|_?unsafe_view|reshape|reshape_as|reshape_alias|as_strided|expand|expand_as"
    r"|broadcast_(?:to|tensors)|transpose|swap(?:axes|dims)|permute|movedim|moveaxis|t|numpy_T|[mM][TH]|matrix_H|adjoint"
    r"|select|slice|narrow|diagonal|unfold|unflatten|flatten|ravel|squeeze|unsqueeze|split|split_with_sizes|chunk"
    r"|(?:tensor|h|v|d)_?split|unsafe_(?:split|split_with_sizes|chunk)|unbind|alias|detach|lift|lift_fresh|conj|neg_view|real"
    r"|imag|positive|resolve_(?:conj|neg)|fw_primal|meshgrid|atleast_[123]d|values|indices|nested_view_from_(?:buffer|jagged)"
    r")_?$"
)
# A thread that seems to be in one of these for long was held up, and computes nothing.
_IDLE = regex(
    r"^aten::_?(?:empty\w*|new_empty\w*|resize\w*|set_\w*|to|contiguous|item|local_scalar_dense|is_nonzero|result_type|size"
    r"|sym_\w+|stride|numel|dim|storage_offset|record_stream|is_pinned|pin_memory|data_ptr|requires_grad_?|is_same_size"
    r"|has_compatible_shallow_copy_type|version|output_nr)$"
)


def is_view(name: str) -> bool:
    """Tell whether an operator gives another view of its operand, and does nothing else."""
    return _VIEWS.match(name) is not None


def moves_no_data(name: str) -> bool:
    """Tell whether an operator reads and writes no element itself: a view, an allocation, a question."""
    return is_view(name) or _IDLE.match(name) is not None
