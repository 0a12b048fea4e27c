"""The pipeline: a trace and a rulebook in, an :class:`Analysis` out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from advisor import rulebook
from advisor.engine.run import chosen, run
from advisor.errors import TraceError
from advisor.frames import FRAMES
from advisor.frames.rank_waits import rank_waits
from advisor.reading.machine import give_back, has_room_for_threads
from advisor.replay import plan as plans
from advisor.results.analysis import (
    SCHEMA_VERSION,
    Advisor,
    Analysis,
    DeviceInfo,
    Features,
    Program,
    QualityNote,
    StepTimes,
    Summary,
    TraceInfo,
)
from advisor.results.ranks import Across
from advisor.results.version import __version__
from advisor.threads import Ahead
from advisor.timeline.recorded_calls import recording_ns
from advisor.trace import read
from advisor.views import build, elsewhere, headline, holders, limits
from advisor.views.batch_host import batch_host
from advisor.views.copy_time import copy_time
from advisor.views.few_kernels import few_kernels
from advisor.views.first_layer import first_layer
from advisor.views.host_blocked import host_blocked
from advisor.views.host_time import host_split, host_time
from advisor.views.kernel_time import kernel_time, mean_step_ns, short_kernels
from advisor.views.launch_rate import launch_rate
from advisor.views.lead import lead_lost
from advisor.views.line_time import line_time
from advisor.views.links import exchanges
from advisor.views.metrics import collect
from advisor.views.model_time import model_time
from advisor.views.operator_time import operator_time
from advisor.views.pass_time import pass_time
from advisor.views.phases import phases_of
from advisor.views.range_time import range_time
from advisor.views.recurring_gap import recurring_gap
from advisor.views.slow_steps import slow_steps
from advisor.views.startup import lead, startup_parts

if TYPE_CHECKING:
    from advisor.rulebook import Rulebook
    from advisor.timeline.context import Context
    from advisor.trace import Trace


OF_SUMMARY: tuple[Callable[[Context], Any], ...] = (
    first_layer,
    host_blocked,
    model_time,
    batch_host,
    operator_time,
    host_time,
    host_split,
    pass_time,
    range_time,
    launch_rate,
    few_kernels,
    copy_time,
)
"""Figures of the summary that follow from the recording alone, and take a while in some."""


@cache
def _shipped() -> Rulebook:
    """Load the catalogue that ships, once a process."""
    return rulebook.load([rulebook.builtin_rules_dir()])


def analyze(
    trace: Trace | str | Path,
    rules: Rulebook | None = None,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    views: bool = True,
    samples: bool = False,
    safe: bool = False,
    what_if: Sequence[str] = (),
) -> Analysis:
    """Run every rule over a trace, or over the file at a path. Without *rules*, the built-in catalogue.

    *only* and *skip* are globs on rule ids.
    *views* are what the pictures and tables of a page show, *samples* the per-step figures that the gate compares;
    *safe* keeps fixes that change training out of the plan, *what_if* names rules whose fixes are priced together.
    Raises RuleError if the catalogue is malformed, TraceError where no event has a duration; a rule that fails on this trace
    is a verdict, not an exception.
    """
    rules = rules if rules is not None else _shipped()
    if isinstance(trace, str | Path):
        trace = read(str(trace))
    if trace.is_timeless:
        raise TraceError(
            f"{trace.path}: no event has a usable duration: each is 0 or negative, so nothing can be judged. "
            "Record it again, or convert it again where a tool wrote it."
        )
    with Ahead(_calls_ahead(trace, rules, only, skip)):
        outcome = run(trace, rules, only=only, skip=skip, forget=None if views or samples else trace.forget)
    if not (views or samples):
        trace.let_go()  # the second thread, which keeps its results in the same places, is over
    give_back(trace.events)
    plan = plans.make(trace, outcome, safe=safe, what_if=what_if)
    plans.let_go(trace)
    give_back(trace.events)
    notes = [QualityNote(code=note.code, message=note.message, advice=note.advice) for note in trace.quality]
    summary, quality = _summary(trace, plan), _distinct([*notes, *outcome.quality])
    matches = list(outcome.matches.values())
    # What a finding without a price owns it only counts: where it lies is still to be said, unless its rows are the kernels.
    claimed = [
        match.segments
        for match in headline.named(plan.findings, matches)
        if match.rule.replay is not None or match.rule.match.frame == "kernels"
    ]
    summary = msgspec.structs.replace(summary, recurring_gap=recurring_gap(trace.context, claimed))
    return Analysis(
        schema_version=SCHEMA_VERSION,
        advisor=Advisor(version=__version__, rules=len(rules.rules)),
        trace=_trace_info(trace),
        quality=quality,
        headline=headline.build(trace, summary, quality, plan.findings, matches),
        summary=summary,
        findings=plan.findings,
        plan=plan.steps,
        what_if=plan.what_if,
        verdicts=outcome.verdicts,
        samples=collect(trace, outcome.rows) if samples else None,
        views=build(trace, outcome.matches, [finding.rule for finding in plan.findings]) if views else None,
        program=_program(trace),
        memory_peak=holders.build(trace.context, trace.snapshot, trace.device, trace.libraries),
        elsewhere=elsewhere.build(trace.context, trace.whole_ms, claimed),
        phases=phases_of(trace),
    )


def _calls_ahead(trace: Trace, rules: Rulebook, only: Sequence[str], skip: Sequence[str]) -> list[Callable[[], object]]:
    """Return what a second thread may work out of a large trace while the rules are asked: slow frames, and the replay."""
    if not has_room_for_threads(trace.events):
        return []
    asked = {rule.match.frame for rule in rules.rules if chosen(rule, only, skip)}
    slow = [name for name in reversed(list(FRAMES)) if name in asked and FRAMES[name].slow]
    return [*(partial(trace.build_ahead, name) for name in slow), partial(plans.prepare, trace)]


def analyze_many(
    traces: Iterable[Trace],
    rules: Rulebook | None = None,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    views: bool = True,
    safe: bool = False,
    what_if: Sequence[str] = (),
) -> tuple[list[Analysis], Across | None]:
    """Analyze each trace, and what the traces of several ranks of one run show together; None where they are no such.

    The traces are taken one after the other, and none is kept: of each only a digest stays in memory.
    """
    from advisor.combining import combine
    from advisor.ranks.digest import digest

    rules = rules if rules is not None else _shipped()
    analyses, digests = list[Analysis](), []
    for trace in traces:
        analyses.append(analyze(trace, rules, only=only, skip=skip, views=views, safe=safe, what_if=what_if))
        digests.append(digest(trace))
        del trace  # before the next is read
    return combine(analyses, digests, rules, only=only, skip=skip)


def _distinct(notes: Sequence[QualityNote]) -> list[QualityNote]:
    """Keep one note a fact: reading's comes before a rule's on the same; a cut-off stream is a cut-off file."""
    seen: dict[str, QualityNote] = {}
    for note in notes:
        if note.code == "truncated" and "gzip-truncated" in seen:
            continue
        seen.setdefault(note.code, note)
    return list(seen.values())


def _trace_info(trace: Trace) -> TraceInfo:
    features = trace.features
    return TraceInfo(
        path=trace.path.encode("utf-8", "replace").decode("utf-8"),
        events=trace.events,
        span_ms=trace.span_ns / 1e6,
        devices=[_device(row) for row in trace.columns("devices").records()],
        features=Features(
            **{name: name in features for name in Features.__struct_fields__}
            | {"stacks_apart": bool(trace.facts["stacks_apart"])}
        ),
        rank=trace.metadata.rank,
        world_size=trace.metadata.world_size,
        torch=trace.metadata.torch,
        unrecorded_device=next((one.name for one in trace.metadata.devices if one.name), None)
        if "gpu" not in features
        else None,
    )


def _program(trace: Trace) -> Program:
    found = trace.program
    same = {name: getattr(found, name) for name in Program.__struct_fields__ if hasattr(found, name)}
    lists = {name: list(getattr(found, name)) for name in ("frameworks", "parallelism")}
    return Program(**(same | lists), autocast=found.autocast_seen, device=found.device_name)


def _device(row: dict[str, Any]) -> DeviceInfo:
    capability = row["capability"]
    return DeviceInfo(
        id=row["device"],
        name=row["name"],
        vendor=row["vendor"],
        capability=None if capability is None else f"{capability:.1f}",
        memory_bytes=row["memory_bytes"],
    )


def _summary(trace: Trace, plan: plans.Plan) -> Summary:
    facts = trace.facts
    devices = trace.columns("devices").records()
    first = devices[0] if devices else {}
    samples = trace.step_samples_ns / 1e6
    ledger, extent = trace.ledger, trace.ledger.of_extent()
    counted_ns, total_ns = ledger.counted_ns, sum(extent.values())
    lead_ms, lead_parts = lead(trace.context)
    first_ns, work_ns = ledger.beside_startup()
    bare, limit_ms = trace.unprofiled, plan.limits_ms.get("limit_ms")
    known = _limits(trace, limit_ms)
    waited_ms, exchange_ms = _of_collectives(trace)
    found = trace.context.found
    return Summary(
        steps=trace.steps_recorded,
        window_ms=trace.window_ns / 1e6,
        step_ms=StepTimes(
            median=float(np.median(samples)),
            p10=float(np.percentile(samples, 10)),
            p90=float(np.percentile(samples, 90)),
            samples=[float(sample) for sample in samples],
            mean=trace.mean_step_ns / 1e6,
        )
        if len(samples)
        else None,
        device=trace.device if trace.device >= 0 else None,
        gpu_busy_share=facts["busy_share"],
        gpu_utilization={str(row["device"]): share for row in devices if (share := row["utilization"]) is not None},
        sm_efficiency=first.get("sm_efficiency"),
        achieved_occupancy=first.get("achieved_occupancy"),
        tensor_core_share=facts["tensor_core_share"],
        peak_memory_bytes=first.get("peak_allocated_bytes"),
        memory_bytes=first.get("memory_bytes"),
        peak_above_start_bytes=facts["peak_above_start_bytes"],
        causes={name: ns / total_ns for name, ns in extent.items() if ns},
        extent_ms=total_ns / 1e6,
        steady_ms=trace.whole_ms,
        steady_causes={name: ns / counted_ns for name, ns in ledger.by_cause().items() if ns},
        startup=startup_parts(trace.context),
        lead_ms=lead_ms,
        lead_startup=lead_parts,
        tail_ms=trace.tail_ns / 1e6 or None,
        early_ms=trace.early_ns / 1e6 or None,
        first_step_ms=first_ns / 1e6 if first_ns else None,
        startup_work_ms=work_ns / 1e6 if work_ns else None,
        steps_by=trace.steps_by or None,
        unprofiled_ms=getattr(bare, "step_ms", None),
        unprofiled_steps=getattr(bare, "steps", None),
        unprofiled_causes=_bare_causes(trace),
        occupancy_share=first.get("occupancy_share"),
        counted_steps=min(len(ledger.counted_steps()), trace.steps_recorded),
        median_ms={name: ns / 1e6 for name, ns in trace.context.median_causes().items() if ns},
        rank_wait_ms=waited_ms,
        exchange_ms=exchange_ms,
        silent_ms=(trace.context.silent_ns / counted_ns * trace.whole_ms or None) if counted_ns else None,
        recording_ms=_of_recording(trace),
        modelled_share=known.modelled_share,
        unmodelled=known.unmodelled,
        mfu=known.mfu,
        kernel_efficiency=known.efficiency,
        hfu=known.hfu,
        bandwidth_share=known.bandwidth_share,
        distance=known.distance,
        distance_modules=known.modules,
        distance_lines=known.lines,
        limit_ms=limit_ms,
        kernel_time=kernel_time(trace.context),
        short_kernels=short_kernels(trace.context),
        operator_time=found(operator_time),
        host_time=[*found(host_time), *line_time(trace)],  # of either kind of program one is empty
        host_split=found(host_split),
        host_blocked=found(host_blocked),
        batch_host=found(batch_host),
        model_time=found(model_time),
        pass_time=found(pass_time),
        range_time=found(range_time),
        slow_steps=slow_steps(trace),
        launch_rate=found(launch_rate),
        first_layer=found(first_layer),
        few_kernels=found(few_kernels),
        copy_time=found(copy_time),
        steady_mean_ms=mean_step_ns(trace.context) / 1e6,
        lead_lost=lead_lost(trace.context),
        exchanges=exchanges(trace.context),
        reachable_ms=plan.limits_ms.get("reachable_ms"),
        replays_whole=not trace.context.graphs_underrecorded,
        taken_out_share=trace.context.taken_out_share,
    )


def _bare_causes(trace: Trace) -> dict[str, float]:
    """Return the causes of the step without the profiler, as shares of it; none where no such step tells."""
    return trace.unprofiled.causes(trace.ledger) if trace.unprofiled is not None else {}


def _limits(trace: Trace, limit_ms: float | None) -> limits.Figures:
    """Return the figures of limits; *limit_ms* is the step with each kernel at its own."""
    return limits.figures(trace.context, None if limit_ms is None else trace.priced_ms - limit_ms)


def _of_recording(trace: Trace) -> list[float]:
    """Return the ms that recording may have taken of a step, least and most; nothing where the step without it is known."""
    taken = recording_ns(trace.context) if trace.unprofiled is None else None
    return [ns / 1e6 for ns in taken or ()]


def _of_collectives(trace: Trace) -> tuple[float | None, float | None]:
    """Return the ms of a step that this rank waits for others in collectives, and the ms of the exchange; None where unknown."""
    found, whole_ns = trace.context.once(rank_waits), trace.ledger.counted_ns
    if found is None or not whole_ns:
        return None, None
    ms = trace.whole_ms / whole_ns
    return found.waited_ns * ms or None, found.exchanged_ns * ms or None
