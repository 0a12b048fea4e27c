"""Views of a built trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.views import traced, training

from advisor.pipeline import analyze
from advisor.results.views import Views
from advisor.trace import Trace


@pytest.fixture
def made(tmp_path: Path) -> tuple[Trace, Views]:
    trace = traced(training(), tmp_path)
    views = analyze(trace, views=True).views
    assert views is not None
    return trace, views
