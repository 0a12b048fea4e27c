"""Facts of a program: training or inference, its precision, its compiler, its framework, its device. Worked out once a trace.

A fact is evidence in the trace (names of operators, annotations, Python functions and kernels, types of operands), never a
guess: what shows nothing stays None. Rules choose their fix by these facts.
"""

from __future__ import annotations

from msgspec import Struct

from advisor.timeline.context import Context
from advisor.timeline.program import compilation, learning, libraries, numbers, placement
from advisor.timeline.program.habits import anomalous, habits
from advisor.timeline.program.learning import INFERENCE, TRAINING, UNKNOWN, active_layers, idle_dropouts, optimizers
from advisor.timeline.program.names import names_of
from advisor.timeline.program.placement import proven_capability

__all__ = [
    "INFERENCE",
    "TRAINING",
    "UNKNOWN",
    "Program",
    "active_layers",
    "anomalous",
    "habits",
    "idle_dropouts",
    "optimizers",
    "program_of",
    "proven_capability",
]


class Program(Struct, frozen=True):
    """Facts of a program; the columns of `trace` and ``results.Program`` say what each of them means."""

    kind: str
    optimizers: str | None
    optimizer_form: str | None
    fused_possible: bool | None
    foreach_possible: bool | None
    precision: str | None
    autocast_seen: bool
    grad_scaler: bool
    parallelism: tuple[str, ...]
    world_size: int | None
    compiler: str | None
    compiled_share: float | None
    graphs: bool
    frameworks: tuple[str, ...]
    trainer: str | None
    model: str | None
    device_name: str | None
    vendor: str
    capability: float | None
    bf16: bool | None
    tf32: bool | None
    fp8: bool | None
    compile_possible: bool | None
    train_mode: bool
    model_on_cpu: bool
    generates: bool
    aiter: bool
    slow_image_processor: bool
    hf_pipeline: bool
    hf_chunks: bool
    own_attention: bool

    @property
    def framework(self) -> str | None:
        """The framework that runs the program; None for plain PyTorch."""
        return self.frameworks[0] if self.frameworks else None

    @property
    def engine(self) -> bool:
        """True for frameworks that serve models."""
        return not libraries.ENGINES.isdisjoint(self.frameworks)


def program_of(context: Context) -> Program:
    """Find the facts of a recording's program."""
    names = context.once(names_of)
    kind = learning.kind(context)
    named = optimizers(names.annotations) or optimizers(names.ops) or learning.implied_optimizers(names)
    fused, foreach = learning.forms_of(named)
    name, vendor, able = placement.device(context)
    listed = context.metadata.devices
    entry = context.recording.device_properties(context.device) if context.device >= 0 else next(iter(listed), None)
    return Program(
        kind=kind,
        optimizers=named,
        optimizer_form=learning.optimizer_form(context),
        fused_possible=fused,
        foreach_possible=foreach,
        precision=numbers.precision(context),
        autocast_seen=numbers.autocast_seen(context),
        grad_scaler=learning.scaler(context),
        parallelism=libraries.parallelism(context),
        world_size=context.metadata.world_size,
        compiler=compilation.compiler(context),
        compiled_share=compilation.compiled_share(context),
        graphs=bool(len(context.graph_nodes)),
        frameworks=context.once(libraries.frameworks),
        trainer=libraries.trainer(context),
        model=libraries.model(context),
        device_name=name,
        vendor=vendor,
        capability=entry.capability if entry is not None and vendor == "nvidia" else proven_capability(context),
        bf16=able.bf16,
        tf32=able.tf32,
        fp8=able.fp8,
        compile_possible=able.compiles,
        train_mode=kind == INFERENCE and bool(len(context.once(active_layers))),
        model_on_cpu=placement.model_on_cpu(context),
        generates=libraries.generates(context),
        aiter=libraries.aiter(names),
        slow_image_processor=libraries.slow_image_processor(names),
        hf_pipeline=libraries.hf_pipeline(names),
        hf_chunks=libraries.hf_chunks(names),
        own_attention=libraries.own_attention(names),
    )
