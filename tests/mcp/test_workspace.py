"""Contents of the server: each trace is analyzed once, memory is bounded, and a file that changed is another."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from advisor.errors import UsageError
from advisor.mcp import workspace as module
from advisor.mcp.roots import Roots
from advisor.mcp.workspace import Kept, Workspace
from advisor.testing import TraceBuilder


def write(path: Path, kernels: int) -> None:
    builder = TraceBuilder("Tesla V100-SXM2-16GB")
    for _ in range(3):
        with builder.step(), builder.op("aten::mul"):
            for _ in range(kernels):
                builder.kernel("mul", us=100)
    path.write_text(builder.to_json())


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    write(tmp_path / "t.json", 2)
    return Workspace(Roots([tmp_path]))


def test_a_trace_is_analyzed_once(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "same.json").symlink_to(tmp_path / "t.json")
    first = workspace.analysis("t.json")
    assert workspace.analysis("same.json") is first
    assert workspace.document("t.json") is first
    assert workspace.trace("t.json") is workspace.trace("same.json")


def test_a_file_that_changed_is_read_anew(workspace: Workspace, tmp_path: Path) -> None:
    before = workspace.analysis("t.json")
    write(tmp_path / "t.json", 5)
    after = workspace.analysis("t.json")
    assert after.trace.events > before.trace.events
    os.utime(tmp_path / "t.json", ns=(1, 1))
    assert workspace.analysis("t.json") is not after


def test_sessions_that_ask_at_once_wait_for_one_analysis(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    analyze = workspace._analyze

    def counted(*arguments: object, **more: object) -> object:
        nonlocal count
        count += 1
        return analyze(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(workspace, "_analyze", counted)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(workspace.analysis("t.json"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count == 1
    assert len(found) == 8
    assert all(analysis is found[0] for analysis in found)


def test_kept_values_are_bounded_and_the_latest_stay() -> None:
    kept: Kept[int] = Kept(10, lambda value: value)
    for value in (4, 5, 1):
        kept.put(value, value)
    assert kept.get(4) == 4  # used, so that 5 is the oldest
    kept.put(3, 3)
    assert [kept.get(value) for value in (5, 1, 4, 3)] == [None, 1, 4, 3]
    kept.put(99, 99)  # larger than all: it alone stays
    assert len(kept) == 1
    assert kept.get(99) == 99


def test_traces_are_let_go_of_and_analyses_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_EVENTS", 1)
    for number in range(3):
        write(tmp_path / f"{number}.json", 2 + number)
    workspace = Workspace(Roots([tmp_path]))
    analyses = [workspace.analysis(f"{number}.json") for number in range(3)]
    assert len(workspace._traces) == 1
    assert [workspace.analysis(f"{number}.json") for number in range(3)] == analyses
    assert len(workspace._documents) == 3


def test_too_many_traces_in_a_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 1)
    for number in range(2):
        write(tmp_path / f"{number}.json", 1)
    with pytest.raises(UsageError, match="holds 2 traces"):
        Workspace(Roots([tmp_path])).document(".")
