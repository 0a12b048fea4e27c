"""Compiled or eager: which compiler made the code that ran, and what share of the work ran in it."""

from __future__ import annotations

import re

import numpy as np

from advisor.intervals import Bools, distinct
from advisor.intervals import inside as within
from advisor.regex import regex
from advisor.timeline.calls import ANNOTATION, OP
from advisor.timeline.context import Context
from advisor.timeline.program.names import any_match, names_of

INDUCTOR, AOT, DYNAMO, TORCHSCRIPT, TENSORRT, XLA = "inductor", "aot", "dynamo", "torchscript", "tensorrt", "xla"
# Inductor names what it generates by its kind: pointwise, reductions, templates (torch 2.0: by its arguments); `cpp_fused` on
# the CPU.
_TRITON = r"^triton_(?:poi|red|per|tem|mm|bmm|for|unk|spl|flex|convolution)_|^triton__(?:\d+d)+|^triton_\d+(?:_|$)"
_INDUCTOR = regex(
    rf"{_TRITON}|^## Call CompiledFxGraph|^(?:graph_\d+_)?cpp_fused"
    r"|^inductor::"
)
_AOT = regex(
    r"^(?:autograd::engine::evaluate_function: )?CompiledFunction(?:Backward\d*)?$|^AOTDispatcher Runtime Wrapper"
)
_DYNAMO = regex(r"^Torch-Compiled Region|^TorchDynamo Cache Lookup$")
_TORCHSCRIPT = regex(
    r"^(?:prim::|TensorExpr|DifferentiableGraph|fallback_function$|CudaFusionGroup)|^fused_\w*_\d{15,}$|^nvfuser|^torch::jit::"
)
_TENSORRT = regex(r"^(?:tensorrt|trtorch)::|TRTEngine|ExecutionContext::enqueue|^torch_tensorrt", re.IGNORECASE)
_XLA = regex(r"^xla::|torch_xla|StepMarker")
_BY_NAME = (
    (TENSORRT, _TENSORRT),
    (XLA, _XLA),
    (INDUCTOR, _INDUCTOR),
    (AOT, _AOT),
    (DYNAMO, _DYNAMO),
    (TORCHSCRIPT, _TORCHSCRIPT),
)
# Inside these everything is compiled code; what a generated kernel's name says by itself needs no region around it.
_REGION = regex(
    rf"{_AOT.pattern}|^Torch-Compiled Region|^## Call CompiledFxGraph|{_TENSORRT.pattern}|{_TORCHSCRIPT.pattern}",
    re.IGNORECASE,
)
_GENERATED = regex(rf"{_TRITON}|^fused_\w*_\d{{15,}}$")
_LEAST_SCRIPTED = 0.05
_CALLS = regex(r"^(?:AOTDispatcher Runtime Wrapper|TorchDynamo Cache Lookup)")


def compiler(context: Context) -> str | None:
    """The compiler whose code ran; of several the one that does most. None where nothing shows one."""
    names = context.once(names_of)
    for name, pattern in _BY_NAME:
        if any_match(pattern, names.host) or any_match(pattern, names.kernels):
            return name if name != TORCHSCRIPT or _scripted(context) else None
    return None


def _scripted(context: Context) -> bool:
    """Tell whether functions that TorchScript runs take more than a little: one scripted helper makes no scripted program.

    Such a function is an event of its name around what TorchScript generates, and around the operators of its interpreter.
    """
    host, marks = context.recording.host, _flags(context, _TORCHSCRIPT)
    ops = np.flatnonzero(host.group == OP)
    if not len(ops):
        return True  # kernels alone: their names say it
    # One helper that is specialized takes long, once.
    later = ops[~within(context.waits.startup.spans(), host.start[ops])]
    ops = later if len(later) else ops
    around = distinct(host.parent[ops[marks[host.name[ops]]]])
    around = around[(around >= 0) & (host.group[around] == OP)]
    inside = marks[host.name]
    inside[around] = True
    below = host.flow(np.where(inside, 1, -1).astype(np.int8)) > 0
    own = host.own_ns(ops)
    return bool(own[below[ops]].sum() >= _LEAST_SCRIPTED * own.sum())


def compiled_share(context: Context) -> float | None:
    """Share of the GPU's kernel time (of operators' time, without a GPU) that compiled code launched; None for neither.

    Communication, which nobody compiles, is left out.
    0 where no compiler was seen. Work whose launch is unknown counts by its name alone.
    """
    host, work = context.recording.host, context.recording.work
    rows = context.kernel_rows[~work.communication[context.kernel_rows]]
    if compiler(context) is None:
        return 0.0 if len(rows) or len(context.op_rows) else None
    inside = context.once(inside_compiled)
    if len(rows):
        time = (work.end - work.start)[rows]
        generated = _flags(context, _GENERATED)[work.name[rows]]
        launch = work.launch[rows]
        if len(inside):
            generated = generated | ((launch >= 0) & inside[np.maximum(launch, 0)])
        total = int(time.sum())
        return float(time[generated].sum() / total) if total else None
    ops = np.flatnonzero(host.group == OP)
    own = host.own_ns(ops)
    total = int(own.sum())
    return float(own[inside[ops]].sum() / total) if total else None


def _flags(context: Context, pattern: re.Pattern[str]) -> Bools:
    return np.array([pattern.search(name[:500]) is not None for name in context.names], np.bool_)


def inside_compiled(context: Context) -> Bools:
    """Nodes at or below a compiled region."""
    host = context.recording.host
    if not host.size:
        return np.zeros(0, np.bool_)
    named = _flags(context, _REGION) & ~_flags(context, _CALLS)
    if not named.any():  # most programs are not compiled
        return np.zeros(host.size, np.bool_)
    regions = named[host.name] & np.isin(host.group, (OP, ANNOTATION))
    inside: Bools = host.flow(np.where(regions, 1, -1).astype(np.int8)) > 0
    return inside
