"""Exit codes of recordings that cannot be judged: 0, 4 where --fail-on or the gate asks for a verdict, 3 for no trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import headlines as built

from advisor.cli import main


def run(*words: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, [str(word) for word in words])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def empty(folder: Path) -> Path:
    path = folder / "empty.json"
    path.write_text(built.EMPTY)
    return path


def cut(folder: Path) -> Path:
    whole = built.launch_bound(4).write(folder / "whole.json").read_bytes()
    path = folder / "cut.json"
    path.write_bytes(whole[: len(whole) * 6 // 10])
    return path


def captured(folder: Path) -> Path:
    return built.captured().write(folder / "captured.json")


def only_started(folder: Path) -> Path:
    return built.only_started().write(folder / "started.json")


REASONS: list[tuple[Callable[[Path], Path], str]] = [
    (empty, "empty.json holds nothing of the steady program. The profiler ran for 77.9 s and recorded nothing"),
    (captured, "captured.json holds nothing of the steady program. A graph capture: for 100 of 100 ms"),
    (only_started, "started.json holds nothing of the steady program. Start-up only, 5 of 5.01 ms"),
    (cut, "cut.json is cut off (truncated): record it again"),
]


def test_a_level_that_is_reached_says_by_what(tmp_path: Path) -> None:
    path = built.launch_bound(4).write(tmp_path / "t.json")
    code, report, said = run("analyze", path, "-f", "json", "--fail-on", "low")
    found = [finding for finding in json.loads(report)["findings"] if finding["severity"] != "note"]
    many = "1 finding is" if len(found) == 1 else f"{len(found)} findings are"
    assert code == 1
    assert said.startswith(f"advisor: note: fail-on low: {many} low or worse: {found[0]['rule']}")
    assert said.endswith("; exit code 1")
    other = "precision/*"
    assert run("analyze", path, "--fail-on", "low", "--only", other)[::2] == (0, "")


@pytest.mark.parametrize(("make", "reason"), REASONS)
@pytest.mark.parametrize("level", ["low", "medium", "high"])
def test_analyze_diagnoses_it_and_has_no_verdict(
    make: Callable[[Path], Path], reason: str, level: str, tmp_path: Path
) -> None:
    path = make(tmp_path)
    code, report, said = run("analyze", path)
    assert (code, said) == (0, "")
    starts = ("The profiler ran for", "A graph capture: for", "Start-up only, 5 of ", "The file is cut off:")
    assert any(line.startswith(starts) for line in report.splitlines()[1:3])
    code, _, said = run("analyze", path, "--fail-on", level)
    assert code == 4
    assert f"advisor: error: inconclusive: {tmp_path}/{reason}" in said


@pytest.mark.parametrize("level", ["low", "medium"])
def test_a_cut_off_file_with_a_finding_at_that_level_is_inconclusive_too(level: str, tmp_path: Path) -> None:
    path = cut(tmp_path)
    document = json.loads(run("analyze", path, "-f", "json")[1])
    assert level in {finding["severity"] for finding in document["findings"]}
    assert run("analyze", path, "--fail-on", level)[0] == 4


def test_what_a_whole_recording_shows_stands_beside_one_that_cannot_be_judged(tmp_path: Path) -> None:
    whole, none = built.launch_bound(4).write(tmp_path / "whole.json"), empty(tmp_path)
    code, _, said = run("analyze", whole, none, "--fail-on", "high")
    assert code == 1
    assert "empty.json holds nothing of the steady program" in said
    code, _, said = run("analyze", built.silent().write(tmp_path / "silent.json"), none, "--fail-on", "low")
    assert code == 4
    assert said.count("empty.json holds nothing of the steady program") == 1
    assert said.endswith("advisor: error: inconclusive: 1 of 2 recordings cannot be judged")


def test_a_file_of_something_else_stays_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"nodes": []}')
    code, _, said = run("analyze", path, "--fail-on", "low")
    assert code == 3
    assert "other.json: is JSON, but no trace" in said


@pytest.mark.parametrize(("make", "reason"), REASONS)
def test_the_gate_has_no_answer_and_no_baseline_is_made(
    make: Callable[[Path], Path], reason: str, tmp_path: Path
) -> None:
    path = make(tmp_path)
    settings = tmp_path / "pyproject.toml"
    settings.write_text('[tool.advisor.gate]\nassert = ["findings.high == 0"]\n')
    code, report, _ = run("gate", path, "--config", settings)
    assert code == 4
    assert reason.partition(".json ")[2][:40] in " ".join(report.split())
    code, _, said = run("baseline", path, "-o", tmp_path / "base.json", "--config", settings)
    assert code == 2
    assert reason in said


@pytest.mark.parametrize("lengths", [(0,), (-1,), (0, -1)])
def test_durations_that_are_none_are_said_and_nothing_is_judged(lengths: tuple[int, ...], tmp_path: Path) -> None:
    path = built.launch_bound(4).write(tmp_path / "timeless.json")
    content = json.loads(path.read_text())
    timed = [event for event in content["traceEvents"] if "dur" in event]
    for number, event in enumerate(timed):
        event["dur"] = lengths[number % len(lengths)]
    path.write_text(json.dumps(content))
    whole = built.launch_bound(4).write(tmp_path / "whole.json")
    for also, words in ((), ("analyze",)), ((whole,), ("analyze",)), ((), ("analyze", "--fail-on", "low")):
        code, out, err = run(*words, path, *also)
        assert code == 3
        assert "timeless.json: no event has a usable duration: each is 0 or negative, so nothing can be judged" in err
        assert ("whole.json" in out) == bool(also)
    timed[0]["dur"] = 5
    path.write_text(json.dumps(content))
    assert run("analyze", path)[0] == 0
