"""Assertions of a project without a baseline: ``summary.gpu_busy_share >= 0.85``, parsed, never evaluated as code."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from statistics import median

from advisor.errors import UsageError
from advisor.results.analysis import Analysis
from advisor.results.samples import METRICS

_FORM = re.compile(r"\s*([a-z_][a-z0-9_.\-/]*)\s*(>=|<=|==|>|<)\s*(-?\d+(?:\.\d+)?(?:e-?\d+)?)\s*")
_COMPARE = {">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt}
_SUMMARY = (
    "gpu_busy_share", "sm_efficiency", "achieved_occupancy", "tensor_core_share", "peak_memory_bytes", "step_ms", "steps",
)  # fmt: skip
_CAUSES = (
    "compute", "communication", "copy", "memset", "loader", "sync", "blocking_copy", "allocator", "compile", "gc", "host",
    "profiler", "unknown",
)  # fmt: skip
_SEVERITIES = ("high", "medium", "low", "note")
KNOWN = (
    *(f"summary.{name}" for name in _SUMMARY),
    *(f"summary.causes.{name}" for name in _CAUSES),
    *(f"metrics.{name}" for name in METRICS),
    *(f"findings.{name}" for name in _SEVERITIES),
)
"""What an assertion may speak of; ``rules.<id>`` is the cost of a rule in ms a step besides."""


@dataclass(frozen=True)
class Assertion:
    """A figure of every candidate against a bound."""

    text: str
    name: str
    sign: str
    bound: float

    def check(self, candidates: Sequence[Analysis]) -> tuple[bool | None, float | None, str]:
        """Whether it holds on all (None where a trace does not say), the figure that is furthest off, and the words."""
        found = [_figure(self.name, analysis) for analysis in candidates]
        if not found or any(value is None for value in found):
            return None, None, f"{self.text}: the trace does not say"
        values = [value for value in found if value is not None]
        compare = _COMPARE[self.sign]
        broken = [value for value in values if not compare(value, self.bound)]
        worst = (broken or values)[0]
        held = f"holds: it is {worst:.6g}" if not broken else f"does not hold: it is {worst:.6g}"
        return not broken, worst, f"{self.text} {held}"


def parse(text: str) -> Assertion:
    """Read one assertion. Raises ``UsageError`` with the form, or the nearest known name."""
    found = _FORM.fullmatch(text)
    if not found:
        raise UsageError(f"assert: {text!r} is not of the form 'summary.gpu_busy_share >= 0.85'")
    name = found[1]
    if name not in KNOWN and not name.startswith("rules."):
        near = get_close_matches(name, KNOWN, n=1, cutoff=0.4)
        raise UsageError(f"assert: no figure {name!r}{f'; nearest: {near[0]}' if near else ''}")
    return Assertion(" ".join(text.split()), name, found[2], float(found[3]))


def _figure(name: str, analysis: Analysis) -> float | None:
    kind, _, rest = name.partition(".")
    if kind == "findings":
        return float(sum(finding.severity == rest for finding in analysis.findings))
    if kind == "metrics":
        samples = analysis.samples.metrics.get(rest) if analysis.samples else None
        return median(samples) if samples else None
    if kind == "rules":
        # A rule that has nothing to say of such a program costs nothing; one that could not run is not known.
        ran = {finding.rule for finding in analysis.findings} | set(analysis.verdicts.passes)
        ran |= {verdict.rule for verdict in analysis.verdicts.not_applicable}
        cost = next((finding.cost_ms for finding in analysis.findings if finding.rule == rest), 0.0)
        return cost if rest in ran else None
    if rest == "step_ms":
        return analysis.summary.step_ms.median if analysis.summary.step_ms else None
    if rest.startswith("causes."):
        causes = analysis.summary.causes
        return causes.get(rest.removeprefix("causes."), 0.0) if causes else None
    value = getattr(analysis.summary, rest)
    return None if value is None else float(value)
