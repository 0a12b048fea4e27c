"""Attention: scores are 2·D operations a pair of query and key, the weighted sum of the values 2·Dv more.

Sources: torch.utils.flop_counter (sdpa_flop_count, sdpa_backward_flop_count: five products backward, of which one computes the
scores again), FlashAttention-2 (https://arxiv.org/abs/2307.08691, section 4.1: a causal mask halves the pairs), the schemas
in aten/src/ATen/native/native_functions.yaml and of the package flash_attn. Pairs that a causal mask or a window excludes
are not counted. The softmax between them is not counted, as elsewhere. Bytes: queries, keys, values and the output (backward:
and their gradients), never the scores: fused kernels keep these on the chip.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from advisor.roofline.signature import Operand, Signature, Tensor
from advisor.roofline.types import SIZES
from advisor.roofline.work import Formula, Hints, Sizes, Work, dense, finish

_LOADED = 8
"""Numbers of a head that one load takes in 16 bits: torch pads other sizes with kernels of their own."""
_UNRECORDED = 99
_NO_MASK, _TOP_LEFT, _BOTTOM_RIGHT = range(3)
_LENGTHS = "the lengths of the packed sequences"
_MASK = "the causal flag"


class Layout(NamedTuple):
    """Places of an operator's arguments, and the order of its tensors' dimensions."""

    query: int = 0
    causal: int = _UNRECORDED
    grad: int = -1
    """The place of the output's gradient; -1 forward."""
    heads_first: bool = True
    """[batch, heads, length, size]; else [batch, length, heads, size]."""
    lengths: int = -1
    """The place of the offsets at which packed sequences start (cu_seqlens of the queries, the keys' behind it)."""
    mask: int = -1
    """The place of a mask or bias, which is read."""
    dropout: int = -1
    """The place of the probability with which scores are dropped."""
    window: int = -1
    """The place of the window's size to the left, that to the right behind it."""
    aligned: int = _TOP_LEFT
    """The corner of the scores at which the causal mask begins."""
    kind: bool = False
    """True where ``causal`` names a kind of mask: 0 none, 1 from the top left, 2 from the bottom right."""


def pairs(queries: int, keys: int, mask: int, window: tuple[int, int] = (-1, -1)) -> int:
    """Pairs of query and key that take part in one head of one sequence.

    *window*: keys before and after its own place that a query sees, places counted from the ends; -1 for all.
    """
    left, right = window
    if left < 0 and right < 0:
        if mask == _NO_MASK:
            return queries * keys
        shift = keys - queries if mask == _BOTTOM_RIGHT else 0
        # The query i sees the keys up to i + shift: none at first, one more each time, in the end all.
        first, full = max(0, -shift), max(0, min(queries, keys - shift))
        rising = max(0, full - first)
        return (first + full + 2 * shift + 1) * rising // 2 + (queries - max(full, first)) * keys
    shift = keys - queries
    count = 0
    for query in range(queries):
        place = query + shift
        last = place if mask != _NO_MASK or right == 0 else keys - 1 if right < 0 else place + right
        begin = 0 if left < 0 else place - left
        count += max(0, min(last, keys - 1) - max(begin, 0) + 1)
    return count


def _mask_of(layout: Layout, operand: Operand) -> int | None:
    """Return the mask's kind; None where it was not recorded."""
    if layout.kind:
        number = operand.number
        return int(number) if number in (0, 1, 2) else None
    return None if operand.flag is None else layout.aligned if operand.flag else _NO_MASK


class _Sizes(NamedTuple):
    batch: int
    heads: int
    queries: int
    keys: int
    size: int
    value_size: int
    packed: bool


def _sizes(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> _Sizes | None:
    if len({len(q.shape), len(k.shape), len(v.shape)}) != 1 or q.shape[-1] != k.shape[-1]:
        return None
    if len(q.shape) == 4:
        at = 2 if layout.heads_first else 1
        head = 3 - at
        packed = layout.lengths >= 0 and q.shape[0] == 1
        return _Sizes(q.shape[0], q.shape[head], q.shape[at], k.shape[at], q.shape[3], v.shape[3], packed)
    if len(q.shape) == 3 and not layout.heads_first:
        return _Sizes(1, q.shape[1], q.shape[0], k.shape[0], q.shape[2], v.shape[2], True)
    if len(q.shape) == 3:
        return _Sizes(1, q.shape[0], q.shape[1], k.shape[1], q.shape[2], v.shape[2], False)
    return None


def _formula(layout: Layout) -> Formula:
    def formula(signature: Signature, hints: Hints) -> Work | None:
        q, k, v = (signature.tensor(layout.query + at) for at in range(3))
        if q is None or k is None or v is None:
            return None
        sizes = _sizes(q, k, v, layout)
        if sizes is None:
            return None
        missing = None
        mask = _mask_of(layout, signature.operand(layout.causal))
        if mask is None:
            # The causal mask leaves the fewest pairs: at least these are computed.
            mask, missing = layout.aligned, _MASK
        offsets = signature.tensor(layout.lengths) if layout.lengths >= 0 else None
        if offsets is not None and sizes.packed and offsets.elements > 2:
            count, missing = _packed_pairs(sizes, offsets.elements - 1, mask), _LENGTHS
        else:
            count = sizes.batch * pairs(sizes.queries, sizes.keys, mask, _window(signature, layout))
        count *= sizes.heads
        forward = 2 * count * (sizes.size + sizes.value_size)
        backward = 2 * count * (3 * sizes.size + 2 * sizes.value_size)
        bias = signature.tensor(layout.mask) if layout.mask >= 0 else None
        result = dense((*q.shape[:-1], sizes.value_size), q.type)
        tensors: list[Tensor | None] = [q, k, v, bias, result]
        if layout.grad >= 0:
            tensors += [signature.tensor(layout.grad), *(dense(x.shape, x.type) for x in (q, k, v))]
        flops = forward if layout.grad < 0 else backward
        found = finish("attention", flops, tensors, hints, arithmetic=q.type, missing=missing)
        drop = signature.operand(layout.dropout).number if layout.dropout >= 0 else None
        traits = _traits(sizes, SIZES.get(q.type or "", 0), _told(bias, sizes), dropped=bool(drop))
        heads = sizes.batch * sizes.heads
        return found._replace(sizes=Sizes(heads, sizes.queries, sizes.keys, sizes.size, traits))

    return formula


def _told(bias: Tensor | None, sizes: _Sizes) -> str:
    """Say whether a tensor that is added to the scores is a mask, or of each head's own numbers a bias; '' for none.

    Heads that share one (stride 0) are given a mask; so are they taken to be where strides were not recorded.
    """
    if bias is None:
        return ""
    strides = bias.strides or ()
    by_head = len(strides) == len(bias.shape) > 2 and strides[-3] != 0 and bias.shape[-3] == sizes.heads > 1
    return "bias" if by_head else "mask"


def _traits(sizes: _Sizes, size: int, added: str, *, dropped: bool) -> tuple[str, ...]:
    """Return what fused kernels are known to suffer from: 32-bit numbers, a mask that is read, dropout, odd heads."""
    odd = any(width % _LOADED for width in (sizes.size, sizes.value_size))
    found = {"wide-numbers": size == 4, added: bool(added), "head-size": odd, "dropout": dropped}
    return tuple(name for name, holds in found.items() if holds)


def _window(signature: Signature, layout: Layout) -> tuple[int, int]:
    """Return a window's size before and after the query; -1 for all."""
    if layout.window < 0:
        return -1, -1
    left, right = (signature.operand(layout.window + at).number for at in (0, 1))
    return (-1 if left is None else int(left)), (-1 if right is None else int(right))


def _packed_pairs(sizes: _Sizes, sequences: int, mask: int) -> int:
    """Return the fewest pairs of so many packed sequences: those of sequences of one length (Cauchy–Schwarz)."""
    count = sizes.queries * sizes.keys // sequences
    return count if mask == _NO_MASK else math.ceil(count / 2)


_SDPA = "aten::_scaled_dot_product_"
_LAYOUTS = {
    "aten::scaled_dot_product_attention": Layout(causal=5, mask=3, dropout=4),
    f"{_SDPA}attention_math": Layout(causal=5, mask=3, dropout=4),
    f"{_SDPA}attention_math_for_mps": Layout(causal=5, mask=3),
    f"{_SDPA}flash_attention": Layout(causal=4, dropout=3),
    f"{_SDPA}flash_attention_for_cpu": Layout(causal=4, mask=5),
    f"{_SDPA}efficient_attention": Layout(causal=6, mask=3, dropout=5),
    f"{_SDPA}cudnn_attention": Layout(causal=6, mask=3, dropout=5),
    f"{_SDPA}fused_attention_overrideable": Layout(causal=5, mask=3),
    f"{_SDPA}flash_attention_backward": Layout(query=1, grad=0, causal=11, dropout=10),
    f"{_SDPA}flash_attention_for_cpu_backward": Layout(query=1, grad=0, causal=7, mask=8),
    f"{_SDPA}efficient_attention_backward": Layout(query=1, grad=0, causal=11, mask=4, dropout=9),
    f"{_SDPA}cudnn_attention_backward": Layout(query=1, grad=0, causal=14, mask=8),
    f"{_SDPA}fused_attention_overrideable_backward": Layout(query=1, grad=0, causal=13, mask=4),
    "aten::_flash_attention_forward": Layout(
        causal=8, dropout=7, heads_first=False, lengths=3, window=11, aligned=_BOTTOM_RIGHT
    ),
    "aten::_flash_attention_backward": Layout(
        query=1, grad=0, causal=11, dropout=10, heads_first=False, lengths=6, window=15, aligned=_BOTTOM_RIGHT
    ),
    "aten::_efficient_attention_forward": Layout(causal=9, kind=True, heads_first=False, lengths=4, mask=3),
    "aten::_efficient_attention_backward": Layout(
        query=1, grad=0, causal=14, kind=True, heads_first=False, lengths=6, mask=4
    ),
    "aten::_cudnn_attention_forward": Layout(causal=10, mask=3, dropout=9),
    "aten::_cudnn_attention_backward": Layout(query=1, grad=0, causal=14, mask=8),
    "flash_attn::_flash_attn_forward": Layout(causal=5, heads_first=False, window=6, aligned=_BOTTOM_RIGHT),
    "flash_attn::_flash_attn_backward": Layout(
        query=1, grad=0, causal=11, heads_first=False, window=12, aligned=_BOTTOM_RIGHT
    ),
    "flash_attn::_flash_attn_varlen_forward": Layout(
        causal=9, heads_first=False, lengths=3, window=10, aligned=_BOTTOM_RIGHT
    ),
    "flash_attn::_flash_attn_varlen_backward": Layout(
        query=1, grad=0, causal=15, heads_first=False, lengths=9, window=16, aligned=_BOTTOM_RIGHT
    ),
    **{
        f"aiter::{name}": Layout(causal=5, heads_first=False, window=6, aligned=_BOTTOM_RIGHT)
        for name in ("mha_fwd", "fmha_v3_fwd", "_flash_attn_forward")
    },
    "xformers::efficient_attention_forward_cutlass": Layout(causal=7, kind=True, heads_first=False, lengths=4, mask=3),
}
FORMULAS: dict[str, Formula] = {name: _formula(layout) for name, layout in _LAYOUTS.items()}
