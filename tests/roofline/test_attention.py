"""Attention: pairs by a brute-force count, arithmetic and bytes by hand."""

from __future__ import annotations

import itertools

import pytest
from support.signatures import HALF, tensor, value, work_of

from advisor.roofline.attention import pairs


@pytest.mark.parametrize(("queries", "keys"), list(itertools.product((1, 2, 5, 8), (1, 3, 5, 9))))
def test_pairs_are_those_that_a_mask_leaves(queries: int, keys: int) -> None:
    places = list(itertools.product(range(queries), range(keys)))
    shift = keys - queries
    assert pairs(queries, keys, 0) == len(places)
    assert pairs(queries, keys, 1) == sum(j <= i for i, j in places)
    assert pairs(queries, keys, 2) == sum(j <= i + shift for i, j in places)
    for left, right in ((0, 0), (2, 0), (1, 1), (-1, 0), (2, -1)):
        seen = [
            (i, j) for i, j in places if (left < 0 or j >= i + shift - left) and (right < 0 or j <= i + shift + right)
        ]
        assert pairs(queries, keys, 0, (left, right)) == len(seen)


def qkv(heads: int = 4, shared: int = 4, length: int = 16, size: int = 8) -> list[dict[str, object]]:
    """Queries, keys and values of two sequences in 16 bits, heads before lengths."""
    query, key = (tensor(2, count, length, size, type=HALF) for count in (heads, shared))
    return [query, key, key]


FULL, CAUSAL = 2 * 4 * 16 * 16, 2 * 4 * 16 * 17 // 2
BYTES = 2 * 2 * 4 * 16 * 8


def test_forward_full_causal_and_unrecorded() -> None:
    name = "aten::_scaled_dot_product_flash_attention"
    for flag, count in ((False, FULL), (True, CAUSAL)):
        found = work_of(name, *qkv(), value(0.0), value(flag), value(False), value(None))
        assert (found.flops, found.bytes, found.exact) == (2 * count * 16, 4 * BYTES, True)
    old = work_of(name, *qkv(), value(0.0), value(True), value(False), value(None), valued=False)
    assert (old.flops, old.exact, old.missing) == (2 * CAUSAL * 16, False, "the causal flag")


def test_grouped_queries_share_keys_but_not_arithmetic() -> None:
    found = work_of("aten::_scaled_dot_product_flash_attention", *qkv(shared=2), value(0.0), value(False))
    assert (found.flops, found.bytes) == (2 * FULL * 16, 3 * BYTES)


def test_backward_has_five_products() -> None:
    grad, out, sums = tensor(2, 4, 16, 8, type=HALF), tensor(2, 4, 16, 8, type=HALF), tensor(2, 4, 16)
    middle = [out, sums, value(None), value(None), value(16), value(16), value(0.0), value(True)]
    found = work_of("aten::_scaled_dot_product_flash_attention_backward", grad, *qkv(), *middle)
    assert found.flops == 5 * 2 * CAUSAL * 8
    assert found.bytes == 8 * BYTES  # gradient, q, k, v, output in; three gradients out


def test_kernels_with_lengths_before_heads() -> None:
    query = tensor(2, 16, 4, 8, type=HALF)
    rest = [value(None), value(None), value(16), value(16), value(0.0), value(True), value(False)]
    found = work_of("aten::_flash_attention_forward", query, query, query, *rest)
    assert (found.flops, found.bytes) == (2 * CAUSAL * 16, 4 * BYTES)
    rest = [value(None), value(None), value(None), value(16), value(16), value(0.0), value(1), value(True)]
    found = work_of("aten::_efficient_attention_forward", query, query, query, *rest)
    assert (found.flops, found.bytes) == (2 * CAUSAL * 16, 4 * BYTES)
    found = work_of("flash_attn::_flash_attn_forward", query, query, query, value(0.0), value(0.3), value(True))
    assert found.flops == 2 * CAUSAL * 16


def test_a_mask_is_read() -> None:
    mask = tensor(16, 16, type=HALF)
    rest = [mask, value(True), value(0.0), value(False), value(None)]
    found = work_of("aten::_scaled_dot_product_efficient_attention", *qkv(), *rest)
    assert (found.flops, found.bytes) == (2 * FULL * 16, 4 * BYTES + 2 * 256)


def test_packed_sequences_have_at_least_the_pairs_of_equal_lengths() -> None:
    query, offsets = tensor(32, 4, 8, type=HALF), tensor(5, type="int")
    rest = [offsets, offsets, value(20), value(20), value(0.0), value(0.3), value(False)]
    found = work_of("flash_attn::_flash_attn_varlen_forward", query, query, query, *rest)
    # Four sequences of eight: 4·8·8 pairs in each of four heads.
    assert (found.flops, found.exact) == (2 * 4 * 256 * 16, False)
    assert found.missing == "the lengths of the packed sequences"


def test_attention_on_a_cache_says_why_it_is_unknown() -> None:
    query = tensor(32, 8, 64, type=HALF)
    found = work_of("vllm::unified_attention_with_output", query, query, query, query)
    assert (found.flops, found.bytes, found.known) == (None, None, False)
    assert "cached" in str(found.missing)
