"""Convolutions with hundreds of weights for each output, computed directly where a Fourier transform takes far less arithmetic.

Directly, each output of a channel takes 2 operations for each weight (:mod:`advisor.roofline.convolutions`). By transforms of n
points it takes one of each input channel, each filter and each output channel, 2.5 n log2 n operations for real numbers (source:
FFTW's convention, https://www.fftw.org/speed/method.html), and 8 for each complex product and its addition, of which there are
n / 2 + 1 for each pair of channels. The gradient of input and weight takes up to three times that.
"""

from __future__ import annotations

import json
import math

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import typical
from advisor.frames.patterns.tree import HIGHEST, NOTHING, Occurrences, Tree
from advisor.frames.patterns.updates import Shape
from advisor.intervals import summed

_FORWARD, _BACKWARD = "aten::convolution", "aten::convolution_backward"
_BEHIND = {_FORWARD: (0, 3), _BACKWARD: (1, 4)}
"""Place of the input, and of the stride; the weight follows the one, padding and dilation the other."""
_TRANSFORMS = {_FORWARD: 1.0, _BACKWARD: 3.0}
_LEAST_TAPS = 32
_RATE_CPU, _RATE_GPU = 7.0, 200.0
"""Operations a ns that transforms reach. On the CPU one core reached 5 to 13 (eight sizes, torch 2.13 with MKL), and more cores
reach more; on GPUs it is a careful figure."""


def long_convolutions(tree: Tree) -> Occurrences | None:
    """One row per convolution without stride and dilation, forward or backward, of at least 32 weights for each output channel.

    ``repeats`` are those weights, ``part`` is what transforms spare of its time: all but what their operations take. Of like
    convolutions the median time tells it, so that one that was held up is no slower kind.
    """
    host = tree.host
    nodes = tree.ops(tree.codes_of(_BEHIND.__contains__))
    nodes = nodes[host.above(nodes, tree.codes_of(_BEHIND.__contains__)[host.name], HIGHEST) < 0]
    if not len(nodes):
        return None
    key = host.name[nodes].astype(np.int64) << 32 | tree.dims(nodes) & 0xFFFFFFFF
    values = tree.context.op_column(nodes, "concrete")
    known: dict[tuple[int, int], tuple[int, float] | None] = {}
    for one, value, node in zip(key.tolist(), values.tolist(), nodes.tolist(), strict=True):
        if (one, value) not in known:
            known[one, value] = _transformed(tree, node, value)
    sizes = [known[one] for one in zip(key.tolist(), values.tolist(), strict=True)]
    chosen = np.array([size is not None for size in sizes], np.bool_)
    nodes, key, values = nodes[chosen], key[chosen], values[chosen]
    kept = [size for size in sizes if size is not None]
    if not kept:
        return None
    inside = tree.launched_below(nodes)
    on_cpu = tree.context.cpu_program
    taken = summed(inside.row, (tree.work.end - tree.work.start)[inside.index], len(nodes))
    taken = host.ns(nodes) if on_cpu else taken
    _, kind = np.unique(np.stack([key, values]), axis=1, return_inverse=True)
    taken = typical(taken, kind.ravel())
    least = np.array([flops for _, flops in kept]) / (_RATE_CPU if on_cpu else _RATE_GPU)
    part = np.clip(1 - least / np.maximum(taken, 1), 0.0, 1.0)
    return Occurrences(
        kind="long-convolution",
        node=nodes,
        begin=host.start[nodes],
        end=host.end[nodes],
        inside=inside,
        own=inside,
        ops=tree.ops_below(nodes) if on_cpu else NOTHING,
        figures={
            "repeats": np.array([taps for taps, _ in kept], np.int64),
            "part": np.rint(part * MILLION).astype(np.int64),
            "dims": tree.dims(nodes),
        },
    )


def _transformed(tree: Tree, node: int, value: int) -> tuple[int, float] | None:
    """Return the weights for each output and the operations by transforms; None where it has a stride, or sizes are unknown."""
    name = tree.context.names[tree.host.name[node]]
    place, first = _BEHIND[name]
    operands = tree.shapes.operands(int(tree.dims(np.array([node]))[0]))
    numbers = _numbers(tree, value)
    if len(operands) < place + 2 or numbers is None or len(numbers) < first + 4:
        return None
    source, weight = operands[place : place + 2]
    rank = len(weight) - 2
    if rank not in (1, 2) or len(source) != len(weight) or 0 in (*source, *weight):
        return None
    stride, padding, dilation = (_spread(one, rank) for one in numbers[first : first + 3])
    if stride != dilation or stride != (1,) * rank or padding is None or numbers[first + 3] is not False:
        return None
    taps = math.prod(weight[2:])
    if taps < _LEAST_TAPS:
        return None
    return taps, _TRANSFORMS[name] * _operations(source, weight, padding)


def _operations(source: Shape, weight: Shape, padding: Shape) -> float:
    """Operations of a convolution by transforms of its padded input, each way up to the next eighth of a power of two.

    On one core (torch 2.13 with MKL) those sizes from 4,608 to 15,360 took as long for an operation as the powers between them.
    """
    points = math.prod(_fast(size + 2 * pad) for size, pad in zip(source[2:], padding, strict=True))
    batch, channels, outputs, each = source[0], source[1], weight[0], weight[1]
    transforms = batch * channels + outputs * each + batch * outputs
    return 2.5 * points * math.log2(points) * transforms + 8.0 * batch * outputs * each * (points // 2 + 1)


def _fast(size: int) -> int:
    """The next size that transforms are fast for, 8 to 16 times a power of two."""
    unit = 1 << max((size - 1).bit_length() - 4, 0)
    return -(-size // unit) * unit


def _numbers(tree: Tree, value: int) -> list[object] | None:
    """The recorded values of an operator's inputs; None where they were not recorded."""
    inputs = tree.context.recording.recorded.inputs
    try:
        texts = json.loads(bytes(inputs[value])) if 0 <= value < len(inputs) else None
        return [_value(text) for text in texts] if isinstance(texts, list) else None
    except (ValueError, RecursionError):
        return None


def _value(text: object) -> object:
    return json.loads(text.lower()) if isinstance(text, str) and text else None


def _spread(value: object, rank: int) -> Shape | None:
    """Return an argument with a number each way; None for what is none."""
    if not isinstance(value, list) or len(value) not in (1, rank) or not all(type(one) is int for one in value):
        return None
    if not all(0 <= one < 1 << 31 for one in value):
        return None
    return tuple(value) * (rank if len(value) == 1 else 1)
