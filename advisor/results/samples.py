"""Per-step samples of a trace, which the gate compares."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import Name, doc


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """Per-step samples, over the steps that the median speaks of; over the window, as one sample, where there are none."""

    steps: Annotated[int, doc("Steps sampled; 0 without steps.")]
    metrics: Annotated[dict[Name, list[float]], doc("By metric: a value a step, in its unit.")]
    rules: Annotated[dict[Name, list[float]], doc("By rule id: the ms of each step that its rows own, where any do.")]
    parts: Annotated[dict[Name, dict[Name, float]], doc("By metric: the heaviest of its parts, a step on average.")]
