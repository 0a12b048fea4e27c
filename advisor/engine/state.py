"""State of a run of rules over a trace: the facts of the trace, and the verdicts so far."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from advisor.counting import duration
from advisor.engine.evaluation import Evaluator, explain
from advisor.engine.interface import Trace
from advisor.results.analysis import NotApplicable, NotRun, RuleFailure, Verdicts
from advisor.rulebook import Rulebook
from advisor.rulebook.conditions import Condition
from advisor.rulebook.rule import Rule

_ACTIVITIES = "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
HOW = {
    "gpu": f"Record the GPU too: profile({_ACTIVITIES}), with no other profiler attached to the process.",
    "host": f"Record the host too: profile({_ACTIVITIES}).",
    "steps": "Give the profiler a schedule, and call prof.step() at the end of each iteration.",
    "shapes": "Record with record_shapes=True.",
    "stacks": "Record with with_stack=True.",
    "memory": "Record with profile_memory=True.",
    "distributed": "Record a run of several processes.",
    "loader": "Profile the loop that takes batches from the DataLoader.",
    "ranks": "Record every rank, and give the advisor the traces of all of them at once.",
    "gc": (
        "Record with with_stack=True and experimental_config=torch._C._profiler._ExperimentalConfig("
        "record_python_gc_info=True), torch 2.9 or later."
    ),
    "idle": (
        f"Record host and GPU together, profile({_ACTIVITIES}), after a few steps of warm-up, and without CUDA graphs "
        "where their replays come out incomplete: only then can idle time be explained."
    ),
}
"""Advice on what to record next time, by need."""
_COPIES = "Its profiler leaves this out of copies, as that of AMD GPUs does; CUDA's writes it."
_MESSAGES = "Record with record_shapes=True, and with torch 2.2 or later, which writes the sizes of collectives."
_STAGES = "Record all ranks of the pipeline over the same steps, and give the advisor their traces at once."
_UNSAID = {"stage_count": _STAGES} | {
    "copy_memory": _COPIES,
    "bytes_copied": _COPIES,
    "sized_messages_share": _MESSAGES,
}
"""Advice on an unknown column of `trace`, where it is not the device's properties that are missing."""


class State:
    """Facts of a trace, and what is said so far of the rules that are asked of it.

    The methods that give a verdict return False, as the rule goes no further.
    """

    def __init__(self, trace: Trace, rulebook: Rulebook, evaluator: Evaluator) -> None:
        self.trace, self.evaluator = trace, evaluator
        self.units = {column.name: column.unit for column in rulebook.schemas["trace"].columns}
        self.verdicts = Verdicts(passes=[], not_applicable=[], not_run=[], error=[])

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """The one row of `trace`; None for what is unknown."""
        try:
            return self.evaluator.row("trace") or {}
        except Exception:  # noqa: BLE001  (who needs these figures has failed already, or can be told without)
            return {}

    @property
    def whole_ms(self) -> float:
        """Time that shares are taken of: the typical step, or the window of a trace without steps."""
        return self.trace.whole_ms

    def figure(self, name: str, form: str = "") -> str:
        """One fact of the trace, with its unit."""
        value, unit = self.facts.get(name), self.units.get(name, "")
        if value is None or isinstance(value, bool | np.bool_):
            return "unknown" if value is None else "yes" if value else "no"
        if isinstance(value, str):
            return value
        if form.endswith("%") or (unit == "share" and not form):
            return f"{100 * value:.{form[1] if form else 0}f} %"
        if form:
            return format(float(value) if form.endswith("f") else int(value), form)
        if unit == "ns":
            return duration(value / 1e6)
        if unit == "bytes":
            return f"{value / 2**30:,.1f} GiB"
        return f"{value:,}" if isinstance(value, int | np.integer) else f"{value:.3g}"

    # ---- verdicts

    def fail(self, rule: Rule, error: Exception, doing: str) -> bool:
        self.verdicts.error.append(RuleFailure(rule=rule.id, message=f"{doing}: {explain(error)}"))
        return False

    def not_applicable(self, rule: Rule, because: str) -> bool:
        self.verdicts.not_applicable.append(NotApplicable(rule=rule.id, because=because))
        return False

    def not_run(self, rule: Rule, missing: Sequence[str]) -> bool:
        # Who records host and GPU together has done what idle time needs.
        needs = [need for need in missing if need != "idle" or not {"gpu", "host"} & set(missing)]
        how = " ".join(HOW[need] for need in needs)
        self.verdicts.not_run.append(NotRun(rule=rule.id, needs=list(missing), how=how))
        return False

    def unknown(self, rule: Rule, condition: Condition | None) -> bool:
        columns = condition.columns if condition else ()
        blank = [name for name in columns if name in self.units and self.facts.get(name) is None]
        names = list(blank or columns)
        advice = dict.fromkeys(_UNSAID.get(name, "A current torch writes the device's properties.") for name in names)
        how = " ".join([f"The trace does not say: {', '.join(map(plain_name, names))}.", *advice])
        self.verdicts.not_run.append(NotRun(rule=rule.id, needs=names, how=how))
        return False


def plain_name(column: str) -> str:
    """A column's name without its unit."""
    return re.sub(r"_(ns|share|bytes)$", "", column).replace("_", " ")


def deciding(rule: Rule) -> list[str]:
    """The columns of `trace` that decide whether the symptom is there."""
    parts = (rule.compiled.when, rule.compiled.where if rule.match.frame == "trace" else None)
    return list(dict.fromkeys(name for part in parts if part for name in part.columns))
