"""What of a path is written into a trace: enough to find the file, and nothing that says whose it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from advisor.record import places


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder below one of the user's name, with the program running in its ``work``."""
    folder = tmp_path / "alice" / "proj"
    (folder / "work").mkdir(parents=True)
    monkeypatch.setenv("USER", "alice")
    monkeypatch.chdir(folder / "work")
    monkeypatch.setattr("sys.path", [str(folder / "work"), str(folder / "libraries"), *sys.path])
    places.begin()
    return folder


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("work/train.py", "train.py"),
        ("work/models/vit.py", "models/vit.py"),
        ("libraries/mine/loss.py", "mine/loss.py"),  # as it is imported
        ("elsewhere/helper.py", "helper.py"),  # no folder that would name somebody
        ("work/home/alice/run.py", "run.py"),
        ("work/copies/alice/run.py", "run.py"),
    ],
)
def test_paths_name_nobody(project: Path, file: str, shown: str) -> None:
    assert places.trace_path(str(project / file)) == (shown, True)


def test_what_torch_compiles_is_no_source_of_the_users(project: Path) -> None:
    assert places.trace_path(str(project / "torchinductor_alice" / "ab" / "cabc.py")) == (
        "torchinductor/ab/cabc.py",
        False,
    )
