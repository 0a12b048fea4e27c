"""Recurrent layers: each weight matrix meets one vector at every step of every sequence.

Sources: torch.nn.LSTM, GRU and RNN (a layer multiplies its input and its hidden state: 2·gates·hidden·(inputs + hidden)
operations a step), the schemas of _cudnn_rnn, miopen_rnn and mkldnn_rnn_layer in native_functions.yaml. Backward, the gradients
of inputs and weights take as many each. The gates' pointwise arithmetic is counted only where a kernel of its own does it.
Bytes: input, weights, hidden states and output; the hidden state between steps may stay on the chip.
"""

from __future__ import annotations

import math

from advisor.roofline.signature import Signature, Tensor
from advisor.roofline.work import UNLISTED, Formula, Hints, Work, dense, finish


def _steps(source: Tensor) -> int:
    """Return the steps of all sequences together: [steps, batch, size], or [steps of all, size] where they are packed."""
    return math.prod(source.shape[:-1])


def _layer(backward: bool) -> Formula:
    """Return the formula of _cudnn_rnn and miopen_rnn: (input, weights, stride, [buffer], hx, cx, …)."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        source = signature.tensor(0)
        weights = signature.operand(1).tensors
        if source is None or len(source.shape) < 2:
            return None
        kind = source.type or hints.type
        hinted = hints._replace(type=hints.type or source.type)
        if not weights:
            return Work("recurrent", None, None, kind, False, UNLISTED)
        matrices = [tensor for tensor in weights if len(tensor.shape) == 2]
        outputs = _output(signature, matrices)
        result = dense((*source.shape[:-1], outputs), kind)
        times = 2 if backward else 1
        flops = 2 * times * _steps(source) * sum(tensor.elements for tensor in matrices)
        moved = [source, *weights, result]
        # Backward: the output's gradient comes in, those of the input and of the weights go out.
        moved += [result, source, *weights] if backward else []
        return finish("recurrent", flops, moved, hinted, arithmetic=kind)

    return formula


def _output(signature: Signature, matrices: list[Tensor]) -> int:
    """Return the size of a step's output: hidden state, of both directions where the last layer has two.

    Each direction of a layer has a matrix of its input and one of its hidden state; the last layer's input is as wide as
    an output, so two directions show in a second layer's width, else in four matrices for one layer.
    """
    hidden = matrices[1].shape[1] if len(matrices) > 1 else 0
    numbers = [operand.flag for operand in signature.operands if operand.value in ("True", "False")]
    both = numbers[-1] if len(numbers) >= 3 else False
    return hidden * (2 if both else 1)


def _mkldnn(signature: Signature, hints: Hints) -> Work | None:
    """mkldnn_rnn_layer(input, weight0, weight1, weight2, weight3, hx, cx, …): a layer, in one direction."""
    source, inner, hidden = (signature.tensor(at) for at in range(3))
    if source is None or inner is None or hidden is None or len(hidden.shape) != 2:
        return None
    others = [signature.tensor(at) for at in (3, 4, 5, 6)]
    result = dense((*source.shape[:-1], hidden.shape[1]), source.type)
    flops = 2 * _steps(source) * (inner.elements + hidden.elements)
    return finish("recurrent", flops, [source, inner, hidden, *others, result], hints, arithmetic=source.type)


def _mkldnn_backward(signature: Signature, hints: Hints) -> Work | None:
    """mkldnn_rnn_layer_backward(input, weight1, weight2, weight3, weight4, hx, cx, output, hy, cy, gradients …)."""
    forward = _mkldnn(signature, hints)
    source, inner, hidden = (signature.tensor(at) for at in range(3))
    if forward is None or forward.flops is None or source is None or inner is None or hidden is None:
        return None
    moved = [*signature.tensors, source, inner, hidden]
    return finish("recurrent", 2 * forward.flops, moved, hints, arithmetic=source.type)


def _cell(states: int) -> Formula:
    """Return the formula of _thnn_fused_lstm_cell(input_gates, hidden_gates, cx, …) and its like: the gates' arithmetic alone."""

    def formula(signature: Signature, hints: Hints) -> Work | None:
        gates, hidden, state = (signature.tensor(at) for at in range(3))
        if gates is None or hidden is None or state is None:
            return None
        # The states are written, and the gates as the backward pass needs them.
        written = [dense(state.shape, state.type)] * states + [dense(gates.shape, gates.type)]
        tensors = [gates, hidden, state, *written]
        return finish("pointwise", 4 * gates.elements, tensors, hints, arithmetic=gates.type, exact=False)

    return formula


FORMULAS: dict[str, Formula] = {
    "aten::_cudnn_rnn": _layer(False),
    "aten::miopen_rnn": _layer(False),
    "aten::_cudnn_rnn_backward": _layer(True),
    "aten::miopen_rnn_backward": _layer(True),
    "aten::_thnn_fused_lstm_cell": _cell(2),
    "aten::_thnn_fused_gru_cell": _cell(1),
    "aten::mkldnn_rnn_layer": _mkldnn,
    "aten::mkldnn_rnn_layer_backward": _mkldnn_backward,
}
