"""Figures of a sample: where the batch of two recordings differs, a step of one says nothing of a step of the other."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from advisor.results.analysis import Analysis
from advisor.results.judgement import Check
from advisor.results.samples import Samples
from advisor.views.metrics import METRICS

_SUMS = ("copied_mb",)
"""Facts that are sums over a step."""


def rescaled(analysis: Analysis, factor: float) -> Analysis:
    """Return an analysis whose sums over a step are *factor* times as much: those of a sample, or of another batch.

    Shares and peaks stay as they are, and so does what says which program it is, and what its steps do: a row of a rule is a
    call, of which a larger batch has no more.
    """
    samples = analysis.samples
    if samples is None:
        return analysis
    findings = [msgspec.structs.replace(finding, cost_ms=finding.cost_ms * factor) for finding in analysis.findings]
    return msgspec.structs.replace(analysis, samples=_rescaled(samples, factor), findings=findings)


def _rescaled(samples: Samples, factor: float) -> Samples:
    def times(values: Sequence[float]) -> list[float]:
        return [value * factor for value in values]

    return msgspec.structs.replace(
        samples,
        metrics={name: times(values) if _is_sum(name) else values for name, values in samples.metrics.items()},
        rules={rule: times(values) for rule, values in samples.rules.items()},
        parts={
            name: {part: value * factor for part, value in parts.items()} if _is_sum(name) else parts
            for name, parts in samples.parts.items()
        },
        facts={
            name: value * factor if name in _SUMS and isinstance(value, int | float) else value
            for name, value in samples.facts.items()
        },
    )


def _is_sum(name: str) -> bool:
    """Tell whether a metric grows with the batch by being a sum over the step."""
    metric = METRICS.get(name)
    return metric is not None and metric.unit != "share" and metric.statistic != "peak"


def of_sample(check: Check, batch: float) -> Check:
    """Return a check of steps of *batch* samples as one of a sample."""
    if check.kind == "metric" and not _is_sum(check.name):
        return check
    fields = ("base", "now", "change", "low", "high", "threshold")
    known = {name: value / batch for name in fields if (value := getattr(check, name)) is not None}
    return msgspec.structs.replace(check, **known)
