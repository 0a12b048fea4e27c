"""Families of kernels: what each computes, in the terms in which a reader divides a step's GPU time."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np

from advisor.frames.patterns.attention import is_softmax
from advisor.frames.patterns.find import find
from advisor.frames.patterns.tree import Pairs
from advisor.intervals import Bools, Ints, alike, fetch
from advisor.regex import regex
from advisor.timeline.calls import OP, PHASES, PYTHON
from advisor.timeline.context import Context
from advisor.timeline.fused_names import moves_only, operators
from advisor.timeline.kernel_names import EXPERTS, MOST
from advisor.timeline.launch_origin import outermost_ops

CASTS, COPIES, RMS_NORM, ROTARY = "casts", "copies", "RMS norm", "rotary embedding"
ATTENTION, OF_EXPERTS, UNFUSED = "attention", "experts (MoE)", "unfused attention"
_PRODUCTS, _ACTIVATIONS = "matrix products", "activations"
_CONCATENATION, _ELEMENTS, _REDUCTIONS, _FILLS = "concatenation", "elementwise", "reductions", "fills"
_EMBEDS = regex(r"embedding|fbgemm|SplitLookup", re.I)
_OPTIMIZER, _OTHER, _INDEXING = "optimizer", "other", "indexing"
# By the operator, whatever the kernel in it is called: a convolution may run as a product, attention as several kernels.
_WHOLLY = (
    (ATTENTION, regex(r"(?:flash|efficient|cudnn|_fused)_?attention|scaled_dot_product|native_multi_head"
                             r"|transform_bias_rescale_qkv", re.I)),
    ("convolutions", regex(r"convolution|_conv(?:_depthwise)?[123]d", re.I)),
)  # fmt: skip
# By the kernel's name, whatever operator launched it.
_BY_KIND = {
    "gemm": _PRODUCTS,
    "conv": "convolutions",
    "attention": ATTENTION,
    "layout": "layout changes",
    "communication": "communication",
    "graph": "graph replays",
    "pooling": "pooling",
}
# By the operator, for all other kernels.
_BY_OPERATOR = (
    ("layer norm", regex(r"layer_?norm", re.I)),
    ("group norm", regex(r"group_?norm", re.I)),
    ("batch norm", regex(r"(?:batch|instance)_?norm", re.I)),
    (RMS_NORM, regex(r"rms_?norm", re.I)),
    (ROTARY, regex(r"rotary|\brope_?", re.I)),
    ("softmax", regex(r"softmax", re.I)),
    ("loss", regex(r"_loss(?:2d|_nd)?(?:_forward|_backward)?$|_loss_|cross_entropy|\bkl_div", re.I)),
    (_ACTIVATIONS, regex(r"aten::(?:gelu|silu|relu6?|leaky_relu|elu|celu|selu|mish|hardswish|hardsigmoid|hardtanh|softplus"
                              r"|log_sigmoid|glu|threshold|_?prelu(?:_kernel)?)_?(?:_(?:forward|backward))?_?$")),
    ("dropout", regex(r"dropout|bernoulli", re.I)),
    ("random numbers", regex(r"aten::(?:rand\w*|normal_?|uniform_|exponential_|multinomial)$", re.I)),
    ("embedding", regex(r"embedding|fbgemm", re.I)),
    ("sort", regex(r"aten::(?:arg)?(?:sort|topk|_?unique\w*|msort|kthvalue|median)$")),
    (_CONCATENATION, regex(r"aten::_?(?:cat|concat\w*|stack)(?:_out)?$")),
    (_INDEXING, regex(r"aten::_?(?:index\w*|gather|scatter\w*|take\w*|masked_select|masked_scatter\w*|nonzero"
                           r"|(?:select|slice)_(?:scatter|backward)|embedding_renorm_)$")),
    (_FILLS, regex(r"aten::(?:fill_|zero_|zeros\w*|ones\w*|full\w*)$")),
)  # fmt: skip
_HELPERS = "convolution helpers", regex(r"^SubTensorOp|convertTensor_kernel")
"""By the kernel's name: what MIOpen and cuDNN run around a convolution: fills and casts of workspaces."""
# By the kernel's name, where no operator of torch tells: engines call libraries of their own, and replay graphs.
_NAMED = (
    (ROTARY, regex(r"rotary|\brope_|_rope_", re.I)),
    (ATTENTION, regex(r"\bsage_|paged_attention|reshape_and_cache|store_kv_?cache|\bmla_", re.I)),
    (RMS_NORM, regex(r"rms_?(?:layer)?norm", re.I)),
    ("layer norm", regex(r"layer_?norm(?!.*(?:gemm|linear|mlp))", re.I)),
    (_ACTIVATIONS, regex(r"act_and_mul|(?:silu|gelu)_(?:and_)?mul|swiglu|geglu", re.I)),
)  # fmt: skip
_EXPERT_WORK = regex(r"grouped_(?:mm|gemm)|GroupProblemShape|bitmatrix|\bgmm\b|megablocks", re.I)
"""Products of experts by what they are: of several matrices, each with rows of its own; and the tables of who goes where."""
_ENGINES = ((ATTENTION, regex(r"attention", re.I)), (OF_EXPERTS, EXPERTS))
"""By an operator of an engine's own, which is one call of a library for all of it."""
_MODULES = (
    (RMS_NORM, regex(r"(?:RMS_?Norm(?:Gated)?|T5LayerNorm)$", re.I)),
    ("layer norm", regex(r"LayerNorm(?:2d|32|FP32)?$", re.I)),
    ("group norm", regex(r"GroupNorm(?:32)?$", re.I)),
    ("batch norm", regex(r"(?:Batch|Instance)Norm[123]?d?$", re.I)),
    (ROTARY, regex(r"(?:Rotary\w*Embed\w*|RoPE|ApplyRotary\w*)$", re.I)),
    (_ACTIVATIONS, regex(r"(?:GELU(?:Activation|Tanh)?|SiLU(?:Activation)?|SwiGLU|GEGLU|Mish|Swish)$", re.I)),
)
"""By the innermost module, of what it computes step by step."""
_FUNCTIONS = (
    (
        ROTARY,
        regex(r"\): (?:_?apply_\w*(?:rotary|rope)\w*|_?rotate_(?:half|every_two)|_?rope|apply_multimodal_rotary\w*)$"),
    ),
    (RMS_NORM, regex(r"\): _?rms_?norm\w*$")),
)
"""By a function of Python around it, likewise."""
_STEPWISE = frozenset({_ELEMENTS, _REDUCTIONS, CASTS, COPIES, _CONCATENATION, _FILLS, "normalization"})
"""Families of kernels that are no more than a step of such a thing."""
_EXPERTS = regex(
    r"(?:^|/)[^/]*(?:MoE|Moe|MOE)[^/]*/(?![^/]*(?:Gate|Router)(?:_\d+)?(?:/|$)|[^/]*Shared|Linear(?:_\d+)?$)"
    r"|(?:^|/)[^/]*[Ee]xperts?(?:_\d+|MLP|FFN|Layer)*(?:/|$)"
)
"""Paths of modules that are experts: inside of a layer of these, but for what chooses among them."""
_STEPS = regex(r"adam|sgd|lamb|adagrad|lion|rmsprop", re.I)
# By the operator, of kernels whose names say nothing: those of accelerators other than GPUs.
_UNNAMED = (
    (_PRODUCTS, regex(r"aten::(?:_?mm|addmm|b?addbmm|bmm|linear|matmul|mv|dot|_scaled_mm)$")),
    ("convolutions", regex(r"convolution")),
    (_REDUCTIONS, regex(r"aten::(?:sum|mean|prod|std|var|var_mean|norm|linalg_vector_norm|a?max|a?min|argmax|argmin|any|all"
                              r"|cumsum|logsumexp)$")),
    ("pooling", regex(r"aten::\w*pool\w*$")),
    (_ELEMENTS, regex(r"aten::(?:add|sub|rsub|mul|div|remainder|neg|abs|sqrt|rsqrt|pow|exp|exp2|expm1|log|log2|log1p|sin"
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
    "reduction": _REDUCTIONS,
    "elementwise": _ELEMENTS,
    "triton": "Triton kernels",
}
_NORMS = (
    ("batch norm", regex(r"batch_?norm|\bbn_(?:fw|bw)", re.I)),
    ("group norm", regex(r"group_?norm", re.I)),
    (RMS_NORM, regex(r"rms_?norm", re.I)),
    ("layer norm", regex(r"layer_?norm|GammaBeta|RowwiseMoments", re.I)),
)
_UNTOLD = frozenset({"other", "elementwise", "reduction", "triton"})
_QUANTIZES = regex(r"(?:^|_|::|\s)(?:de)?quant", re.I)
_CASTING = regex(r"bfloat16_copy_kernel|float16_copy_kernel|half_copy_kernel|(?:Load|Store)WithCast")
# Kernels of one operator each, one behind the other on a stream: x.float().pow(2).mean(-1) + eps, its rsqrt, x and the weight
# times it, with the casts between; and q * cos + rotate_half(q) * sin.
_LETTERS = {
    "aten::copy_": "c", "aten::pow": "p", "aten::square": "p", "aten::mean": "m", "aten::add": "a", "aten::rsqrt": "r",
    "aten::mul": "x", "aten::neg": "n", "aten::cat": "k",
}  # fmt: skip
_BY_HAND = ((RMS_NORM, regex(r"c?pma?rxc?x?")), (ROTARY, regex(r"xnkxa")))


_SCHEME = regex(r"^triton_(poi|red|per|for|tem|mm|bmm|spl|flex|split_scan)_fused_")
_RANKS = (
    ATTENTION, "convolutions", "batch norm", "layer norm", "group norm", RMS_NORM, "softmax", "loss", ROTARY, "embedding",
    _ACTIVATIONS, "random numbers", "dropout", "sort",
)  # fmt: skip
"""Of what is fused, the first of these that is among it says what the kernel is there for."""


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
    keys = (name, op, around, types, optimizing.astype(np.int64))
    first, back = alike(*keys)
    numbers: dict[str, int] = {}
    told = [_family(context, *key) for key in zip(*(key[first].tolist() for key in keys), strict=True)]
    each = np.array([numbers.setdefault(family, len(numbers)) for family in told], np.int64)
    code = each[back] if len(each) else np.zeros(len(rows), np.int64)
    elements = code == numbers.get(_ELEMENTS, -1)
    dur = (work.end - work.start)[rows]
    least = _MUCH * float(dur[code != numbers.get(_BY_KIND["communication"], -1)].sum())
    summed = [(family, chosen[elements[chosen]]) for family, chosen in _of_gradients(context, launch)]
    summed = [(family, chosen) for family, chosen in summed if dur[chosen].sum() >= least]
    for family, chosen in chain(_by_place(context, launch, code, tuple(numbers)), _by_hand(context, op), summed):
        chosen = chosen[~optimizing[chosen]]
        if len(chosen):
            code[chosen] = numbers.setdefault(family, len(numbers))
    # Casts are what autocast adds, in attention and around a norm as elsewhere: a fix of their own spares them.
    stepwise = of_attention(context, rows) & ~optimizing & (code != numbers.get(CASTS, -1))
    if stepwise.any():
        code[stepwise] = numbers.setdefault(UNFUSED, len(numbers))
    return Families(code, tuple(numbers))


def in_attention(context: Context, rows: Ints) -> Bools:
    """Flag the kernels of a pattern `attention`; the search for one is spared where nothing is named as it would be."""
    return _in_patterns(context, rows, "inside")


def of_attention(context: Context, rows: Ints) -> Bools:
    """Flag the kernels of such a pattern, and those beside it that are there for it: what makes its mask."""
    return in_attention(context, rows) | _in_patterns(context, rows, "beside")


def _has_softmax(context: Context) -> bool:
    """Tell whether an operator is a softmax."""
    softmaxes = np.array([is_softmax(name) for name in context.names], np.bool_)
    host = context.recording.host
    return bool(softmaxes.any() and softmaxes[host.name[host.group == OP]].any())


def _in_patterns(context: Context, rows: Ints, part: Literal["inside", "beside"]) -> Bools:
    if not context.once(_has_softmax):
        return np.zeros(len(rows), np.bool_)
    patterns = context.once(find)
    kinds = np.array([pattern.kind == "attention" for pattern in patterns.kinds for _ in range(len(pattern))], np.bool_)
    pairs: Pairs = getattr(patterns, part)
    inside: Bools = np.isin(rows, pairs.index[kinds[pairs.row]] if len(kinds) else rows[:0])
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
    if kind == "triton" and (made := _generated(kernel) or _generated(operator)) is not None:
        return made  # before torch 2.2 the operator around it alone bears the name
    outer = context.names[around] if around >= 0 else ""
    if operator == "aten::copy_" or (kind == "copy" and not operator):
        return CASTS if _casts(context, types, kernel) else COPIES
    if _EMBEDS.search(outer):
        return "embedding"  # sorts of the rows that are asked for, sums of those asked for twice
    family = _first(_BY_OPERATOR, operator) or _otherwise(kernel, kind, operator)
    if family == _ELEMENTS and _first(_BY_OPERATOR, outer) == _ACTIVATIONS:
        return _ACTIVATIONS  # aten::relu clamps
    return family


def _moves(name: str) -> bool:
    """Tell whether an operator that Inductor names only moves or views numbers, or makes room for them."""
    return name in ("_to_copy", "empty_like", "empty", "new_empty") or moves_only(f"triton_poi_fused_clone_{name}_0")


def _in_steps(names: set[str]) -> set[str]:
    """Return what fused operators compute in steps: the mean of squares, with or without its root, and a rotation."""
    found = set()
    if "mean" in names and names & {"pow", "square"} and ("rsqrt" in names or not names & {"sub", "sqrt"}):
        found.add(RMS_NORM)
    if {"neg", "mul", "add"} <= names and names & {"cat", "stack"}:
        found.add(ROTARY)
    return found


def _generated(kernel: str) -> str | None:
    """Return the family of a kernel of Inductor's by the operators in its name: what the others stand around. None for others.

    A normalization with what it is fused with is one; so is one in steps, and a rotation. A kernel that only moves numbers copies
    or casts, and of the rest the scheme tells whether it reduces.
    """
    names = operators(kernel)
    match = _SCHEME.match(kernel)
    if match is None:
        return None
    if moves_only(kernel):
        return COPIES
    if "_to_copy" in names and all(map(_moves, names)):
        return CASTS
    found = {family for name in names if (family := _first(_BY_OPERATOR, f"aten::{name}"))} | _in_steps(set(names))
    if (first := next((family for family in _RANKS if family in found), None)) is not None:
        return first
    moved = next((family for family in (_CONCATENATION, _INDEXING, _FILLS) if family in found), None)
    if moved and all(_first(_BY_OPERATOR, f"aten::{name}") or _moves(name) for name in names):
        return moved
    return {"red": _REDUCTIONS, "per": _REDUCTIONS, "poi": _ELEMENTS, "for": _ELEMENTS}.get(match[1])


def _first(families: Sequence[tuple[str, re.Pattern[str]]], text: str) -> str | None:
    """Return the first family whose pattern a text holds."""
    return next((family for family, pattern in families if pattern.search(text)), None)


def _sure(kernel: str, kind: str, operator: str) -> str | None:
    """Return the family that an operator is of whatever runs in it, or a kernel whatever launched it; None where neither tells."""
    if _HELPERS[1].search(kernel):
        return _HELPERS[0]
    if kind != "layout" and (wholly := _first(_WHOLLY, operator)) is not None:
        return wholly
    if EXPERTS.search(kernel) or _EXPERT_WORK.search(kernel) or _EXPERT_WORK.search(operator):
        return OF_EXPERTS
    if (
        operator
        and not operator.startswith("aten::")
        and kind != "layout"
        and (engine := _first(_ENGINES, operator)) is not None
    ):
        return engine
    named = None if operator.startswith("aten::") else _first(_NAMED, kernel)
    return named or _BY_KIND.get(kind)


def _otherwise(kernel: str, kind: str, operator: str) -> str:
    """Return the family of a kernel whose operator is of none by itself."""
    if operator.startswith("aten::_foreach_norm"):
        return _REDUCTIONS
    if kind == "normalization":
        return _first(_NORMS, kernel) or kind
    if kind in _UNTOLD and not operator.startswith("aten::") and _QUANTIZES.search(kernel):
        return "quantization"
    if "CatArrayBatchedCopy" in kernel:
        return _CONCATENATION
    if kind == _OPTIMIZER and operator and not _STEPS.search(kernel):
        return _ELEMENTS
    if kind == "copy" and "copy" not in kernel:
        return _first(_UNNAMED, operator) or COPIES  # it casts what it reads
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


def _by_place(context: Context, launch: Ints, code: Ints, names: tuple[str, ...]) -> list[tuple[str, Ints]]:
    """Find the kernels of modules and functions that compute step by step what has a name, and the products of experts."""
    host = context.recording.host
    if not host.size:
        return []
    stepwise = np.array([name in _STEPWISE for name in (*names, "")], np.bool_)[code]
    products = np.array([name == _PRODUCTS for name in (*names, "")], np.bool_)[code]
    found: list[tuple[str, Ints]] = []
    module = fetch(host.attributes.module, launch)
    last = [re.sub(r"_\d+$", "", path.rsplit("/", 1)[-1]) for path in host.module_paths]
    for family, pattern in _MODULES:
        here = np.array([*(pattern.search(name) is not None for name in last), False], np.bool_)
        if here.any():
            found.append((family, np.flatnonzero(stepwise & here[module])))
    experts = np.array([*(_EXPERTS.search(path) is not None for path in host.module_paths), False], np.bool_)
    if experts.any():
        found.append((OF_EXPERTS, np.flatnonzero(products & experts[module])))
    for family, pattern in _FUNCTIONS:
        codes = np.array([*(pattern.search(name) is not None for name in context.names), False], np.bool_)
        if codes.any():
            own = np.full(host.size, -1, np.int32)
            own[(host.group == PYTHON) & codes[host.name]] = 1
            inside = fetch(host.with_backward(own), launch) > 0
            found.append((family, np.flatnonzero(stepwise & inside)))
    return found


def operator_family(operator: str, outer: str, *, optimizing: bool = False) -> str:
    """Return the family of an operator on the CPU, where no kernel tells: by its name, else by the outermost operator around it."""
    if optimizing:
        return _OPTIMIZER
    if (wholly := _first(_WHOLLY, operator) or _first(_WHOLLY, outer)) is not None:
        return wholly
    if (named := _first(_ON_CPU, operator) or _first(_BY_OPERATOR, operator)) is not None:
        return named
    family = _first(_UNNAMED, operator)
    around = _first(_BY_OPERATOR, outer)
    if family in (_ELEMENTS, None) and around is not None:
        return around  # aten::dropout multiplies, and divides
    return family or (COPIES if operator in _COPYING else _OTHER)


_ON_CPU = (
    (_PRODUCTS, regex(r"(?:mkldnn|mkl|onednn)\w*(?:::)?\w*linear", re.I)),
    ("recurrent layers", regex(r"mkldnn_rnn|(?:::|_)(?:lstm|gru|rnn_(?:tanh|relu))", re.I)),
)
"""Of the CPU's own operators."""
_COPYING = frozenset({"aten::copy_", "aten::clone", "aten::contiguous", "aten::_to_copy"})


def _of_gradients(context: Context, launch: Ints) -> list[tuple[str, Ints]]:
    """Find the additions that autograd's engine makes itself: to gradients that are there, and of those from several uses.

    The former are made where gradients are not None as a backward pass begins, the latter where tensors are used more than once.
    The former lie right in the node that stores a gradient, the latter behind a node, in the engine's evaluation of it.
    """
    host, names = context.recording.host, context.names
    stores = np.array([*(name.endswith(_STORE) for name in names), False], np.bool_)
    runs = np.array([*(name.startswith(_ENGINE) for name in names), False], np.bool_) & ~stores
    if not host.size or not (stores | runs).any():
        return []
    node = _operators(context, launch)
    adds = np.array([*(name in _ADDS for name in names), False], np.bool_)[fetch(host.name, node)]
    above = fetch(host.name, fetch(host.parent, node))
    return [(family, np.flatnonzero(adds & of[above])) for family, of in ((_INTO_GRAD, stores), (_REUSED, runs))]


_INTO_GRAD, _REUSED = "adding to .grad", "gradient sums"
_MUCH = 0.05
"""Of the kernels' time but for communication: such additions of less are elementwise kernels like others."""
_STORE, _ENGINE, _ADDS = (
    "torch::autograd::AccumulateGrad",
    "autograd::engine::evaluate_function: ",
    ("aten::add", "aten::add_"),
)


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
