"""Training or inference: the backward pass, the optimizer, the scaler, and layers left in training mode."""

from __future__ import annotations

import re

import numpy as np

from advisor.intervals import Bools, Ints, distinct, without
from advisor.regex import regex
from advisor.timeline.calls import OP
from advisor.timeline.context import Context
from advisor.timeline.operator_names import moves_no_data
from advisor.timeline.program.libraries import ENGINES, frameworks
from advisor.timeline.program.names import Names, any_match, names_of

TRAINING, INFERENCE, UNKNOWN = "training", "inference", "unknown"
_STEP = "Optimizer.step#"
# What a forward pass of any model runs, and a benchmark of copies or a set-up call does not.
_LAYERS = regex(
    r"^(?:aten|quantized|mkldnn|onednn)::_?(?:(?:mkl_|mkldnn_)?linear|addmm|(?:cudnn_|miopen_|mkldnn_"
    r"|thnn_|slow_)?conv|scaled_\w*mm|scaled_dot_product|embedding|lstm|gru|(?:native_)?(?:layer|batch|group)_norm)"
    r"|^(?:vllm|sgl_kernel|_C|aiter|trtllm|fbgemm|torchvision|xformers|flash_attn\w*)::"
)
# Products are a model's where something else is computed beside them: alone they may be anything, as compiled code may.
_PRODUCTS = regex(r"^(?:aten|quantized|mkldnn|onednn)::_?(?:bmm|baddbmm|mm|matmul|einsum)")
_COMPILED = regex(r"^CompiledFunction$|^## Call CompiledFxGraph|^Torch-Compiled Region")
_ALONE = regex(
    r"^aten::(?:empty|zeros|zero_|ones|fill_|full|rand|normal_|uniform_|copy_|to$|_to_copy|item|_local_scalar)"
)
_COMPUTES = regex(r"^[\w.]+::\w")
_GENERATED = 3
"""Kernels of different names from which on compiled code holds more than one operation of a user's."""
# Kernels that only a backward pass or an optimizer's step launches, for recordings of the GPU alone. Not dgrad: a transposed
# convolution runs it forward.
_BACKWARD_KERNEL = regex(r"[bB]ackward|_bwd(?![a-z])|bn_bw_|BatchNormBwd|wgrad|_wrw_")
_OPTIMIZER_KERNEL = regex(
    r"[aA]dam(?:W|Functor|_cuda|Capturable|MathFunctor)?\b|AdamFunctor|FusedSgd|FusedAdam|SGDFunctor|LAMBStage"
)
_SCALER = regex(r"_amp_foreach_non_finite_check|_amp_update_scale|amp_non_finite_check|amp_update_scale")
# Classes of torch.optim, and the forms that each of them has (torch 2.13).
FUSED = frozenset(("Adam", "AdamW", "SGD", "Adagrad"))
_FOREACH = FUSED | frozenset(("Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "Adafactor"))
# Without an annotation the step's own operators and kernels name the algorithm: apex' and torch's fused forms.
_BY_NAME = (
    ("FusedLAMB", regex(r"LAMBStage[12]Functor|fused_lamb", re.IGNORECASE)),
    ("AdamW", regex(r"^aten::_fused_adamw_")),
    ("Adam", regex(r"^aten::_fused_adam_|FusedAdamMathFunctor|fused_adam_cuda")),
    ("FusedAdam", regex(r"\bAdamFunctor|AdamCapturableFunctor|multi_tensor_adam|\badam_cuda_kernel")),
    ("Adagrad", regex(r"^aten::_fused_adagrad_")),
    ("SGD", regex(r"^aten::_fused_sgd_|FusedSgdMathFunctor")),
    ("FusedSGD", regex(r"\bSGDFunctor|multi_tensor_sgd")),
)
_FUSED_STEP = regex(
    r"^aten::_fused_(?:adam|adamw|sgd|adagrad)_|Fused(?:Adam|Sgd|Adagrad)MathFunctor|\bAdam(?:Capturable)?Functor|\bSGDFunctor|LAMBStage"
)
_DROPOUT = regex(r"^aten::(?:feature_|alpha_|feature_alpha_)?dropout_?$|^aten::(?:native_dropout|_fused_dropout)$")
_TRAINS = regex(rb'^\["[^"]*", ?"[^"]*", ?"True"\]$')
"""Concrete inputs of a dropout: the tensor, the rate, and whether it is in training."""
_BATCH_NORM = regex(
    r"^aten::(?:_batch_norm_impl_index|(?:cudnn|miopen|native)_batch_norm|_native_batch_norm_legit(?:_functional)?)$"
)
_STATISTICS = regex(
    r"batch_norm_collect_statistics|bn_fw_tr_|BatchNormFwdTrain|BatchNormFwdTrainSpatial|batchnorm_fwtr"
)
_CALL = regex(r"^aten::batch_norm$")
_WHOLE = frozenset(("longint", "long int", "long", "int64_t"))
_DRAWS = regex(r"^aten::(?:bernoulli_?|native_dropout|_fused_dropout|rand_like|empty_like)$")


def kind(context: Context) -> str:
    """``training``, ``inference``, or ``unknown`` where what was recorded shows neither."""
    names = context.once(names_of)
    if context.training() or _steps(names) or any(_SCALER.search(name) for name in names.host):
        return TRAINING
    if not names.ops and (any_match(_BACKWARD_KERNEL, names.kernels) or any_match(_OPTIMIZER_KERNEL, names.kernels)):
        return TRAINING
    if ENGINES.intersection(context.once(frameworks)):
        return INFERENCE
    if context.recording.recorded.truncated or not _shows_model(names):
        return UNKNOWN
    return INFERENCE


def _shows_model(names: Names) -> bool:
    """Tell whether what ran is a model's: layers, modules, or matrix products beside other work."""
    if any_match(_LAYERS, names.host) or any(file.startswith("nn.Module: ") for file in names.files):
        return True
    compiled = any_match(_COMPILED, names.host)
    if compiled and len(names.kernels) >= _GENERATED:
        return True
    if not any_match(_PRODUCTS, names.host):
        return False
    others = (name for name in names.ops if _COMPUTES.match(name) and not moves_no_data(name))
    return compiled or any(not _PRODUCTS.match(name) and not _ALONE.match(name) for name in others)


def optimizers(names: list[str] | tuple[str, ...]) -> str | None:
    """Classes of the optimizers that stepped, from ``Optimizer.step#Adam.step``, sorted and joined by commas."""
    classes = {name[len(_STEP) :].removesuffix(".step")[:100] for name in names if name.startswith(_STEP)}
    return ", ".join(sorted(classes)[:20]) or None


def implied_optimizers(names: Names) -> str | None:
    """The optimizers that the fused operators and kernels of the step imply, where no annotation names them."""
    found = [name for name, pattern in _BY_NAME if any_match(pattern, (*names.ops, *names.kernels))]
    return ", ".join(sorted(found)) or None


def optimizer_form(context: Context) -> str | None:
    """Way in which the step computes: ``fused``, ``foreach``, or ``single`` tensors; None where no optimizer was seen."""
    names = context.once(names_of)
    if any_match(_FUSED_STEP, (*names.ops, *names.kernels)):
        return "fused"
    if not _steps(names):
        return None
    if any(name.startswith(f"{_STEP}Fused") for name in names.host):
        return "fused"  # of apex and its like, by their classes' names
    foreach = [name for name in names.ops if name.startswith("aten::_foreach_")]
    # Clipping, scaling and zero_grad use these operators too, a step of single tensors beside them.
    telling = any(re.search(r"_(?:addcdiv|addcmul|lerp|add|mul)_", name) for name in foreach)
    return "foreach" if telling else "single"


def forms_of(optimizers: str | None) -> tuple[bool | None, bool | None]:
    """Tell whether every optimizer has a fused form, and a foreach form; None where one is not of torch.optim, or none is known."""
    classes = (optimizers or "").split(", ")
    if not set(classes) <= _FOREACH:
        return None, None
    return set(classes) <= FUSED, True


def scaler(context: Context) -> bool:
    """Tell whether a GradScaler's operators were seen."""
    return any_match(_SCALER, context.once(names_of).host)


def _steps(names: Names) -> bool:
    return any(name.startswith("Optimizer.step") for name in names.host) or any_match(_FUSED_STEP, names.ops)


def active_layers(context: Context) -> Ints:
    """Nodes of dropout and batch-norm operators that work in training mode, the outermost of each call.

    Dropout in evaluation, or with a rate of 0, hands its input on: the operator holds no other. A batch norm in training counts
    its batches (a whole number, added in place) or collects statistics. Instance norms compute on batch statistics in
    evaluation too.
    """
    host, names = context.recording.host, context.names
    ops = context.once(names_of)
    if not any_match(_DROPOUT, ops.ops) and not any_match(_BATCH_NORM, ops.ops):
        return np.zeros(0, np.int64)
    is_op = host.group == OP
    nodes = np.concatenate([_dropouts(context)[0], _batch_norms(context, is_op)])
    instance = np.array([name == "aten::instance_norm" for name in names], np.bool_)[host.name] & is_op
    return np.sort(nodes[host.above(nodes, instance, 4) < 0] if instance.any() else nodes)


def _named(context: Context, pattern: re.Pattern[str]) -> Bools:
    return np.array([pattern.search(name[:200]) is not None for name in context.names], np.bool_)[
        context.recording.host.name
    ]


def idle_dropouts(context: Context) -> Ints:
    """Nodes of dropouts whose recorded argument `train` is true and that draw nothing, as their rate is 0; beside one that draws.

    Alone they prove nothing: code that sets the rate to 0 in evaluation leaves the argument as it is.
    """
    if not any_match(_DROPOUT, context.once(names_of).ops) or "op" not in context.tables:
        return np.zeros(0, np.int64)
    drawn, nodes = _dropouts(context)
    texts, codes = context.recording.recorded.inputs, context.op_column(nodes, "concrete")
    train = np.array([*(_TRAINS.search(bytes(text)) is not None for text in texts), False], np.bool_)
    return nodes[train[codes]] if len(drawn) else nodes[:0]


def _dropouts(context: Context) -> tuple[Ints, Ints]:
    """Dropouts that draw random numbers, and those that do not, the outermost of each call."""
    host = context.recording.host
    is_op = host.group == OP
    dropout = is_op & _named(context, _DROPOUT)
    outer = dropout & ~((host.parent >= 0) & dropout[np.maximum(host.parent, 0)])
    drawing = np.flatnonzero(is_op & _named(context, _DRAWS) & (host.parent >= 0))
    above = host.above(drawing, outer, 3)
    drawn = distinct(above[above >= 0])
    return drawn, without(np.flatnonzero(outer), drawn)


def _batch_norms(context: Context, is_op: Bools) -> Ints:
    host, work = context.recording.host, context.recording.work
    norm = is_op & _named(context, _BATCH_NORM)
    outer = np.flatnonzero(norm & ~((host.parent >= 0) & norm[np.maximum(host.parent, 0)]))
    if not len(outer):
        return outer
    telling = np.array([_STATISTICS.search(name[:500]) is not None for name in context.names], np.bool_)
    launches = work.launch[telling[work.name] & (work.launch >= 0)] if len(work) else np.zeros(0, np.int64)
    flags = np.zeros(host.size, np.bool_)
    flags[outer] = True
    above = host.above(launches, flags, 6) if len(launches) else launches
    return np.union1d(above[above >= 0], _counted(context, outer, is_op))


def _counted(context: Context, outer: Ints, is_op: Bools) -> Ints:
    """Batch norms right before which ``num_batches_tracked`` was added to, a whole number: no operator between but theirs."""
    host, names = context.recording.host, context.names
    ops = np.flatnonzero(is_op)
    adds = np.array([name == "aten::add_" for name in names], np.bool_)[host.name[ops]]
    adding = ops[adds]
    whole = [code for code, name in enumerate(context.raw_dtypes) if name in _WHOLE]
    counting = np.zeros(host.size, np.bool_)
    counting[adding[np.isin(context.op_column(adding, "types"), whole)]] = True
    around = host.above(outer, is_op & _named(context, _CALL), 2)
    place = np.searchsorted(ops, np.where(around >= 0, around, outer))
    before = ops[np.maximum(place - 1, 0)]
    counted: Ints = outer[(place > 0) & counting[before] & (host.thread[before] == host.thread[outer])]
    return counted
