"""Frames of very many rows, of which a few columns are kept: what is asked for later is among them, and nothing is made again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from support.paths import ROOT

from advisor import rulebook
from advisor.columns import Columns
from advisor.engine import evaluation
from advisor.engine.run import Outcome, run
from advisor.trace import Trace, read

PROGRAMS = ROOT / "sample_traces" / "h100" / "programs"


class Asked:
    """A trace that notes which columns of which frame it is asked for."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.asked: list[tuple[str, str]] = []

    def columns(self, name: str, columns: Sequence[str] | None = None) -> Columns:
        table = self._trace.columns(name, columns)
        self.asked += [(name, column) for column in (columns if columns is not None else table)]
        return table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trace, name)


def outcome(name: str) -> tuple[Outcome, list[tuple[str, str]]]:
    asked = Asked(read(PROGRAMS / f"{name}.trace.json.gz"))
    return run(asked, rulebook.load([rulebook.builtin_rules_dir()])), asked.asked  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["recommender_onehot", "segmentation_eval"])
def test_what_is_kept_is_all_that_is_asked_for_later(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, before = outcome(name)
    monkeypatch.setattr(evaluation, "MANY_ROWS", 0)
    kept, after = outcome(name)
    assert expected.findings
    assert kept.verdicts == expected.verdicts
    assert kept.findings == expected.findings
    assert not Counter(after) - Counter(before)
