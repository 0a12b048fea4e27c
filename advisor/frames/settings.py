"""Settings of the program, as ``advisor record`` wrote them: columns of `trace`, and the frame `settings` with a row a setting.

Without the recorder all of it is NULL, and the frame is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from advisor.columns import Columns
from advisor.frames import optimizers
from advisor.frames.frame import Frame
from advisor.frames.schema import Schema, flag, integer, real, text
from advisor.frames.values import typed
from advisor.frames.worker_time import worker_time
from advisor.intervals import summed
from advisor.privacy import clean_path
from advisor.reading.program_settings import (
    BF16,
    OPTIMIZER_STEPS,
    STACKS_APART,
    Autocast,
    Loader,
    Recorded,
    reach_between,
)
from advisor.timeline.context import Context
from advisor.timeline.unprofiled import unprofiled
from advisor.timeline.waits import LOADER

_BY = "advisor record"
_ENOUGH = 3
_AS_RECORDED = (
    "cores", "threads", "processor", "quantized_engine", "tf32_matmul", "tf32_cudnn", "cudnn_benchmark", "deterministic",
    "backwards_per_step", "unprofiled_growth_bytes", "waited_share", "others_cores", "own_cores", "workers_cores",
    "worker_fetch_ms",
)  # fmt: skip
_OF_LOADERS = ("workers", "batch_size", "prefetch", "pin_memory", "persistent", "remade")
_WAITED = "of the loaders of the kind that the trace waits for (with workers or without)"

COLUMNS = (
    flag("settings_recorded", "`advisor record` wrote the program's settings into the trace: the columns from here on"),
    integer("cores", "", "CPU cores that the process may use; NULL where not recorded", _BY),
    real("waited_share", "share", "of the recorded time: the thread that waited most was ready to run, and had no core; NULL where "
         "not recorded", _BY),
    real("others_cores", "", "cores that other programs took meanwhile, on average; NULL likewise", _BY),
    real("own_cores", "", "cores that the process took itself, on average; NULL likewise", _BY),
    real("workers_cores", "", "cores that the processes took that it started, such as the loader's workers; NULL likewise", _BY),
    real("worker_fetch_ms", "ms", "what a worker of a loader takes to put a batch together, in the median, with its waits for "
         "storage or for a core; NULL where not recorded", _BY),
    text("workers_work", "work that takes two fifths of the workers' processor time and more, the most: decodes (reading, decoding "
         "and resizing), reads (the same without resizing), large (other work on pictures of twice the pixels delivered, and "
         "more), same (a function whose arguments came in an earlier batch, and which draws nothing random), else other; NULL "
         "where no line is known", _BY),
    integer("threads", "", "threads that an operator on the CPU uses; NULL where not recorded", _BY),
    text("processor", "model of the processor; NULL where not recorded", _BY),
    text("instruction_sets", "of avx2, avx512_bf16, amx_bf16, sve and their like what the processor has, joined by commas; NULL "
         "where not recorded", _BY),
    flag("bf16_in_hardware", "the processor multiplies bfloat16: amx_bf16, avx512_bf16, or ARM's bf16; NULL where not recorded",
         _BY),
    real("resident_share", "share", "most memory that the process held until the end of the recording, over the machine's; NULL "
         "where not recorded", _BY),
    integer("unprofiled_growth_bytes", "bytes", "growth a step of what the process holds, in the steps before the profiler "
            "began; NULL where not recorded, and where it uses a GPU", _BY),
    text("quantized_engine", "torch.backends.quantized.engine; NULL where not recorded", _BY),
    integer("loader_workers", "", f"worker processes {_WAITED}; NULL where they differ or none was recorded", _BY),
    integer("loader_batch_size", "", f"batch size {_WAITED}; NULL likewise, or where the sampler decides", _BY),
    integer("loader_prefetch", "", f"batches that each worker keeps ready, {_WAITED}; NULL likewise", _BY),
    flag("loader_pin_memory", f"batches are pinned: {_WAITED}; NULL likewise", _BY),
    flag("loader_persistent", f"workers outlive the epoch: {_WAITED}; NULL likewise", _BY),
    flag("loader_remade", f"a loader is made for each pass, so that its workers end with it: {_WAITED}; NULL likewise", _BY),
    flag("optimizer_fused", "all optimizers that stepped have fused=True; false if none; NULL else or where not recorded", _BY),
    text("autocast", "dtypes of autocast regions entered, joined by commas; empty where none was; NULL where not recorded", _BY),
    text("compile_modes", "modes of the calls of torch.compile, likewise", _BY),
    flag("compiled_static", "torch.compile was called with dynamic=False; NULL where not recorded", _BY),
    flag("tf32_matmul", "fp32 matrix products may use TF32; NULL where not recorded", _BY),
    flag("tf32_cudnn", "fp32 convolutions may use TF32; NULL where not recorded", _BY),
    flag("cudnn_benchmark", "cuDNN searches for the fastest algorithm; NULL where not recorded", _BY),
    flag("deterministic", "deterministic algorithms were asked for; NULL where not recorded", _BY),
    real("backwards_per_step", "", "backward passes per step of the optimizer; as recorded, else as the operators' order tells; "
         "NULL without marks of both"),
    real("unrecorded_share", "share", "of the program's time, work between bursts of optimizer steps (an evaluation, a rollout) of "
         "which the recorded steps hold nothing; NULL where not recorded, and where steps come in no bursts", _BY),
    real("unprofiled_step_ns", "ns", "median step of the same run without the profiler; NULL where not recorded", _BY),
    real("profiled_excess_share", "share", "what steps are longer, by medians or by the shortest, the less; NULL under three", _BY),
    flag("stacks_apart", "the stacks are from a pass of their own, and slowed none of these steps; NULL where not recorded", _BY),
)  # fmt: skip
"""Columns of `trace` that only the recorder fills."""

FIGURES = (
    real("loader_ns", "ns", "median over the steps that step_ns is of: time in waits for batches; NULL without steps or waits"),
    real("fed_step_ns", "ns", "median over these steps: what is left without the time that the loader owns; NULL without steps; "
         "of the steps without the profiler where only those show that workers are too slow"),
    real("loading_step_ns", "ns", "step_ns, or likewise the step without the profiler; NULL without steps"),
)  # fmt: skip
"""Columns of `trace` beside them, from its events: what advice on a setting is worked out from."""

SCHEMA = Schema(
    "settings",
    "a setting of the program, as `advisor record` saw it",
    (
        text("of", "what it is a setting of: DataLoader, the class of an optimizer, torch.compile; NULL for the whole program"),
        integer("number", "", "which of these, from 0"),
        text("name", "its name, as the program writes it", _BY),
        text("value", "its value, as Python writes it", _BY),
        integer("workers", "", "the worker processes of the DataLoader whose setting it is; NULL for other settings"),
        text("file", "source file of the user's call that set it; NULL where unknown", _BY),
        integer("line", "", "line of that call; NULL where unknown", _BY),
    ),
)  # fmt: skip

Row = tuple[str | None, int, str, str, int | None, str | None, int | None]


def build(context: Context) -> Columns:
    """The frame `settings`."""
    settings = context.metadata.recorded
    rows = list(_rows(settings, _regions(settings, context))) if settings else []
    return Columns({column.name: typed([row[at] for row in rows], column) for at, column in enumerate(SCHEMA.columns)})


def _regions(settings: Recorded, context: Context) -> list[Autocast]:
    """The autocast regions of the device that the program computes on."""
    return [region for region in settings.autocast if (region.device == "cpu") == context.cpu_program]


def _rows(settings: Recorded, regions: Sequence[Autocast]) -> Iterator[Row]:
    for at, loader in enumerate(settings.loaders):
        where = (loader.workers, *_place(loader.file, loader.line))
        yield "DataLoader", at, "num_workers", str(loader.workers), *where
        yield "DataLoader", at, "pin_memory", str(loader.pin_memory), *where
        yield "DataLoader", at, "prefetch_factor", str(loader.prefetch), *where
        yield "DataLoader", at, "persistent_workers", str(loader.persistent), *where
        yield "DataLoader", at, "batch_size", str(loader.batch_size), *where
    for at, optimizer in enumerate(settings.optimizers):
        for name, flagged in (("foreach", optimizer.foreach), ("fused", optimizer.fused)):
            yield optimizer.kind, at, name, str(flagged), None, *_place(optimizer.file, optimizer.line)
    for at, call in enumerate(settings.compiled):
        arguments = {"mode": repr(call.mode), "dynamic": str(call.dynamic), "fullgraph": str(call.fullgraph)}
        for name, written in arguments.items():
            yield "torch.compile", at, name, written, None, *_place(call.file, call.line)
    for at, region in enumerate(regions):
        yield None, at, "torch.autocast", region.dtype, None, *_place(region.file, region.line)
    if not regions:
        yield None, 0, "torch.autocast", "never entered", None, None, None
    by_name = {
        "CPU cores": settings.cores,
        "torch.get_num_threads()": settings.threads,
        "torch.backends.cuda.matmul.allow_tf32": settings.tf32_matmul,
        "torch.backends.cudnn.allow_tf32": settings.tf32_cudnn,
        "torch.backends.cudnn.benchmark": settings.cudnn_benchmark,
        "deterministic algorithms": settings.deterministic,
        "backward passes per optimizer step": settings.backwards_per_step,
    }
    for name, value in by_name.items():
        if value is not None:
            yield None, 0, name, f"{value:g}" if isinstance(value, float) else str(value), None, None, None


def _place(file: str, line: int) -> tuple[str | None, int | None]:
    return (clean_path(file), line or None) if file else (None, None)


def facts(context: Context) -> dict[str, Any]:
    """The columns of `trace` that the recorder fills."""
    settings = context.metadata.recorded
    if settings is None:
        none = {column.name: None for column in COLUMNS}
        return {**none, "settings_recorded": False, "backwards_per_step": optimizers.backwards_each(context)}
    loaders = _loaders_in_use(settings.loaders, context)
    fused = _common(optimizer.fused is True for optimizer in settings.optimizers)
    bare = float(np.median(settings.unprofiled_step_ms)) * 1e6 if settings.unprofiled_step_ms else None
    sets = settings.instruction_sets
    return {
        "settings_recorded": True,
        **{name: getattr(settings, name) for name in _AS_RECORDED},
        "workers_work": work.kind if (work := worker_time(settings)) else None,
        "instruction_sets": None if sets is None else ", ".join(sets),
        "resident_share": _over(settings.peak_resident_bytes, settings.memory_bytes),
        "bf16_in_hardware": None if sets is None else not BF16.isdisjoint(sets),
        **{f"loader_{name}": _common(getattr(loader, name) for loader in loaders) for name in _OF_LOADERS},
        "backwards_per_step": _backwards(settings.backwards_per_step, context),
        "optimizer_fused": fused,
        "autocast": ", ".join(sorted({region.dtype for region in _regions(settings, context)})),
        "compile_modes": ", ".join(sorted({call.mode for call in settings.compiled})),
        "compiled_static": any(call.dynamic is False for call in settings.compiled),
        "unrecorded_share": _unrecorded(settings, context),
        "unprofiled_step_ns": bare,
        "profiled_excess_share": _excess(context, settings.unprofiled_step_ms),
        "stacks_apart": None if settings.stacks is None else settings.stacks == STACKS_APART,
    }


def _unrecorded(settings: Recorded, context: Context) -> float | None:
    """Return the part of the time that lies between bursts of optimizer steps; None where the recording holds some of it."""
    steps = len(context.recording.steps)
    if settings.steps_by != OPTIMIZER_STEPS or reach_between(steps, settings.steps_burst):
        return None
    return settings.between_share


def _over(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


def _backwards(recorded: float | None, context: Context) -> float | None:
    """Return the backward passes of a step of an optimizer. The recorder counts those of a step of the loop.

    Where several optimizers step in it, each has passes of its own: a critic's and an actor's are no batch taken in parts.
    """
    if recorded is None:
        return optimizers.backwards_each(context)
    steps = len(context.recording.steps)
    return recorded / max(len(optimizers.nodes(context)) / steps, 1.0) if steps else recorded


def _excess(context: Context, bare_ms: Sequence[float]) -> float | None:
    """Excess of steps under the profiler over those without, as a share. A busy machine can make a median of few."""
    recording = context.recording
    profiled = np.diff(recording.bounds)[recording.sampled] if recording.steps else np.zeros(0)
    if min(len(profiled), len(bare_ms)) < _ENOUGH:
        return None
    bare = np.array(bare_ms) * 1e6
    return float(min(np.median(profiled) / np.median(bare), profiled.min() / bare.min())) - 1


def _loaders_in_use(loaders: Sequence[Loader], context: Context) -> list[Loader]:
    """The loaders with workers where batches are mostly waited for from workers, else those without; all without waits."""
    waits, host = context.waits.loader, context.recording.host
    if not len(waits.start):
        return list(loaders)
    classes = [match[1] if (match := LOADER.match(name)) else "" for name in context.names]
    workers = np.array(["MultiProcessing" in name for name in classes], np.bool_)[host.name[waits.node]]
    length = waits.end - waits.start
    mostly = bool(length[workers].sum() > length[~workers].sum())
    return [loader for loader in loaders if (loader.workers > 0) == mostly]


def _common(values: Iterable[Any]) -> Any:
    """The value that all have; None where they differ or there is none."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def figures(context: Context) -> dict[str, Any]:
    """The columns of `trace` that advice on settings is worked out from."""
    recording, waits, ledger = context.recording, context.waits.loader, context.ledger
    if not recording.steps:
        return {"loader_ns": None, "fed_step_ns": None, "loading_step_ns": None}
    sampled = recording.sampled
    step = recording.host_step_of(waits.start)
    inside = (step >= 0) & (step < len(sampled))
    loading = summed(step[inside], (waits.end - waits.start)[inside], len(sampled))[sampled]
    segments = ledger.through("loader") & (ledger.step >= 0)
    fed = (np.diff(recording.bounds) - summed(ledger.step[segments], ledger.dur_ns[segments], len(sampled)))[sampled]
    bare = context.once(unprofiled)
    whole = np.diff(recording.bounds)[sampled]
    fed_ns, whole_ns = (float(np.median(fed)), float(np.median(whole))) if len(fed) else (None, None)
    if bare is not None and bare.pace is not None:
        fed_ns, whole_ns = bare.fed_ns, bare.step_ns
    return {
        "loader_ns": float(np.median(loading)) if inside.any() and len(loading) else None,
        "fed_step_ns": fed_ns,
        "loading_step_ns": whole_ns,
    }


FRAME = Frame(SCHEMA, build, evidence=("of", "name", "value", "file", "line"), timeless=True)
