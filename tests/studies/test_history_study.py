"""Change points of synthetic histories, held to what they promise: how soon, where, and how often for nothing.

Every run does 200 series; ``-m study`` does more of them, and enough quiet runs to bound false alarms.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest
from support.paths import ROOT


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("history_study", ROOT / "benchmarks" / "history.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_shifts_and_drifts_are_raised_soon_and_placed() -> None:
    result = _load().study(series=200, quiet=40)
    assert result.raised >= 0.90
    assert result.placed >= 0.90
    assert result.drift >= 0.90
    assert result.false_worse <= 1.0


@pytest.mark.study
def test_false_alarms_are_one_in_a_thousand_runs_at_most() -> None:
    result = _load().study(series=1000, quiet=400)
    assert min(result.raised, result.placed, result.drift) >= 0.90
    assert result.false_any <= 1.0
