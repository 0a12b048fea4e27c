"""Completion in the shell, as click asks for it: what fits, and nothing that says more than that."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from advisor.cli import COMMANDS, main
from advisor.frames import SCHEMAS


def complete(*words: str) -> list[tuple[str, str]]:
    """Answer to the shell after some words, the last of which has only begun."""
    shell = BashComplete(main, {}, "advisor", "_ADVISOR_COMPLETE")
    return [(item.type, item.value) for item in shell.get_completions(list(words[:-1]), words[-1])]


def test_nothing_yet_is_completed_to_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert complete("") == [("plain", name) for name in COMMANDS]
    assert complete("wa") == [("plain", "watch")]
    assert complete("runs/tra") == [("file", "runs/tra")]
    assert capsys.readouterr().out == ""  # a shell would take the help for words


@pytest.mark.parametrize(
    "before", [("rules", "show"), ("analyze", "t.json", "--explain"), ("t.json", "--explain"), ("analyze", "--only")]
)
def test_rules_are_completed_by_their_ids(before: tuple[str, ...]) -> None:
    found = complete(*before, "sync/sc")
    assert found == [("plain", "sync/scalar-readback"), ("plain", "sync/scaler-readback")]


def test_globs_are_completed_to_whole_categories_and_in_lists() -> None:
    assert complete("analyze", "t.json", "--skip", "sync")[0] == ("plain", "sync/*")
    assert complete("analyze", "t.json", "--what-if", "sync/x,sync/scalar") == [
        ("plain", "sync/x,sync/scalar-readback")
    ]


def test_rules_of_ones_own_are_completed_too(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "slow-augment.toml").write_text("not even read")
    found = complete("analyze", "--rules", str(tmp_path), "--only", "team")
    assert found == [("plain", "team/*"), ("plain", "team/slow-augment")]


def test_frames_files_and_folders() -> None:
    assert complete("query", "--schema", "ker") == [("plain", "kernels")]
    assert len(complete("query", "--schema", "")) == len(SCHEMAS)
    for words in (("analyze",), ("gate",), ("compare",), ("query",), ("export",), ("gate", "-b"), ("analyze", "-o")):
        assert complete(*words, "x") == [("file", "x")], words
    for words in (("watch",), ("rules", "check"), ("analyze", "--rules"), ("ladder", "-o")):
        assert complete(*words, "x") == [("dir", "x")], words
