"""The user's project: which files may be edited, what a write leaves, and a branch beside the working tree."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from advisor.errors import UsageError
from advisor.fix.project import Project
from advisor.fix.source import NotEditable

TRAIN = PurePosixPath("train.py")


def git(folder: Path, *arguments: str) -> str:
    """Run git as somebody in *folder*."""
    names = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *names, *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a script and a library below it, both committed."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.org")
    folder = (tmp_path / "project").resolve()
    (folder / "lib/site-packages/other").mkdir(parents=True)
    (folder / "lib/site-packages/other/a.py").write_text("x = 1\n")
    (folder / "train.py").write_text("x = 1\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    monkeypatch.chdir(folder)
    return folder


def test_files_are_found_as_a_trace_names_them(repository: Path) -> None:
    (repository / "src/package").mkdir(parents=True)
    (repository / "src/package/model.py").write_text("")
    project = Project(repository / "train.py")
    assert project.root == repository
    assert project.find("train.py") == TRAIN
    assert project.find("package/model.py") == PurePosixPath("src/package/model.py")
    for name in ("none.py", "../outside.py", str(repository / "train.py"), "lib/site-packages/other/a.py"):
        assert project.find(name) is None


def test_files_that_must_not_be_edited(repository: Path, tmp_path: Path) -> None:
    project = Project(repository / "train.py")
    project.check(TRAIN)
    (tmp_path / "outside.py").write_text("x = 1\n")
    (repository / "link.py").symlink_to(tmp_path / "outside.py")
    for name, reason in (("lib/site-packages/other/a.py", "library"), ("link.py", "link")):
        with pytest.raises(NotEditable, match=reason):
            project.check(PurePosixPath(name))
    (repository / "train.py").write_text("x = 2\n")
    with pytest.raises(NotEditable, match="not committed"):
        project.check(TRAIN)
    Project(repository / "train.py", force=True).check(TRAIN)
    project.check(TRAIN, writes=False)  # a diff of it can be shown all the same
    (repository / "new.py").write_text("")
    with pytest.raises(NotEditable, match="not committed"):
        project.check(PurePosixPath("new.py"))


def test_a_write_keeps_rights_and_leaves_nothing_else(repository: Path) -> None:
    os.chmod(repository / "train.py", 0o755)
    git(repository, "commit", "-qam", "rights")
    inside = sorted(path.name for path in (repository / ".git").iterdir())
    project = Project(repository / "train.py")
    project.write(TRAIN, "x = 1\n", "x = 2\n")
    assert (repository / "train.py").read_text() == "x = 2\n"
    assert (repository / "train.py").stat().st_mode & 0o777 == 0o755
    assert git(repository, "status", "--porcelain") == "M train.py"
    assert sorted(path.name for path in (repository / ".git").iterdir()) == inside


def test_a_file_that_changed_meanwhile_is_left(repository: Path) -> None:
    project = Project(repository / "train.py")
    (repository / "train.py").write_text("mine\n")
    with pytest.raises(NotEditable, match="changed meanwhile"):
        project.write(TRAIN, "x = 1\n", "x = 2\n")
    assert (repository / "train.py").read_text() == "mine\n"


def test_what_a_write_begins_is_not_in_the_tree(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def stop(begun: str, _target: Path) -> None:
        seen.append(begun)
        assert git(repository, "status", "--porcelain") == ""
        raise OSError("the disk is gone")

    monkeypatch.setattr("advisor.fix.project.os.replace", stop)
    with pytest.raises(OSError, match="gone"):
        Project(repository / "train.py").write(TRAIN, "x = 1\n", "x = 2\n")
    assert len(seen) == 1
    assert not os.path.exists(seen[0])
    assert (repository / "train.py").read_text() == "x = 1\n"


def test_a_branch_has_a_commit_an_edit_and_nothing_else_moves(repository: Path) -> None:
    before = [git(repository, *words) for words in (("status", "--porcelain"), ("rev-parse", "HEAD"), ("branch",))]
    project = Project(repository / "train.py")
    project.commit("faster", [("first", TRAIN, "x = 2\n"), ("second", TRAIN, "x = 3\n")])
    assert git(repository, "log", "--format=%s", "faster") == "second\nfirst\none"
    assert git(repository, "show", "faster:train.py") == "x = 3"
    assert git(repository, "diff", "--stat", "main", "faster").splitlines()[-1].strip().startswith("1 file changed")
    assert (repository / "train.py").read_text() == "x = 1\n"
    assert [git(repository, "status", "--porcelain"), git(repository, "rev-parse", "HEAD")] == before[:2]
    assert git(repository, "worktree", "list").count("\n") == 0
    assert git(repository, "stash", "list") == ""
    with pytest.raises(UsageError, match="such a branch"):
        project.commit("faster", [("first", TRAIN, "x = 2\n")])


def test_a_project_without_git_is_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/train.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path / "scripts/train.py")
    assert project.root == tmp_path.resolve()
    assert project.find("train.py") == PurePosixPath("scripts/train.py")
    project.write(PurePosixPath("scripts/train.py"), "x = 1\n", "x = 2\n")
    assert sorted(path.name for path in (tmp_path / "scripts").iterdir()) == ["train.py"]
    with pytest.raises(UsageError, match="no git repository"):
        project.commit("faster", [])


def test_a_home_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="--root"):
        Project(tmp_path / "train.py")
