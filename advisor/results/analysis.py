"""Analysis of one trace: the plain data that every report and the gate read.

Everything before :class:`Analysis` computes, everything after it only reads. It goes to JSON and back without loss
(``to_json``/``from_json``), so a report can be rendered later and elsewhere. Times are milliseconds, shares 0 to 1; None
where the trace does not hold what is needed, never 0. Each field says its meaning and what kind of text it holds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from advisor.results.copy_time import CopyTime
from advisor.results.distance import Distance, LineDistance, ModuleDistance
from advisor.results.elsewhere import Elsewhere, Unmodelled
from advisor.results.encoding import to_json
from advisor.results.few_kernels import FewKernels
from advisor.results.field import Cells, CodeLine, FilePath, Name, Text, Wording, doc
from advisor.results.first_layer import FirstLayer
from advisor.results.headline import Headline
from advisor.results.host_blocked import HostBlocked
from advisor.results.host_time import HostSplit, HostTime
from advisor.results.kernel_time import KernelTime, ShortKernels
from advisor.results.launch_rate import LaunchRate
from advisor.results.links import Exchange
from advisor.results.memory import MemoryPeak
from advisor.results.model_time import ModelTime
from advisor.results.pass_time import PassTime
from advisor.results.phases import Phase
from advisor.results.range_time import RangeTime
from advisor.results.recurring_gap import RecurringGap
from advisor.results.samples import Samples
from advisor.results.slow_steps import SlowSteps
from advisor.results.views import Views
from advisor.results.waits import LeadLost

SCHEMA_VERSION = 1

Severity = Literal["high", "medium", "low", "note"]
Confidence = Literal["certain", "likely", "possible"]


# ---- the trace


class Advisor(msgspec.Struct, frozen=True, kw_only=True):
    """The advisor that made the analysis."""

    version: Annotated[Wording, doc("Its version.")]
    rules: Annotated[int, doc("Rules in its catalogue and the user's own, whether they were chosen to run or not.")]


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU with work in the trace."""

    id: Annotated[int, doc("Its number, as the trace has it.")]
    name: Annotated[Name | None, doc("Its name; None where the trace does not describe it.")]
    vendor: Annotated[Name, doc("nvidia, amd, intel or unknown.")]
    capability: Annotated[Name | None, doc("CUDA compute capability, such as 8.0; None for other makers, or unknown.")]
    memory_bytes: Annotated[int | None, doc("Its memory, in bytes; None where the trace does not describe it.")]


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """Kinds of events that were recorded."""

    steps: Annotated[bool, doc("Steps: ProfilerStep annotations.")]
    gpu: Annotated[bool, doc("Work on a GPU.")]
    host: Annotated[bool, doc("Events of the host: operators, calls of the runtime, Python.")]
    shapes: Annotated[bool, doc("Shapes or types of the operators' inputs (record_shapes).")]
    stacks: Annotated[bool, doc("Python frames, or call stacks of the operators (with_stack).")]
    memory: Annotated[bool, doc("Memory events that say how much is allocated in all (profile_memory).")]
    distributed: Annotated[bool, doc("Several processes: a world size above 1, or kernels that communicate.")]
    stacks_apart: Annotated[bool, doc("The stacks are from a pass of their own, and slowed none of these steps.")] = (
        False
    )


class TraceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The file, and what it says of itself."""

    path: Annotated[FilePath, doc("The path as it was given; its last part with --redact.")]
    events: Annotated[int, doc("Events in the file, of every kind.")]
    span_ms: Annotated[float, doc("From the first event's start to the last event's end.")]
    devices: Annotated[list[DeviceInfo], doc("The GPUs with work in the trace, the busiest first.")]
    features: Annotated[Features, doc("What was recorded.")]
    rank: Annotated[int | None, doc("Rank of the process; None where the trace does not say it.")]
    world_size: Annotated[int | None, doc("Processes of the run; None where the trace does not say it.")]
    torch: Annotated[Name | None, doc("Version of torch that recorded it; None where the trace does not say it.")]
    unrecorded_device: Annotated[
        Name | None,
        doc("The first GPU that the trace lists where it holds no work of any; None where it does, or lists none."),
    ] = None


class QualityNote(msgspec.Struct, frozen=True, kw_only=True):
    """A fact on the quality of the recording."""

    code: Annotated[Name, doc("A short name for the fact, the same in every trace; of a rule profile/x it is x.")]
    message: Annotated[Text, doc("The fact, with its figures.")]
    advice: Annotated[Text, doc("What to do next time.")]
    example: Annotated[Text | None, doc("The advice as code, to paste; None where it is none.")] = None


_EVEN = 1.15
UNSTEADY = 0.01
"""Part of the step or the window by which steady time differs from it where it is said beside it."""
MEAN_APART = 0.02
"""Part of the step by which the mean of all differs from it where a time of the mean step says so."""
_DIFFER = 0.05
"""Part of the step by which the mean of all differs from it where shares of the mean are none of it."""
COLD = 0.1
"""Part of the one step that was recorded, from which on start-up makes it a cold one."""


def typical_ms(median: float, mean: float) -> float:
    """Return the time that shares of the steps are shares of, in ms: the median, or the mean of all steps where the two differ.

    Time that only some steps take (a checkpoint, the first batch of an epoch) is not in the median: a share of it in ms would
    be a figure of no step.
    """
    return median if mean <= _EVEN * median and median <= _EVEN * mean else mean


class StepTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Durations of the steps after the first, of all where there are fewer than three; ``mean`` speaks of all steps."""

    median: Annotated[float, doc("Their median, in ms.")]
    p10: Annotated[float, doc("Their 10th percentile, in ms.")]
    p90: Annotated[float, doc("Their 90th percentile, in ms.")]
    samples: Annotated[list[float], doc("The durations, in ms, in order of time.")]
    mean: Annotated[float | None, doc("Mean of all steps, the first included; None in older analyses.")] = None

    @property
    def whole(self) -> float:
        """The time that shares are shares of, in ms."""
        return self.median if self.mean is None else typical_ms(self.median, self.mean)


_SAME_FIGURE = 0.995
"""Of a time of three digits: what a part of it reads the same as."""


class StartupPart(msgspec.Struct, frozen=True, kw_only=True):
    """Start-up of one kind: time in which the device idles while something happens that happens once."""

    kind: Annotated[
        Name,
        doc(
            "loading, selection, specialization, compilation, capture, allocation, first call, initialization, first iteration, "
            "context."
        ),
    ]
    ms: Annotated[float, doc("The device's idle time that it owns, in ms of the window.")]
    where: Annotated[Text | None, doc("The operator or call that over half of it lies in; None where there is none.")]
    where_ms: Annotated[float | None, doc("What of it lies there, in ms; None where none is named.")] = None
    operators: Annotated[
        dict[Name, float],
        doc(
            "Operators that a tenth of it or more lies in each, three at most, with the ms of each, where no single one has half. "
            "Empty elsewhere, and in older analyses."
        ),
    ] = {}

    @property
    def wholly(self) -> bool:
        """True where all of it lies there: one figure stands for both."""
        return self.where_ms is None or self.where_ms >= _SAME_FIGURE * self.ms


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Headline figures. ``None`` where the trace does not hold what is needed, never 0."""

    steps: Annotated[int, doc("Steps counted; 0 where the trace has none, and none could be found.")]
    window_ms: Annotated[
        float,
        doc(
            "First step's start (else the first GPU event) to the later of the last step's end and the last GPU event; "
            "on a trace without GPU events, the host's."
        ),
    ]
    step_ms: Annotated[StepTimes | None, doc("Durations of the steps, the first left out; None without steps.")]
    device: Annotated[int | None, doc("The busiest, of which the summary speaks; None without GPU work.")]
    gpu_busy_share: Annotated[
        float | None,
        doc("Kernels, copies and memsets, of the window; None without GPU work, and where replays lack work."),
    ]
    gpu_utilization: Annotated[dict[Name, float], doc("By device: kernels, as the TensorBoard plugin counts.")]
    sm_efficiency: Annotated[float | None, doc("Estimated as by the TensorBoard plugin; None without blocks per SM.")]
    achieved_occupancy: Annotated[float | None, doc("Estimated, a share from 0 to 1; None where it was not recorded.")]
    tensor_core_share: Annotated[float | None, doc("Of kernel time: on Tensor Cores; None where names do not tell.")]
    peak_memory_bytes: Annotated[int | None, doc("Most that was allocated on the device; None without memory events.")]
    memory_bytes: Annotated[int | None, doc("What the device has; None where the trace does not describe it.")]
    causes: Annotated[
        dict[Name, float],
        doc(
            "The one owner of each ns of the window (of the host's span, where that is over twice the window and there are no "
            "steps), as shares that add up to 1: before, what was queued before the recording; after, its tail; compute, "
            "communication, copy, memset; while the device idles other_device (another one works, and it waits for that), "
            "startup, loader, sync, blocking_copy, allocator, compile, gc, operator (CPU work of an operator), host (Python and "
            "launches), profiler, unknown. Causes that own nothing are left out."
        ),
    ]
    extent_ms: Annotated[
        float | None,
        doc(
            "The time that `causes` divides: the window, or the host's span where that is meant. None in older analyses."
        ),
    ] = None
    lead_ms: Annotated[
        float | None,
        doc(
            "Recorded work of the host before the window, where that begins with the device's first work: in no cause. "
            "None where there is none."
        ),
    ] = None
    lead_startup: Annotated[
        list[StartupPart], doc("What of `lead_ms` is start-up, by kind, the longest first; as the host's time.")
    ] = []
    tail_ms: Annotated[
        float | None,
        doc(
            "Recorded time behind the window, to the end of the last event, the profiler's own included: in no cause. None where "
            "there is none, where a part of the trace was asked for, and in older analyses."
        ),
    ] = None
    early_ms: Annotated[
        float | None,
        doc(
            "Recorded time before the first step, where the profiler's steps begin the window: in no cause. None likewise."
        ),
    ] = None
    steady_ms: Annotated[
        float | None,
        doc(
            "Steady work of a typical step, of the window without steps: without before, after and start-up. Every other share, "
            "price and the plan are of it. None in older analyses."
        ),
    ] = None
    steady_causes: Annotated[
        dict[Name, float],
        doc("The causes of steady work alone, as shares of it that add up to 1; empty in older analyses."),
    ] = {}
    startup: Annotated[list[StartupPart], doc("Start-up by kind, the longest first; empty where there is none.")] = []
    first_step_ms: Annotated[
        float | None,
        doc(
            "The rest of a first step that start-up fills, or one unlike the others: neither steady nor start-up, in "
            "`causes` by what owns it. "
            "None where there is none."
        ),
    ] = None
    startup_work_ms: Annotated[
        float | None,
        doc("GPU work that start-up launched, as a search does: not steady, in `causes`. None where there is none."),
    ] = None
    steps_by: Annotated[
        Text | None, doc("Marks of the steps: ProfilerStep, or what was found to repeat; None without steps.")
    ] = None

    unprofiled_ms: Annotated[
        float | None,
        doc(
            "Typical step in ms without the profiler, which prices and the plan are of, where `advisor record` timed such steps "
            "and the recorded ones are longer: their median, and besides, where the recorded step is a mean, what comes once in "
            "several steps. None elsewhere: prices are of steady_ms."
        ),
    ] = None
    unprofiled_steps: Annotated[
        int | None,
        doc("Steps before the recorded ones that tell it; 0: reckoned from what recording an operator took."),
    ] = None
    unprofiled_causes: Annotated[
        dict[Name, float],
        doc(
            "The same causes as shares of unprofiled_ms, as they add up to it: the profiler slows the host down, not the device, "
            "and hides that workers are slow. Empty where unprofiled_ms is None."
        ),
    ] = {}
    occupancy_share: Annotated[
        float | None, doc("Of kernel time: of kernels that have an achieved occupancy; None where none has.")
    ] = None
    counted_steps: Annotated[
        int | None,
        doc(
            "Steps that hold steady work, which counts and sums of rows are over: without those of start-up. None in older "
            "analyses."
        ),
    ] = None
    median_ms: Annotated[
        dict[Name, float],
        doc(
            "ms of each cause in the median step of those after the first: each cause's own median, which do not add up. Empty "
            "without three steps of steady work, and in older analyses."
        ),
    ] = {}
    silent_ms: Annotated[
        float | None,
        doc("What of `host` passes without any recorded event of it, in ms of steady_ms; None where there is none."),
    ] = None
    rank_wait_ms: Annotated[
        float | None,
        doc(
            "What of `communication` this rank waits for others, in ms of steady_ms: what collectives last beyond the fastest of "
            "their kind, size and group. None where it waits for none, and where fewer than five are alike."
        ),
    ] = None
    exchange_ms: Annotated[
        float | None,
        doc("What is left of the same collectives, the exchange itself, in ms of steady_ms; None likewise."),
    ] = None
    recording_ms: Annotated[
        list[float],
        doc(
            "What recording itself may have taken of steady_ms, least and most: 2 to 5 us for each recorded operator and call, as "
            "measured where the GPU waits for the host. Empty where the CPU is not the bottleneck, with stacks, where the step "
            "without the profiler is known, and under a tenth of the step."
        ),
    ] = []
    modelled_share: Annotated[
        float | None,
        doc(
            "Of the time that kernels other than communication own: of kernels whose work and device are known. None without "
            "kernels, and in older analyses."
        ),
    ] = None
    unmodelled: Annotated[
        list[Unmodelled],
        doc("Time of kernels whose limit is not known, by the reason, the most first; empty in older analyses."),
    ] = []
    kernel_efficiency: Annotated[
        float | None,
        doc(
            "Of the kernels' time that is modelled, what the same work takes at rates that programs reach: 1 where no kernel can "
            "be faster. None where no limit is known."
        ),
    ] = None
    mfu: Annotated[
        float | None,
        doc(
            "Model FLOPs utilization: the time that the arithmetic of matrix products, convolutions (by the direct algorithm, "
            "whichever ran) and attention takes at the device's peak rate of the format that each ran in, as a share of "
            "steady_ms; forward work that the backward pass does again is left out. None where no such work is known."
        ),
    ] = None
    hfu: Annotated[float | None, doc("Hardware FLOPs utilization: the same with recomputed work. None likewise.")] = (
        None
    )
    bandwidth_share: Annotated[
        float | None,
        doc(
            "Of kernels that memory bounds: what they must move at the least, at the device's peak bandwidth, as a share of "
            "their time. None where there are none."
        ),
    ] = None
    limit_ms: Annotated[
        float | None,
        doc(
            "The step (the window without steps) replayed with each kernel of known work at the hardware's limit, the host and "
            "all else as recorded: no faster kernels make it shorter. None where no limit is known or no replay is possible."
        ),
    ] = None
    reachable_ms: Annotated[
        float | None, doc("The same with each kernel in the time that programs reach; None likewise.")
    ] = None
    distance: Annotated[
        list[Distance], doc("Operators by the time that lies between them and what is reachable, the most first.")
    ] = []
    distance_modules: Annotated[
        list[ModuleDistance], doc("The same by nn.Module; empty where none was recorded, and in older analyses.")
    ] = []
    distance_lines: Annotated[
        list[LineDistance],
        doc("The same by line of the source; empty where no stack was recorded, and in older analyses."),
    ] = []
    kernel_time: Annotated[
        list[KernelTime],
        doc(
            "What the kernels' time of a step is made of, in the mean of all steps, the most first, without communication; the sum "
            "is `compute` of `steady_causes` times `steady_mean_ms`. Empty without kernels, where replays of graphs lack some, and "
            "in older analyses."
        ),
    ] = []
    short_kernels: Annotated[
        ShortKernels | None,
        doc("Kernels under 10 us, where they own a fifth of the kernels' time or more. None elsewhere, and likewise."),
    ] = None
    operator_time: Annotated[
        list[KernelTime],
        doc(
            "What the operators' time of a step of a program on the CPU is made of, the most first: each moment is the innermost "
            "operator's. The sum is `compute` of `steady_causes` times `steady_ms`. Empty with a device, and in older analyses."
        ),
    ] = []
    host_time: Annotated[
        list[HostTime],
        doc(
            "What the CPU does in the time that the GPU idles for Python, operators and launches, the most first. Without a GPU "
            "the lines of the source that the step's time lies in, forward and backward. Empty where that is under a twentieth "
            "of the step, or most lines are unknown, and in older analyses."
        ),
    ] = []
    host_split: Annotated[
        HostSplit | None,
        doc(
            "The same time with a GPU, by Python, operators and launches. None where it is not divided, and in older analyses."
        ),
    ] = None
    batch_host: Annotated[
        list[HostTime],
        doc(
            "What the host does in a batch of a serving engine, in the mean, or in a capture of graphs: functions, ranges and "
            "calls that it is made of, without waits for the device, the most first; `share` is of all of it. Empty elsewhere, "
            "and in older analyses."
        ),
    ] = []
    model_time: Annotated[
        list[ModelTime],
        doc(
            "Models that the program calls, by the time that each takes of a step, the most first. Empty where modules were not "
            "recorded, where one model takes nearly all of it, and in older analyses."
        ),
    ] = []
    pass_time: Annotated[
        list[PassTime],
        doc(
            "Passes of a training step by the time that each takes of it: forward, backward, optimizer, zero_grad, the wait for "
            "batches. Empty for inference, without a device, and in older analyses."
        ),
    ] = []
    range_time: Annotated[
        list[RangeTime],
        doc(
            "The host's time by the outermost ranges that the program marks, the longest first, where no device was recorded. "
            "Empty with one, for programs on the CPU, and in older analyses."
        ),
    ] = []
    host_blocked: Annotated[
        HostBlocked | None,
        doc(
            "Time in which threads that launch stand in synchronizing calls, in copies that hold the host, and in the driver's "
            "allocations and frees, where it is a twentieth of the step or more. None without, and in older analyses."
        ),
    ] = None
    peak_above_start_bytes: Annotated[
        int | None,
        doc(
            "Most that was allocated on the device beyond what was when the recording began, where allocations and frees bear no "
            "totals (torch of 2021). None with totals, without memory events, and in older analyses."
        ),
    ] = None
    slow_steps: Annotated[
        SlowSteps | None,
        doc(
            "Steps that take much longer than the others, with what grew in the longest. None without, and in older analyses."
        ),
    ] = None
    launch_rate: Annotated[
        LaunchRate | None,
        doc(
            "How often the host launches kernels, where none of them was recorded. None where kernels were, without launches, and "
            "in older analyses."
        ),
    ] = None
    first_layer: Annotated[
        FirstLayer | None,
        doc(
            "The first of a model's layers where it takes a twentieth of the recording beyond those after it, which launch alike. "
            "None without, where no modules were recorded, and in older analyses."
        ),
    ] = None
    recurring_gap: Annotated[
        RecurringGap | None,
        doc(
            "Idle stretches of like length, about one in each step, that a third of the device's idle time or more lies in, and "
            "that no finding is about. None without, and in older analyses."
        ),
    ] = None
    few_kernels: Annotated[
        FewKernels | None,
        doc(
            "The recording's kernels, where they are too few and too short to show a steady state. None in older analyses."
        ),
    ] = None
    copy_time: Annotated[
        list[CopyTime],
        doc(
            "Copies in a step by direction, in the mean of all, the longest first; empty without, and in older analyses."
        ),
    ] = []
    steady_mean_ms: Annotated[
        float | None,
        doc(
            "Steady work of all steps over their number, in ms, of the window without steps: what `kernel_time` is of, where "
            "`steady_ms` is the median's. None in older analyses."
        ),
    ] = None
    lead_lost: Annotated[
        LeadLost | None,
        doc(
            "Of training: waits while the GPU works, with the idle time for launches behind them, where each is a twentieth of the "
            "step or more; else None, as in older analyses."
        ),
    ] = None
    exchanges: Annotated[
        list[Exchange],
        doc(
            "Collectives of known size by kind and size of group, those with most time first; empty where there are none."
        ),
    ] = []
    replays_whole: Annotated[
        bool,
        doc(
            "False where replays of graphs lack work in the trace: what is unknown may be that work, and no idle time then."
        ),
    ] = True
    taken_out_share: Annotated[
        float,
        doc(
            "Of the window: time of which events were taken out of the file, by their numbers; what is unknown may be their work. "
            "0 where events have no numbers."
        ),
    ] = 0.0

    @property
    def priced_ms(self) -> float:
        """The step, or window, that prices and the plan are of, in ms."""
        return self.whole_ms if self.unprofiled_ms is None else self.unprofiled_ms

    @property
    def shown_causes(self) -> dict[str, float]:
        """The causes of the time that shares are of: of steady work; of the steps in older analyses.

        Where that time is the median step's and the mean of all steps is far from it, they are the median step's too.
        """
        return self._typical_causes or self.steady_causes or ({} if self.steady_ms is not None else self.causes)

    @property
    def _typical_causes(self) -> dict[str, float]:
        """Each cause's own median as a share of the step; empty where they do not make up one, or hide what some steps wait for."""
        total, mean = sum(self.median_ms.values()), self.steady_mean_ms or 0.0
        differ = self.steps and abs(mean - self.whole_ms) > _DIFFER * self.whole_ms
        if not differ or abs(total - self.whole_ms) > MEAN_APART * self.whole_ms:
            return {}
        typical = {cause: ms / total for cause, ms in self.median_ms.items()}
        hidden = any(
            part >= MEAN_APART and typical.get(cause, 0.0) < part / 2 for cause, part in self.steady_causes.items()
        )
        return {} if hidden else typical

    @property
    def unsteady(self) -> bool:
        """True where the time that shares are of differs from the step, from the window without steps."""
        recorded = self.step_ms.whole if self.step_ms else self.window_ms
        return self.steady_ms is not None and abs(self.steady_ms - recorded) > UNSTEADY * recorded

    @property
    def mean_apart(self) -> bool:
        """True where the mean step is another than the one that shares are of, so that a time of it has to say so.

        A mean above the longest step is none: the window holds work of a step besides, as of one before the recording.
        """
        if self.steady_mean_ms is None or abs(self.steady_mean_ms - self.whole_ms) <= MEAN_APART * self.whole_ms:
            return False
        longest = max(self.step_ms.samples, default=None) if self.step_ms is not None else None
        return longest is None or self.steady_mean_ms <= longest * (1 + MEAN_APART)

    @property
    def cold(self) -> bool:
        """True where the one step that was recorded holds much start-up: what is left of it need not be what a later one takes."""
        step = self.step_ms.whole if self.step_ms else self.window_ms
        return self.steps == 1 and bool(self.startup) and step - self.whole_ms > COLD * step

    @property
    def whole_ms(self) -> float:
        """The time that shares are shares of, in ms."""
        if self.steady_ms is not None:
            return self.steady_ms
        return self.step_ms.whole if self.step_ms else self.window_ms


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of the program that was recorded, by evidence in the trace; None where nothing shows it."""

    kind: Annotated[Name, doc("training, inference, or unknown where too little was recorded to tell.")]
    framework: Annotated[Name | None, doc("What runs it, such as vllm or transformers; None for plain PyTorch.")]
    frameworks: Annotated[list[Name], doc("All frameworks that left evidence, that one first.")]
    model: Annotated[Name | None, doc("recommender, language or vision; None where the operators leave doubt.")]
    optimizers: Annotated[Text | None, doc("Classes of the optimizers that stepped, joined by commas.")]
    optimizer_form: Annotated[Name | None, doc("fused, foreach, or single (tensor by tensor); None without a step.")]
    precision: Annotated[Name | None, doc("Format of most of the time in products, convolutions and attention.")]
    autocast: Annotated[bool, doc("Operators ran that autocast wraps.")]
    grad_scaler: Annotated[bool, doc("A GradScaler's operators were seen.")]
    parallelism: Annotated[
        list[Name], doc("Ways the work is divided: ddp, fsdp, zero, tensor, pipeline, ...; may be empty.")
    ]
    world_size: Annotated[int | None, doc("Processes of the run; None where the trace does not say it.")]
    compiler: Annotated[Name | None, doc("Whose code ran: inductor, aot, dynamo, torchscript, ...; None for eager.")]
    compiled_share: Annotated[float | None, doc("Of kernel time (else of operators' time): launched by compiled code.")]
    graphs: Annotated[bool, doc("CUDA or HIP graphs are replayed.")]
    device: Annotated[Name | None, doc("Name of the device that works; of the first that is there where none does.")]
    vendor: Annotated[Name, doc("Its maker: nvidia, amd, intel, unknown; cpu where the program ran on the CPU alone.")]
    capability: Annotated[
        float | None, doc("CUDA compute capability, or the least that kernels prove; None for others.")
    ]
    bf16: Annotated[bool | None, doc("It has matrix units for bf16.")]
    tf32: Annotated[bool | None, doc("It has matrix units for TF32.")]
    fp8: Annotated[bool | None, doc("It has matrix units for fp8.")]
    compile_possible: Annotated[bool | None, doc("Triton makes code for it.")]
    train_mode: Annotated[bool, doc("Dropout or batch norms ran in training mode, in inference.")]
    model_on_cpu: Annotated[bool, doc("The model runs on the CPU beside a GPU that does next to nothing.")]


# ---- findings


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """Time that the fix returns per step (per window where there are no steps)."""

    low_ms: Annotated[float, doc("With the cautious assumption, in ms.")]
    high_ms: Annotated[float, doc("With the hopeful assumption, in ms.")]
    low_share: Annotated[float, doc("low_ms as a share of the step (of the window without steps).")]
    high_share: Annotated[float, doc("high_ms as a share of the step (of the window without steps).")]
    basis: Annotated[Wording, doc("How the two figures were got.")]
    recorded_ms: Annotated[
        float | None,
        doc(
            "With the hopeful assumption and the CPU as fast as it was recorded, in ms: where high_ms supposes a faster one, as "
            "recording slowed it. None where high_ms supposes nothing."
        ),
    ] = None
    alone_ms: Annotated[
        dict[Name, float] | None,
        doc(
            "With none of the other fixes, low and high, in ms: where that is another figure than behind those before it in the "
            "plan. None where it is about the same, or was not replayed."
        ),
    ] = None

    def __str__(self) -> str:
        """Return ``22–44 ms (27–55 %)``, as reports write it; ``repr`` holds all digits and the basis."""
        from advisor.report.savings import durations, shares

        return f"{durations(self.low_ms, self.high_ms)} ({shares(self)} %)"


class Through(msgspec.Struct, frozen=True, kw_only=True):
    """A library's line that a part of a place's cost lies in."""

    library: Annotated[CodeLine, doc("The innermost frame that is a library's: file:line function.")]
    share: Annotated[float, doc("Of the place's cost.")]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the source, and its share of the finding's cost. None where the rows have nothing in common there."""

    file: Annotated[FilePath | None, doc("The innermost frame that is the user's own.")]
    line: Annotated[int | None, doc("Where the function is defined; in traces of 2021 the line that ran.")]
    function: Annotated[Name | None, doc("The function of that frame.")]
    library: Annotated[CodeLine | None, doc("The innermost frame that is a library's: file:line function.")]
    module: Annotated[Name | None, doc("Path of the innermost nn.Module.")]
    op: Annotated[Text | None, doc("The innermost operator or annotation.")]
    share: Annotated[float, doc("Of the finding's cost; of its rows' time or count where they cost nothing.")]
    within: Annotated[
        Name | None,
        doc("Path of the innermost nn.Module around all that lies there, where that is in several; else None."),
    ] = None
    around: Annotated[
        Text | None,
        doc(
            "Of a place of which the operator alone is known: the outermost operator and the program's range around all that lies "
            "there, as far as there are others; None where more is known, or nothing is around it."
        ),
    ] = None
    through: Annotated[
        list[Through],
        doc(
            "Of a place whose cost lies in several of a library's lines: those with 15 % of it or more, at most three, the most "
            "first; else empty."
        ),
    ] = []


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A small table: the rows that weigh most. Units are in the column names."""

    columns: Annotated[list[Wording], doc("Names of the columns.")]
    rows: Annotated[Cells, doc("The rows, a value a column; None for what is unknown.")]


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """Change to make, in the rule's own words."""

    title: Annotated[Wording, doc("The change in one line.")]
    effort: Annotated[Wording, doc("How much work it is; empty where the rule does not say.")]
    before: Annotated[Wording, doc("Code as it often is; empty where the rule shows none.")]
    after: Annotated[Wording, doc("The same code with the fix.")]
    caveat: Annotated[Wording, doc("When it does not help, or what to mind; empty where there is nothing.")]
    verify: Annotated[Wording, doc("What a new trace shows once it is done.")]


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """Further reading."""

    title: Annotated[Wording, doc("Its title.")]
    url: Annotated[Wording, doc("Its address.")]


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of the program that a finding speaks of, as ``advisor record`` saw it, and what to set instead."""

    of: Annotated[Name | None, doc("DataLoader, the class of an optimizer, torch.compile; None for the program.")]
    name: Annotated[Name, doc("Its name, such as num_workers.")]
    value: Annotated[Text, doc("As Python writes it.")]
    advice: Annotated[Wording | None, doc("The value to set instead; None where none follows from the trace.")]
    because: Annotated[Text, doc("What the advice follows from, or what the value means; may be empty.")]
    file: Annotated[FilePath | None, doc("Of the call that set it; None where it is not known.")]
    line: Annotated[int | None, doc("Its line; None where it is not known.")]

    @property
    def as_run(self) -> str:
        """``DataLoader(num_workers=0) at train.py:42``: how the program was run."""
        text = f"{self.name}={self.value}"
        if self.of:
            text = f"{self.of}({text})"
        if self.file:
            text += f" at {self.file}" + (f":{self.line}" if self.line else "")
        return text

    def __str__(self) -> str:
        return self.as_run + (f" → {self.advice}" if self.advice else "")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that fired: what it costs, what the fix returns, where, and what to change."""

    rule: Annotated[Name, doc("Id of the rule.")]
    title: Annotated[Text, doc("What is wrong, in one line.")]
    category: Annotated[Name, doc("Folder of the rule, the first half of its id.")]
    severity: Annotated[
        Severity,
        doc(
            "By the share of the step that the middle of the saving returns, start-up left out where it is much; at most medium "
            "without a price, note where `after` says that nothing is left."
        ),
    ]
    confidence: Annotated[Confidence, doc("How sure the rule is of what it says, as it says itself.")]
    cost_ms: Annotated[float, doc("The time that the matched rows own, per step (per window without steps).")]
    cost_share: Annotated[float, doc("The same as a share of the counted time.")]
    occurrences: Annotated[int, doc("Rows that matched, in the steps that figures speak of.")]
    saving: Annotated[Saving | None, doc("None for a risk that costs no time, or where nothing is promised.")]
    where: Annotated[list[Place], doc("The places that carry most of the cost, at most three.")]
    evidence: Annotated[Evidence, doc("The rows that weigh most.")]
    why: Annotated[Wording, doc("What costs and why, in a few sentences; and what the other ranks show of it.")]
    fix: Annotated[Fix, doc("What to change.")]
    references: Annotated[list[Reference], doc("Further reading.")]
    settings: Annotated[list[Setting], doc("What the program ran with, where `advisor record` wrote it down.")] = []
    after: Annotated[
        list[Name] | None,
        doc(
            "Where the fix returns nothing: the rules whose fixes, which stand before it, leave nothing; empty where it returns "
            "nothing even alone. None where it returns something, or has no price."
        ),
    ] = None
    host_ms: Annotated[
        float,
        doc(
            "The host's time that goes with the fix beside what the rows own, per step: launches and waits that the GPU's work "
            "hides today, and that cost nothing until it has less to do. No saving is above the cost, this and late_ms together."
        ),
    ] = 0.0
    late_ms: Annotated[
        float,
        doc(
            "What this rank waits for others, per step, where they may be late for the reason that the finding names: the upper "
            "end of the saving counts that the fix, made on all ranks, returns it as well. 0 for all other findings."
        ),
    ] = 0.0
    once_ms: Annotated[
        float,
        doc(
            "The time of its rows, in the steps that figures speak of, where all of it is start-up: spent once a run, it ends by "
            "itself, and no step is shorter without it. 0 for all other findings."
        ),
    ] = 0.0
    done_by: Annotated[
        Name | None,
        doc(
            "The rule whose fix is the same change, or holds it: the saving of both is that finding's, and `after` names it. None "
            "for all others."
        ),
    ] = None
    devices: Annotated[
        list[int],
        doc(
            "Where one process drives several GPUs: those whose time its rows take or leave idle, the most first; those under a "
            "tenth of it left out. Empty for all others."
        ),
    ] = []
    more: Annotated[
        Wording,
        doc("What the rule rests on, when its symptom is harmless, and background; empty where `why` says all."),
    ] = ""

    def __repr__(self) -> str:
        """Return the finding in a line: its texts are long."""
        gain = f", saves {self.saving}" if self.saving is not None else ""
        return f"<Finding {self.severity} {self.rule}: {self.title!r}{gain}>"

    def _repr_html_(self) -> str:
        """Return the finding as a notebook shows it."""
        from advisor.report import notebook

        return str(notebook.finding(self))


class PlanStep(msgspec.Struct, frozen=True, kw_only=True):
    """A fix of the plan, and the step (the window without steps) as it is predicted before and after it."""

    rules: Annotated[list[Name], doc("The rules whose fix it is: the one that leads, then those that it does too.")]
    title: Annotated[Wording, doc("The fix in one line.")]
    step_ms_before: Annotated[float, doc("The step with the fixes before this one, by their hopeful assumptions.")]
    step_ms_after: Annotated[
        dict[Name, float],
        doc(
            "low and high: with the fixes so far, hopeful and cautious, all beside a CPU of one speed. Savings that suppose "
            "a CPU as recorded and one that recording did not slow may add up to more."
        ),
    ]
    speedup: Annotated[float, doc("How many times as fast as recorded the step is then, by the hopeful assumptions.")]
    speedup_low: Annotated[float | None, doc("The same by the cautious assumptions; None in older analyses.")] = None
    bound_by: Annotated[
        Name,
        doc(
            "What holds the program back after it: work, collectives, copies, waits, loader or launches; on the CPU "
            "operators, collectives or python; empty in `what_if`."
        ),
    ] = ""
    changes_training: Annotated[bool, doc("Whether it changes what is learned: batch or precision.")] = False


# ---- verdicts


class NotApplicable(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that does not speak of such a program."""

    rule: Annotated[Name, doc("Id of the rule.")]
    because: Annotated[Text, doc("What the rule asks for, and what the trace holds instead.")]


class NotRun(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that the trace lacks something for."""

    rule: Annotated[Name, doc("Id of the rule.")]
    needs: Annotated[list[Name], doc("What the trace lacks.")]
    how: Annotated[Text, doc("How to record it.")]


class RuleFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that failed on the trace."""

    rule: Annotated[Name, doc("Id of the rule.")]
    message: Annotated[Text, doc("Which part of it failed, and why.")]


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """Verdicts of the rules that have no finding. With the rules of the findings, these are all that ran, each once."""

    passes: Annotated[list[Name], doc("Ids of rules that had what they need and found nothing that matters.")]
    not_applicable: Annotated[list[NotApplicable], doc("Rules that do not speak of such a program.")]
    not_run: Annotated[list[NotRun], doc("Rules that the trace lacks something for.")]
    error: Annotated[list[RuleFailure], doc("Rules that failed.")]
    noted: Annotated[list[Name], doc("Rules on the quality of the profile that fired: they speak in `quality`.")] = []


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """All that the reports show of one trace."""

    schema_version: Annotated[int, doc("Version of this schema: it changes where a field changes its meaning or goes.")]
    advisor: Annotated[Advisor, doc("The advisor that made it.")]
    trace: Annotated[TraceInfo, doc("The file, and what it says of itself.")]
    quality: Annotated[list[QualityNote], doc("What the profile lacks or what was repaired, and what to do next time.")]
    headline: Annotated[
        Headline | None, doc("What the recording is, what bounds it, what to do first; None in older analyses.")
    ] = None
    summary: Annotated[Summary, doc("Headline figures.")]
    findings: Annotated[
        list[Finding],
        doc("By severity, then the middle of the saving times confidence: what is first is what to do first."),
    ]
    plan: Annotated[list[PlanStep], doc("The fixes in order, each with the step time predicted after it.")]
    verdicts: Annotated[Verdicts, doc("What each rule came to that is no finding.")]
    what_if: Annotated[PlanStep | None, doc("Some fixes together; None where not asked, or without a price.")] = None
    samples: Annotated[Samples | None, doc("What the gate compares; None where it was not asked for.")] = None
    views: Annotated[Views | None, doc("Tables and pictures; None where they were not asked for (--views).")] = None
    program: Annotated[Program | None, doc("What the program is; None in older analyses.")] = None
    elsewhere: Annotated[
        list[Elsewhere],
        doc("Steady time that no finding claims, by place: a twentieth of it or more each; empty in older analyses."),
    ] = []
    phases: Annotated[
        list[Phase],
        doc("Phases of a serving engine or diffusion pipeline; empty without its annotations, and in older analyses."),
    ] = []
    memory_peak: Annotated[
        MemoryPeak | None, doc("Who holds the peak of memory; None without a memory snapshot (--snapshot).")
    ] = None

    def __repr__(self) -> str:
        """Return the analysis in a line: its fields are long."""
        real = [finding for finding in self.findings if finding.severity != "note"]
        first = f", first {real[0].rule}" if real else ""
        return f"<Analysis of {self.trace.path}: {len(real)} finding{'s' * (len(real) != 1)}{first}>"

    def to_json(self) -> bytes:
        """Encode as indented JSON, the contract of ``-f json``."""
        return to_json(self)

    def to_html(self, path: str | Path, *, source_root: str | None = None) -> None:
        """Write the page of ``-f html`` to *path*, whole unless ``analyze(trace, views=False)`` left its pictures and tables out.

        Lines of the source are shown of files below *source_root*.
        """
        from advisor import files
        from advisor.report import Options, render

        files.write(path, render("html", self, Options(source_root=source_root)))

    def _repr_html_(self) -> str:
        """Return the analysis as a notebook shows it."""
        from advisor.report import notebook

        return str(notebook.analysis(self))

    @classmethod
    def from_json(cls, text: bytes | str) -> Analysis:
        """Decode what :meth:`to_json` wrote. Raises ``msgspec.ValidationError`` on anything else."""
        return msgspec.json.decode(text, type=cls)
