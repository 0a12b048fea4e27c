"""The JSON Schema of a rule file, for editors that check TOML against one.

It knows the keys, their types and the words they take; names of columns and the order of levels are for ``advisor
rules check``. Renew it with ``python -m advisor.rulebook.schema > docs/rule.schema.json``; a test compares the two.
"""

from __future__ import annotations

import json
from typing import Any

from advisor.frames import SCHEMAS
from advisor.reading.program_settings import NAMES
from advisor.rulebook.rule import ACTIONS, CONFIDENCES, NEEDS, SEVERITIES, TIMES

_TEXT = {"type": "string", "minLength": 1}
_SHARE = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
_PART = {"type": "number", "minimum": 0, "maximum": 1}
_SQL = "; SQL, one expression without subqueries"


def _table(required: list[str], properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties, **more}


def _texts(meaning: str, **items: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", **items}, "description": meaning}


def rule_schema() -> dict[str, Any]:
    """The schema of one file ``<category>/<name>.toml``."""
    limit = _table(
        ["value", "unit", "basis"],
        {
            "value": {"type": ["number", "string"], "description": "users override it in [tool.advisor] limits"},
            "unit": _TEXT,
            "basis": {**_TEXT, "description": "why this number and no other"},
        },
    )
    match = _table(
        ["frame"],
        {
            "frame": {"enum": list(SCHEMAS), "description": "the rows that the rule speaks of"},
            "where": {"type": "string", "description": f"which rows{_SQL}; $name is a limit"},
            "when": {"type": "string", "description": f"over `trace`: false, and the rule passes{_SQL}"},
            "having": {"type": "string", "description": f"over all matched rows; $steps and $window_ns too{_SQL}"},
            "evidence": _texts("the columns of the finding's table; those without an aggregate are grouped by"),
        },
    )
    fix = _table(
        ["title"],
        {
            "title": _TEXT,
            "effort": _TEXT,
            "before": {"type": "string", "description": "Python that shows the symptom"},
            "after": {"type": "string", "description": "the same with the fix"},
            "caveat": {"type": "string", "description": "what may change: accuracy, convergence, memory"},
            "verify": {**_TEXT, "description": "how the next trace shows that it worked"},
        },
    )
    replay = _table(
        ["action", "low", "high", "basis"],
        {
            "action": {"enum": list(ACTIONS), "description": "what the fix does to the matched rows"},
            "low": {**_PART, "description": "the part of their time that it returns, cautiously"},
            "high": {**_PART, "description": "and at most"},
            "times": {
                "enum": list(TIMES),
                "description": "the figure of `trace` that bounds how much faster they become",
            },
            "basis": {**_TEXT, "description": "where both come from; a prior says that it is one"},
        },
    )
    setting = _table(
        ["name"],
        {
            "name": {"enum": list(NAMES), "description": "which rows of `settings`"},
            "where": {"type": "string", "description": f"which of them; over `settings` and `trace`{_SQL}"},
            "advice": {"type": "string", "description": f"the value to set instead, NULL for none; likewise{_SQL}"},
            "because": {"type": "string", "description": "what it follows from, with figures of either as {column}"},
        },
    )
    reference = _table(["title", "url"], {"title": _TEXT, "url": {"type": "string", "pattern": "^https?://"}})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A rule of advisor",
        **_table(
            ["id", "since", "title", "why", "confidence", "match", "fix"],
            {
                "id": {
                    "type": "string",
                    "pattern": "^[a-z0-9]+(-[a-z0-9]+)*/[a-z0-9]+(-[a-z0-9]+)*$",
                    "description": "the folder and the name of the file",
                },
                "since": {**_TEXT, "description": "the version that brought it"},
                "title": {**_TEXT, "description": "one line; in profile rules {column:.0%} is a figure of `trace`"},
                "why": {**_TEXT, "description": "what happens and why it costs; then when it is harmless"},
                "needs": _texts("what the trace must hold, else the rule is not run", enum=list(NEEDS)),
                "given": {"type": "string", "description": f"over `trace`: of which programs it speaks{_SQL}"},
                "confidence": {"enum": list(CONFIDENCES)},
                "yields_to": _texts("rules that own these rows where they fire too"),
                "severity": {"enum": list(SEVERITIES), "description": "for a risk that costs no time, not [levels]"},
                "replaces": {"type": "string", "description": "the id of the rule that this one stands in for"},
                "match": match,
                "limits": {"type": "object", "additionalProperties": limit, "propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"}},
                "levels": _table([], dict.fromkeys(SEVERITIES, _SHARE), description="severity by share of the time"),
                "fix": fix,
                "replay": replay,
                "references": {"type": "array", "items": reference},
                "settings": {
                    "type": "array",
                    "items": setting,
                    "description": "what the finding says of the settings that `advisor record` wrote into the trace",
                },
            },
        ),
    }  # fmt: skip


def schema_text() -> str:
    """The schema as it lies in ``docs/``."""
    return json.dumps(rule_schema(), indent=2) + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(schema_text())
