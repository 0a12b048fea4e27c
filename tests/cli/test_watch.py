"""``advisor watch``: each trace once it is written, whole, and again where it changes."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.paths import ROOT

from advisor.cli import main, watch

SAMPLE = ROOT / "sample_traces" / "article" / "rung0_baseline.json.gz"
HEADLINE = "Training, eager, 3 steps: 55 % of the steady 80 ms a step the GPU waits for the next batch."
FINDING = (
    "train.py:87: high data-loading/single-process-loader: DataLoader runs in the main process (num_workers=0) (saves "
)


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["watch", *words])


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What happens in the folder between two looks; after the last, Ctrl-C."""
    happenings: list[Callable[[], object]] = []

    def sleep(_seconds: float) -> None:
        if not happenings:
            raise KeyboardInterrupt
        happenings.pop(0)()

    monkeypatch.setattr(time, "sleep", sleep)
    return happenings


def test_once_says_what_is_there_and_ends(tmp_path: Path) -> None:
    shutil.copy(SAMPLE, tmp_path / "a.json.gz")
    (tmp_path / "notes.json").write_text('{"loss": 1}')
    (tmp_path / "worker0").mkdir()
    (tmp_path / "worker0" / "broken.pt.trace.json").write_text("no JSON")
    (tmp_path / "readme.txt").write_text("no trace")
    done = run(str(tmp_path), "--once", "--every", "0.05")
    assert done.exit_code == 3
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{tmp_path / 'a.json.gz'}: {HEADLINE}")
    assert lines[1].startswith(FINDING)
    assert "broken.pt.trace.json" in done.stderr
    assert "notes.json" not in done.output


def test_a_trace_is_read_when_it_has_stopped_growing(tmp_path: Path, looks: list[Callable[[], object]]) -> None:
    whole, path = SAMPLE.read_bytes(), tmp_path / "a.json.gz"
    shown: list[int] = []

    def note_output(change: Callable[[], object]) -> Callable[[], object]:
        return lambda: (shown.append(len(calls)), change())

    calls: list[str] = []
    original = watch._report

    def report(*given: object) -> bool:
        calls.append(str(given[0]))
        return original(*given)  # type: ignore[arg-type]

    looks += [
        note_output(lambda: path.write_bytes(whole[:5000])),
        note_output(lambda: path.write_bytes(whole)),  # it grew: too early
        note_output(lambda: None),  # the same: now
        note_output(lambda: None),  # and not twice
        note_output(lambda: os.utime(path, (1, 1))),  # written anew
        note_output(lambda: None),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "_report", report)
        done = run(str(tmp_path))
    assert done.exit_code == 130
    assert shown == [0, 0, 0, 1, 1, 1]
    assert len(calls) == 2
    assert done.stdout.count(HEADLINE) == 2


def test_a_trace_that_changes_while_it_is_read_is_not_told(
    tmp_path: Path, looks: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from advisor.execution import run as running

    path = tmp_path / "a.json.gz"
    shutil.copy(SAMPLE, path)
    original = running.run_one

    def run_one(*given: object) -> running.Results:
        os.utime(path, (5, 5))
        return original(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "run_one", run_one)
    looks += [lambda: None]
    done = run(str(tmp_path))
    assert (done.exit_code, done.stdout) == (130, "")


def test_what_cannot_be_watched(tmp_path: Path) -> None:
    missing = run(str(tmp_path / "none"))
    assert (missing.exit_code, "no such folder; make it first" in missing.stderr) == (2, True)
    (tmp_path / "empty.json").write_text("")
    (tmp_path / ".hidden.json").write_text("half a trace")
    nothing = run(str(tmp_path), "--once", "--every", "0.05")
    assert (nothing.exit_code, nothing.output) == (0, "")
