"""JSON Schemas of what the commands write, generated from the structs and the meanings at their fields.

``docs/renew.py`` writes them to ``docs/``; a test compares. ``python -m advisor.report.schema NAME`` prints one.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import Any, NamedTuple

import msgspec

from advisor.gating.baseline import Baseline
from advisor.results.analysis import Analysis
from advisor.results.comparison import Comparison
from advisor.results.history import Drift, History
from advisor.results.judgement import Judgement
from advisor.results.several import Several


class Document(NamedTuple):
    """A JSON document: the structs that it may be, and words on all of it."""

    structs: tuple[type[msgspec.Struct], ...]
    title: str
    description: str


DOCUMENTS = {
    "analysis": Document(
        (Analysis, Several),
        "Analysis of a torch.profiler trace",
        "Times are milliseconds unless the name says otherwise, shares are 0 to 1, and null means that the trace does not "
        "hold it.",
    ),
    "judgement": Document((Judgement,), "Answer of advisor gate", "Figures are per step, in the unit of the check."),
    "comparison": Document(
        (Comparison,), "Two traces side by side", "Times are ms, of a step where the name does not say otherwise."
    ),
    "history": Document(
        (History, Drift),
        "Figures over commits, or the answer of its check",
        "Figures are per step, in the unit of the metric.",
    ),
    "baseline": Document((Baseline,), "Baseline of advisor", "Samples are per step, a list for each run."),
}
"""By name: what ``analyze``, ``gate``, ``compare`` and ``history`` print with ``-f json``, and the file of ``baseline``."""


def schema(name: str) -> dict[str, Any]:
    """Return the schema of a document by its name in :data:`DOCUMENTS`."""
    document = DOCUMENTS[name]
    references, components = msgspec.json.schema_components(document.structs, ref_template="#/$defs/{name}")
    definitions = dict(sorted(components.items()))
    for definition in definitions.values():
        for part in (definition, *definition.get("properties", {}).values()):
            if "description" in part:
                # Before 0.23 msgspec leaves docstrings as they are indented.
                part["description"] = cleandoc(part["description"]).replace("None", "null")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": document.title,
        "description": document.description,
        **({"anyOf": list(references)} if len(references) > 1 else references[0]),
        "$defs": definitions,
    }


def schema_text(name: str) -> str:
    """Return the schema as it lies in ``docs/``."""
    return msgspec.json.format(msgspec.json.encode(schema(name)), indent=2).decode() + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(schema_text(sys.argv[1] if len(sys.argv) > 1 else "analysis"))
