"""``advisor rules list | show | check``: what a catalogue looks like from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from advisor.cli import main
from advisor.errors import RuleError, UsageError
from advisor.rulebook.rule import Fix


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def fix(title: str, given: str = "") -> Fix:
    texts = {
        "effort": "one line",
        "before": "x.cuda()",
        "after": "x.pin_memory()",
        "caveat": "memory",
        "verify": "look",
    }
    return Fix(title=title, given=given, **texts)


def rule(**change: Any) -> Any:
    made = SimpleNamespace(
        id="transfer/pageable-copy",
        title="Pageable copies",
        category="transfer",
        why="It blocks.",
        more="Measured on one GPU.\n\nHarmless when small.",
        needs=("gpu",),
        given="vendor = 'nvidia'",
        confidence="certain",
        match=SimpleNamespace(frame="copies", where="bytes >= $min_bytes", when="", having=""),
        limits={"min_bytes": SimpleNamespace(value=65536, unit="bytes", basis="smaller ones are staged")},
        levels={"low": 0.01, "high": 0.1},
        severity=None,
        variants=(fix("Do nothing", given="engine"), fix("Pin")),
        references=[SimpleNamespace(title="Guide", url="https://pytorch.org")],
        path="rules/transfer/pageable-copy.toml",
        replay=None,
        settings=(),
    )
    made.__dict__.update(change)
    return made


@pytest.fixture
def book(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    def put(*rules: Any) -> None:
        monkeypatch.setattr(
            "advisor.gating.run.rules", lambda *_, **_options: SimpleNamespace(rules=list(rules), former={})
        )

    monkeypatch.chdir(tmp_path)
    put(rule(), rule(id="a/b", title="Another\x1b[2J", needs=()))
    return put


def test_rules_list(book: Any) -> None:
    lines = run("rules", "list").stdout.splitlines()
    assert lines[0].split() == ["a/b", "Another"]
    assert lines[1].split() == ["transfer/pageable-copy", "Pageable", "copies"]
    assert lines[0].index("Another") == lines[1].index("Pageable")
    listed = json.loads(run("rules", "list", "-f", "json").stdout)
    assert listed[1]["limits"]["min_bytes"]["basis"] == "smaller ones are staged"


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_list_fits_its_columns_and_cuts_nothing(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = run("rules", "list").stdout.splitlines()
    assert max(map(len, lines)) <= width
    rules = json.loads(run("rules", "list", "-f", "json").stdout)
    text = " ".join(" ".join(lines).split())
    for one in rules:
        assert f"{one['id']} " in text
    words = "DataLoader runs in the main process (num_workers=0)"
    assert f"data-loading/single-process-loader {words}" in text


def test_no_command_cuts_its_own_help() -> None:
    for group in ((), ("rules",)):
        assert "..." not in run(*group, "-h").stdout.partition("Commands:")[2]


def test_names_that_only_a_trace_knows_are_shown_as_usual_ones() -> None:
    shown = run("rules", "show", "kernels/single-tensor-optimizer").stdout
    assert "Use AdamW's fused form (fused=True)" in shown
    assert "{" not in shown
    assert "Call it outside the step, or not at all" in run("rules", "show", "gpu-idle/host-function").stdout


def test_rules_show(book: Any) -> None:
    page = run("rules", "show", "transfer/pageable-copy").stdout
    for part in ("Why it matters", "  $min_bytes = 65,536 bytes: smaller ones are staged", "from 10 % of the time"):
        assert part in page
    first, second = (
        page.index("The fix 1 of 2\n  Do nothing (one line)"),
        page.index("The fix 2 of 2\n  Pin (one line)"),
    )
    assert "Why it matters\n  It blocks.\n\nMore\n  Measured on one GPU.\n\n  Harmless when small.\n" in page
    assert first < page.index("Shown of programs where\n  engine\n") < second
    assert page.count("Shown of programs where") == 1  # the last is for programs that no other fits
    wrong = run("rules", "show", "transfer/pageable")
    assert (wrong.exit_code, "nearest: transfer/pageable-copy" in wrong.stderr) == (2, True)


def test_rules_check(book: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("rules", "check").stdout == "2 rules, no problem\n"
    (tmp_path / "mine").mkdir()
    assert run("rules", "check", "mine").exit_code == 2  # none of the rules lies there
    (tmp_path / "mine/a").mkdir()
    (tmp_path / "mine/a/b.toml").touch()
    book(rule(), rule(path=str(tmp_path / "mine/a/b.toml")))
    assert run("rules", "check", "mine").stdout == "1 rule, no problem\n"

    assert run("rules", "check", "mine").stderr == ""
    book(rule(why="word " * 61), rule(why="word " * 60))
    warned = run("rules", "check")
    assert (warned.exit_code, warned.stdout) == (0, "2 rules, no problem, 1 warning\n")
    assert warned.stderr.startswith(
        "advisor: warning: rules/transfer/pageable-copy.toml: why: has 61 words, more than 60;"
    )

    def problems(*_: Any, **_options: Any) -> Any:
        raise RuleError(["x.toml: one", "y.toml: two"])

    monkeypatch.setattr("advisor.gating.run.rules", problems)
    result = run("rules", "check", "mine")
    assert result.exit_code == 2
    assert "2 problems in the rules:\n  x.toml: one\n  y.toml: two" in result.stderr


def test_a_folder_of_rules_must_exist() -> None:
    from advisor.config import Config
    from advisor.gating.run import rules

    with pytest.raises(UsageError, match="--rules nowhere: no such folder"):
        rules(Config(), ["nowhere"])
