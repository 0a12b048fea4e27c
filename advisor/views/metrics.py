"""Metrics of the gate: per-step figures of a trace, one record each, and the samples that the gate compares.

A change of a metric matters where it passes the tolerance (relative) *and* the floor (absolute): the first keeps small
programs from failing on a microsecond, the second large ones on nothing. A new metric is one more record in ``METRICS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct

from advisor.columns import Columns
from advisor.frames import FRAMES
from advisor.intervals import distinct
from advisor.results.samples import Samples
from advisor.timeline.ledger import OF_STEPS
from advisor.views.applied import facts_of
from advisor.views.sampling import LEAST, MB, MS, Floats, Rows, Sampling, all_rows
from advisor.views.sites import sites_of
from advisor.views.work import work_of

if TYPE_CHECKING:
    from advisor.intervals import Bools
    from advisor.trace import Trace

BUSY = ("compute", "communication", "copy", "memset")
_PLACE = ("file", "line", "function")


class Margin(Struct, frozen=True):
    """Margin within which a figure may change: a share of the baseline's, and a floor in its unit or as a share of its step.

    The higher floor counts. ``basis`` says why it is so far and no farther.
    """

    tolerance: float
    floor: float
    basis: str
    floor_share: float = 0.0


class Metric(Struct, frozen=True):
    """One figure of a step: its name and unit, how far it may change, and where it and its parts come from.

    ``samples`` gives the figure of each step, or None where the trace cannot tell; ``needs`` are features of the trace.
    ``of_step`` marks what the time of the step is divided into: where the whole step did not get longer, such a part was
    moved, not lost. ``findings`` are the categories of findings that say where it was lost; the first with a place counts.
    ``statistic`` is what stands for the steps: their median, their mean (the sum, a step) or their peak; *of* names the figure
    whose samples it sums up so, where it has none of its own.
    """

    name: str
    unit: str
    meaning: str
    margin: Margin
    samples: Callable[[Sampling], Floats | None]
    parts: Callable[[Sampling], dict[str, float]] = lambda _: {}
    needs: tuple[str, ...] = ()
    worse: Literal["up", "down"] = "up"
    of_step: bool = False
    findings: tuple[str, ...] = ()
    statistic: Literal["median", "mean", "peak"] = "median"
    of: str = ""

    @property
    def source(self) -> str:
        """Name of the figure that its samples are kept under."""
        return self.of or self.name

    def summed_up(self, values: Sequence[float]) -> float:
        """Return the one figure that stands for those of some steps."""
        figures = np.asarray(values, np.float64)
        if self.statistic == "peak":
            return float(figures.max())
        return float(np.median(figures) if self.statistic == "median" else figures.mean())


def collect(trace: Trace, rows: Mapping[str, tuple[str, Bools]]) -> Samples:
    """Collect the samples of a trace, and of the rules: *rows* are the engine's, of every rule that found some.

    The cost of a rule is given whether it fired or not: one that stands just under its limit must not look like 0. Rows that
    own no time and are too long, as single steps are, cost what they exceed.
    """
    sampling = Sampling(trace)
    figures = {
        metric.name: values
        for metric in METRICS.values()
        if not metric.of
        and trace.features.issuperset(metric.needs)
        and (values := metric.samples(sampling)) is not None
    }
    parts = {name: METRICS[name].parts(sampling) for name in figures}
    ledger = trace.ledger
    rules = {}
    for rule, (frame, mask) in rows.items():
        segments = distinct(np.asarray(trace.claims(frame, mask), np.int64))
        inside = segments[ledger.step[segments] >= 0]
        owned = np.zeros(sampling.count)
        np.add.at(owned, ledger.step[inside], ledger.dur_ns[inside] / MS)
        if (excess := FRAMES[frame].excess) and trace.step_count:
            table = trace.columns(frame).rows(mask)
            np.add.at(owned, table["step"].to_numpy(np.int64), table[excess].to_numpy(np.float64) / MS)
        if owned.any():
            rules[rule] = _round(owned[sampling.sampled])
    return Samples(
        steps=int(sampling.sampled.sum()) if trace.step_count else 0,
        metrics={name: _round(values[sampling.sampled]) for name, values in figures.items()},
        rules=dict(sorted(rules.items())),
        parts={name: named for name, named in parts.items() if named},
        work=work_of(trace),
        sites=sites_of(trace),
        facts=facts_of(trace),
        rows={
            rule: float(mask.sum()) / max(1, trace.step_count) for rule, (_, mask) in sorted(rows.items()) if mask.any()
        },
    )


def _round(values: Floats) -> list[float]:
    return [round(float(value), 6) for value in values]


# ---- the metrics, in the order of a report


def _step_ms(sampling: Sampling) -> Floats:
    """Return the steady work of each step, as `analyze` has it: all but start-up."""
    return sampling.steps["steady_ns"].to_numpy(np.float64) / MS


def _step_by_cause(sampling: Sampling) -> dict[str, float]:
    steps = sampling.steps.rows(sampling.sampled)
    means = {cause: float(steps[f"{cause}_ns"].values.mean()) / MS for cause in OF_STEPS if cause != "startup"}
    return {cause: round(ms, 6) for cause, ms in means.items() if ms >= LEAST}


def _busy_share(sampling: Sampling) -> Floats | None:
    if sampling.trace.context.lacks_work:
        return None
    dur = _step_ms(sampling)
    return np.divide(sampling.causes_ms(BUSY), dur, out=np.zeros(len(dur)), where=dur > 0)


def _compute(trace: Trace, kernels: Columns) -> Bools:
    return kernels["device"].equals(trace.device) & ~kernels["class"].equals("communication")


def _launching(_trace: Trace, launches: Columns) -> Bools | None:
    return launches["kind"].within(("kernel", "copy", "memset", "graph")) if len(launches) else None


def _waiting(trace: Trace, syncs: Columns) -> Bools | None:
    return all_rows(trace, syncs) if len(trace.columns("launches", ("start_ns",))) else None


def _between(_trace: Trace, copies: Columns) -> Bools:
    return copies["direction"].within(("HtoD", "DtoH"))


def _pageable(trace: Trace, copies: Columns) -> Bools | None:
    between = copies.rows(_between(trace, copies))
    unknown = between["bytes"].isna().any() or between["host_memory"].equals("unknown").any()
    return None if unknown else _between(trace, copies) & copies["host_memory"].equals("pageable")


def _peak_memory(sampling: Sampling) -> Floats | None:
    """Return the most that was allocated in each step of the host, which allocates; what a step begins with counts."""
    device = sampling.trace.device
    points = sampling.trace.columns("memory")
    points = points.rows(points["device"].equals(device))
    step = sampling.host_step(points) if sampling.trace.step_count else points["step"].to_numpy(np.int64)
    level = points["allocated_bytes"].to_numpy(np.float64) / MB
    peak = np.zeros(sampling.count)
    np.maximum.at(peak, step[step >= 0], level[step >= 0])
    if sampling.trace.step_count and len(points):
        when, begin = points["start_ns"].to_numpy(np.int64), sampling.steps["host_start_ns"].to_numpy(np.int64)
        order = np.argsort(when, kind="stable")
        before = np.searchsorted(when[order], begin, side="right") - 1
        peak = np.maximum(peak, np.where(before >= 0, level[order][np.maximum(before, 0)], 0.0))
    return peak if device >= 0 and (peak > 0).all() else None


def _sum_of(name: str, unit: str, meaning: str, margin: Margin, rows: Rows, *needs: str, **more: Any) -> Metric:
    """Make a metric that sums rows of a frame."""
    statistic: Literal["median", "mean"] = "median" if unit == "ms" else "mean"  # of counts and bytes the sum counts
    return Metric(name, unit, meaning, margin, rows.samples, rows.parts, needs, statistic=statistic, **more)


def _idle(name: str, meaning: str, causes: tuple[str, ...], *findings: str) -> Metric:
    """Make a metric of the time in which the device idles for some causes."""
    gaps = Rows(
        "gaps", ("op", *_PLACE), lambda _, gaps: gaps["cause"].within(causes), ("cost_ns", MS), device_step=True
    )
    samples = partial(Sampling.causes_ms, causes=causes)
    return Metric(name, "ms", meaning, _CAUSE, samples, gaps.parts, ("gpu", "idle"), of_step=True, findings=findings)


_SPREAD = "run-to-run spread of quiet machines is 1 to 3 %; clocks and thermals move a few percent more"
_RARE = "single slow steps come and go: one of five that takes a third longer adds 7 %"
_NOISE = "idle time of one cause is noisier than the step; 2 % of the step is what a reader would act on"
_BLOCKS = "the allocator rounds to 2 MB; fragmentation moves a few blocks"
_REPEAT = "counts repeat exactly where the program is the same; a few calls more are no regression"
_TICKS = 0.005
"""Floor of times that no other figure answers for, in ms: some ticks of the clocks, which older recordings round to 1 us."""
_CAUSE = Margin(0.10, 0.05, _NOISE, floor_share=0.02)
_BYTES = Margin(0.05, 1.0, _REPEAT)
_CALL = ("name", "op", *_PLACE)

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("step_ms", "ms", "the step", Margin(0.05, _TICKS, _SPREAD), _step_ms, _step_by_cause),
        Metric(
            "step_mean_ms", "ms", "the step on average, with what single slow steps add", Margin(0.08, _TICKS, _RARE),
            _step_ms, _step_by_cause, statistic="mean", of="step_ms",
        ),
        Metric(
            "gpu_busy_share", "share", "of the step in which the GPU works", Margin(0.05, 0.03, _SPREAD), _busy_share,
            needs=("gpu",), worse="down", of_step=True,
        ),
        _sum_of(
            "kernel_ms", "ms", "kernels other than communication, summed", Margin(0.05, _TICKS, _SPREAD, floor_share=0.01),
            Rows("kernels", ("name",), _compute, ("dur_ns", MS), device_step=True), "gpu", of_step=True,
        ),
        Metric(
            "exposed_communication_ms", "ms", "communication that no compute hides", _CAUSE,
            partial(Sampling.causes_ms, causes=("communication",)),
            needs=("gpu", "distributed"), of_step=True, findings=("distributed",),
        ),
        _idle("loader_ms", "the GPU idles while the loop waits for its batch", ("loader",), "data-loading"),
        _idle(
            "sync_ms", "the GPU idles behind synchronizations and blocking copies", ("sync", "blocking_copy"),
            "sync", "transfer",
        ),
        _idle("host_ms", "the GPU idles because launches come too late", ("host",), "gpu-idle"),
        _sum_of(
            "launch_count", "", "calls that launch GPU work", Margin(0.05, 5.0, _REPEAT),
            Rows("launches", ("name", "op"), _launching), "host",
        ),
        _sum_of(
            "sync_count", "", "calls in which the host waits for the device", Margin(0.02, 0.9, _REPEAT),
            Rows("syncs", _CALL, _waiting), "host", findings=("sync",),
        ),
        _sum_of("operator_count", "", "host operators", Margin(0.05, 20.0, _REPEAT), Rows("ops", ("name",)), "host"),
        _sum_of(
            "copied_mb", "MB", "bytes between host and device", _BYTES,
            Rows("copies", _CALL, _between, ("bytes", MB)), "gpu", findings=("transfer",),
        ),
        _sum_of(
            "pageable_mb", "MB", "of these: from or to pageable memory", _BYTES,
            Rows("copies", _CALL, _pageable, ("bytes", MB)), "gpu", findings=("transfer",),
        ),
        Metric(
            "peak_memory_mb", "MB", "highest memory allocated on the device", Margin(0.05, 16.0, _BLOCKS), _peak_memory,
            needs=("memory",),
            statistic="peak",
        ),
    )
}  # fmt: skip
STEP = METRICS["step_ms"]
MEAN_STEP = METRICS["step_mean_ms"]
OPERATORS = METRICS["operator_count"].name
