"""Copies of a project: whole, brought back after a run, and gone after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath

import pytest
from support.paths import ROOT

from advisor.errors import UsageError
from advisor.fix import tree as trees
from advisor.fix.tree import Tree, workplace


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files of this test alone."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A project with a file of each kind."""
    folder = tmp_path / "project"
    for name in ("data", ".git", "venv/lib", "own_env", "__pycache__"):
        (folder / name).mkdir(parents=True)
    for name in ("train.py", "data/a.bin", ".git/HEAD", "venv/lib/b.py", "own_env/pyvenv.cfg", "__pycache__/c.pyc"):
        (folder / name).write_text(name)
    (folder / "link").symlink_to("data/a.bin")
    return folder


def content(folder: Path) -> dict[str, str]:
    """Return texts by path, of links what they lead to."""
    return {
        path.relative_to(folder).as_posix(): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


WHOLE = {"data/a.bin": "data/a.bin", "link": "data/a.bin", "train.py": "train.py"}


def test_a_copy_has_what_programs_need(origin: Path, tmp_path: Path) -> None:
    copy = Tree(origin, tmp_path / "copy")
    assert content(copy.folder) == WHOLE


def test_a_run_leaves_the_copy_as_it_was_and_the_project_untouched(origin: Path, tmp_path: Path) -> None:
    copy = Tree(origin, tmp_path / "copy")
    copy.put(PurePosixPath("train.py"), "edited")
    before = content(origin)
    (copy.folder / "data/a.bin").write_text("other")
    (copy.folder / "train.py").unlink()
    (copy.folder / "runs/1").mkdir(parents=True)
    (copy.folder / "runs/1/events").write_text("x")
    (copy.folder / "link").unlink()
    copy.restore()
    assert content(copy.folder) == WHOLE | {"train.py": "edited"}
    assert not (copy.folder / "runs").exists()
    assert content(origin) == before


def test_too_much_is_not_copied(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MOST_BYTES", 5)
    with pytest.raises(UsageError, match="--root"):
        Tree(origin, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_workplace_goes_with_its_block(temporary: Path) -> None:
    with workplace() as folder:
        assert folder.is_relative_to(temporary)
        with workplace() as other:  # of another command, at work
            assert folder.exists()
            assert other != folder
    assert list(temporary.iterdir()) == []


def test_the_workplace_of_a_killed_process_is_removed_by_the_next(temporary: Path) -> None:
    code = "import os, time\nfrom advisor.fix.tree import workplace\nwith workplace() as f:\n print(f, flush=True)\n time.sleep(60)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        process.send_signal(signal.SIGKILL)
    assert left.is_dir()
    with workplace():
        assert not left.exists()
