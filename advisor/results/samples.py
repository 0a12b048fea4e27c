"""What a gate measures: per-step figures of a trace, each with its unit, which way is worse, and when a change matters.

A change matters where it passes the tolerance (relative) *and* the floor (absolute): the first keeps small programs from
failing on a microsecond, the second large ones on nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from advisor.results.field import Name, doc


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """Per-step samples, over the steps that the median speaks of; over the window, as one sample, where there are none."""

    steps: Annotated[int, doc("Steps sampled; 0 without steps.")]
    metrics: Annotated[dict[Name, list[float]], doc("By metric: a value a step, in its unit.")]
    rules: Annotated[dict[Name, list[float]], doc("By rule id: the ms of each step that its rows own, where any do.")]
    parts: Annotated[dict[Name, dict[Name, float]], doc("By metric: the heaviest of its parts, a step on average.")]


@dataclass(frozen=True)
class Metric:
    """One figure. ``floor_share`` is a floor as a share of the baseline's step; the higher floor counts."""

    name: str
    unit: str
    worse: Literal["up", "down"]
    tolerance: float
    floor: float
    floor_share: float
    meaning: str
    basis: str


_TIME = "run-to-run spread of quiet machines is 1 to 3 %; clocks and thermals move a few percent more"
_IDLE = "idle time of one cause is noisier than the step; 2 % of the step is what a reader would act on"
_BLOCKS = "the allocator rounds to 2 MB; fragmentation moves a few blocks"
_COUNT = "counts repeat exactly where the program is the same; a few calls more are no regression"

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("step_ms", "ms", "up", 0.05, 0.05, 0.0, "the step", _TIME),
        Metric("kernel_ms", "ms", "up", 0.05, 0.05, 0.01, "kernels other than communication, summed", _TIME),
        Metric("gpu_busy_share", "share", "down", 0.05, 0.03, 0.0, "of the step in which the GPU works", _TIME),
        Metric("exposed_communication_ms", "ms", "up", 0.10, 0.05, 0.02, "communication that no compute hides", _IDLE),
        Metric("loader_ms", "ms", "up", 0.10, 0.05, 0.02, "the GPU idles while the loop waits for its batch", _IDLE),
        Metric("sync_ms", "ms", "up", 0.10, 0.05, 0.02, "the GPU idles behind synchronizations and blocking copies", _IDLE),
        Metric("host_ms", "ms", "up", 0.10, 0.05, 0.02, "the GPU idles because launches come too late", _IDLE),
        Metric("copied_mb", "MB", "up", 0.05, 1.0, 0.0, "bytes between host and device", _COUNT),
        Metric("pageable_mb", "MB", "up", 0.05, 1.0, 0.0, "of these: from or to pageable memory", _COUNT),
        Metric("launch_count", "", "up", 0.05, 5.0, 0.0, "calls that launch GPU work", _COUNT),
        Metric("sync_count", "", "up", 0.02, 0.9, 0.0, "calls in which the host waits for the device", _COUNT),
        Metric("operator_count", "", "up", 0.05, 20.0, 0.0, "host operators", _COUNT),
        Metric("peak_memory_mb", "MB", "up", 0.05, 16.0, 0.0, "highest memory allocated on the device", _BLOCKS),
    )
}  # fmt: skip
