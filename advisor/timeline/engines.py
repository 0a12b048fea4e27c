"""Iterations of serving engines and diffusion pipelines, as these name them: what a batch is at, its sequences and tokens."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.regex import regex
from advisor.timeline.calls import ANNOTATION, OP
from advisor.timeline.context import Context

PREFILL, DECODE, MIXED, DIFFUSION = "prefill", "decode", "mixed", "diffusion"
# vLLM: execute_context_1(888_788544)_generation_0(0), execute_32_context_0(sq0sk0..)_generation_32(sq32sk32785..), in which the
# first figure of a bracket, or that behind sq, counts the tokens, and that behind sk the length of all sequences;
# execute_new_1_cached_31 counts requests alone.
_VLLM = regex(r"^execute_(?:\d+_)?context_(\d+)\((?:sq)?(\d+)[^)]*\)_generation_(\d+)\((?:sq)?(\d+)(?:sk(\d+))?[^)]*\)")
_VLLM_BARE = regex(r"^execute_(?:\d+_)?context_(\d+)\(.*\)_generation_(\d+)")
_VLLM_NEW = regex(r"^execute_new_(\d+)_cached_(\d+)")
# SGLang: step[DECODE bs=32], step[EXTEND bs=1 toks=512].
_SGLANG = regex(
    r"^step\[(?:(EXTEND|PREFILL)|(DECODE|TARGET_VERIFY)|MIXED)\b(?:[^\]]*?\bbs=(\d+))?(?:[^\]]*?\btoks=(\d+))?"
)
# TensorRT-LLM: [Executor] _forward_step 12: 3 ctx reqs, 10 gen reqs.
_TENSORRT = regex(r"^\[Executor\] _forward_step \d+: (\d+) ctx reqs, (\d+) gen reqs")
# xDiT: execute_diffusion_1_256x256.
_PIPELINE = regex(r"^execute_diffusion_(\d+)_\d+x\d+")
# vLLM's annotation is around the model alone. Behind it come sampling and drafting, in ranges of its own where these are
# switched on, and in a function that stacks show.
REST = regex(r"^gpu_model_runner: |\bvllm/v1/worker/(?:\w+/)?\w+\.py\(\d+\): sample_tokens$")
SAMPLING = regex(r"^gpu_model_runner: sample$")
# SGLang drafts in ranges before the batch that verifies, and extends the draft's cache behind it.
DRAFTING = regex(
    r"^gpu_model_runner: draft$|^draft(?:_extend)?$|\bvllm/v1/worker/(?:\w+/)?\w+\.py\(\d+\): propose_draft\w*$"
)
_HEADS = ("execute_", "step[", "[Executor] ")
"""With one of them all of these begin: a recording has thousands of other names."""


class Batch(Struct, frozen=True):
    """Batch of an iteration, by its annotation. Counts are None where the name does not tell."""

    phase: str
    engine: str
    sequences: int | None
    tokens: int | None
    context: int | None = None
    """Tokens of the sequences that decode, so far and in this batch, all together."""

    @property
    def drafted(self) -> bool:
        """True where drafts are verified: more tokens than the one that each sequence is to get."""
        known = self.sequences is not None and self.tokens is not None
        return self.phase == DECODE and known and (self.tokens or 0) > (self.sequences or 0)


class Iteration(Struct, frozen=True):
    """An iteration on the host: a forest node, and the batch."""

    node: int
    batch: Batch


def batch_of(name: str) -> Batch | None:
    """Read the name of an annotation; None where it is no iteration of a known engine."""
    if found := _VLLM.match(name):
        prompts, asked, others, generated = (int(number) for number in found.groups()[:4])
        return _counted("vLLM", prompts, others, asked + generated, int(found[5]) if found[5] else None)
    if found := _VLLM_BARE.match(name) or _VLLM_NEW.match(name):
        return _counted("vLLM", int(found[1]), int(found[2]), None)
    if found := _TENSORRT.match(name):
        return _counted("TensorRT-LLM", int(found[1]), int(found[2]), None)
    if found := _SGLANG.match(name):
        phase = PREFILL if found[1] else DECODE if found[2] else MIXED
        sequences = int(found[3]) if found[3] else None
        # Plain decoding takes a token of each sequence; verification of drafts takes more.
        tokens = int(found[4]) if found[4] else sequences if found[2] == "DECODE" else None
        return Batch(phase, "SGLang", sequences, tokens)
    if found := _PIPELINE.match(name):
        return Batch(DIFFUSION, "xDiT", int(found[1]), None)
    return None


def _counted(engine: str, prompts: int, others: int, tokens: int | None, context: int | None = None) -> Batch | None:
    """Tell the phase by the requests at their prompt and those past it; None for a batch of nothing."""
    if not prompts and not others:
        return None
    phase = MIXED if prompts and others else PREFILL if prompts else DECODE
    return Batch(phase, engine, prompts + others, tokens, context)


def iterations(context: Context) -> list[Iteration]:
    """Iterations in order of start. Of annotations inside each other the outermost counts; one inside gives what it lacks.

    Where annotations of one batch nest, the inner is the engine's own (SGLang writes vLLM's form around it): its name counts.
    """
    host, names = context.recording.host, context.names
    batches = {
        code: batch
        for code, name in enumerate(names)
        if name.startswith(_HEADS) and (batch := batch_of(name)) is not None
    }
    if not batches or not host.size:
        return []
    nodes = np.flatnonzero(np.isin(host.name, list(batches)) & ((host.group == OP) | (host.group == ANNOTATION)))
    chosen = np.zeros(host.size, np.bool_)
    chosen[nodes] = True
    found: dict[int, Batch] = {}
    inside: list[tuple[int, Batch]] = []
    for node, above in zip(nodes.tolist(), host.above(nodes, chosen).tolist(), strict=True):
        batch = batches[int(host.name[node])]
        if above < 0:
            found[node] = batch
        else:
            inside.append((above, batch))
    for above, batch in inside:
        outer = found.get(above)
        if outer is not None and outer.phase == batch.phase:
            found[above] = replace(
                batch,
                sequences=batch.sequences if batch.sequences is not None else outer.sequences,
                tokens=batch.tokens if batch.tokens is not None else outer.tokens,
            )
    order = sorted(found, key=lambda node: int(host.start[node]))
    return [Iteration(node, found[node]) for node in order]
