"""Rules of one's own: the guide's example, from an empty folder, by the command alone.

``ADVISOR_COMMAND`` names the command to try, such as that of a wheel in a clean environment; else it runs in this process.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from support.command import command
from support.paths import ROOT

COMMAND = shlex.split(os.environ.get("ADVISOR_COMMAND", ""))
GUIDE = (ROOT / "docs" / "writing-rules.md").read_text()


def advisor(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    if not COMMAND:
        return command(*words, cwd=cwd)
    return subprocess.run([*COMMAND, *words], cwd=cwd, capture_output=True, check=False, text=True, timeout=120)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """An empty folder with the guide's example in it, and a trace that the example's own proof built."""
    for name, text in re.findall(r"<!-- example: (\S+) -->\n```\w+\n(.*?)```", GUIDE, re.DOTALL):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    from advisor.testing.proof import cases

    proof = cases(tmp_path / "my_rules" / "team" / "slow-augment.proof.py")
    (tmp_path / "trace.json").write_bytes(proof[0].build().to_bytes())  # type: ignore[union-attr]
    return tmp_path


def test_the_guides_example_is_checked_and_proved(mine: Path) -> None:
    checked = advisor("rules", "check", "my_rules", cwd=mine)
    assert (checked.returncode, checked.stdout) == (0, "1 rule, no problem\n"), checked.stderr
    tested = advisor("rules", "test", "my_rules", cwd=mine)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "1 rule, 5 cases, 0 failed" in tested.stdout


def test_it_is_used_with_an_option(mine: Path) -> None:
    result = advisor("analyze", "trace.json", "--rules", "my_rules", "-f", "json", cwd=mine)
    assert result.returncode == 0, result.stderr
    finding = next(f for f in json.loads(result.stdout)["findings"] if f["rule"] == "team/slow-augment")
    assert finding["cost_ms"] == pytest.approx(1.5, rel=0.01)


@pytest.mark.study
def test_it_is_used_from_the_settings_with_a_limit_of_ones_own(mine: Path) -> None:
    (mine / "pyproject.toml").write_text('[tool.advisor]\nrules = ["my_rules"]\n')
    found = json.loads(advisor("analyze", "trace.json", "-f", "json", cwd=mine).stdout)
    assert "team/slow-augment" in [finding["rule"] for finding in found["findings"]]
    with (mine / "pyproject.toml").open("a") as file:
        file.write('limits."team/slow-augment".min_per_step = 6\n')
    found = json.loads(advisor("analyze", "trace.json", "-f", "json", cwd=mine).stdout)
    assert "team/slow-augment" in found["verdicts"]["passes"]


def test_what_new_writes_holds_as_it_stands(tmp_path: Path) -> None:
    for frame in ("kernels", "copies", "memsets"):
        made = advisor("rules", "new", f"team/slow-{frame}", "--dir", "mine", "--frame", frame, cwd=tmp_path)
        assert made.returncode == 0, made.stderr
    assert advisor("rules", "check", "mine", cwd=tmp_path).stdout == "3 rules, no problem\n"
    tested = advisor("rules", "test", "mine", cwd=tmp_path)
    assert "3 rules, 15 cases, 0 failed" in tested.stdout, tested.stdout
    again = advisor("rules", "new", "team/slow-copies", "--dir", "mine", cwd=tmp_path)
    assert again.returncode == 2
    assert "exists; nothing was written" in again.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rules", "new", "Slow"], "is no id"),
        (["rules", "new", "../x/y"], "is no id"),
        (["rules", "new", "team/x", "--frame", "kernel"], "no frame 'kernel'; nearest: kernels"),
        (
            ["rules", "new", "team/x", "--frame", "gaps"],
            "no template begins with 'gaps'. Templates begin with kernels,",
        ),
        (["rules", "test", "nowhere"], "error: nowhere: no such folder"),
        (["rules", "check", "nowhere"], "error: nowhere: no such folder"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, words: list[str], said: str) -> None:
    result = advisor(*words, cwd=tmp_path)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.study
def test_a_proof_that_does_not_hold_fails_and_says_why(mine: Path) -> None:
    proof = mine / "my_rules" / "team" / "slow-augment.proof.py"
    proof.write_text(proof.read_text().replace("cost_ms=1.5", "cost_ms=2.0"))
    result = advisor("rules", "test", "my_rules", cwd=mine)
    assert result.returncode == 1
    assert "cost_ms is 1.4997, not 2" in result.stdout
    proof.write_text("raise OSError('broken')\n")
    result = advisor("rules", "test", "my_rules", cwd=mine)
    assert result.returncode == 1
    assert "cannot be run: OSError: broken (line 1 of slow-augment.proof.py)" in result.stdout
    proof.unlink()
    result = advisor("rules", "test", "my_rules", cwd=mine)
    assert result.returncode == 1
    assert "is missing" in result.stdout


def test_a_proof_that_is_not_whole_fails(mine: Path) -> None:
    proof = mine / "my_rules" / "team" / "slow-augment.proof.py"
    proof.write_text(
        proof.read_text().replace("@edge\n", "").replace('@lacks("stacks")\n', "").replace("cost_ms=1.5, ", "")
    )
    said = advisor("rules", "test", "my_rules", cwd=mine).stdout
    for problem in ("no case of @edge", "no case of @lacks", "no case plants a symptom of known size"):
        assert problem in said


@pytest.mark.study
def test_what_is_no_trace_is_named(mine: Path) -> None:
    proof = mine / "my_rules" / "team" / "slow-augment.proof.py"
    whole = proof.read_text()
    for returned, said in (("None", "nothing (None)"), ("{}", "dict"), ("[3]", "int"), ("[]", "an empty list")):
        proof.write_text(whole.replace("    return training(1500)\n", f"    return {returned}\n", 1))
        result = advisor("rules", "test", "my_rules", cwd=mine)
        assert (result.returncode, f"returns {said}, not" in result.stdout) == (1, True), result.stdout


def test_decorators_with_and_without_parentheses() -> None:
    from advisor.testing import proof

    for mark in (proof.fires, proof.fires(), proof.quiet, proof.quiet(), proof.edge, proof.edge()):
        assert mark(lambda: None).__advisor_case__.kind in ("fires", "quiet", "edge")
    with pytest.raises(TypeError, match="names what is lacking"):
        proof.lacks(lambda: None)  # type: ignore[arg-type]


@pytest.mark.study
def test_the_same_rules_from_settings_and_option_count_once(mine: Path) -> None:
    (mine / "pyproject.toml").write_text('[tool.advisor]\nrules = ["my_rules"]\n')
    (mine / "linked" / "other").mkdir(parents=True)
    (mine / "linked" / "team").symlink_to(mine / "my_rules" / "team")
    words = ["--rules", "my_rules", "--rules", "my_rules/", "--rules", "linked"]
    listed = advisor("rules", "list", *words, cwd=mine)
    assert (listed.returncode, listed.stdout.count("team/slow-augment")) == (0, 1), listed.stderr
    assert advisor("rules", "check", "linked", cwd=mine).stdout == "1 rule, no problem\n"


def test_settings_are_named_for_their_mistakes(mine: Path) -> None:
    for text, said in (
        ('skip = ["tem/*"]', 'pyproject.toml: skip "tem/*" fits no rule'),
        (
            'limits."team/slow-augmen".x = 1',
            "pyproject.toml: limits: no rule 'team/slow-augmen'; nearest: team/slow-augment",
        ),
    ):
        (mine / "pyproject.toml").write_text(f'[tool.advisor]\nrules = ["my_rules"]\n{text}\n')
        result = advisor("analyze", "trace.json", cwd=mine)
        assert (result.returncode, said in result.stderr) == (2, True), result.stderr


@pytest.mark.study
def test_a_proof_that_exits_or_loops_fails(mine: Path) -> None:
    from advisor import rulebook
    from advisor.testing import runner as proving

    rules = rulebook.load([mine / "my_rules"])
    proof = mine / "my_rules" / "team" / "slow-augment.proof.py"
    whole = proof.read_text()
    proof.write_text("import sys\nsys.exit(0)\n")
    assert advisor("rules", "test", "my_rules", cwd=mine).returncode == 1
    proof.write_text(whole.replace("    return training(1500)\n", "    raise SystemExit\n", 1))
    assert advisor("rules", "test", "my_rules", cwd=mine).returncode == 1
    proof.write_text("while True:\n    pass\n")
    seconds, proving.CASE_SECONDS = proving.CASE_SECONDS, 0.2
    try:
        results = proving.prove(rules.rules[0], rules)
    finally:
        proving.CASE_SECONDS = seconds
    assert "took longer than 0.2 s" in results[0].problem
