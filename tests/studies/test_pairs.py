"""Programs with one fault each: what every folder holds, and what their runner makes of findings and timings."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT

FOLDERS = sorted(path for path in (ROOT / "benchmarks" / "pairs").iterdir() if (path / "before.py").exists())
spec = importlib.util.spec_from_file_location("pairs", ROOT / "benchmarks" / "pairs.py")
assert spec is not None
assert spec.loader is not None
pairs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pairs)


def test_there_are_twenty_programs_and_no_two_share_a_fault() -> None:
    faults = [tomllib.loads((folder / "fault.toml").read_text())["fault"] for folder in FOLDERS]
    assert len(set(faults)) == len(faults) >= 20


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_folder_holds_a_fault_and_its_repair(folder: Path) -> None:
    fault = tomllib.loads((folder / "fault.toml").read_text())
    assert set(fault) - {"also"} == {"fault", "kind", "line", "device", "expected"}
    assert fault["device"] == "cuda"
    assert 0.08 <= fault["expected"] < 1
    before, after = ((folder / name).read_text() for name in ("before.py", "after.py"))
    for text in (before, after):
        ast.parse(text)
        assert not re.search(r"^\s*#|  # ", text, re.MULTILINE), "a comment may give the fault away"
        assert "advisor" not in text
        for needed in ('"--steps"', '"--small"', "WARMUP = 10", '"peak_mb"'):
            assert needed in text
    lines = before.splitlines()
    assert lines[fault["line"] - 1].strip()
    assert before != after
    for line in fault.get("also", []):
        assert lines[line - 1].strip()
        assert line != fault["line"]


def finding(
    rule: str, line: int | None, low: float | None, high: float | None, file: str = "before.py"
) -> dict[str, Any]:
    """A finding as the JSON has it, of a step of 50 ms."""
    saving = None
    if low is not None and high is not None:
        saving = {"low_ms": low, "high_ms": high, "low_share": low / 50, "high_share": high / 50}
    where = [{"file": None, "line": None, "share": 0.5}, {"file": file, "line": line, "share": 0.5}]
    return {"rule": rule, "severity": "note", "title": rule, "saving": saving, "where": where}


def program(found: list[dict[str, Any]], times: list[tuple[str, float | None]], **more: Any) -> dict[str, Any]:
    """A program's result before it is judged; its fault is in line 30."""
    runs = [{"script": script, "ms": ms} for script, ms in times]
    findings = pairs.findings({"findings": found})
    return {"fault": "a | b", "line": 30, "also": [], "findings": findings, "runs": runs, "failures": [], **more}


TIMES: list[tuple[str, float | None]] = [("before.py", 50), ("after.py", 40), ("after.py", 30), ("before.py", 52)]


@pytest.mark.parametrize(
    ("line", "file", "expected"),
    [
        (30, "before.py", 2),
        (33, "x/before.py", 2),
        (34, "before.py", None),
        (30, "other.py", None),
        (None, "before.py", None),
    ],
)
def test_the_rank_is_that_of_the_first_finding_near_the_line(line: int | None, file: str, expected: int | None) -> None:
    found = pairs.findings(
        {"findings": [finding("a/a", 12, 1, 2), finding("b/b", line, 1, 2, file), finding("c/c", 60, 1, 2)]}
    )
    assert pairs.rank(found, [30]) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(10, 20, "yes"), (16, 20, "no"), (15.5, 20, "ms"), (20, 20, "no"), (None, None, "unknown")],
)
def test_a_gain_is_inside_the_range_in_ms_and_as_a_share(low: float | None, high: float | None, expected: str) -> None:
    # before: the median of 50 and 52 ms; after: of 40 and 30: 16 of 51 ms are gained, 31.4 %; 15.5 of 50 ms are 31.0 %
    one = program([finding("a/a", 30, low, high)], TIMES)
    if expected == "ms":
        one["findings"][0]["low_share"] = 0.32
    if low == 16:
        one["findings"][0]["low_ms"], one["findings"][0]["low_share"] = 16.1, 0.32
    judged = pairs.judge(one)
    assert (judged["before_ms"], judged["after_ms"], judged["gain_ms"]) == (51, 35, 16)
    assert judged["inside"] == expected


def test_a_fault_that_names_its_rule_is_judged_by_its_finding() -> None:
    found = [finding("a/a", 60, 10, 20), finding("b/b", 30, 1, 2)]
    assert pairs.judge(program(found, TIMES))["judged"] == "b/b"
    assert pairs.judge(program(found, TIMES, rule="a/a"))["judged"] == "a/a"
    # Of a rule that found nothing the line decides.
    assert pairs.judge(program(found, TIMES, rule="c/c"))["judged"] == "b/b"


def test_the_table_names_rank_range_and_gain() -> None:
    results = {
        "line": program([finding("a/a", 5, 0, 1), finding("b/b", 31, 10, 20)], TIMES),
        "spent": program([finding("a/a", 60, 10, 20)], TIMES, also=[61]),
        "elsewhere": program([finding("a/a", 60, 1, 2)], TIMES),
        "silent": program([], TIMES),
        "broken": program([], [("before.py", None)], failures=["recording before.py: status 1"]),
    }
    head, rule, *rows = pairs.table(results).splitlines()
    assert head.count("|") == rule.count("|") == len(pairs.COLUMNS) + 1
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    gain = "16.00 ms, 31 %"
    assert cells == [
        ["line", "a \\| b", "51.00", "a/a", "2", "10.00–20.00 ms, 20–40 %", gain, "yes"],
        ["spent", "a \\| b", "51.00", "a/a", "(1)", "10.00–20.00 ms, 20–40 %", gain, "yes"],
        ["elsewhere", "a \\| b", "51.00", "a/a", "unknown", "1.00–2.00 ms, 2–4 %", gain, "no"],
        ["silent", "a \\| b", "51.00", "none", "unknown", "–", gain, "unknown"],
        ["broken", "a \\| b", "–", "failed", "unknown", "–", "failed", "unknown"],
    ]


def test_steps_fill_the_seconds_within_bounds() -> None:
    assert [pairs.steps_for(ms, 2.5) for ms in (25.0, 1.0, 1000.0)] == [100, pairs.MOST, pairs.FEWEST]


def test_a_process_tells_its_end_and_its_times(tmp_path: Path) -> None:
    done = pairs.run([sys.executable, "-c", "import sys; print('x' * 200000); sys.exit(3)"], tmp_path, 60)
    assert (done["rc"], done["timed_out"], len(done["stdout"])) == (3, False, 200001)
    assert done["cpu_s"] > 0
    late = pairs.run([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, 0.5)
    assert late["timed_out"]
    assert late["wall_s"] < 30


@pytest.fixture(scope="module")
def forked() -> Iterator[Any]:
    """One process with torch imported, which the programs run in children of."""
    made = pairs.Forked()
    yield made
    made.process.stdin.close()
    made.process.wait(60)
    made.process.stdout.close()


@pytest.mark.skipif(not os.environ.get("ADVISOR_PAIRS"), reason="needs torch, and minutes")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_both_programs_run(folder: Path, forked: Any) -> None:
    for script in ("before.py", "after.py"):
        figures = pairs.timed(script, folder, 2, True, 120, forked)
        assert figures["rc"] == 0, figures
        assert figures["ms"] > 0


@pytest.mark.skipif(not os.environ.get("ADVISOR_TORCH"), reason="needs torch")
def test_a_failing_program_does_not_stop_the_runner(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "pairs.py"),
        "no-such",
        "--small",
        "--rounds",
        "1",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "no-such: FileNotFoundError" in done.stderr


def analysis_of(low: float, high: float) -> dict[str, Any]:
    """An analysis whose only finding names line 30, of a step of 50 ms."""
    return {"findings": [finding("a/a", 30, low, high)], "summary": {"step_ms": {"median": 50.0}}}


def test_traces_of_an_earlier_run_are_analyzed_again_beside_its_gains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier = {"one": program([finding("a/a", 30, 1, 2)], TIMES), "gone": program([finding("a/a", 30, 10, 20)], TIMES)}
    (tmp_path / "pairs.json").write_text(json.dumps(earlier))
    (tmp_path / "one.trace.json.gz").touch()
    monkeypatch.setattr(pairs, "analyze", lambda trace, target, limit: analysis_of(10, 20))
    monkeypatch.setattr(sys, "argv", ["pairs.py", "--again", str(tmp_path)])
    pairs.main()
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in capsys.readouterr().out.splitlines()[2:]]
    gain = "16.00 ms, 31 %"
    assert rows == [
        ["one", "a/a", "51.00", "50.00", "10.00–20.00", "1.00–2.00", gain, "yes", "no", "10.00–20.00"],
        ["gone", "a/a", "51.00", "–", "no trace", "10.00–20.00", gain, "–", "yes", "–"],
    ]


def test_traces_with_a_known_truth_are_judged_by_the_rule_of_their_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = {"fault": "copy", "line": "traces.py:256", "without_profiler_ms": 17.5, "without_fault_ms": 9.5}
    (tmp_path / "copies.json").write_text(json.dumps(truth))
    (tmp_path / "sound.json").write_text(json.dumps({"without_profiler_ms": 17.5}))
    (tmp_path / "copies.json.gz").touch()
    (one,) = pairs.measured_there(tmp_path).values()
    assert pairs.trace_there(tmp_path, "copies") == tmp_path / "copies.json.gz"
    found = [finding("a/a", 256, 1, 2, "traces.py"), finding("transfer/pageable-copy", 9, 3, 8, "traces.py")]
    judged = pairs.chosen({**one, "findings": pairs.findings({"findings": found})})
    assert judged["rule"] == "transfer/pageable-copy"
    # Without it, the one in the fault's line.
    judged = pairs.chosen({**one, "findings": pairs.findings({"findings": [finding("b/b", 9, 1, 2), found[0]]})})
    assert judged["rule"] == "a/a"
    assert pairs.gain(one["runs"])["gain_ms"] == 8.0


def test_a_step_is_read_from_a_line_of_json_or_of_words() -> None:
    assert pairs.printed('loss 1.5\n{"ms": 12.5, "peak_mb": 80}\n') == {"ms": 12.5, "peak_mb": 80}
    assert pairs.printed("final loss 0.4\nmean step 52.93 ms\n3 records logged\n") == {"ms": 52.93}
    for text in ("", "final loss 0.4\n", "the mean step 5 ms of it\n", "0.4\n"):
        with pytest.raises(ValueError, match="Expecting"):
            pairs.printed(text)


def test_lines_named_in_one_text_are_the_faults_and_those_where_its_time_is_spent(tmp_path: Path) -> None:
    (tmp_path / "fault.toml").write_text('fault = "slow"\nlines = "net.py:7, before.py:12"\n')
    found = pairs.fault_of(tmp_path)
    assert (found["file"], found["line"], found["also"], found["fault"]) == ("net.py", 7, [12], "slow")
    (tmp_path / "fault.toml").write_text('fault = "slow"\nline = 7\nalso = [8]\n')
    found = pairs.fault_of(tmp_path)
    assert (found["line"], found["also"]) == (7, [8])
    (tmp_path / "fault.toml").write_text('kind = "healthy"\n')
    assert pairs.fault_of(tmp_path)["line"] == -1


@pytest.mark.skipif(not os.environ.get("ADVISOR_TORCH"), reason="needs torch")
def test_a_program_that_prints_no_times_is_timed_by_its_steps(tmp_path: Path) -> None:
    (tmp_path / "before.py").write_text(
        "import sys, time, torch\n"
        "net = torch.nn.Linear(4, 1)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for _ in range(int(sys.argv[2])):\n"
        "    optimizer.zero_grad()\n"
        "    net(torch.ones(2, 4)).sum().backward()\n"
        "    time.sleep(0.02)\n"
        "    optimizer.step()\n"
        "print('loss 1.0')\n"
    )
    figures = pairs.watched("before.py", tmp_path, 0.5, 120)
    assert (figures["rc"], figures["unit"]) == (0, "optimizer")
    assert figures["ms"] >= 20
    assert pairs.FEWEST - pairs.WARM <= figures["steps"] < 60
    (tmp_path / "broken.py").write_text("raise SystemExit(3)\n")
    assert pairs.watched("broken.py", tmp_path, 0.5, 120)["ms"] is None


def test_a_folder_may_name_its_script_itself_and_its_fault_in_the_readme_above(tmp_path: Path) -> None:
    folder = tmp_path / "workers"
    folder.mkdir()
    for name in ("train.py", "after.py", "after2.py"):
        (folder / name).write_text("")
    (tmp_path / "README.md").write_text(
        "| program | fault |\n|---|---|\n| workers | 8 workers for rows in memory | more |\n"
    )
    assert pairs.file_of("before.py", folder) == "train.py"
    assert pairs.file_of("after.py", folder) == "after.py"
    fault = {"fault": "8 workers for rows in memory", "file": "train.py", "line": -1, "also": []}
    assert pairs.fault_of(folder) == fault
    (folder / "before.py").write_text("")
    assert pairs.file_of("before.py", folder) == "before.py"
