"""Operators of vLLM, SGLang, AITER and FBGEMM, as far as their shapes tell.

Sources: vLLM's csrc/torch_bindings.cpp and vllm/model_executor/layers/fused_moe, SGLang's sgl-kernel/csrc/common_extension.cc,
AITER's aiter/ops, fbgemm_gpu's sparse_ops and split embeddings. A fused mixture of experts multiplies each token's row with
the two matrices of each expert that it goes to: 2·tokens·topk·(elements of an expert's weights); at least as many experts'
weights as a token has are read, all of them where tokens go everywhere: the former is the bound. Paged attention reads a
cache whose lengths stand in tensors: nothing can be said. Each refusal names its reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.roofline.signature import Signature, Tensor
from advisor.roofline.work import Formula, Hints, Work, dense, finish

_CACHE = "the lengths of the cached sequences, which are values of a tensor"
_EXPERTS = "the experts' weights, which are no operands"
_TABLES = "the width of each table, and how often each is asked"

_COMPILED = "the operators inside the compiled function"
# FBGEMM names an operator for each optimizer and device.
_TABLE_OPERATORS = ("fbgemm::split_embedding_", "torch::autograd::CppNode<SplitLookupFunction_")


def find(name: str) -> Formula | None:
    """The formula of an operator that goes by the beginning of its name; None for others."""
    return _unknown("indexing", _TABLES) if name.startswith(_TABLE_OPERATORS) else None


def _unknown(kind: str, reason: str) -> Formula:
    """Return the formula of an operator whose work its operands do not tell."""
    return lambda signature, hints: Work(kind, None, None, None, False, reason)


def _moves(kind: str, operations: int, read: Sequence[int], written: Sequence[int], counted: int) -> Formula:
    """Return the formula of an operator with given outputs: places of what it reads and writes, and of what it counts by."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        base = signature.tensor(counted)
        if base is None:
            return None
        tensors = [signature.tensor(at) for at in (*read, *written)]
        return finish(kind, operations * base.elements, tensors, hints, arithmetic=base.type)

    return formula


def _rotary(signature: Signature, hints: Hints) -> Work | None:
    """rotary_embedding(positions, query, key, head_size, cos_sin_cache, …): both are turned in place, six operations a pair."""
    positions, query, key = (signature.tensor(at) for at in range(3))
    if query is None:
        return None
    count = query.elements + (key.elements if key else 0)
    return finish("pointwise", 3 * count, [positions, query, key, query, key], hints, arithmetic=query.type)


def _to_cache(signature: Signature, hints: Hints) -> Work | None:
    """reshape_and_cache(key, value, key_cache, value_cache, slots, …): tokens are written to places of the cache."""
    key, value, keys, values, slots = (signature.tensor(at) for at in range(5))
    if key is None or value is None:
        return None
    written = [dense(key.shape, (keys or key).type), dense(value.shape, (values or value).type)]
    return finish("copy", 0, [key, value, slots, *written], hints)


def _experts(hidden: int, first: int, second: int, picked: int) -> Formula:
    """Return the formula of a fused mixture of experts (hidden [m, k], w1 [e, 2n, k], w2 [e, k, n], topk_weights [m, topk])."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        x, w1, w2, weights = (signature.tensor(at) for at in (hidden, first, second, picked))
        if x is None or w1 is None or w2 is None or weights is None:
            return None
        if len(w1.shape) != 3 or len(w2.shape) != 3 or len(weights.shape) != 2 or not w1.shape[0]:
            return None
        k, wide, narrow = x.shape[-1], w1.shape[1], w2.shape[1]
        inner = w2.shape[2] * (k // w1.shape[2] if w1.shape[2] and k % w1.shape[2] == 0 else 1)
        topk = weights.shape[1]
        flops = 2 * weights.shape[0] * topk * (k * wide + inner * narrow)
        touched = min(topk, w1.shape[0])
        read: list[Tensor | None] = [dense((touched, *w.shape[1:]), w.type) for w in (w1, w2)]
        tensors = [x, weights, *read, dense(x.shape, x.type)]
        return finish("moe", flops, tensors, hints, arithmetic=x.type, exact=False)

    return formula


def _permute_2d(signature: Signature, hints: Hints) -> Work | None:
    """permute_2D_sparse_data(permute, lengths, indices, weights, …): all is copied in another order, once each."""
    tensors = [signature.tensor(at) for at in (1, 2, 3)]
    if tensors[1] is None:
        return None
    return finish("copy", 0, [signature.tensor(0), *tensors, *tensors], hints, exact=False)


def _both_ways(place: int) -> Formula:
    """Return the formula of an operator that writes as much as it reads of one operand."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        source = signature.tensor(place)
        return None if source is None else finish("copy", 0, [source, dense(source.shape, source.type)], hints)

    return formula


def _reads(place: int) -> Formula:
    """Return the formula of an operator of which only what it reads is known."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        source = signature.tensor(place)
        return None if source is None else finish("copy", 0, [source], hints, missing="the size of its output")

    return formula


def _row_quantize(signature: Signature, hints: Hints) -> Work | None:
    """FloatToFP8RowwiseQuantized(input) of fbgemm: a byte an element, and eight more a row."""
    source = signature.tensor(0)
    if source is None or not source.shape:
        return None
    rows = source.elements // max(source.shape[-1], 1)
    return finish("copy", 0, [source, dense((source.elements + 8 * rows,), "uint8")], hints, exact=False)


def _row_dequantize(signature: Signature, hints: Hints) -> Work | None:
    """FP8RowwiseQuantizedToFloat(input) of fbgemm: the way back, to four bytes an element (of two, half as much)."""
    source = signature.tensor(0)
    if source is None or len(source.shape) < 2:
        return None
    rows = source.elements // max(source.shape[-1], 1)
    return finish("copy", 0, [source, dense((source.elements - 8 * rows,), "float16")], hints, exact=False)


def _group_norm(signature: Signature, hints: Hints) -> Work | None:
    """aiter::_groupnorm_run(input, groups, weight, bias, …): operations as in normalizations.py."""
    source = signature.tensor(0)
    if source is None:
        return None
    return finish(
        "normalization", 8 * source.elements, [source, dense(source.shape, source.type)], hints, arithmetic=source.type
    )


_KERNELS = ("_C", "sgl_kernel", "aiter", "vllm")
FORMULAS: dict[str, Formula] = {
    "vllm::moe_forward": _unknown("moe", _EXPERTS),
    "vllm::moe_forward_shared": _unknown("moe", _EXPERTS),
    "vllm::unified_attention": _unknown("attention", _CACHE),
    "vllm::unified_attention_with_output": _unknown("attention", _CACHE),
    "vllm::unified_mla_attention_with_output": _unknown("attention", _CACHE),
    "sglang::unified_attention_with_output": _unknown("attention", _CACHE),
    "_C::paged_attention_v1": _unknown("attention", _CACHE),
    "_C::paged_attention_v2": _unknown("attention", _CACHE),
    "_rocm_C::paged_attention": _unknown("attention", _CACHE),
    "aiter::pa_fwd": _unknown("attention", _CACHE),
    "vllm::inplace_fused_experts": _experts(0, 1, 2, 3),
    "vllm::outplace_fused_experts": _experts(0, 1, 2, 3),
    "sglang::inplace_fused_experts": _experts(0, 1, 2, 3),
    "sglang::outplace_fused_experts": _experts(0, 1, 2, 3),
    "vllm::rocm_aiter_fused_moe": _experts(0, 1, 2, 3),
    "aiter::fused_moe_": _experts(0, 1, 2, 3),
    "_C_cache_ops::reshape_and_cache": _to_cache,
    "_C_cache_ops::reshape_and_cache_flash": _to_cache,
    "_C::static_scaled_fp8_quant": _moves("pointwise", 1, (1, 2), (0,), 1),
    "_C::dynamic_scaled_fp8_quant": _moves("pointwise", 2, (1,), (0, 2), 1),
    "_C::dynamic_per_token_scaled_fp8_quant": _moves("pointwise", 2, (1,), (0, 2), 1),
    "_moe_C::moe_sum": _moves("reduction", 1, (0,), (1,), 0),
    "_moe_C::topk_softmax": _moves("softmax", 5, (3,), (0, 1, 2), 3),
    "aiter::_groupnorm_run": _group_norm,
    "fbgemm::permute_2D_sparse_data": _permute_2d,
    "fbgemm::permute_sparse_features": _permute_2d,
    "fbgemm::permute_pooled_embs_auto_grad": _both_ways(0),
    "fbgemm::permute_pooled_embs": _both_ways(0),
    "torch::autograd::CppNode<fbgemm_gpu::PermutePooledEmbsFunction<&fbgemm_gpu::permute_pooled_embs_gpu> >": _both_ways(
        0
    ),
    "fbgemm::recat_embedding_grad_output_mixed_D_batch": _both_ways(0),
    "fbgemm::FloatToFP8RowwiseQuantized": _row_quantize,
    "fbgemm::FP8RowwiseQuantizedToFloat": _row_dequantize,
    "fbgemm::FloatToHFP8Quantized": _reads(0),
    "fbgemm::HFP8QuantizedToFloat": _reads(0),
    "fbgemm::bounds_check_indices": _reads(1),
    "fbgemm::asynchronous_complete_cumsum": _both_ways(0),
    "fb::asynchronous_complete_cumsum": _both_ways(0),
    "fbgemm::block_bucketize_sparse_features": _both_ways(1),
    "CompiledFunction": _unknown("fused", _COMPILED),
    "CompiledFunctionBackward": _unknown("fused", _COMPILED),
}
for _space in _KERNELS:
    # (out, input, weight, eps); (input, residual, weight, eps), both in place; (out, input) where the input holds two halves.
    FORMULAS[f"{_space}::rms_norm"] = _moves("normalization", 4, (1, 2), (0,), 1)
    FORMULAS[f"{_space}::rmsnorm"] = _moves("normalization", 4, (1, 2), (0,), 1)
    FORMULAS[f"{_space}::fused_add_rms_norm"] = _moves("normalization", 5, (0, 1, 2), (0, 1), 0)
    FORMULAS[f"{_space}::fused_add_rmsnorm"] = _moves("normalization", 5, (0, 1, 2), (0, 1), 0)
    FORMULAS[f"{_space}::rms_norm_static_fp8_quant"] = _moves("normalization", 5, (1, 2), (0,), 1)
    FORMULAS[f"{_space}::rotary_embedding"] = _rotary
    for _word in ("silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul", "mul_and_silu", "fatrelu_and_mul"):
        FORMULAS[f"{_space}::{_word}"] = _moves("pointwise", 2, (1,), (0,), 0)
