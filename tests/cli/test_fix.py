"""``advisor fix`` from a recording: diffs with their prices, what no edit does, and nothing written."""

from __future__ import annotations

import gzip
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.paths import ROOT

from advisor.cli import main

needs_libcst = pytest.mark.skipif(find_spec("libcst") is None, reason="the extra dev brings libcst")
TRACE = ROOT / "sample_traces" / "cpu_ladder" / "state0_baseline.json.gz"
SCRIPT = """import torch
from torch.utils.data import DataLoader

loader = DataLoader(
    data,
    batch_size=64,
)
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
"""


def recorded(folder: Path, settings: dict[str, Any]) -> Path:
    """Write a trace with the settings of a program."""
    root = json.loads(gzip.decompress(TRACE.read_bytes()))
    root["advisor"] |= settings
    path = folder / "t.json"
    path.write_text(json.dumps(root))
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the script."""
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    """Run ``advisor fix``."""
    return CliRunner().invoke(main, ["fix", *words])


def test_without_libcst_it_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    done = run("--from", str(TRACE), "train.py")
    assert done.exit_code == 2
    assert "pip install '.[fix]'" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name the SCRIPT"),
        (("--apply", "train.py"), "give both"),
        (("--verify", "--from", "t.json"), "name the SCRIPT after"),
        (("--patch", "p.diff", "train.py"), "give it too"),
        (("--budget", "soon", "train.py"), "is no time"),
        (("none.py",), "no such script"),
    ],
)
@needs_libcst
def test_what_cannot_be_asked_is_said(words: tuple[str, ...], message: str, folder: Path) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert message in done.output


@needs_libcst
def test_edits_are_shown_and_nothing_is_written(folder: Path) -> None:
    settings = {"threads": 16, "cores": 2, "loaders": [{"workers": 0, "file": "train.py", "line": 4}]}
    trace = recorded(folder, settings)
    before = sorted(path.name for path in folder.iterdir())
    done = run("--from", str(trace), "-f", "json", "train.py")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert [one["verdict"] for one in result["fixes"]] == ["proposed"] * len(result["fixes"])
    diffs = {one["edit"]: one["diff"] for one in result["fixes"]}
    assert "+torch.set_num_threads(2)\n" in diffs["threads"]
    assert "+    num_workers=2,\n+    persistent_workers=True,\n" in diffs["loader-workers"]
    assert diffs["threads"].startswith("--- a/train.py\n+++ b/train.py\n")
    assert not result["verified"]
    assert (folder / "train.py").read_text() == SCRIPT
    assert sorted(path.name for path in folder.iterdir()) == before
    told = {one["rule"] for one in result["advice"]}
    assert told.isdisjoint(rule for one in result["fixes"] for rule in one["rules"])


@needs_libcst
@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_the_document_in_each_form(form: str, folder: Path) -> None:
    trace = recorded(folder, {"threads": 16, "cores": 2})
    done = run("--from", str(trace), "-f", form, "train.py")
    assert done.exit_code == 0, done.output
    for text in ("Use as many threads as there are cores", "torch.set_num_threads(2)", "predicted to return "):
        assert text in done.output


@needs_libcst
def test_a_trace_of_another_program_proposes_nothing(folder: Path) -> None:
    settings = {"threads": 1, "loaders": [{"workers": 0, "file": "other.py", "line": 4}]}
    done = run("--from", str(recorded(folder, settings)), "-f", "json", "train.py")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["fixes"] == []
    assert "other.py is no file of the project" in [one["because"] for one in result["advice"]]
