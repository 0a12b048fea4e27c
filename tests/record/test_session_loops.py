"""Loops of plain tensor code in a session: what another thread asks for does not begin amid what the session does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.recording import needs_torch

pytestmark = needs_torch


def test_a_loop_is_not_cut_while_the_profiler_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from advisor.record.session import Options, Session
    from advisor.record.steps import LOOPS

    session: Any = Session(Options(tmp_path / "t.json"), print)
    session._steps.unit = LOOPS
    cuts: list[bool] = []
    monkeypatch.setattr(session, "_cut_loop", lambda: cuts.append(True))
    session._guarded(session._loop_ended)
    assert not cuts
    session._loop_ended()
    assert cuts == [True]
