"""Settings of the gate's tests: a sample or real trace is analyzed once a process, however many commands judge it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT
from support.real import TRACES

import advisor.pipeline
from advisor.results.analysis import Analysis
from advisor.rulebook import Rulebook
from advisor.trace import Trace

_KEPT: dict[tuple[Any, ...], tuple[Analysis, Rulebook | None]] = {}
_FOLDERS = (ROOT / "sample_traces", TRACES.resolve())
_analyze = advisor.pipeline.analyze


def _analyzed_once(trace: Trace, rules: Rulebook | None = None, **options: Any) -> Analysis:
    """Analyze a trace as the pipeline does; files that no test writes only once for the same rules and options."""
    if not any(Path(trace.path).resolve().is_relative_to(folder) for folder in _FOLDERS):
        return _analyze(trace, rules, **options)
    chosen = tuple(
        (name, tuple(value) if isinstance(value, list) else value) for name, value in sorted(options.items())
    )
    # The rules are kept beside the analysis, so that no other ones come to have their number.
    key = (trace.path, trace.events, trace.zero_ns, trace.window, id(rules), chosen)
    if key not in _KEPT:
        _KEPT[key] = (_analyze(trace, rules, **options), rules)
    return _KEPT[key][0]


@pytest.fixture(autouse=True)
def _one_analysis_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advisor.pipeline, "analyze", _analyzed_once)
