"""The work of a step: facts of the program that make two recordings alike, and where they differ not comparable."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from advisor.columns import Columns
from advisor.intervals import alike, summed
from advisor.regex import regex
from advisor.results.samples import Layer, Work
from advisor.timeline.engines import DECODE, DIFFUSION, MIXED, PREFILL, batch_of
from advisor.timeline.program.names import names_of

if TYPE_CHECKING:
    from advisor.trace import Trace

_MOST_LAYERS = 12
_MOST_KERNELS = 16
_NAME = 120
_OPERANDS = regex(r"\[([\d,\s]*)\]")
_LAYERS = {
    "aten::conv1d": (0, 1), "aten::conv2d": (0, 1), "aten::conv3d": (0, 1), "aten::linear": (0, 1), "aten::embedding": (1, 0),
}  # fmt: skip
"""Operators that a layer calls once in the forward pass, and which operands are its input and its weights."""
_PRODUCTS = {"aten::addmm": (1, 2), "aten::mm": (0, 1)}
"""Operators in their place where code was compiled."""


def work_of(trace: Trace) -> Work:
    """Collect what was computed, as far as the trace tells."""
    program = trace.program
    host = "host" in trace.features
    layers = _layers(trace) if "shapes" in trace.features else {}
    heaviest = sorted(layers.items(), key=lambda item: (-item[1].calls * _size(item[1].weights), item[0]))
    return Work(
        phase=_phase(trace) or (program.kind if program.kind != "unknown" else None),
        precision=program.precision,
        framework=program.framework,
        compiler=program.compiler or ("eager" if host else None),
        batch=trace.facts["loader_batch_size"],
        weights=round(sum(layer.calls * _size(layer.weights) for layer in layers.values()), 3) if layers else None,
        layers=dict(heaviest[:_MOST_LAYERS]),
        grids=_grids(trace),
    )


def _phase(trace: Trace) -> str:
    """Return what an engine was at, by the names of its iterations; empty where none has one."""
    seen = set[str]()
    for name in trace.context.once(names_of).annotations:
        if (batch := batch_of(name)) is not None and batch.phase != DIFFUSION:
            seen |= {PREFILL, DECODE} if batch.phase == MIXED else {batch.phase}
    return " and ".join(sorted(seen, reverse=True))


def _size(dims: list[int]) -> int:
    return prod(dims)


def _layers(trace: Trace) -> dict[str, Layer]:
    """Return the layers of the forward pass, by operator and weights: calls a step, and the sizes of what goes in."""
    ops = trace.columns("ops")
    forward = ~ops["backward"].to_numpy(np.bool_, na_value=False)
    for known in (_LAYERS, _PRODUCTS):
        chosen = ops.rows(forward & ops["name"].within(known), ("name", "shapes"))
        if len(chosen):
            return _by_weights(trace, chosen, known)
    return {}


def _by_weights(trace: Trace, chosen: Columns, known: dict[str, tuple[int, int]]) -> dict[str, Layer]:
    calls: Counter[tuple[str, tuple[int, ...]]] = Counter()
    inputs: dict[tuple[str, tuple[int, ...]], set[tuple[int, ...]]] = {}
    chosen = chosen.rows(chosen["shapes"].notna())
    first, group = alike(chosen["name"].values, chosen["shapes"].values)
    counts = summed(group, 1, len(first)).tolist()
    kinds = chosen.rows(first)
    for name, shapes, count in zip(kinds["name"].tolist(), kinds["shapes"].tolist(), counts, strict=True):
        operands = [
            tuple(int(size) for size in text.split(",") if size.strip()) for text in _OPERANDS.findall(str(shapes))
        ]
        data, weights = known[str(name)]
        if len(operands) <= max(data, weights) or not operands[data] or not operands[weights]:
            continue
        key = (str(name), operands[weights])
        calls[key] += count
        inputs.setdefault(key, set()).add(operands[data])
    steps = max(1, trace.step_count)
    return {
        f"{name} {'x'.join(map(str, weights))}": Layer(
            calls=round(count / steps, 3),
            weights=list(weights),
            inputs=[list(dims) for dims in sorted(inputs[name, weights])][:_MOST_LAYERS],
        )
        for (name, weights), count in calls.items()
    }


def _grids(trace: Trace) -> dict[str, list[float]]:
    """Return calls and thread blocks a step of the heaviest kernels whose grids were recorded."""
    kernels = trace.columns("kernels", ("grid_blocks", "class", "name", "dur_ns"))
    kernels = kernels.rows(
        kernels["grid_blocks"].notna() & kernels["name"].notna() & ~kernels["class"].equals("communication")
    )
    if not len(kernels):
        return {}
    first, group = alike(kernels["name"].values)
    ns, calls, blocks = (
        summed(group, amount, len(first)) for amount in (kernels["dur_ns"].values, 1, kernels["grid_blocks"].values)
    )
    heaviest = np.argsort(-ns, kind="stable")[:_MOST_KERNELS]
    steps = max(1, trace.step_count)
    names = kernels["name"][first[heaviest]].tolist()
    rows = zip(names, calls[heaviest].tolist(), blocks[heaviest].tolist(), strict=True)
    return {
        str(name)[:_NAME]: [round(float(calls) / steps, 3), round(float(blocks) / steps, 3)]
        for name, calls, blocks in rows
    }
