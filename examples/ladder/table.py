"""The ladder as climbed: each state's figures, the advice that led to it, what was predicted of it and what it became."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

import advisor
from ladder import running
from ladder.machine import Machine
from ladder.states import Article, Settings, State, change, on_cpu, on_cuda

SCHEMA_VERSION = 1
_MOST_FINDINGS = 5


class Times(Struct, frozen=True, kw_only=True):
    """Steps without the profiler, in ms."""

    median: float
    p10: float
    p90: float
    count: int


class Advice(Struct, frozen=True, kw_only=True):
    """The finding that led to a change: its rule, and where it stands among the findings of the state before."""

    rule: str
    title: str
    place: str | None
    rank: int
    of: int


class Prediction(Struct, frozen=True, kw_only=True):
    """The speedup that the trace of the state before predicts of the change: times as fast, cautiously and at most."""

    low: float
    high: float
    by: Literal["replay", "bound"]
    basis: str


class Symptom(Struct, frozen=True, kw_only=True):
    """A finding in short. ``cost_share`` is of the step."""

    rule: str
    title: str
    cost_share: float


class Rung(Struct, frozen=True, kw_only=True):
    """A state of the ladder. Figures are None where the state did not run (``because`` says why) or the trace holds none.

    ``step_ms`` and ``samples_per_s`` are without the profiler, ``recorded_step_ms`` is the trace's median with it.
    ``became`` is its rate over that of the state ``since``, the last before it that ran; ``predicted`` speaks of the same.
    """

    number: int
    name: str
    title: str
    outcome: Literal["climbed", "skipped", "failed"]
    because: str = ""
    settings: Settings
    trace: str | None = None
    step_ms: Times | None = None
    recorded_step_ms: float | None = None
    samples_per_s: float | None = None
    threads: int | None = None
    gpu_busy_share: float | None = None
    gpu_utilization: float | None = None
    tensor_core_share: float | None = None
    operators_share: float | None = None
    loader_share: float | None = None
    peak_memory_bytes: int | None = None
    findings: list[Symptom] = []
    since: int | None = None
    became: float | None = None
    led: Advice | None = None
    not_led: str = ""
    predicted: Prediction | None = None
    not_predicted: str = ""
    article: Article | None = None


class Ladder(Struct, frozen=True, kw_only=True):
    """All states, in order. What is timed is timed without the profiler; shares are the trace's."""

    schema_version: int
    advisor: str
    machine: Machine
    network: str
    parameters: int
    steps: int
    rungs: list[Rung]

    def to_json(self) -> bytes:
        """Return the table as indented JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def from_json(cls, text: bytes | str) -> Ladder:
        """Read the output of :meth:`to_json`."""
        return msgspec.json.decode(text, type=cls)


def climb(
    machine: Machine,
    folder: Path,
    *,
    steps: int,
    states: int | None = None,
    say: Callable[[str], None] = lambda _: None,
    keep: Callable[[Ladder], None] = lambda _: None,
) -> Ladder:
    """Climb the first *states* states (all without a number) on *machine*, and leave their traces in *folder*.

    A state that cannot run is told, and its change left out of those after it. *keep* gets the ladder so far after each that
    ran: a climb takes minutes, and may be cut short.
    """
    settings, order = (on_cuda if machine.device == "cuda" else on_cpu)(machine.cores)
    order = order[:states]
    rungs: list[Rung] = []
    before: tuple[Rung, advisor.Trace] | None = None
    network, parameters = "", 0

    def made() -> Ladder:
        return Ladder(
            schema_version=SCHEMA_VERSION,
            advisor=advisor.__version__,
            machine=machine,
            network=network,
            parameters=parameters,
            steps=steps,
            rungs=rungs,
        )

    for number, state in enumerate(order):
        say(f"state {number} of {len(order) - 1}: {state.title}")
        new_settings = change(settings, state)
        path = folder / f"state{number}_{state.name}.json.gz"
        rung = Rung(
            number=number,
            name=state.name,
            title=state.title,
            outcome="climbed",
            settings=new_settings,
            article=state.article,
        )
        if missing := obstacle(machine, state):
            rungs.append(replace(rung, outcome="skipped", because=missing))
            continue
        try:
            run = running.run(new_settings, steps, folder, path)
        except running.Failed as error:
            rungs.append(replace(rung, outcome="failed", because=str(error)))
            continue
        settings, network, parameters = new_settings, run.measured.network, run.measured.parameters
        trace = advisor.read(str(run.trace))
        rung = figures(rung, run, trace)
        if before is not None:
            rung = against(*before, rung, state)
        rungs.append(rung)
        before = rung, trace
        keep(made())
    return made()


def obstacle(machine: Machine, state: State) -> str:
    """Name the feature that this machine lacks for the state; empty where it has all."""
    if state.needs == "bf16" and not machine.bf16:
        return "the processor lists neither amx_bf16 nor avx512_bf16; without them bfloat16 is slower than float32"
    if state.needs == "compiler" and not machine.compiler:
        return "torch.compile needs a C++ compiler, and there is none on the PATH"
    return ""


def figures(rung: Rung, run: running.Run, trace: advisor.Trace) -> Rung:
    """Fill in the figures that were measured, and those of the trace's analysis."""
    analysis = advisor.analyze(trace)
    laps, summary = np.asarray(run.measured.laps_ms), analysis.summary
    on_cpu = rung.settings.device == "cpu"
    p10, median, p90 = (float(value) for value in np.percentile(laps, (10, 50, 90)))
    return replace(
        rung,
        trace=run.trace.name,
        step_ms=Times(median=median, p10=p10, p90=p90, count=len(laps)),
        recorded_step_ms=summary.step_ms.median if summary.step_ms else None,
        samples_per_s=1000 * rung.settings.batch * len(laps) / float(laps.sum()),
        threads=run.measured.threads,
        gpu_busy_share=summary.gpu_busy_share,
        gpu_utilization=summary.gpu_utilization.get(str(summary.device)),
        tensor_core_share=summary.tensor_core_share,
        operators_share=summary.causes.get("compute", 0.0) if on_cpu and summary.causes else None,
        loader_share=summary.causes.get("loader", 0.0) if summary.causes else None,
        peak_memory_bytes=run.measured.peak_memory_bytes,
        findings=[
            Symptom(rule=finding.rule, title=finding.title, cost_share=finding.cost_share)
            for finding in analysis.findings[:_MOST_FINDINGS]
        ],
    )


def against(before: Rung, trace: advisor.Trace, rung: Rung, state: State) -> Rung:
    """Compare the rung with the last that ran *before* it and left *trace*: the advice, the prediction, the outcome."""
    speedup = (rung.samples_per_s or 0.0) / (before.samples_per_s or 0.0)
    rung = replace(rung, since=before.number, became=speedup)
    if not state.rules:
        return replace(rung, not_led="no rule speaks of this change", not_predicted="no rule speaks of this change")
    analysis = advisor.analyze(trace, what_if=state.rules)
    finding = next((finding for finding in analysis.findings if finding.rule in state.rules), None)
    if finding is None:
        reason = f"{' and '.join(state.rules)} did not fire on state {before.number}"
        return replace(rung, not_led=reason, not_predicted=reason)
    predicted = prediction(analysis, finding)
    return replace(
        rung,
        led=Advice(
            rule=finding.rule,
            title=finding.title,
            place=place(finding),
            rank=analysis.findings.index(finding) + 1,
            of=len(analysis.findings),
        ),
        predicted=predicted,
        not_predicted="" if predicted else f"{finding.rule} has no price on state {before.number}",
    )


def prediction(analysis: advisor.Analysis, finding: advisor.Finding) -> Prediction | None:
    """Predict the speedup: by the replay where the trace could be run again, else by the finding's own bound."""
    step, saving = analysis.what_if, finding.saving
    if step is not None and min(step.step_ms_after.values()) > 0:
        low, high = (step.step_ms_before / step.step_ms_after[key] for key in ("high", "low"))
        return Prediction(low=low, high=high, by="replay", basis=saving.basis if saving else "")
    if saving is None or saving.high_share >= 1:
        return None
    low, high = (1 / (1 - share) for share in (saving.low_share, saving.high_share))
    return Prediction(low=low, high=high, by="bound", basis=saving.basis)


def place(finding: advisor.Finding) -> str | None:
    """Name the source line that holds most of the finding's cost."""
    places = (place for place in finding.where if place.file is not None)
    return next((f"{place.file}:{place.line}" if place.line is not None else place.file for place in places), None)
