"""The real traces: where they are, and the independent figures for them."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.paths import ROOT

TRACES = Path(os.environ.get("ADVISOR_TRACES", ROOT.parent / "shared" / "traces"))
WHY = "the real traces are not here; set ADVISOR_TRACES to their folder"


@cache
def reference() -> dict[str, dict[str, Any]]:
    """Independent figures for the real traces, by path below their folder; empty where they are not here."""
    path = TRACES.parent / "facts" / "reference.json"
    figures: dict[str, dict[str, Any]] = json.loads(path.read_text())["traces"] if path.exists() else {}
    return figures


def real_trace(name: str) -> str:
    """Path of a real trace; skips the test where it is absent, and fails it there on CI."""
    path = TRACES / name
    if not path.exists():
        if os.environ.get("CI"):
            pytest.fail(f"{name}: {WHY}")
        pytest.skip(WHY)
    return str(path)
