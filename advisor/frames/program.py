"""Facts of the program as columns of `trace`: rules choose their fix by them."""

from __future__ import annotations

from typing import Any

from advisor.frames.schema import flag, real, text
from advisor.timeline.context import Context
from advisor.timeline.program import program_of

COLUMNS = (
    text("kind", "training (a backward pass or an optimizer was seen), inference (a model's forward pass alone), unknown"),
    text("optimizers", "classes of the optimizers that stepped, joined by commas: as annotated, else by the step's fused "
         "kernels; NULL where unknown", "Optimizer.step#"),
    text("optimizer_form", "fused, foreach, or single (tensor by tensor); NULL where no optimizer was seen"),
    flag("fused_possible", "all of these optimizers are torch.optim's with fused=True; NULL where one is not torch's, or unknown"),
    flag("foreach_possible", "the same of foreach=True"),
    text("precision", "format of most of the time in products, convolutions and attention: fp64, fp32, tf32, fp16, bf16, fp8, "
         "fp4, int8; NULL where unknown"),
    flag("autocast_seen", "operators ran that autocast wraps"),
    text("parallelism", "ways the work is divided, joined by commas: ddp, fsdp, zero, tensor, pipeline, embedding, expert, "
         "data-parallel, collectives (of no such way); empty for none"),
    flag("ddp", "DistributedDataParallel wraps the model"),
    flag("fsdp", "FullyShardedDataParallel does, of either version"),
    text("gradient_dtype", "number format of most bytes that collectives reduce in the backward pass: fp32, bf16, fp16; NULL "
         "where unknown"),
    text("compiler", "whose code ran: inductor, aot (compiled and not fused), dynamo (another backend), torchscript, tensorrt, "
         "xla; NULL where nothing shows one"),
    real("compiled_share", "share", "of kernel time (of operators' time without a GPU): launched by compiled code; NULL where "
         "neither was recorded"),
    text("framework", "what runs the program: vllm, sglang, tensorrt-llm, tgi, diffusers, transformers, megatron, torchrec, "
         "lightning and others; NULL for plain PyTorch, or where nothing shows it"),
    text("frameworks", "all frameworks that left evidence, that one first, joined by commas; empty for none"),
    flag("engine", "the framework serves models: what to change is an option of its own"),
    text("trainer", "who runs the training loop, where it is not the user: transformers (its Trainer), lightning; NULL else"),
    text("model", "recommender, language or vision, where the operators leave no doubt; NULL else"),
    flag("bf16_capable", "the device has matrix units for bf16; NULL where unknown"),
    flag("fp8_capable", "the device has matrix units for fp8; NULL where unknown"),
    flag("compile_possible", "Triton makes code for the device (CUDA: capability 7.0); NULL where unknown"),
    flag("train_mode", "dropout or batch norms in training mode, in inference"),
    flag("model_on_cpu", "the model runs on the CPU beside a GPU that does next to nothing"),
    flag("generates", "a text was generated token by token: transformers' loop, or a cache that is concatenated with each token"),
    flag("aiter", "kernels of AITER ran, AMD's library for engines: by names of kernels and operators"),
    flag("slow_image_processor", "one of Hugging Face's image processors on arrays ran: not a fast one"),
    flag("own_attention", "models of transformers computed attention in their own forward, not through its attention interface"),
    flag("hf_pipeline", "one of transformers' pipelines ran the model: it makes its DataLoader and its copies itself"),
    flag("hf_chunks", "and one that cuts inputs into parts, which takes one loading process at most"),
)  # fmt: skip
_SAME = frozenset(column.name for column in COLUMNS) - {"parallelism", "ddp", "fsdp", "gradient_dtype", "frameworks"}
_ABLE = {"bf16_capable": "bf16", "fp8_capable": "fp8"}


def facts(context: Context) -> dict[str, Any]:
    """Headline facts, by column of `trace`; `collectives` has the number format of gradients."""
    program = context.once(program_of)
    return {name: getattr(program, _ABLE.get(name, name)) for name in _SAME} | {
        "parallelism": ", ".join(program.parallelism),
        "ddp": "ddp" in program.parallelism,
        "fsdp": "fsdp" in program.parallelism,
        "frameworks": ", ".join(program.frameworks),
    }
