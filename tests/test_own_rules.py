"""Rules of one's own: the guide's example, from an empty folder, by the command alone.

``ADVISOR_COMMAND`` names the command to try, such as that of a wheel in a clean environment; else it is this Python's.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

COMMAND = shlex.split(os.environ.get("ADVISOR_COMMAND", f"{shlex.quote(sys.executable)} -m advisor"))
GUIDE = (ROOT / "docs" / "writing-rules.md").read_text()


def advisor(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if "ADVISOR_COMMAND" not in os.environ:  # a checkout that is not installed
        environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        [*COMMAND, *words], cwd=cwd, capture_output=True, check=False, text=True, timeout=120, env=environment
    )


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
        (["rules", "new", "team/x", "--frame", "kernel"], "no frame 'kernel'"),
        (["rules", "test", "nowhere"], "no such folder"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, words: list[str], said: str) -> None:
    result = advisor(*words, cwd=tmp_path)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_a_proof_that_does_not_hold_fails_and_says_why(mine: Path) -> None:
    proof = mine / "my_rules" / "team" / "slow-augment.proof.py"
    proof.write_text(proof.read_text().replace("cost_ms=1.5", "cost_ms=2.0"))
    result = advisor("rules", "test", "my_rules", cwd=mine)
    assert result.returncode == 1
    assert "cost_ms is 1.4997, not 2" in result.stdout
    proof.write_text("raise OSError('broken')\n")
    result = advisor("rules", "test", "my_rules", cwd=mine)
    assert result.returncode == 1
    assert "cannot be run: OSError: broken" in result.stdout
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
