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
    done = run(str(tmp_path), "--once", "--every", "0.05", "-q")
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
    original = watch.Watch.report

    def report(self: watch.Watch, path: str) -> bool:
        calls.append(path)
        return original(self, path)

    looks += [
        note_output(lambda: path.write_bytes(whole[:5000])),
        note_output(lambda: path.write_bytes(whole)),  # it grew: too early
        note_output(lambda: None),  # the same: now
        note_output(lambda: None),  # and not twice
        note_output(lambda: os.utime(path, (1, 1))),  # written anew
        note_output(lambda: None),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch.Watch, "report", report)
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


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder as torch's handler fills it: two recordings of one worker, 80.0 and 37.0 ms a step, and one of another."""
    folder = tmp_path / "runs"
    folder.mkdir()
    for place, (name, rung) in enumerate(
        (
            ("a_1.1700000000", "rung0_baseline"),
            ("b_2.1700000000", "rung0_baseline"),
            ("a_1.1700000009", "rung1_workers"),
        )
    ):
        path = folder / f"{name}.pt.trace.json.gz"
        shutil.copy(SAMPLE.parent / f"{rung}.json.gz", path)
        os.utime(path, (place, place))
    return folder


def test_each_has_its_screen_its_page_and_what_became_of_the_step(recorded: Path, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    done = run(str(recorded), "--once", "--every", "0.05", "-o", str(pages))
    assert done.exit_code == 0, done.output
    assert done.stdout.count(" 1 HIGH   ") == 3
    against = [line for line in done.stdout.splitlines() if line.startswith("against ")]
    # The loader's wait, 43.7 ms, is gone; the other worker's recording is its first, and is held against nothing.
    assert against == [
        "against HOST_1.1700000000.pt.trace.json.gz: step 80.0 ms → 37.0 ms (-53.8 %), most in loader −43.7 ms"
    ]
    assert sorted(path.name for path in pages.iterdir()) == [
        f"{name}.pt.trace.html" for name in ("a_1.1700000000", "a_1.1700000009", "b_2.1700000000")
    ]
    page = pages / "a_1.1700000000.pt.trace.html"
    assert 'aria-label="Kernels"' in page.read_text("utf-8")
    page.write_text("mine")
    again = run(str(recorded), "--once", "--every", "0.05", "-o", str(pages), "-q")
    assert f"{page}: exists, and stays as it is" in again.stderr
    assert page.read_text("utf-8") == "mine"


def test_what_ends_in_its_middle_waits_for_its_end(tmp_path: Path, looks: list[Callable[[], object]]) -> None:
    whole, path = SAMPLE.read_bytes(), tmp_path / "a.json.gz"
    path.write_bytes(whole[: len(whole) // 2])
    looks += [lambda: None, lambda: path.write_bytes(whole), lambda: None]
    done = run(str(tmp_path))
    assert done.exit_code == 130
    assert done.stderr.count("ends in its middle; it is read again when it grows") == 1
    assert done.stdout.count(HEADLINE[:40]) == 1
    path.write_bytes(whole[: len(whole) // 2])
    looks.append(lambda: None)
    assert "Incomplete" in run(str(tmp_path), "--once", "--every", "0.05").stdout


def test_ctrl_c_leaves_no_page_half_written(
    recorded: Path, tmp_path: Path, looks: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()

    def interrupted(*_given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("advisor.files._move", interrupted)
    looks += [lambda: None]
    assert run(str(recorded), "-o", str(pages)).exit_code == 130
    assert list(pages.iterdir()) == []


def test_what_cannot_be_watched(tmp_path: Path) -> None:
    missing = run(str(tmp_path / "none"))
    assert (missing.exit_code, "no such folder; make it first" in missing.stderr) == (2, True)
    (tmp_path / "empty.json").write_text("")
    (tmp_path / ".hidden.json").write_text("half a trace")
    (tmp_path / "tmpab12_xyz.json").write_text("what torch.profiler compresses next")
    nothing = run(str(tmp_path), "--once", "--every", "0.05")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert nothing.stderr == f"advisor: note: {tmp_path}: holds no traces: no file there is called .json or .json.gz\n"
    no_pages = run(str(tmp_path), "-o", str(tmp_path / "none"))
    assert (no_pages.exit_code, "none: no such folder" in no_pages.stderr) == (2, True)
