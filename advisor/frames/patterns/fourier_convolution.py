"""Convolutions whose filters are the sines and cosines of a Fourier transform: a spectrogram as a convolution.

Of one channel, n weights for each filter, and n + 2 filters (n / 2 + 1 cosines, as many sines, in one convolution or in two) that
are not trained. A Fourier transform of each frame gives the same by n log n operations in place of n squared.
"""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.operands import numbers, worked
from advisor.frames.patterns.separable_windows import trained_filters
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree
from advisor.frames.patterns.updates import Shape
from advisor.timeline.calls import BACKWARD
from advisor.timeline.ledger import OWNED

_NAMES = frozenset({"aten::conv1d", "aten::convolution"})
_LEAST = 128
"""Weights of a filter: shorter transforms return little."""
_MOST = 50_000
_CALL_NS, _NS, _BACK_NS = 50_000.0, 5.0, 14.0
"""Time of torch.stft: of its calls, and for each number of its frames, without and with a backward pass."""


def fourier_convolutions(tree: Tree) -> Occurrences | None:
    """One row per convolution of that kind, in a program on the CPU.

    ``repeats`` are the frames, ``length`` the numbers of one, ``part`` what torch.stft does not take.
    """
    if not tree.context.cpu_program:
        return None
    host = tree.host
    nodes = tree.outermost[tree.codes_of(_NAMES.__contains__)[host.name[tree.outermost]]]
    nodes = nodes[host.attributes.phase[nodes] != BACKWARD]
    if not 0 < len(nodes) <= _MOST:
        return None
    concrete = tree.context.op_column(nodes, "concrete")
    facts = [
        _frames(tree.shapes.operands(dims), tree.texts(value))
        for dims, value in zip(tree.dims(nodes).tolist(), concrete.tolist(), strict=True)
    ]
    known = np.array([fact is not None for fact in facts], np.bool_)
    nodes, told = nodes[known], np.array([fact for fact in facts if fact is not None], np.int64).reshape(-1, 2)
    if not len(nodes):
        return None
    ops = worked(tree, Pairs(np.arange(len(nodes)), nodes), backward=np.ones(len(nodes), np.bool_))
    trained, back = trained_filters(tree, ops, len(nodes))
    row = np.cumsum(~trained) - 1
    ops = ops.where(~trained[ops.row])
    ops = Pairs(row[ops.row], ops.index)
    nodes, told, back = nodes[~trained], told[~trained], back[~trained]
    if not len(nodes):
        return None
    took = ops.total(tree.context.ledger.cost(len(tree.context.op_rows), *OWNED), len(nodes))
    left = _CALL_NS + np.where(back, _BACK_NS, _NS) * told.prod(axis=1)
    return Occurrences(
        kind="fourier-convolution",
        node=nodes,
        begin=host.start[nodes],
        end=host.end[nodes],
        inside=NOTHING,
        own=NOTHING,
        ops=ops,
        figures={
            "repeats": told[:, 0],
            "length": told[:, 1],
            "part": np.rint(np.maximum(1 - left / np.maximum(took, 1), 0) * MILLION).astype(np.int64),
            "dims": tree.dims(nodes),
        },
    )


def _frames(operands: tuple[Shape, ...], texts: list[str] | None) -> tuple[int, int] | None:
    """Frames of all signals, and the numbers of one, of a convolution that has the sizes of a transform; None for others."""
    if len(operands) < 2 or len(operands[0]) != 3 or len(operands[1]) != 3:
        return None
    (batch, channels, length), (filters, each, taps) = operands[:2]
    stride, padding, dilation = (numbers(texts, place) for place in (3, 4, 5))
    whole = channels == each == 1 and taps >= _LEAST and filters in (taps + 2, taps // 2 + 1)
    if not whole or not stride or stride[0] < 1 or not padding or dilation != (1,):
        return None
    frames = (length + 2 * padding[0] - taps) // stride[0] + 1
    return (batch * frames, taps) if batch * frames > 0 else None
