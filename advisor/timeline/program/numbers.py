"""Number formats: what products and convolutions compute in, by time, and whether autocast chose it."""

from __future__ import annotations

import re

import numpy as np

from advisor.intervals import Ints, coded, fetch
from advisor.regex import regex
from advisor.timeline.calls import OP
from advisor.timeline.context import Context
from advisor.timeline.kernel_names import DTYPES

_FP4 = regex(r"[eE]2[mM]1|mxfp4|nvfp4|(?<![a-z])fp4", re.IGNORECASE)
_FP4_PRODUCT = regex(rf"(?:ge|b)mm.*(?:{_FP4.pattern})", re.IGNORECASE)
_PRODUCT = regex(
    r"^aten::(?:b?addb?mm|addmm|addmv|baddbmm|bmm|mm|mv|_scaled_mm|mkldnn_convolution|mkl_linear|_mkl_linear|mkldnn_linear"
    r"|_slow_conv2d_forward|slow_conv3d_forward|thnn_conv2d|(?:cudnn|miopen)_convolution|convolution_backward)$"
)
# Operators that autocast wraps: the wrapper converts the operands, then calls the operator of the same name.
_WRAPPED = regex(
    r"^aten::(?:linear|conv[123]d|conv_transpose[123]d|_convolution|convolution|matmul|addmm|mm|bmm|baddbmm|layer_norm|softmax"
    r"|log_softmax|scaled_dot_product_attention|prelu|lstm_cell|gru_cell)$"
)
_CONVERTS = frozenset(("aten::to", "aten::_to_copy"))
_AUTOCAST = regex(r"^aten::_autocast_to_|^fused__autocast_to")

_HALVES = {"fp16", "bf16"}


def precision(context: Context) -> str | None:
    """The format that most time of products, convolutions and attention is spent in; None where none is known."""
    time = _by_kernels(context) if len(context.kernel_rows) else _by_operators(context)
    known = {name: ns for name, ns in time.items() if name}
    return max(known, key=lambda name: (known[name], name)) if known else None


def _by_kernels(context: Context) -> dict[str, int]:
    """ns of matrix kernels by format: by the name, else by the operands of the operator that launched it."""
    work, rows = context.recording.work, context.kernel_rows
    matrix = np.zeros(len(context.names), np.bool_)
    products = (
        code
        for code, name in context.kernel_names.items()
        if name.matrix or _FP4_PRODUCT.search(context.names[code][:500])
    )
    matrix[list(products)] = True
    rows = rows[matrix[work.name[rows]]]
    types = context.op_column(work.launch[rows], "types")
    op = fetch(context.recording.host.name, fetch(context.recording.host.attributes.op, work.launch[rows]))
    own = np.array([*(name.startswith("aten::") for name in context.names), False], np.bool_)[op]
    raw = context.raw_dtypes
    out: dict[str, int] = {}
    for name, kinds, ns in _summed(
        work.name[rows], np.where(types >= 0, 2 * types + own, -1), (work.end - work.start)[rows]
    ):
        kind, torch = kinds >> 1, bool(kinds & 1)
        text = context.names[name][:500]
        format_ = "fp4" if _FP4.search(text) else context.kernel_names[name].dtype
        known = DTYPES.get(raw[kind]) if kind >= 0 else None
        # f16 in a name may stand for either format of 16 bits, as in those of cuDNN's attention.
        format_ = known if format_ is None or (torch and {format_, known} == _HALVES) else format_
        format_ = format_ or ""
        out[format_] = out.get(format_, 0) + ns
    return out


def _by_operators(context: Context) -> dict[str, int]:
    """ns of a CPU's products and convolutions by the type of their first operand."""
    host = context.recording.host
    product = np.array([_PRODUCT.match(name) is not None for name in context.names], np.bool_)
    nodes = np.flatnonzero((host.group == OP) & product[host.name]) if host.size else np.zeros(0, np.int64)
    types = context.op_column(nodes, "types")
    out: dict[str, int] = {}
    for _, kind, ns in _summed(types * 0, types, host.ns(nodes)):
        format_ = (DTYPES.get(context.raw_dtypes[kind]) if kind >= 0 else None) or ""
        out[format_] = out.get(format_, 0) + ns
    return out


def _summed(name: Ints, kind: Ints, ns: Ints) -> list[tuple[int, int, int]]:
    """Sum of *ns* for each pair of codes."""
    if not len(name):
        return []
    width = int(kind.max()) + 2
    keys, inverse = coded(name.astype(np.int64) * width + kind + 1)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, inverse, ns)
    return [(int(key) // width, int(key) % width - 1, int(total)) for key, total in zip(keys, sums, strict=True)]


def autocast_seen(context: Context) -> bool:
    """Tell whether operators ran under autocast: one that holds a conversion and then itself."""
    host, names = context.recording.host, context.names
    if any(_AUTOCAST.match(name) for name in names):
        return True
    wrapped = np.array([_WRAPPED.match(name) is not None for name in names], np.bool_)
    converts = np.array([name in _CONVERTS for name in names], np.bool_)
    if not host.size or not wrapped.any() or not converts.any():
        return False
    inner = np.flatnonzero(wrapped[host.name] & (host.group == OP) & (host.parent >= 0))
    inner = inner[host.name[host.parent[inner]] == host.name[inner]]
    conversions = np.flatnonzero(converts[host.name] & (host.group == OP))
    return bool(np.isin(host.parent[inner], host.parent[conversions]).any())
