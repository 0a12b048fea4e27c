"""TOML written from Python values, tables inline."""

from __future__ import annotations

import json
from typing import Any


def toml(value: Any) -> str:
    """Write a value in TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return repr(value) if isinstance(value, float) else json.dumps(value)
