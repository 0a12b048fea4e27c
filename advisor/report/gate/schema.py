"""The JSON Schemas of ``advisor gate -f json`` and ``advisor compare -f json``, generated from the structs.

``docs/renew.py`` writes them; a test compares.
"""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.gating.baseline import Baseline
from advisor.results.comparison import Comparison
from advisor.results.judgement import Judgement

# What a name and a type do not say. Keys are `Struct.field`.
MEANINGS = {
    "Judgement.verdict": "failed where a check that counts regressed, else inconclusive where one that counts has no answer.",
    "Judgement.headline": "One line: what grew, by how much, where.",
    "Judgement.workload": "As the baseline calls it; empty where it has no name.",
    "Judgement.baseline": "The file, as it was given; empty where only assertions were checked.",
    "Judgement.traces": "The candidates, as they were given: runs of one workload.",
    "Judgement.incomparable": "Why the recordings cannot be compared; empty where they can.",
    "Judgement.checks": "What counts first; of that the regressions, and of these the largest.",
    "Judgement.update": "The command that makes this the new baseline; empty where nothing changed.",
    "Check.name": "A metric, the id of a rule, or the text of an assertion.",
    "Check.level": "error counts; warn is told and does not.",
    "Check.message": "One line: what grew, by how much, where; or why there is no answer.",
    "Check.base": "Median of the baseline's steps, in `unit`.",
    "Check.now": "Median of the candidate's steps, in `unit`.",
    "Check.change": "now less base.",
    "Check.change_share": "change over base; null where base is 0.",
    "Check.low": "Lower bound of the change, at 99 %, by bootstrap of the medians.",
    "Check.high": "Upper bound of the change.",
    "Check.threshold": "The least change that matters, in `unit`; of an assertion, its bound.",
    "Check.note": "Why there is no answer, or what to know of it; part of the message.",
    "Check.waiver": "The reason of the waiver that keeps it from counting; empty where there is none.",
}


def schema(struct: type[msgspec.Struct], title: str, description: str) -> dict[str, Any]:
    """The schema of one struct and of what it holds."""
    (reference,), components = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    definitions = dict(sorted(components.items()))
    for key, meaning in MEANINGS.items():
        name, field = key.split(".")
        if name in definitions:
            definitions[name]["properties"][field]["description"] = meaning
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": description,
        **reference,
        "$defs": definitions,
    }


def judgement_schema() -> dict[str, Any]:
    """Of ``advisor gate -f json``."""
    return schema(Judgement, "Answer of advisor gate", "Figures are per step, in the unit of the check.")


def comparison_schema() -> dict[str, Any]:
    """Of ``advisor compare -f json``."""
    return schema(
        Comparison, "Two traces side by side", "Times are ms, of a step where the name does not say otherwise."
    )


def baseline_schema() -> dict[str, Any]:
    """Of the file that ``advisor baseline`` writes."""
    return schema(Baseline, "Baseline of advisor", "Samples are per step, a list for each run.")


def text(made: dict[str, Any]) -> str:
    """A schema as it lies in ``docs/``."""
    return msgspec.json.format(msgspec.json.encode(made), indent=2).decode() + "\n"
