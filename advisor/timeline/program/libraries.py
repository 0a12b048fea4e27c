"""Frameworks, ways to divide the work among processes, and the kind of model: by evidence in names, never by guess."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from advisor.intervals import distinct
from advisor.regex import regex
from advisor.timeline.context import Context
from advisor.timeline.program.names import Names, any_match, names_of

_NEVER = ""
"""Stands for no name: a framework that only its Python shows."""


# The first is what a report calls the program: an engine before the library whose models it runs. Of each: what its operators
# and kernels are called, what its annotations are, and where its Python lies.
_FRAMEWORKS = tuple(
    (name, regex("|".join(filter(None, (operators, annotations)))) if operators or annotations else None, frozenset(folders))
    for name, operators, annotations, folders in (
        ("sglang", r"^(?:sgl_kernel|sglang)::|sgl_hip|\bsgl_kernel", r"^step\[(?:DECODE|EXTEND|PREFILL|MIXED|IDLE|TARGET_VERIFY)",
         ("sglang", "sgl_kernel",)),
        ("vllm", r"^(?:vllm|_vllm_\w+)::|\bvllm::", r"^execute_(?:context_|new_|\d+_context_)\d+", ("vllm",)),
        # Not by kernels: other engines run its too.
        ("tensorrt-llm", r"^(?:trtllm|tensorrt_llm)::\w+$", r"^\[Executor\] _forward_step \d", ("tensorrt_llm",)),
        ("tgi", _NEVER, _NEVER, ("text_generation_server",)),
        ("diffusers", _NEVER, r"^execute_diffusion_", ("diffusers", "xfuser",)),
        ("nemo", _NEVER, _NEVER, ("nemo",)),
        ("megatron", r"^_(?:Reduce|Copy|Gather|Scatter)(?:From|To)(?:Model|Sequence|TensorModel)ParallelRegion"
         r"|^(?:LinearWithGradAccumulationAndAsyncCommunication|_VocabParallelCrossEntropy)(?:Backward)?$", _NEVER,
         ("megatron",)),
        ("torchrec", r"^All2All_(?:Pooled|Seq)_|^ReduceScatterBase_(?:Req|Wait)$|^fbgemm::(?:split_embedding|permute_\w*sparse)",
         r"^## (?:sparse_data_dist|wait_sparse_data_dist|sdd_|recmetrics)|^\[(?:splits|output)_dist", ("torchrec",)),
        ("torchtitan", _NEVER, _NEVER, ("torchtitan",)),
        ("fairseq", _NEVER, _NEVER, ("fairseq", "fairseq2",)),
        ("lightning", _NEVER, r"^\[pl\]\[|^\[(?:Strategy|LightningModule|Callback|LightningDataModule)\]",
         ("pytorch_lightning", "lightning",)),
        ("mmengine", _NEVER, _NEVER, ("mmengine", "mmcv",)),
        ("detectron2", _NEVER, _NEVER, ("detectron2",)),
        ("ultralytics", _NEVER, _NEVER, ("ultralytics",)),
        ("deepspeed", r"DeepSpeed|deepspeed", r"^Optimizer\.step#DeepSpeed", ("deepspeed",)),
        ("transformers", _NEVER, _NEVER, ("transformers",)),
        ("accelerate", _NEVER, _NEVER, ("accelerate",)),
        ("torch-geometric", r"^(?:torch_scatter|torch_sparse|pyg)::", _NEVER, ("torch_geometric",)),
        ("timm", _NEVER, _NEVER, ("timm",)),
    )
)  # fmt: skip
ENGINES = frozenset(("vllm", "sglang", "tensorrt-llm", "tgi"))
"""Frameworks that serve models: what to change is an option of theirs."""

# A class of Hugging Face's image processors that works on arrays of the CPU, image by image.
_SLOW_PROCESSOR = regex(r"transformers/(?:image_transforms\.py|models/\w+/image_processing_(?!\w*_fast)\w+\.py)$")

_ATTENDS, _GROWS = ("aten::scaled_dot_product_attention",), "aten::cat"
# Composable Kernel's attention comes with torch and flash-attn as well; its normalizations and experts with AITER alone.
_AITER_KERNEL = regex(r"(?<![a-zA-Z])aiter|^_ZN5aiter|ck_tile\S*(?:[rR]ms[nN]orm|[lL]ayer[nN]orm|[mM]oe)")
_AITER_OP = regex(r"^aiter::|^vllm::rocm_aiter")

_OF_QUERIES_AND_KEYS = regex(rb"\[\[([\d,\s]+)\],\s*\[([\d,\s]+)\]")
_CHOOSES = ("aten::argmax", "aten::multinomial")
_CHOICES = 4
"""Choices of a token from which on they are a loop, and lengths of what one query is compared with."""
_CHUNKS = regex(
    r"transformers/pipelines/(?:automatic_speech_recognition|mask_generation|token_classification|zero_shot_classification|"
    r"zero_shot_object_detection|(?:document_)?question_answering)\.py"
)

WRAPPERS = ("ddp", "fsdp", "zero")
_PARALLEL = tuple(
    (name, regex(pattern))
    for name, pattern in (
        ("ddp", r"^DistributedDataParallel\.|^torch(?:\.|::)distributed(?:\.ddp\.|::)reducer::|nn\.Module: DistributedDataParallel"
         r"|torch/nn/parallel/distributed\.py$"),
        ("fsdp", r"^FullyShardedDataParallel\.|^FSDP::|^fsdp::|nn\.Module: FullyShardedDataParallel"
         r"|torch/distributed/(?:fsdp|_composable/fsdp)/"),
        ("zero", r"DeepSpeedZeroOptimizer|deepspeed/runtime/zero/stage|ZeroRedundancyOptimizer"),
        ("tensor", r"^_(?:Reduce|Copy|Gather|Scatter)(?:From|To)(?:Model|Sequence|TensorModel)ParallelRegion"
         r"|^LinearWithGradAccumulationAndAsyncCommunication|^vllm::all_reduce|torch/distributed/tensor/"
         r"|cross_device_reduce|custom_all_reduce"),
        ("pipeline", r"^c10d::(?:send|recv_?|recv_any_source_?)$|torch/distributed/pipelining/"),
        ("embedding", r"^All2All_(?:Pooled|Seq)_|^## (?:sparse_data_dist|wait_sparse_data_dist|sdd_)"),
        ("expert", r"^(?!.*\.py$).*(?:\bdeep_ep\b|deepep|moe_(?:all_?to_?all|dispatch))"),
    )
)  # fmt: skip
_COLLECTIVE = regex(
    r"^c10d::|^record_param_comms$|^_?c10d_functional::|^(?:nccl|gloo|mpi|ucc|hccl|xccl):|\bnccl(?:Dev|_)?Kernel"
)
_COMMUNICATES = regex(r"(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|send|recv)", re.IGNORECASE)


def frameworks(context: Context) -> tuple[str, ...]:
    """Frameworks that left evidence, the one that runs the program first; none for plain PyTorch."""
    names = context.once(names_of)
    called = (*names.ops, *names.annotations, *names.kernels)
    return tuple(
        name
        for name, own, folders in _FRAMEWORKS
        if not folders.isdisjoint(names.folders) or (own is not None and any_match(own, called))
    )


def generates(context: Context) -> bool:
    """Tell whether text was generated token by token: by transformers' loop, or by a cache that grows with each token.

    A cache of keys and one of values are concatenated for each attention, and tokens are chosen again and again. Of a cache
    that has its memory from the start the queries tell: one of each sequence, against keys of many lengths.
    """
    names = context.once(names_of)
    if "generation" in names.folders and any("transformers/generation/" in file for file in names.files):
        return True
    table = context.tables.get("op")
    if table is None or context.training():
        return False
    counts = dict.fromkeys((*_ATTENDS, *_CHOOSES, _GROWS), 0)
    for code, count in zip(*np.unique(table["name"], return_counts=True), strict=True):
        if context.names[code] in counts:
            counts[context.names[code]] = int(count)
    attends, chosen = (sum(counts[name] for name in group) for group in (_ATTENDS, _CHOOSES))
    if chosen >= _CHOICES and attends >= 2 * chosen and counts[_GROWS] >= 2 * attends:
        return True
    return attends >= _CHOICES and _lengths(context) >= _CHOICES


def _lengths(context: Context) -> int:
    """Count the lengths of keys that single queries are compared with, at most as many for one kind of sequences."""
    table = context.tables["op"]
    attention = np.array([name in _ATTENDS for name in context.names], np.bool_)
    raws = context.recording.recorded.raws
    lengths: dict[tuple[bytes, ...], set[bytes]] = {}
    for code in distinct(table["dims"][attention[table["name"]]]).tolist():
        found = _OF_QUERIES_AND_KEYS.match(raws[code]) if code >= 0 else None
        if found is None:
            continue
        query, keys = (part.replace(b" ", b"").split(b",") for part in found.groups())
        if len(query) == len(keys) == 4 and query[2] == b"1":
            lengths.setdefault((*query, *keys[:2], keys[3]), set()).add(keys[2])
    return max(map(len, lengths.values()), default=0)


def trainer(context: Context) -> str | None:
    """Name the library that runs the training loop, where its Python shows it; None for a loop of the user's own."""
    names = context.once(names_of)
    if "transformers" in names.folders and any(file.endswith("transformers/trainer.py") for file in names.files):
        return "transformers"
    return "lightning" if "lightning" in context.once(frameworks) else None


def hf_chunks(names: Names) -> bool:
    """Tell whether that pipeline cuts inputs into parts: such ones take a single loading process, whatever they are told."""
    return hf_pipeline(names) and any(_CHUNKS.search(file) for file in names.files)


def hf_pipeline(names: Names) -> bool:
    """Tell whether one of transformers' pipelines ran the model, which makes its DataLoader and its copies itself."""
    return "transformers" in names.folders and any("transformers/pipelines/" in file for file in names.files)


def own_attention(names: Names) -> bool:
    """Tell whether models of transformers computed attention in their own forward, and not through its attention interface.

    The functions of the interface are called by name from a model's forward; a class without it takes no other attention.
    """
    models = any("transformers/models/" in file and "/modeling_" in file for file in names.files)
    return models and not any(name.endswith("attention_forward") for name in names.functions)


def aiter(names: Names) -> bool:
    """Tell whether AITER ran: its operators, kernels with its name, or those of Composable Kernel that no one else builds in."""
    return any_match(_AITER_KERNEL, names.kernels) or any_match(_AITER_OP, names.ops)


def slow_image_processor(names: Names) -> bool:
    """Tell whether one of Hugging Face's slow image processors ran."""
    return "transformers" in names.folders and any_match(_SLOW_PROCESSOR, names.files)


def parallelism(context: Context) -> tuple[str, ...]:
    """Ways in which the work is divided: ``collectives`` alone where processes communicate in no way that has a name.

    Of a run of one process only the wrappers are named, which change its code, and no way to divide what is not divided.
    """
    names = context.once(names_of)
    files = [
        file for file in names.files if file.startswith("nn.Module: ") or "distributed" in file or "deepspeed" in file
    ]
    seen = (*names.ops, *names.annotations, *names.kernels, *files)
    alone = context.metadata.world_size == 1
    found = [name for name, pattern in _PARALLEL if not (alone and name not in WRAPPERS) and any_match(pattern, seen)]
    # In one process: the operators of nn.DataParallel, which autograd names by their classes.
    if {"Scatter", "Gather"} <= names.host and names.has("Broadcast", "Scatter"):
        found.append("data-parallel")
    if not found and not alone and any_match(_COLLECTIVE, _communicating(names)):
        found.append("collectives")
    return tuple(found)


def _communicating(names: Names) -> Iterable[str]:
    return (name for name in (*names.ops, *names.annotations, *names.kernels) if _COMMUNICATES.search(name))


RECOMMENDER, LANGUAGE, VISION = "recommender", "language", "vision"
_TABLES = regex(r"embedding_bag|^fbgemm::|^All2All_Pooled|split_embedding|pooled_embs|dlrm|merlin", re.IGNORECASE)
_ATTENTION = regex(
    r"scaled_dot_product|flash_attn|flash_fwd|fmha|^aten::_?softmax$|paged_attention|attn_fwd|Softmax$|SDPA",
    re.IGNORECASE,
)
_TOKENS = regex(
    r"^aten::embedding$|^vllm::|_VocabParallel|rotary_embedding|reshape_and_cache|vocab_parallel", re.IGNORECASE
)
_IMAGES = regex(r"^aten::(?:conv[23]d|max_pool[23]d|adaptive_avg_pool[23]d|_?slow_conv[23]d|thnn_conv2d)")


def model(context: Context) -> str | None:
    """``recommender``, ``language`` or ``vision`` where the operators leave no doubt; None for others and for mixtures."""
    names = context.once(names_of)
    seen = (*names.ops, *names.annotations, *names.kernels)
    if any_match(_TABLES, seen):
        return RECOMMENDER
    tokens = any_match(_TOKENS, seen) and any_match(_ATTENTION, seen)
    images = any_match(_IMAGES, names.ops)
    if tokens == images:
        return None
    return LANGUAGE if tokens else VISION
