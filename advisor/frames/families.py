"""Families of kernels: what each computes, in the terms in which a reader divides a step's GPU time."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from advisor.frames.patterns.find import find
from advisor.intervals import Bools, Ints, fetch
from advisor.timeline.calls import OP, PHASES
from advisor.timeline.context import Context
from advisor.timeline.fused_names import operators
from advisor.timeline.kernel_names import EXPERTS, MOST
from advisor.timeline.launch_origin import outermost_ops

CASTS, COPIES, RMS_NORM, ROTARY = "casts", "copies", "RMS norm", "rotary embedding"
_UNFUSED = "unfused attention"
_EMBEDS = re.compile(r"embedding|fbgemm|SplitLookup", re.I)
_OPTIMIZER, _OTHER, _INDEXING, _CONCATENATION = "optimizer", "other", "indexing", "concatenation"
# By the operator, whatever the kernel in it is called: a convolution may run as a product, attention as several kernels.
_WHOLLY = (
    ("attention", re.compile(r"(?:flash|efficient|cudnn|_fused)_?attention|scaled_dot_product|native_multi_head", re.I)),
    ("convolutions", re.compile(r"convolution|_conv(?:_depthwise)?[123]d", re.I)),
)  # fmt: skip
# By the kernel's name, whatever operator launched it.
_BY_KIND = {
    "gemm": "matrix products",
    "conv": "convolutions",
    "attention": "attention",
    "layout": "layout changes",
    "communication": "communication",
    "graph": "graph replays",
    "pooling": "pooling",
}
# By the operator, for all other kernels.
_BY_OPERATOR = (
    ("layer norm", re.compile(r"layer_?norm", re.I)),
    ("group norm", re.compile(r"group_?norm", re.I)),
    ("batch norm", re.compile(r"(?:batch|instance)_?norm", re.I)),
    (RMS_NORM, re.compile(r"rms_?norm", re.I)),
    (ROTARY, re.compile(r"rotary|\brope_?", re.I)),
    ("softmax", re.compile(r"softmax", re.I)),
    ("loss", re.compile(r"_loss(?:2d|_nd)?(?:_forward|_backward)?$|_loss_|cross_entropy|\bkl_div", re.I)),
    ("dropout", re.compile(r"dropout|bernoulli", re.I)),
    ("random numbers", re.compile(r"aten::(?:rand\w*|normal_?|uniform_|exponential_|multinomial)$", re.I)),
    ("embedding", re.compile(r"embedding|fbgemm", re.I)),
    ("sort", re.compile(r"aten::(?:arg)?(?:sort|topk|_?unique\w*|msort|kthvalue|median)$")),
    (_CONCATENATION, re.compile(r"aten::_?(?:cat|concat\w*|stack)(?:_out)?$")),
    (_INDEXING, re.compile(r"aten::_?(?:index\w*|gather|scatter\w*|take\w*|masked_select|masked_scatter\w*|nonzero"
                           r"|(?:select|slice)_(?:scatter|backward)|embedding_renorm_)$")),
    ("fills", re.compile(r"aten::(?:fill_|zero_|zeros\w*|ones\w*|full\w*)$")),
)  # fmt: skip
# By the kernel's name, where no operator of torch tells: engines call libraries of their own, and replay graphs.
_NAMED = (
    (ROTARY, re.compile(r"rotary|\brope_|_rope_", re.I)),
    # What MIOpen does around a convolution in another layout.
    ("convolutions", re.compile(r"^SubTensorOp")),
    ("attention", re.compile(r"\bsage_|paged_attention|reshape_and_cache|\bmla_", re.I)),
)  # fmt: skip
_STEPS = re.compile(r"adam|sgd|lamb|adagrad|lion|rmsprop", re.I)
# By the operator, of kernels whose names say nothing: those of accelerators other than GPUs.
_UNNAMED = (
    ("matrix products", re.compile(r"aten::(?:_?mm|addmm|b?addbmm|bmm|linear|matmul|mv|dot|_scaled_mm)$")),
    ("convolutions", re.compile(r"convolution")),
    ("reductions", re.compile(r"aten::(?:sum|mean|prod|std|var|var_mean|norm|linalg_vector_norm|a?max|a?min|argmax|argmin|any|all"
                              r"|cumsum|logsumexp)$")),
    ("pooling", re.compile(r"aten::\w*pool\w*$")),
    ("elementwise", re.compile(r"aten::(?:add|sub|rsub|mul|div|remainder|neg|abs|sqrt|rsqrt|pow|exp|exp2|expm1|log|log2|log1p|sin"
                               r"|cos|tanh|erf|sigmoid|relu|gelu|silu|leaky_relu|hardtanh|threshold|clamp|clamp_min|clamp_max"
                               r"|where|lerp|addcmul|addcdiv|nan_to_num|isnan|isinf|isfinite|reciprocal|sign|floor|ceil|round"
                               r"|eq|ne|lt|le|gt|ge|maximum|minimum|masked_fill|bitwise_\w+|logical_\w+|tril|triu|arange)_?"
                               r"(?:_backward)?$")),
)  # fmt: skip
# By the kind of kernel, where neither tells.
_ELSE = {
    "softmax": "softmax",
    "embedding": "embedding",
    "optimizer": _OPTIMIZER,
    "sort": "sort",
    "random": "random numbers",
    "copy": COPIES,
    "reduction": "reductions",
    "elementwise": "elementwise",
    "triton": "Triton kernels",
}
_NORMS = (
    ("batch norm", re.compile(r"batch_?norm|\bbn_(?:fw|bw)", re.I)),
    ("group norm", re.compile(r"group_?norm", re.I)),
    (RMS_NORM, re.compile(r"rms_?norm", re.I)),
    ("layer norm", re.compile(r"layer_?norm|GammaBeta|RowwiseMoments", re.I)),
)
_CASTING = re.compile(r"bfloat16_copy_kernel|float16_copy_kernel|half_copy_kernel|(?:Load|Store)WithCast")
# Kernels of one operator each, one behind the other on a stream: x.float().pow(2).mean(-1) + eps, its rsqrt, x and the weight
# times it, with the casts between; and q * cos + rotate_half(q) * sin.
_LETTERS = {
    "aten::copy_": "c", "aten::pow": "p", "aten::square": "p", "aten::mean": "m", "aten::add": "a", "aten::rsqrt": "r",
    "aten::mul": "x", "aten::neg": "n", "aten::cat": "k",
}  # fmt: skip
_BY_HAND = ((RMS_NORM, re.compile(r"c?pma?rxc?x?")), (ROTARY, re.compile(r"xnkxa")))


class Families(NamedTuple):
    """The family of each kernel: a code, with the names."""

    code: Ints
    names: tuple[str, ...]


def families(context: Context) -> Families:
    """Divide the kernels into families, by their operator and their name."""
    work, rows, host = context.recording.work, context.kernel_rows, context.recording.host
    launch, name = work.launch[rows], work.name[rows]
    op = fetch(host.name, _operators(context, launch))
    around = outermost_ops(context, launch) if host.size else np.full(len(rows), -1, np.int64)
    types = context.op_column(launch, "types")
    optimizing = context.phases(launch) == PHASES.index("optimizer")
    keys = np.stack([name, op, around, types, optimizing.astype(np.int64)])
    keys, back = np.unique(keys, axis=1, return_inverse=True)
    numbers: dict[str, int] = {}
    told = [_family(context, *key) for key in keys.T.tolist()]
    each = np.array([numbers.setdefault(family, len(numbers)) for family in told], np.int64)
    code = each[back.ravel()] if len(each) else np.zeros(len(rows), np.int64)
    for family, chosen in _by_hand(context, op):
        chosen = chosen[~optimizing[chosen]]
        if len(chosen):
            code[chosen] = numbers.setdefault(family, len(numbers))
    stepwise = in_attention(context, rows) & ~optimizing
    if stepwise.any():
        code[stepwise] = numbers.setdefault(_UNFUSED, len(numbers))
    return Families(code, tuple(numbers))


def in_attention(context: Context, rows: Ints) -> Bools:
    """Flag the kernels of a pattern `attention`; the search for one is spared where nothing is named as it would be."""
    if not any("softmax" in name.lower() for name in context.names if name.startswith("aten::")):
        return np.zeros(len(rows), np.bool_)
    patterns = context.once(find)
    kinds = np.array([pattern.kind == "attention" for pattern in patterns.kinds for _ in range(len(pattern))], np.bool_)
    inside: Bools = np.isin(rows, patterns.inside.index[kinds[patterns.inside.row]] if len(kinds) else rows[:0])
    return inside


def _operators(context: Context, launch: Ints) -> Ints:
    """Node of the innermost operator around each launch; -1 where none is, and of replays: a graph holds many operators' work."""
    host = context.recording.host
    if not host.size:
        return np.full(len(launch), -1, np.int64)
    node = fetch(host.attributes.op, launch)
    known = (node >= 0) & ~np.isin(launch, context.graph_nodes)
    known[known] = host.group[node[known]] == OP
    return np.where(known, node, -1)


def _family(context: Context, name: int, op: int, around: int, types: int, optimizing: int) -> str:
    """Return the family of a kernel by its name, its innermost and its outermost operator, and its operands' types."""
    kernel, kind = context.names[name][:MOST], context.kernel_names[name].kind
    operator = context.names[op] if op >= 0 else ""
    if kind == "communication":
        return _BY_KIND[kind]
    if optimizing:
        return _OPTIMIZER
    if (sure := _sure(kernel, kind, operator)) is not None:
        return sure
    if kind == "triton" and (fused := operators(kernel)):
        operator = f"aten::{fused[0]}" if len(fused) == 1 else ""
    if operator == "aten::copy_" or (kind == "copy" and not operator):
        return CASTS if _casts(context, types, kernel) else COPIES
    if around >= 0 and _EMBEDS.search(context.names[around]):
        return "embedding"  # sorts of the rows that are asked for, sums of those asked for twice
    return _first(_BY_OPERATOR, operator) or _otherwise(kernel, kind, operator)


def _first(families: Sequence[tuple[str, re.Pattern[str]]], text: str) -> str | None:
    """Return the first family whose pattern a text holds."""
    return next((family for family, pattern in families if pattern.search(text)), None)


def _sure(kernel: str, kind: str, operator: str) -> str | None:
    """Return the family that an operator is of whatever runs in it, or a kernel whatever launched it; None where neither tells."""
    if kind != "layout" and (wholly := _first(_WHOLLY, operator)) is not None:
        return wholly
    if EXPERTS.search(kernel):
        return "experts (MoE)"
    named = None if operator.startswith("aten::") else _first(_NAMED, kernel)
    return named or _BY_KIND.get(kind)


def _otherwise(kernel: str, kind: str, operator: str) -> str:
    """Return the family of a kernel whose operator is of none by itself."""
    if operator.startswith("aten::_foreach_norm"):
        return "reductions"
    if kind == "normalization":
        return _first(_NORMS, kernel) or kind
    if "CatArrayBatchedCopy" in kernel:
        return _CONCATENATION
    if kind == _OPTIMIZER and operator and not _STEPS.search(kernel):
        return "elementwise"
    return _ELSE.get(kind) or _first(_UNNAMED, operator) or _OTHER


def _casts(context: Context, types: int, kernel: str) -> bool:
    """Tell whether a copy changes the type of numbers: by the types of both tensors where recorded, else by the kernel."""
    if types >= 0:
        try:
            told = json.loads(context.shape_texts[types][:MOST])
        except (ValueError, RecursionError):
            told = []
        if isinstance(told, list) and len(told) >= 2 and all(isinstance(one, str) and one for one in told[:2]):
            return bool(told[0] != told[1])
    return _CASTING.search(kernel) is not None


def _by_hand(context: Context, op: Ints) -> list[tuple[str, Ints]]:
    """Find the kernels of normalizations and rotations that a program computes step by step, by their operators' order."""
    codes = {code: letter for code, name in enumerate(context.names) if (letter := _LETTERS.get(name))}
    if not {"r", "n"} & set(codes.values()) or not len(op):
        return []
    table = np.full(len(context.names) + 1, ord("."), np.uint8)
    for code, letter in codes.items():
        table[code] = ord(letter)
    work, rows = context.recording.work, context.kernel_rows
    order = np.lexsort((work.start[rows], work.stream[rows], work.device[rows]))
    text = table[op[order]].tobytes().decode("ascii")
    return [
        (family, order[[at for match in pattern.finditer(text) for at in range(*match.span())]].astype(np.int64))
        for family, pattern in _BY_HAND
        if pattern.search(text)
    ]
