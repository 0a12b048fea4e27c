"""The tools ``fix`` and ``history``: diffs that are not written, runs over commits, and what both refuse."""

from __future__ import annotations

import gzip
import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import agents

agents.installed()

from advisor.cli import main  # noqa: E402
from advisor.mcp import tools  # noqa: E402
from advisor.mcp.roots import Roots  # noqa: E402
from advisor.mcp.server import _declared, call  # noqa: E402
from advisor.mcp.workspace import Workspace  # noqa: E402

SAMPLES = agents.ROOT / "sample_traces"
SCRIPT = """import torch
from torch.utils.data import DataLoader

loader = DataLoader(
    data,
    batch_size=64,
)
"""


def ask(workspace: Workspace, tool: str, **arguments: Any) -> str:
    text, failed = call(workspace, tool, arguments)
    assert not failed, text
    assert len(text.encode()) <= workspace.most_bytes
    return text


def refused(workspace: Workspace, tool: str, **arguments: Any) -> str:
    text, failed = call(workspace, tool, arguments)
    assert failed, text
    return text


# ---- fix


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A root with a script, and a trace of it whose settings say where its loader is made."""
    if find_spec("libcst") is None:
        pytest.skip("the extra dev brings libcst")
    document = json.loads(gzip.decompress((SAMPLES / "cpu_ladder" / "state0_baseline.json.gz").read_bytes()))
    document["advisor"] |= {"threads": 16, "cores": 2, "loaders": [{"workers": 0, "file": "train.py", "line": 4}]}
    root = tmp_path / "root"
    root.mkdir()
    (root / "t.json").write_text(json.dumps(document))
    (root / "train.py").write_text(SCRIPT)
    return root


def test_fix_shows_diffs_and_writes_nothing(project: Path) -> None:
    before = {path.name: path.read_bytes() for path in project.iterdir()}
    workspace = Workspace(Roots([project]))
    text = ask(workspace, "fix", trace="t.json", script="train.py")
    assert "+torch.set_num_threads(2)" in text
    assert "+    num_workers=2," in text
    assert "--- a/train.py" in text
    assert "Nothing was written or run" in text
    assert ask(workspace, "fix", trace="t.json").count("+torch.set_num_threads(2)") == 0  # no script to put it in
    assert "+    num_workers=2," in ask(workspace, "fix", trace="t.json")  # found by its place
    assert {path.name: path.read_bytes() for path in project.iterdir()} == before


def test_fix_reads_no_source_outside_of_the_roots(project: Path) -> None:
    outside = project.parent / "elsewhere.py"
    shutil.move(project / "train.py", outside)
    (project / "train.py").symlink_to(outside)
    workspace = Workspace(Roots([project]))
    assert "lies outside" in refused(workspace, "fix", trace="t.json", script="train.py")
    assert "lies outside" in refused(workspace, "fix", trace="t.json", script="../elsewhere.py")
    text = ask(workspace, "fix", trace="t.json")
    assert "batch_size=64,\n" not in text
    assert "train.py is no file of the project" in text


def test_fix_applies_only_where_the_server_may_write(project: Path) -> None:
    workspace = Workspace(Roots([project]))
    assert "--allow-write" in refused(workspace, "fix", trace="t.json", script="train.py", apply=True)
    writing = Workspace(Roots([project]), allow_write=True)
    assert "name its script" in refused(writing, "fix", trace="t.json", apply=True)
    for may, space in ((False, workspace), (True, writing)):
        hints = _declared(tools.load("fix"), allow_write=space.allow_write).annotations
        assert hints is not None
        assert hints.read_only_hint is not may


def test_fix_applies_by_the_command_and_shows_what_it_said(project: Path) -> None:
    """The script fails at once (no ``data``): the program's run ends, its words are in the answer, the file is as it was."""
    writing = Workspace(Roots([project]), allow_write=True)
    text = ask(writing, "fix", trace="t.json", script="train.py", apply=True, budget_seconds=30)
    assert "exit status 2" in text
    assert "advisor: error: " in text
    assert (project / "train.py").read_text() == SCRIPT


# ---- history


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a store: twelve commits of a fast loader, then eight of a slow one."""
    root = tmp_path_factory.mktemp("root")
    for number in range(20):
        trace = SAMPLES / "gate" / ("workers.json.gz" if number < 12 else "no_workers.json.gz")
        words = [
            "history",
            "add",
            str(trace),
            "--commit",
            f"c{number:02}",
            "--branch",
            "main",
            "--store",
            str(root / "store"),
            "-q",
        ]
        made = CliRunner().invoke(main, [*words, "--time", f"2026-01-{number + 1:02}T00:00:00Z", "--workload", "w"])
        assert made.exit_code == 0, made.output
    return root


def test_history_names_the_commit_and_judges_the_newest_runs(runs: Path) -> None:
    workspace = Workspace(Roots([runs]))
    text = ask(workspace, "history", store="store", metrics=["step_ms"])
    assert "main: 20 runs" in text
    assert "c12" in text
    assert "verdict: failed" in ask(workspace, "history", store="store", check=True)
    assert "verdict: passed" in ask(workspace, "history", store="store", check=True, since="c12")


def test_history_says_what_is_wrong(runs: Path, tmp_path: Path) -> None:
    workspace = Workspace(Roots([runs, tmp_path]))
    for arguments, says in (
        ({}, "no such file below"),
        ({"store": "store", "branch": "mian"}, "nearest: main"),
        ({"store": "store", "metrics": ["step"]}, "no metric"),
        ({"store": "s3://bucket/x"}, "reads files below its roots only"),
        ({"store": "../"}, "lies outside"),
        ({"store": "."}, "holds no runs"),
    ):
        text = refused(workspace, "history", **arguments)
        assert says in text
        assert str(runs) not in text


def test_history_follows_no_symlink_out_of_the_roots(runs: Path, tmp_path: Path) -> None:
    store = tmp_path / "root" / "store"
    store.mkdir(parents=True)
    file = min((runs / "store").glob("*.parquet"))
    (store / file.name).symlink_to(file)
    assert "lies outside" in refused(Workspace(Roots([tmp_path / "root"])), "history", store="store")
