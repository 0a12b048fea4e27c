"""Several traces are repeated runs: one recording counts once, whatever it is called, for a second run shows the noise."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.paths import ROOT

import advisor
from advisor.cli import main
from advisor.gating.baseline import load
from advisor.gating.run import rules, runs, settings_of

GATE = ROOT / "sample_traces" / "gate"
TRACE = GATE / "workers.json.gz"


def run(*words: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(word) for word in words])
    return result.exit_code, result.stderr


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "b.json"
    assert run("baseline", TRACE, "-o", path, "-q") == (0, "")
    return path


def test_a_file_under_two_paths_is_one_run(base: Path, tmp_path: Path) -> None:
    link = tmp_path / "run2.json.gz"
    link.symlink_to(TRACE)
    said = f"advisor: note: {link} is given twice, as {TRACE} before, and counts once\n"
    assert run("gate", TRACE, link, "-b", base, "-q") == (0, said)
    twice = tmp_path / "twice.json"
    assert run("baseline", TRACE, link, "-o", twice, "-q") == (0, said)
    assert twice.read_bytes() == base.read_bytes()


@pytest.mark.parametrize("packed", [True, False])
def test_a_copy_of_a_recording_is_one_run(packed: bool, base: Path, tmp_path: Path) -> None:
    copy = tmp_path / ("copy.json.gz" if packed else "copy.json")
    if packed:
        shutil.copy(TRACE, copy)
    else:
        copy.write_bytes(gzip.decompress(TRACE.read_bytes()))
    said = f"advisor: note: {copy} holds the same recording as {TRACE} before, and counts once\n"
    assert run("gate", TRACE, copy, "-b", base, "-q") == (0, said)
    twice = tmp_path / "twice.json"
    assert run("baseline", TRACE, copy, "-o", twice, "-q") == (0, said)
    assert twice.read_bytes() == base.read_bytes()


def test_two_recordings_are_two_runs(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    assert run("baseline", TRACE, GATE / "pinned.json.gz", "-o", path, "-q") == (0, "")
    assert load(path).runs == 2


def test_in_python_a_warning_says_so() -> None:
    settings = settings_of(None)
    with pytest.warns(UserWarning, match="holds the same recording as .* and counts once"):
        found = runs([TRACE, advisor.read(str(TRACE))], settings, rules(settings))
    assert len(found) == 1


def test_standard_input_is_one_trace() -> None:
    for words in (["gate", "-", "-", "-b", "b.json"], ["baseline", "-", "-"], ["analyze", "-", "-"]):
        assert run(*words) == (2, "advisor: error: standard input (-) can be read once only\n")
