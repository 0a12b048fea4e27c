"""Operators that Inductor fused into a kernel, by the kernel's name: ``triton_<kind>_fused_<operators>_<number>``.

Source: torch/_inductor/codegen/triton.py and scheduler.py. The operators stand in the order of their names and
are joined by the sign that many of them hold; names of torch that hold one are listed.
"""

from __future__ import annotations

from advisor.regex import regex

_NAME = regex(r"^triton_(?:poi|red|per|tem|mm|bmm|for|spl|flex|split_scan)_fused_(?P<operators>\w*?)_?\d+$")
_LISTED = """
    _fused_rms_norm _fused_rms_norm_backward _log_softmax _log_softmax_backward_data
    _low_memory_max_pool_offsets_to_indices _low_memory_max_pool_with_offsets _native_batch_norm_legit
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _prelu_kernel _prelu_kernel_backward
    _reshape_alias _safe_softmax _scaled_mm _softmax _softmax_backward_data _to_copy _unsafe_index _unsafe_index_put
    _unsafe_view _weight_norm _weight_norm_interface all_gather_into_tensor all_reduce as_strided as_strided_scatter
    avg_pool2d avg_pool2d_backward batch_norm_backward binary_cross_entropy binary_cross_entropy_with_logits
    bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor clamp_max clamp_min
    constant_pad_nd convert_element_type convolution_backward cross_entropy_loss diag_embed diagonal_scatter
    elu_backward embedding_backward embedding_dense_backward empty_like empty_strided expand_as floor_divide full_like
    gather_backward gelu_backward glu_backward greater_equal grid_sampler_2d group_norm hardsigmoid_backward
    hardswish_backward hardtanh_backward huber_loss index_add index_copy index_fill index_put index_select
    index_select_backward instance_norm kl_div l1_loss layer_norm leaky_relu leaky_relu_backward less_equal
    lift_fresh_copy log_sigmoid log_sigmoid_backward log_softmax logical_and logical_not logical_or logical_xor
    masked_fill masked_scatter max_pool2d_with_indices max_pool2d_with_indices_backward mse_loss mse_loss_backward
    nan_to_num native_batch_norm native_batch_norm_backward native_dropout native_dropout_backward native_group_norm
    native_group_norm_backward native_layer_norm native_layer_norm_backward new_empty new_full new_ones new_zeros
    nll_loss nll_loss_backward nll_loss_forward not_equal one_hot ones_like pixel_shuffle pixel_unshuffle
    prepare_softmax_online rand_like randn_like reduce_scatter_tensor reflection_pad2d repeat_interleave
    replication_pad2d rms_norm scalar_tensor scatter_add scatter_reduce select_backward select_scatter
    sigmoid_backward silu_backward slice_backward slice_scatter smooth_l1_loss smooth_l1_loss_backward
    softplus_backward split_with_sizes std_mean tanh_backward threshold_backward true_divide unfold_backward
    unsafe_split value_selecting_reduction_backward var_mean wait_tensor zeros_like
"""
_NAMES = frozenset(_LISTED.split())
_LONGEST = max(name.count("_") for name in _NAMES) + 1
_MOST = 1000
# Kernels of these alone move values and compute none.
_MOVES = frozenset({"clone", "copy", "copy_", "lift_fresh_copy", "contiguous"})
_VIEWS = frozenset(
    {
        "view", "_unsafe_view", "_reshape_alias", "reshape", "permute", "transpose", "t", "expand", "expand_as", "unsqueeze",
        "squeeze", "slice", "select", "split", "split_with_sizes", "unsafe_split", "unbind", "as_strided", "alias", "detach",
        "unfold", "flatten",
    }
)  # fmt: skip


def operators(kernel: str) -> tuple[str, ...]:
    """Return the operators that a kernel's name tells, in its order; nothing for a kernel that Inductor did not generate."""
    match = _NAME.match(kernel) if len(kernel) <= _MOST else None
    if match is None or not match["operators"]:
        return ()
    parts = match["operators"].split("_")
    found: list[str] = []
    at = 0
    while at < len(parts):
        size = next(
            (n for n in range(min(_LONGEST, len(parts) - at), 1, -1) if "_".join(parts[at : at + n]) in _NAMES), 1
        )
        # A name begins or ends with the sign: `_to_copy`, `copy_`.
        if size == 1 and not parts[at]:
            if found:
                found[-1] += "_"
                at += 1
                continue
            size = 2
        found.append("_".join(parts[at : at + size]))
        at += size
    return tuple(found)


def moves_only(kernel: str) -> bool:
    """Tell if a generated kernel copies values and computes none."""
    names = operators(kernel)
    return bool(_MOVES.intersection(names)) and _MOVES.union(_VIEWS).issuperset(names)
