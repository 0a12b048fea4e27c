"""The command from adding to the answer: series that are alike, what changed between which commits, exit codes, and escaping."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from support.histories import FIRST_MS, HOUR_MS, filled, of_version, run_of
from support.paths import ROOT

from advisor.cli import main
from advisor.gating.baseline import dump
from advisor.gating.history.record import add, figures_of
from advisor.gating.history.store import Store
from advisor.gating.history.summary import check, history
from advisor.report import Options, render
from advisor.report.history import FORMATS
from advisor.results.history import History

_STEADY = [99.0, 101.0]
_SLOWER = _STEADY * 12 + [103.0, 105.0] * 8


def _run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that got slower, made once; each test has a copy."""
    folder = tmp_path_factory.mktemp("history") / "store"
    filled(str(folder), _SLOWER)
    return folder


@pytest.fixture
def slower(tmp_path: Path, built: Path) -> str:
    return str(shutil.copytree(built, tmp_path / "store"))


def test_a_drift_that_no_step_showed_fails_and_names_the_commits(slower: str) -> None:
    code, output = _run("history", "check", "--store", slower)
    assert code == 1
    assert "FAILED: step_ms got worse by 4.0 % between c23 and c24" in output
    assert "no two neighbouring runs differ by what the gate fails on" in " ".join(output.split())


def test_a_change_that_was_accepted_or_is_long_ago_passes(slower: str) -> None:
    assert _run("history", "check", "--store", slower, "--since", "c24")[0] == 0
    assert _run("history", "check", "--store", slower, "--runs", "10")[0] == 0
    code, output = _run("history", "check", "--store", slower, "--since", "nobody")
    assert (code, "no run of commit" in output) == (2, True)


def test_too_few_runs_and_too_much_noise_are_inconclusive(tmp_path: Path) -> None:
    few, noisy = str(tmp_path / "few"), str(tmp_path / "noisy")
    filled(few, _STEADY * 3)
    filled(noisy, [80.0, 120.0] * 10)
    assert _run("history", "check", "--store", few)[0] == 4
    code, output = _run("history", "check", "--store", noisy)
    assert (code, "which hides what the gate" in " ".join(output.split())) == (4, True)
    assert _run("history", "check", "--store", few, "--inconclusive", "pass")[0] == 0


def test_what_got_better_does_not_fail(tmp_path: Path) -> None:
    filled(str(tmp_path), _STEADY * 12 + [80.0, 82.0] * 8)
    assert _run("history", "check", "--store", str(tmp_path))[0] == 0


def test_runs_that_are_not_alike_are_series_of_their_own_and_why(tmp_path: Path) -> None:
    store = filled(str(tmp_path), [10.0] * 3)
    assert add(store, run_of(20.0, batch=64), "x", "main", FIRST_MS + 9 * HOUR_MS).startswith("the batch doubled")
    assert "device was 'A100'" in add(store, run_of(5.0, device="H100"), "y", "main", FIRST_MS + 10 * HOUR_MS)
    assert add(store, run_of(10.0), "z", "main", FIRST_MS + 11 * HOUR_MS) == ""
    tracks = history(store).tracks
    assert [[run.commit for run in track.runs] for track in tracks] == [["c0", "c1", "c2", "z"], ["x"], ["y"]]
    assert [track.current for track in tracks] == [True, False, True]
    assert tracks[1].because == ["the batch doubled (32 → 64, as recorded)"]


def test_branches_are_apart(tmp_path: Path) -> None:
    store = filled(str(tmp_path), [10.0] * 3)
    filled(str(tmp_path), [20.0], branch="other", prefix="o")
    assert history(store).branches == {"main": 3, "other": 1}
    assert [run.commit for run in history(store, "other").tracks[0].runs] == ["o0"]
    code, output = _run("history", "show", "--store", str(tmp_path), "--branch", "man")
    assert (code, 'holds no run of branch "man"' in output) == (2, True)


def test_another_version_of_the_advisor_is_said(tmp_path: Path) -> None:
    store = filled(str(tmp_path), [10.0] * 20)
    for index in range(10):
        add(store, of_version(run_of(12.0), "2"), f"n{index}", "main", FIRST_MS + (30 + index) * HOUR_MS)
    shift = history(store).tracks[0].trends[0].shifts[0]
    assert (shift.at, shift.note) == (20, "advisor 1 before, 2 behind")


def test_figures_are_those_that_the_gate_compares() -> None:
    base = msgspec.structs.replace(run_of(1.0), metrics={
        "step_ms": msgspec.structs.replace(run_of(1.0).metrics["step_ms"], runs=[[1.0, 2.0, 9.0], [4.0, 4.0]]),
    })  # fmt: skip
    assert figures_of(base) == {"step_ms": 4.0, "step_mean_ms": 4.0}


def test_a_trace_and_its_baseline_give_the_same_point(tmp_path: Path) -> None:
    trace, base, store = str(ROOT / "sample_traces/gate/workers.json.gz"), str(tmp_path / "b.json"), str(tmp_path / "s")
    assert _run("baseline", trace, "-o", base)[0] == 0
    assert _run("history", "add", trace, "--commit", "a", "--branch", "main", "--store", store)[0] == 0
    assert _run("history", "add", base, "--commit", "b", "--branch", "main", "--store", store)[0] == 0
    runs = Store(store).runs()
    assert np.array_equal(runs.figures[0], runs.figures[1], equal_nan=True)
    assert len(set(runs.series)) == 1


def test_a_baseline_that_was_edited_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(dump(run_of(10.0)).replace(b"10.0", b"11.0"))
    code, output = _run("history", "add", str(path), "--commit", "a", "--branch", "m", "--store", str(tmp_path / "s"))
    assert (code, "not as it was written" in output, (tmp_path / "s").exists()) == (2, True, False)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> History:
    name = "<script>alert(1)</script>|`x`[a](http://e.com)"
    return history(filled(str(tmp_path_factory.mktemp("hostile")), _SLOWER, branch=name, prefix=name))


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_names_of_commits_and_branches_are_escaped(hostile: History, name: str) -> None:
    for document in (hostile, check(hostile)):
        report = render(name, document, Options(), FORMATS).decode()
        assert "alert(1)" in report
        if name == "html":
            assert "<script" not in report
        if name == "markdown":
            assert "<script" not in report.replace("`", "").split("# ")[1].split("\n")[0]


def test_json_goes_back(slower: str) -> None:
    document = history(Store(slower))
    assert msgspec.json.decode(render("json", document, Options(), FORMATS), type=History) == document


def test_the_page_and_the_screen_draw_each_figure(slower: str, tmp_path: Path) -> None:
    code, output = _run("history", "show", "--store", slower)
    assert code == 0
    assert "┊" in next(line for line in output.splitlines() if line.strip().startswith("step_ms"))
    page = tmp_path / "h.html"
    assert _run("history", "show", "--store", slower, "--html", str(page))[0] == 0
    assert page.read_text().count('<svg class="trend"') == 3
