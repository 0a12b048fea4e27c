"""A recording that is cut off is no measurement: the gate has no answer, and no baseline is made of it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.paths import ROOT

from advisor.cli import main

TRACE = ROOT / "sample_traces" / "gate" / "workers.json.gz"


def run(*words: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    text = gzip.decompress(TRACE.read_bytes())
    path = tmp_path / "cut.json"
    path.write_bytes(text[: len(text) * 6 // 10])
    return path


def test_the_gate_has_no_answer_to_it_and_says_why(cut: Path, tmp_path: Path) -> None:
    base = tmp_path / "b.json"
    assert run("baseline", TRACE, "-o", base)[0] == 0
    code, said, _ = run("gate", cut, "-b", base)
    assert code == 4
    assert f"the recordings cannot be compared: {cut} is cut off (truncated): record it again" in " ".join(said.split())
    assert "--update" not in said


def test_assertions_have_none_either(cut: Path, tmp_path: Path) -> None:
    settings = tmp_path / "pyproject.toml"
    settings.write_text('[tool.advisor.gate]\nassert = ["summary.step_ms < 1000"]\n')
    assert run("gate", TRACE, "--config", settings)[0] == 0
    assert run("gate", cut, "--config", settings)[0] == 4


def test_no_baseline_is_made_of_it(cut: Path, tmp_path: Path) -> None:
    code, _, said = run("baseline", cut, "-o", tmp_path / "b.json")
    assert code == 2
    assert "is cut off (truncated): record it again" in said
    assert not (tmp_path / "b.json").exists()
