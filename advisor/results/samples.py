"""Per-step samples of a trace, which the gate compares."""

from __future__ import annotations

import msgspec


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """Per-step samples, over the steps that the median speaks of; over the window, as one sample, where there are none.

    ``metrics`` holds what the trace can tell, by name; ``rules`` the ms of each step that a rule's rows own. ``parts``
    says what a metric is made of: the heaviest by name (of a kernel, an operator, a call and its place), a step on average.
    """

    steps: int
    metrics: dict[str, list[float]]
    rules: dict[str, list[float]]
    parts: dict[str, dict[str, float]]
