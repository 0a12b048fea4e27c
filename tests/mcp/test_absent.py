"""``advisor mcp`` where the protocol's package is not installed."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from advisor.cli import main
from advisor.cli import mcp as module


def test_absence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _name: None)
    result = CliRunner().invoke(main, ["mcp"])
    assert result.exit_code == 2
    assert "pip install 'mcp>=2.3,<3'" in result.stderr
