"""Paths of clients: nothing outside of the roots is read, whichever way it is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from advisor.errors import UsageError
from advisor.mcp.roots import Roots


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A root with a trace, a secret beside it, and symlinks from the one to the other."""
    inside = tmp_path / "served"
    (inside / "deep").mkdir(parents=True)
    (inside / "t.json").write_text("{}")
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "servedtoo.json").write_text("{}")
    (inside / "link.json").symlink_to(tmp_path / "secret.json")
    (inside / "up").symlink_to(tmp_path)
    (inside / "same.json").symlink_to(inside / "t.json")
    (inside / "loop").symlink_to(inside / "loop")
    return tmp_path


def test_files_within_are_found_and_named_from_the_root(world: Path) -> None:
    roots = Roots([world / "served"])
    assert roots.file("t.json") == world / "served" / "t.json"
    assert roots.file(str(world / "served" / "t.json")) == world / "served" / "t.json"
    assert roots.file("deep/../t.json") == world / "served" / "t.json"
    assert roots.file("same.json") == world / "served" / "t.json"
    assert roots.shown(world / "served" / "deep" / "t.json") == "deep/t.json"


@pytest.mark.parametrize(
    "path",
    [
        "../secret.json", "link.json", "up/secret.json", "up/served/../secret.json", "deep/../../secret.json", "/etc/passwd",
        "../servedtoo.json", "..", "/", "../served/../secret.json", "up",
    ],
)  # fmt: skip
def test_nothing_outside_is_found(world: Path, path: str) -> None:
    with pytest.raises(UsageError, match="outside of the server's roots"):
        Roots([world / "served"]).existing(path)


def test_what_is_outside_is_refused_alike_whether_it_is_there_or_not(world: Path) -> None:
    roots, texts = Roots([world / "served"]), []
    for name in ("../secret.json", "../absent.json"):
        with pytest.raises(UsageError) as caught:
            roots.file(name)
        texts.append(str(caught.value).replace(name, ""))
    assert texts[0] == texts[1]
    assert str(world) not in texts[0]


@pytest.mark.parametrize(
    "path", ["s3://bucket/t.json", "https://example.org/t.json", "-", "", "a\0b", "file:///etc/passwd"]
)
def test_what_is_no_path_is_refused(world: Path, path: str) -> None:
    with pytest.raises(UsageError):
        Roots([world / "served"]).file(path)


def test_loops_and_very_long_names_are_errors_not_bugs(world: Path) -> None:
    roots = Roots([world / "served"])
    for path in ("loop", "loop/t.json", "a" * 900, "deep/" * 190):
        with pytest.raises(UsageError):
            roots.file(path)


def test_a_sibling_whose_name_begins_alike_is_outside(tmp_path: Path) -> None:
    for name in ("served", "served2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.json").write_text("{}")
    with pytest.raises(UsageError, match="outside"):
        Roots([tmp_path / "served"]).file(str(tmp_path / "served2" / "t.json"))


def test_a_root_may_itself_be_a_symlink_and_there_may_be_several(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.json").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    roots = Roots([tmp_path / "link", tmp_path / "b"])
    assert roots.file("a.json") == Path(os.path.realpath(tmp_path / "a" / "a.json"))
    assert roots.file("b.json").name == "b.json"
    with pytest.raises(UsageError, match="no such folder"):
        Roots([tmp_path / "none"])


def test_what_is_written_lies_within(world: Path) -> None:
    roots = Roots([world / "served"])
    assert roots.target("deep/new.json.gz") == world / "served" / "deep" / "new.json.gz"
    for path in ("../new.json", "up/new.json", "link.json"):
        with pytest.raises(UsageError, match="outside"):
            roots.target(path)
    with pytest.raises(UsageError, match="no such folder"):
        roots.target("none/new.json")


def test_a_folder_with_a_symlink_out_of_it_is_not_analyzed(world: Path) -> None:
    from advisor.mcp.workspace import Workspace

    folder = world / "served" / "runs"
    folder.mkdir()
    (folder / "rank0.json").symlink_to(world / "secret.json")
    with pytest.raises(UsageError, match="outside"):
        Workspace(Roots([world / "served"])).document("runs")
