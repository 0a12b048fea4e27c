"""Memory layout around convolutions: dimensions of their inputs, and what channels_last takes away where norms bring it back."""

from __future__ import annotations

import numpy as np

from advisor.frames.schema import integer, real
from advisor.frames.shapes import first_shape
from advisor.intervals import Bools, Ints, fetch
from advisor.regex import regex
from advisor.roofline.limits import Floats
from advisor.timeline.calls import BACKWARD, OP
from advisor.timeline.context import Context

COLUMNS = (
    integer("convolution_dims", "", "of what a convolution launched: dimensions of the convolution's input, 3 of Conv1d to 5 of "
            "Conv3d; NULL where unknown, and of others", "args.Input Dims"),
    real("layout_gain", "share", "of the layout kernels at convolutions, what channels_last spares: group norms and instance norms "
         "make their input contiguous, and each brings two back; 0 of the kernels of instance norms; else 1"),
)  # fmt: skip
_NAMED = regex(r"^aten::conv_?(?:transpose)?([123])d$")
_SIZED = ("aten::convolution", "aten::convolution_backward", "aten::convolution_overrideable")
_CONTIGUOUS = ("aten::native_group_norm", "aten::instance_norm")
_CONVOLVED = "aten::convolution"
_INSTANCE = "aten::instance_norm"
_IMAGE = 4


def _operators(context: Context) -> tuple[Ints, list[tuple[str, tuple[int, ...]]]]:
    """Forest nodes of convolutions and of norms that make their input contiguous, and each one's name and first sizes."""
    host, table = context.recording.host, context.tables.get("op")
    wanted = [code for code, name in enumerate(context.names) if name in (*_SIZED, *_CONTIGUOUS) or _NAMED.match(name)]
    if table is None or not host.size or not wanted:
        return np.zeros(0, np.int64), []
    nodes = np.flatnonzero((host.group == OP) & np.isin(host.name, wanted))
    dims = table["dims"][host.row[nodes]].tolist()
    names, texts = context.names, context.shape_texts
    sizes = [first_shape(texts[code]) if code >= 0 else () for code in dims]
    return nodes, [(names[code], size) for code, size in zip(host.name[nodes].tolist(), sizes, strict=True)]


def convolution_dims(context: Context, launch: Ints) -> Ints:
    """Dimensions of the input of the convolution around each launch; -1 where there is none, or where that is unknown."""
    nodes, operators = _operators(context)
    host = context.recording.host
    own = np.full(host.size, -1, np.int32)
    for node, (name, size) in zip(nodes.tolist(), operators, strict=True):
        if name in _SIZED:
            own[node] = len(size) or -1
        elif (named := _NAMED.match(name)) is not None:
            own[node] = int(named[1]) + 2
    return fetch(own, host.nearest(launch, own >= 0)).astype(np.int64)


def spared(context: Context) -> float:
    """The part of the transposes around convolutions that channels_last spares: 1 but where norms make inputs contiguous.

    A convolution has two transposes, of its input and of its output; a norm brings two, of its input and behind it. Both are
    weighed by the numbers of their input, where shapes are known, else counted.
    """
    nodes, operators = _operators(context)
    phase = context.recording.host.attributes.phase
    convolved = normalized = 0
    known = all(size for _, size in operators)
    for node, (name, size) in zip(nodes.tolist(), operators, strict=True):
        if phase[node] == BACKWARD or name not in (_CONVOLVED, *_CONTIGUOUS) or (size and len(size) < _IMAGE):
            continue
        numbers = int(np.prod(size, dtype=np.float64)) if known else 1
        if name in _CONTIGUOUS:
            normalized += numbers
        else:
            convolved += numbers
    return max(1 - normalized / convolved, 0.0) if convolved else 1.0


def layout_gain(context: Context, launch: Ints, layout: Bools) -> Floats:
    """The column of that name, of kernels by their *launch*; *layout* flags those that turn a layout over."""
    host = context.recording.host
    gain = np.ones(len(launch), np.float64)
    nodes, operators = _operators(context)
    if not any(name in _CONTIGUOUS for name, _ in operators):
        return gain
    gain[layout] = spared(context)
    own = np.full(host.size, -1, np.int64)
    own[nodes[[name == _INSTANCE for name, _ in operators]]] = 1
    inside = fetch(host.flow(own), launch) > 0
    if inside.any():
        # The backward pass knows it as a batch norm over a batch of one.
        codes = context.op_column(launch, "dims")
        single = np.array(
            [first_shape(text)[:1] == (1,) and len(first_shape(text)) >= _IMAGE for text in context.shape_texts],
            np.bool_,
        )
        norm = np.array(["batch_norm" in name for name in context.names], np.bool_)
        op = fetch(host.attributes.op, launch)
        named = (op >= 0) & norm[fetch(host.name, op)]
        inside |= named & (codes >= 0) & (single[codes] if len(single) else False)
    gain[inside] = 0
    return gain


def most_dims(context: Context) -> int | None:
    """Dimensions of the input of the convolutions that take most of the kernel time; None where unknown."""
    work, rows = context.recording.work, context.kernel_rows
    dims = convolution_dims(context, work.launch[rows])
    known = dims >= 0
    if not known.any():
        return None
    return int(np.bincount(dims[known], (work.end - work.start)[rows][known]).argmax())
