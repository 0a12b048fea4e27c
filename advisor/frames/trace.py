"""`trace`: one row of headline facts, which the conditions ``given`` and ``when`` of rules speak of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from advisor import hardware
from advisor.columns import Columns
from advisor.frames import (
    batches,
    collectives,
    compiles,
    copies,
    devices,
    dynamic_sizes,
    foreach,
    layouts,
    optimizers,
    program,
    rank_waits,
    settings,
    slowed,
)
from advisor.frames.frame import Frame
from advisor.frames.patterns.label_parts import only_parts
from advisor.frames.patterns.updates import updates_known
from advisor.frames.schema import Schema, flag, integer, real, text
from advisor.frames.values import plain, typed
from advisor.intervals import Bools, distinct
from advisor.reading.program_settings import PLAIN_STEPS
from advisor.roofline.limits import rates_of
from advisor.timeline import memory
from advisor.timeline.context import Context
from advisor.timeline.cpu import shows_device
from advisor.timeline.kernel_names import KernelName
from advisor.timeline.ledger import BUSY, IDLE, OUTSIDE
from advisor.timeline.program import habits, proven_capability
from advisor.timeline.releases import newest_torch

# Idle time is what steady work leaves idle where at most so much of it is start-up.
_WARM_SHARE = 0.1

TINY_NS = 10_000
_ROOM = 0.9
"""Of the device's memory: more leaves the allocator no room. What does not grow with the batch makes the estimate careful."""
_COMPILED = ("triton_", "Torch-Compiled Region", "## Call CompiledFxGraph")

SCHEMA = Schema(
    "trace",
    "the trace",
    (
        text("vendor", "maker of the device that did the work: nvidia, amd, intel, unknown; cpu where there is none"),
        text("device_name", "its name"),
        real("capability", "", "CUDA compute capability, else the least that kernels' names prove; NULL unless nvidia"),
        integer("sms", "", "its SMs or compute units; NULL where unknown"),
        integer("memory_bytes", "bytes", "its memory; NULL where unknown"),
        integer("devices_used", "", "GPUs with work in the trace"),
        flag("has_gpu", "GPU work was recorded"),
        flag("cpu_only", "the program is known to have run on the CPU alone; false where a GPU may just not have been recorded"),
        flag("gpu_used", "GPU work, or what only a program on one has: launches, its memory, operators that run nowhere else"),
        flag("has_host", "host operators, annotations or Python calls were recorded"),
        flag("has_steps", "steps were marked by ProfilerStep, or found by what repeats"),
        flag("has_marks", "ProfilerStep annotations were recorded"),
        flag("plain_steps", "steps are turns of a loop of plain tensor code, without a module, an optimizer or a loader"),
        flag("has_shapes", "operand shapes or types were recorded"),
        flag("has_stacks", "source places were recorded, as python_function events or as call stacks"),
        flag("has_memory", "memory events with totals were recorded"),
        text("memory_recorded", "yes; without totals, where allocations and frees alone were; no"),
        flag("has_loader", "waits for a DataLoader were recorded"),
        flag("has_gc", "pauses of Python's garbage collector were recorded"),
        flag("distributed", "one of several ranks, or communication kernels"),
        integer("rank", "", "NULL where unknown"),
        integer("world_size", "", "NULL where unknown"),
        integer("step_count", "", "steps recorded, without a last one in which nothing happens"),
        text("steps_by", "marks of the steps: ProfilerStep, an optimizer, the DataLoader, an engine, a range; NULL without"),
        real("step_ns", "ns", "median step after the first; over all where there are fewer than three; NULL without steps"),
        real("steady_ns", "ns", "steady work of a typical step (of the window without steps): what shares and prices are of"),
        integer("window_ns", "ns", "the window (see Words in docs/frames.md)"),
        integer("busy_ns", "ns", "what of it the busiest device works"),
        integer("idle_ns", "ns", "what of it that device idles; NULL without GPU work"),
        real("busy_share", "share", "busy_ns over window_ns; NULL without GPU work, and where graph replays lack work or the "
             "file was thinned"),
        real("idle_share", "share", "idle_ns over window_ns; NULL without GPU work"),
        integer("kernel_count", "", "kernels"),
        integer("kernel_ns", "ns", "their durations, summed"),
        real("tiny_kernel_time_share", "share", "of kernel_ns: in kernels under 10 us"),
        real("elementwise_time_share", "share", "of kernel_ns: elementwise by name"),
        real("gemm_time_share", "share", "of kernel_ns: gemm, conv and attention"),
        real("tensor_core_time_share", "share", "of gemm, conv and attention time: on Tensor Cores; NULL where unknown"),
        real("tensor_core_share", "share", "of kernel_ns: on Tensor Cores; NULL where unknown"),
        real("gemm_unknown_share", "share", "of gemm, conv and attention time: name does not say whether on Tensor Cores"),
        real("half_gemm_time_share", "share", "of gemm, conv and attention time: in 16 bits or fewer"),
        real("tf32_gemm_time_share", "share", "of gemm, conv and attention time: in tf32"),
        real("fp32_gemm_time_share", "share", "of gemm, conv and attention time: in plain fp32"),
        flag("rates_known", "the device's peak rates are known, from a table or as given; false without a device"),
        real("half_times", "", "16-bit matrix units' peak rate over that of fp32 products, by a table; NULL for a GPU not in it"),
        real("tf32_times", "", "the same of TF32; NULL also where the GPU has none"),
        real("half_times_tf32", "", "16-bit peak rate over that of TF32; NULL likewise"),
        integer("peak_allocated_bytes", "bytes", "highest Total Allocated of the busiest device; NULL where not recorded"),
        integer("peak_reserved_bytes", "bytes", "highest Total Reserved; NULL where not recorded"),
        real("peak_share", "share", "peak_allocated_bytes over memory_bytes; NULL where unknown"),
        real("reserved_share", "share", "peak_reserved_bytes over memory_bytes; NULL where unknown"),
        real("batch_times", "", "0.9 over peak_share, at least 1: how many times as large a batch surely fits; NULL where unknown"),
        integer("reserved_at_peak_bytes", "bytes", "Total Reserved when the most is allocated; NULL where not recorded"),
        integer("unused_when_reserving_bytes", "bytes", "most that lay unused in the cache when more was reserved for less"),
        integer("peak_above_start_bytes", "bytes", "most allocated beyond what was when the recording began; NULL with totals and "
                "without events"),
        integer("memory_growth_bytes", "bytes", "median growth of allocated memory a step; 0 unless all steps but the first grow"),
        real("kept_share", "share", "of what was reserved from the second step's end on: growth of allocated memory meanwhile; 0 "
             "unless all steps grow; NULL as memory_growth_bytes"),
        flag("training", "a backward pass was seen"),
        flag("optimizer_seen", "an optimizer's step was seen"),
        flag("adjoint_solver", "an equation is solved backwards for its gradients (torchdiffeq's odeint_adjoint, torchsde)"),
        real("optimizer_launches", "", "launches in a step of the optimizer, the median; NULL without one, or unknown"),
        flag("updates_known", "shapes tell what each step of an optimizer updates; NULL where one hides it, or none was seen"),
        flag("optimizer_factorizes", "its steps invert or factorize matrices; NULL without one, or unknown, as where much was "
             "taken out of the file"),
        real("foreach_slow_share", "share", "of the time of optimizers' steps on the host: in aten::_foreach_ operators that fall "
             "back to one operator a tensor; NULL without a step"),
        flag("amp_scaler", "a GradScaler's operators were seen"),
        flag("compiled", "torch.compile's kernels or regions were seen"),
        real("graph_breaks", "", "graph breaks a step (in all, without steps) outside backward passes; NULL without a region"),
        integer("graph_launches", "", "calls that replay a CUDA or HIP graph"),
        integer("graph_kernels", "", "kernels launched by them"),
        flag("graphs_underrecorded", "replays lack work in the trace"),
        flag("thinned", "events were taken out of the file in over a tenth of the time: idle there is none that was seen"),
        real("taken_out_share", "share", "of the time that the ledger divides: between operators of which over a hundred events "
             "are missing, by the profiler's own numbers (Ev Idx)"),
        flag("idle_trusted", "idle time may be explained: host recorded, replays whole"),
        real("unlinked_share", "share", "of GPU time: work whose launch is not in the trace; NULL without GPU work"),
        real("unlinked_inside_share", "share", "of GPU time: such work that begins behind linked work of its stream, and was "
             "not launched before the recording; NULL without GPU work"),
        real("overhead_share", "share", "of the window: the profiler's own buffer requests and flushes"),
        integer("slowed_ns", "ns", "what matrix products and convolutions took beyond their usual time, in stretches in which "
                "several of them took half as long again with nothing beside them; NULL where none of known shapes repeats"),
        real("slowed_share", "share", "the same, of the time that the ledger divides; NULL likewise"),
        text("slowed_spans", "the longest of these stretches, in ms since the first event; NULL without any"),
        flag("batches_watched", "`advisor record` looked at the first batches of a loader: what of them is padding, and which "
             "labels count"),
        flag("labels_watched", "it counted the labels that a loss leaves out, in a step or in the first batches"),
        flag("modules_watched", "it compared the calls of modules in one step (`repeated_calls`)"),
        flag("rows_watched", "and the rows of what each is given (`repeated_calls`), on a GPU as well"),
        flag("samples_watched", "and their inputs with what was there before (`single_calls`)"),
        flag("constants_watched", "`advisor record` compared what operators are given in two steps (`constant_calls`)"),
        flag("unchanged_watched", "it compared what operators are given in three steps (`unchanged_calls`)"),
        flag("again_watched", "it compared what operators are given within a step (`repeated_operators`)"),
        flag("python_watched", "it looked at the Python of steps while these were timed (`gaps.repeated_part`, `draws_part`)"),
        flag("zeros_counted", "it counted the zeros of what products of one step multiply (`zero_products`); no GPU"),
        flag("turns_watched", "it looked at what the turns of loops need of each other (`operator_calls.deeper`)"),
        flag("factors_watched", "it compared the matrices that one step decomposes (`factorizations`)"),
        flag("fetches_watched", "what the samples of a loader without workers do was recorded (`loader.work`)"),
        flag("prompts_watched", "it looked at what two prompts or more of a language model begin with"),
        flag("stack_recorded", "Python stacks were recorded, which slows the host"),
        flag("warm", "no cost of first calls inside the window"),
        integer("warmup_ns", "ns", "start-up: idle under what sets something up: kernels, algorithms, allocations, compilation"),
        text("torch", "release of torch that recorded, as the trace says; NULL where it does not"),
        integer("torch_at_most", "", "the newest that it can be, by that or other signs: 204 for 2.4; NULL where unknown"),
        integer("python_minor", "", "8 for Python 3.8, by the paths of packages; NULL where unknown"),
        integer("counter_ranges", "", "ranges in which CUPTI read hardware counters: kernels ran alone, often repeatedly"),
        flag("truncated", "the file is cut off"),
        integer("repaired_events", "", "damaged events that were repaired"),
        integer("skipped_events", "", "damaged events that were left out"),
        real("launches_per_step", "", "calls that launched work, per step"),
        real("small_gaps_share", "share", "of the window: idle for which the host is the cause"),
        real("blocking_launch_share", "share", "of kernels of 20 us or more: past their middle when their launch returned; NULL "
             "under ten"),
        integer("anomaly_checks", "", "nodes of the backward pass whose gradients autograd's anomaly mode checks for NaN"),
        flag("anomaly_mode", "it checks half of all nodes or more"),
        flag("grad_enabled", "50 operators or more carry autograd's numbers, and nothing runs backward: on in inference"),
        flag("frees_graph", "a program on the CPU whose stretches of Python of 100 us and more take no longer than 10 us for each "
             "such operator: the graph that nobody uses is freed in them"),
        flag("collects_each_step", "pauses of Python's garbage collector of 1 ms or more lie in each of three steps or more: it is "
             "called there"),
        text("selects", "what most selections of kernels that go on behind the first steps are for: attention, recurrent, "
             "convolution or product; NULL where none go on"),
        flag("searched_convolutions", "convolutions time kernels with events: a search for the fastest algorithm, as recorded"),
        real("dynamic_sizes", "", "operators a step (in all, without steps) whose output's size depends on data: nonzero, unique, "
             "masked_select; NULL without operators"),
        flag("library_sizes", "most of these are called by a library's code, neither torch's nor the user's; NULL without stacks"),
        text("readback", "place inside of modules that most values are read back at, as model.py:12 in forward; NULL where "
             "there is none, and without stacks"),
        flag("cells", "cells of a recurrent layer were called one by one: LSTMCell, GRUCell, RNNCell"),
        text("copy_memory", "host memory that copies use, as pageable, pinned; empty without copies; NULL where none says"),
        integer("bytes_copied", "bytes", "copied between host and device; NULL where no copy says its size"),
        integer("pageable_to_device_bytes", "bytes", "of these from pageable memory to a device, as far as copies say"),
        real("pinned_to_device_gbps", "GB/s", "rate of copies of 1 MB and more from pinned memory to a device; NULL without one"),
        real("sized_messages_share", "share", "of the collectives: whose size is told; 1 without any; NULL if none is"),
        integer("largest_group", "", "ranks of the largest group that a collective ran in; NULL where none says"),
        integer("convolution_dims", "", "of the convolutions that take most kernel time: dimensions of their input, 3 of Conv1d to "
                "5 of Conv3d; NULL where unknown", "args.Input Dims"),
        integer("stage_count", "", "stages of the pipeline whose ranks were given together; 0 without one; NULL for one trace of a "
                "pipeline, and where not all of its ranks were given"),
        text("exposed_kind", "kind of collective that most of the exposed communication is; NULL without any"),
        integer("exposed_bytes", "bytes", "of the largest exposed message of that kind; NULL where no size is known"),
        text("exposed_dtype", "its number format, as Float or Byte; likewise"),
        flag("exposed_started_early", "half of that kind's exposed time and more is beside work launched after the collective: "
             "nothing waited for it at once; NULL without launches"),
        real("rank_wait_share", "share", "of steady work: in collectives beyond the fastest of their kind, size and group: waiting "
             "for other ranks; NULL without five alike"),
        real("rank_last_share", "share", "of those collectives: at most 1.25 times the fastest, the rank came last; NULL likewise"),
        flag("steps_not_iterations", "several loader waits in one step: a step is not an iteration"),
        *(real(f"{cause}_share", "share", f"of steady work: what {cause} owns") for cause in BUSY + IDLE if cause != "startup"),
        *(real(f"{cause}_share", "share", f"of the window: what {cause} owns") for cause in ("startup", *OUTSIDE)),
        *program.COLUMNS,
        *batches.FACTS,
        *settings.FIGURES,
        *settings.COLUMNS,
    ),
)  # fmt: skip


def build(context: Context) -> Columns:
    """The frame: one row."""
    values = context.once(row)
    return Columns({column.name: typed([values[column.name]], column) for column in SCHEMA.columns})


def row(context: Context) -> dict[str, Any]:
    """The one row as plain values: what asks for single facts needs no frame of a hundred and fifty columns."""
    values = facts(context)
    return {column.name: plain(values[column.name], column) for column in SCHEMA.columns}


def facts(context: Context) -> dict[str, Any]:
    """The one row, by column; None where unknown."""
    return (
        features(context)
        | _device(context)
        | _time(context)
        | _causes(context)
        | _kernels(context)
        | _memory(context)
        | _habits(context)
        | program.facts(context)
        | batches.facts(context)
        | _links(context)
        | _file(context)
        | copies.facts(context)
        | collectives.facts(context)
        | rank_waits.facts(context)
        | {"convolution_dims": layouts.most_dims(context)}
        | slowed.facts(context)
        | settings.figures(context)
        | settings.facts(context)
    )


def _device(context: Context) -> dict[str, Any]:
    """Columns on the device that did the work."""
    recording = context.recording
    first = _busiest(context)
    has_gpu = bool(recording.devices)
    rates = hardware.peaks(first.get("name"))
    return {
        "vendor": recording.vendor if has_gpu or recording.tables.get("runtime") is not None else "cpu",
        "device_name": first.get("name"),
        "capability": first.get("capability") or proven_capability(context),
        "sms": first.get("sms"),
        "rates_known": bool(has_gpu and rates_of(context, first["device"]) is not None),
        "half_times": rates.half_times if rates else None,
        "tf32_times": rates.tf32_times if rates else None,
        "half_times_tf32": rates.half_times_tf32 if rates else None,
        "devices_used": len(recording.devices),
        "cpu_only": context.cpu_program,
        "gpu_used": has_gpu or shows_device(recording),
    }


def _busiest(context: Context) -> dict[str, Any]:
    """The busiest device's row of `devices`; empty without one."""
    return next(iter(context.once(devices.facts)), {})


def _time(context: Context) -> dict[str, Any]:
    """Columns on steps and window, and what of it the device works."""
    recording = context.recording
    low, high = recording.window
    window, busy = high - low, _busiest(context).get("busy_ns", 0)
    idle = window - busy if recording.devices else None
    warmup = context.ledger.of_extent()["startup"]
    # A pipeline that asks for the labels of one image, one by one, has one input.
    loads = context.waits.loader.start[~only_parts(context, context.waits.loader.start, context.waits.loader.end)]
    waits = recording.host_step_of(loads)
    per_step = np.bincount(waits[waits >= 0], minlength=1)
    steps = bool(recording.steps)
    # What the device did and the trace does not hold is neither: how busy the device was, and how long it idled, nobody knows.
    known = idle is not None and window and not context.lacks_work
    return {
        "step_count": recording.whole_steps,
        "steps_by": recording.steps_by or None,
        "plain_steps": context.metadata.recorded is not None and context.metadata.recorded.steps_by == PLAIN_STEPS,
        "steady_ns": context.step_ns,
        "step_ns": float(np.median(np.diff(recording.bounds)[recording.sampled])) if steps else None,
        "window_ns": window,
        "busy_ns": busy,
        "idle_ns": idle,
        "busy_share": busy / window if known else None,
        "idle_share": idle / window if idle is not None and known else None,
        "warm": warmup <= _WARM_SHARE * max(window - busy, 1),
        "warmup_ns": warmup,
        "steps_not_iterations": bool(steps and np.median(per_step) >= 2 and not _steps_from_loop(context)),
    }


def _causes(context: Context) -> dict[str, float]:
    """Columns on what each cause owns."""
    counted_ns = context.ledger.counted_ns
    shares = {cause: ns / counted_ns if counted_ns else 0.0 for cause, ns in context.ledger.by_cause().items()}
    low, high = context.recording.extent
    extent = context.ledger.of_extent()
    shares |= {cause: extent[cause] / (high - low) if high > low else 0.0 for cause in ("startup", *OUTSIDE)}
    named = {"overhead_share": shares["profiler"], "small_gaps_share": shares["host"]}
    return named | {f"{cause}_share": share for cause, share in shares.items()}


def _memory(context: Context) -> dict[str, Any]:
    """Columns on the device's memory."""
    first = _busiest(context)
    capacity, peak, reserved = (first.get(f"{name}_bytes") for name in ("memory", "peak_allocated", "peak_reserved"))
    return memory.facts(context) | {
        "memory_bytes": capacity,
        "peak_allocated_bytes": peak,
        "peak_reserved_bytes": reserved,
        "peak_share": peak / capacity if peak is not None and capacity else None,
        "reserved_share": reserved / capacity if reserved is not None and capacity else None,
        "batch_times": max(_ROOM * capacity / peak, 1.0) if peak and capacity else None,
    }


def _habits(context: Context) -> dict[str, Any]:
    """Columns on what the program does, as single signs of it."""
    names = context.names
    return habits(context) | {
        "rank": context.metadata.rank,
        "world_size": context.metadata.world_size,
        "training": context.training(),
        "optimizer_seen": any(name.startswith("Optimizer.step") for name in names),
        "adjoint_solver": any("AdjointMethodBackward" in name for name in names),
        "optimizer_launches": optimizers.launched_each(context),
        "updates_known": updates_known(context),
        "optimizer_factorizes": optimizers.factorizes(context),
        "foreach_slow_share": foreach.in_steps(context, optimizers.nodes(context)),
        "amp_scaler": any("_amp_foreach_non_finite_check" in name or "_amp_update_scale" in name for name in names),
        "graph_breaks": compiles.breaks_each(context),
        "compiled": any(name.startswith(_COMPILED) for name in names),
        **_watched(context),
        "stack_recorded": "python" in context.tables,
        "dynamic_sizes": dynamic_sizes.count(context),
        "library_sizes": dynamic_sizes.of_library(context),
        "readback": dynamic_sizes.readback(context),
    }


_WATCHED = {
    "batches_watched": "batch_bytes",
    "labels_watched": "ignored_share",
    "modules_watched": "repeats",
    "samples_watched": "singles",
    "unchanged_watched": "unchanged",
    "again_watched": "again",
    "constants_watched": "constants",
    "python_watched": "step_looks",
    "turns_watched": "chains",
    "factors_watched": "factors",
    "fetches_watched": "samples",
    "prompts_watched": "prompts",
}
"""Columns that say whether the recorder looked at something, by the name of what it writes then."""


def _watched(context: Context) -> dict[str, bool]:
    """Columns on what the recorder looked at."""
    recorded = context.metadata.recorded
    known = {column: recorded is not None and getattr(recorded, name) is not None for column, name in _WATCHED.items()}
    return known | {
        "rows_watched": recorded is not None and bool(recorded.rows_compared),
        "zeros_counted": context.cpu_program and recorded is not None and recorded.zeros is not None,
    }


def _links(context: Context) -> dict[str, Any]:
    """Columns on launches, and on what links the device's work to them."""
    recording, work = context.recording, context.recording.work
    time, linked = work.end - work.start, work.launch >= 0
    launched = distinct(work.launch[linked])
    in_steps = recording.step_of(recording.host.start[launched]) >= 0
    return {
        "graph_launches": len(context.graph_nodes),
        "graph_kernels": int(np.isin(work.launch, context.graph_nodes).sum()),
        "graphs_underrecorded": context.graphs_underrecorded,
        "thinned": context.thinned,
        "taken_out_share": context.taken_out_share,
        "idle_trusted": context.idle_trusted,
        "unlinked_share": float(time[~linked].sum() / time.sum()) if time.sum() else None,
        "unlinked_inside_share": float(time[_inside(context)].sum() / time.sum()) if time.sum() else None,
        "launches_per_step": float(in_steps.sum() / recording.step_count),
    }


def _inside(context: Context) -> Bools:
    """Flag the pieces of GPU work without a launch that begin behind linked work of their stream, else of their device."""
    work = context.recording.work
    linked = work.launch >= 0
    first = np.full(len(work), np.iinfo(np.int64).max)
    for device in distinct(work.device[linked]).tolist():
        on_device = work.device == device
        first[on_device] = work.start[on_device & linked].min()
        for stream in distinct(work.stream[on_device & linked]).tolist():
            same = on_device & (work.stream == stream)
            first[same] = work.start[same & linked].min()
    flags: Bools = ~linked & (work.start > first)
    return flags


def _file(context: Context) -> dict[str, Any]:
    """Columns on the state of the file."""
    recorded, newest = context.recording.recorded, newest_torch(context.recording)
    return {
        "torch": context.metadata.torch,
        "torch_at_most": 100 * newest[0] + newest[1] if newest else None,
        "python_minor": recorded.python_minor,
        "counter_ranges": recorded.counter_ranges,
        "truncated": recorded.truncated,
        "repaired_events": recorded.repaired,
        "skipped_events": recorded.skipped,
    }


def _steps_from_loop(context: Context) -> bool:
    """Tell whether a recorder that saw the loop put the steps where they are."""
    recorded = context.metadata.recorded
    return recorded is not None and bool(recorded.steps_by)


def features(context: Context) -> dict[str, bool]:
    """Features that were recorded, as flags."""
    recording, tables = context.recording, context.tables
    raws = recording.recorded.raws
    kernels = context.kernel_names if len(recording.work) else {}
    ranks = (context.metadata.world_size or 1) > 1
    memory = tables.get("instant")
    return {
        "has_gpu": bool(recording.devices),
        "has_host": recording.has_host,
        "has_steps": bool(recording.steps),
        "has_marks": bool(recording.marked),
        "has_shapes": any(raw not in (b"", b"[]", b"null") for raw in raws[:50])
        and "op" in tables
        and _has_types(context),
        "has_stacks": "python" in tables or any(stack for stack in recording.recorded.stacks[:50]),
        "has_memory": memory is not None and bool((memory["allocated"] >= 0).any()),
        "has_loader": bool(len(context.waits.loader.start)) if recording.has_host else False,
        "has_gc": bool(len(context.waits.gc.start)) if recording.has_host else False,
        "distributed": ranks or any(info.kind == "communication" for info in kernels.values()),
    }


def _has_types(context: Context) -> bool:
    table = context.tables["op"]
    empty = [code for code, raw in enumerate(context.recording.recorded.raws) if raw in (b"", b"null")]
    return bool((~np.isin(table["types"], empty)).any() or (~np.isin(table["dims"], empty)).any())


def _is_most(share: float | None) -> bool:
    return share is not None and share >= 0.5


def _kernels(context: Context) -> dict[str, Any]:
    """Columns on the kernels: how many, and the shares of their time by sort, length and number format."""
    work, rows = context.recording.work, context.kernel_rows
    time = (work.end - work.start)[rows].astype(np.float64)
    total = float(time.sum())
    info = context.kernel_names
    at = np.searchsorted(np.fromiter(info, np.int64, len(info)), work.name[rows])

    def named(holds: Callable[[int, KernelName], bool]) -> Bools:
        return np.array([holds(code, name) for code, name in info.items()], np.bool_)[at]

    dtypes = np.array([dtype or "" for dtype in context.kernel_dtypes.tolist()])
    matrix, tensor = named(lambda _, name: name.matrix), named(lambda _, name: name.tensor_cores is True)
    unknown = named(lambda _, name: name.tensor_cores is None)
    graphs = named(lambda _, name: name.kind == "graph")
    matrix_time = float(time[matrix].sum())

    def share(mask: Bools, divisor: float) -> float | None:
        return float(time[mask].sum()) / divisor if divisor else None

    unknown_share = share(matrix & unknown, matrix_time)
    readable = context.recording.vendor == "nvidia" and not _is_most(unknown_share)
    return {
        "kernel_count": len(rows),
        "kernel_ns": int(total),
        "tiny_kernel_time_share": share(time < TINY_NS, total),
        "elementwise_time_share": share(named(lambda code, _: "elementwise" in context.names[code]), total),
        "gemm_time_share": share(matrix, total),
        "tensor_core_time_share": share(matrix & tensor, matrix_time) if readable else None,
        "tensor_core_share": share(tensor, total) if readable and not _is_most(share(graphs, total)) else None,
        "gemm_unknown_share": unknown_share,
        "half_gemm_time_share": share(matrix & np.isin(dtypes, ["fp16", "bf16", "fp8", "fp4"]), matrix_time),
        "tf32_gemm_time_share": share(matrix & (dtypes == "tf32"), matrix_time),
        "fp32_gemm_time_share": share(matrix & (dtypes == "fp32"), matrix_time),
    }


FRAME = Frame(SCHEMA, build, evidence=(), timeless=True)
