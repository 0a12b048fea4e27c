"""Damaged inputs beside traces: some of each kind in every run, hundreds in a study; and that their failures are found."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT

from advisor.errors import UsageError
from advisor.testing import TraceBuilder

SCRIPT = (
    "import json, sys\n"
    f"sys.path.insert(0, {str(ROOT)!r})\n"
    "from fuzz import kinds\n"
    "low, high, chosen = int(sys.argv[4]), int(sys.argv[5]), sys.argv[7].split(',')\n"
    "for number in kinds.of(chosen, range(low, high)):\n"
    "    print(number, flush=True)\n"
    "    outcome = 'failure' if number == 23 else 'read' if number % 3 else 'refused'\n"
    "    print(json.dumps({'outcome': outcome, 'seconds': 0.5, 'input': kinds.kind_of(number) + ': x'}), flush=True)\n"
)
"""A child that tries nothing, and says the same of a number each time."""


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    from advisor.engine import evaluation
    from advisor.rulebook import conditions

    for name in ("QUERY_SECONDS", "TOTAL_SECONDS"):
        monkeypatch.setattr(evaluation, name, getattr(evaluation, name))
    monkeypatch.setattr(
        conditions, "CHECK_SECONDS", conditions.CHECK_SECONDS
    )  # a worker sets these; here they come back
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture(scope="module")
def world() -> Any:
    sys.path.insert(0, str(ROOT))
    from fuzz.world import World

    b = TraceBuilder()
    for _ in range(3):
        with b.step(), b.op("aten::mm"):
            b.kernel("volta_sgemm_128x64_nn", us=900)
    return World([("0000 sound", json.loads(b.to_json()))])


@pytest.fixture
def tries(tmp_path: Path, world: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    from fuzz import worker

    monkeypatch.setattr(
        worker, "MOST_MEMORY", sys.maxsize
    )  # all tests before have had their part in this process's peak
    return worker.Tries(tmp_path, world, 1.0)


def outcomes(tries: Any, kind: str, count: int) -> tuple[Counter[str], list[str]]:
    """Outcomes of the first *count* inputs of a kind, and what is said of failures."""
    from fuzz import kinds, worker

    found: Counter[str] = Counter()
    said = []
    for number in kinds.of([kind], kinds.numbers(0, count, [kind])):
        result = tries.run(3, number, worker.make(3, number, tries.world)[1], kind)
        found[result["outcome"]] += 1
        said += [f"{number}: {result['said']}"] if result["said"] else []
    return found, said


FEW = {
    "baseline": 16,
    "rule": 16,
    "settings": 8,
    "recorded": 2,
    "ranks": 1,
    "pftrace": 3,
    "nsys": 6,
    "rocprof": 3,
    "snapshot": 6,
    "capture": 3,
}


@pytest.mark.parametrize("kind", FEW)
@pytest.mark.parametrize("times", [1, pytest.param(12, marks=pytest.mark.study)])
def test_inputs_of_each_kind_come_to_a_result_or_to_an_error(kind: str, times: int, tries: Any) -> None:
    found, said = outcomes(tries, kind, times * FEW[kind])
    assert said == []
    assert sum(found.values()) == times * FEW[kind]
    assert found["analyzed"] > 0
    if kind in ("baseline", "rule", "settings"):
        assert found["refused"] > 0


def raises(*_: Any, **__: Any) -> Any:
    raise ValueError("a planted mistake")


def nameless(*_: Any, **__: Any) -> Any:
    raise UsageError("something is wrong")


PLANTED = [
    ("baseline", "advisor.gating.baseline.load", raises, "ValueError: a planted mistake"),
    ("baseline", "advisor.gating.baseline.load", nameless, "an error that does not name the file"),
    ("baseline", "advisor.gating.baseline.merge", lambda _old, new, _reason: new, "an update that loses the history"),
    ("rule", "advisor.rulebook.load", raises, "ValueError: a planted mistake"),
    ("rule", "advisor.cli.rules.explain", lambda *_: "\x1b[2J", "steers the terminal"),
    ("settings", "advisor.config.load", raises, "ValueError: a planted mistake"),
    ("recorded", "advisor.reading.recorded_settings.read", raises, "ValueError: a planted mistake"),
    ("ranks", "advisor.combining.rows_of", raises, "ValueError: a planted mistake"),
    ("pftrace", "advisor.reading.pftrace.read", raises, "ValueError: a planted mistake"),
    ("nsys", "advisor.reading.nsys.read", raises, "ValueError: a planted mistake"),
    ("rocprof", "advisor.reading.rocprof.read", raises, "ValueError: a planted mistake"),
    ("snapshot", "advisor.reading.snapshot.parse", raises, "ValueError: a planted mistake"),
    ("capture", "advisor.timeline.graph_origins._captures", raises, "ValueError: a planted mistake"),
]


@pytest.mark.parametrize(
    ("kind", "place", "planted", "said"), PLANTED, ids=[f"{kind} {said}" for kind, _, _, said in PLANTED]
)
def test_a_planted_mistake_is_found(
    kind: str, place: str, planted: Any, said: str, tries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries.world.baselines, tries.world.baseline  # noqa: B018  (made before anything is broken)
    monkeypatch.setattr(place, planted)
    found, texts = outcomes(tries, kind, {"baseline": 40, "recorded": 1, "ranks": 2}.get(kind, 12))
    assert found["failure"] > 0
    assert any(said in text for text in texts)


def test_three_of_four_numbers_are_traces_and_each_kind_has_its_own() -> None:
    from fuzz import kinds

    assert Counter(map(kinds.kind_of, range(400))) == {"trace": 300, **dict.fromkeys(kinds.OTHERS, 10)}
    assert kinds.numbers(0, 40, kinds.KINDS) == range(40)
    assert list(kinds.of(["rule"], kinds.numbers(0, 3, ["rule"]))) == [7, 47, 87]
    assert list(kinds.of(["rule"], kinds.numbers(8, 2, ["rule"]))) == [47, 87]
    with pytest.raises(ValueError, match="not rules"):
        kinds.chosen("rule,rules")


def test_an_input_of_any_kind_is_its_number(world: Any) -> None:
    from fuzz.worker import make

    made = [make(5, number, world) for number in range(3, 60, 4)]
    assert made == [make(5, number, world) for number in range(3, 60, 4)]
    assert made != [make(6, number, world) for number in range(3, 60, 4)]


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> Any:
    """A run of 40 inputs whose children try nothing: its exit code, its summary and what it says."""
    from fuzz import run as command

    (folder / "seeds").mkdir(parents=True, exist_ok=True)
    (folder / "seeds" / "a.json").write_text("{}")
    (folder / "child.py").write_text(SCRIPT)
    monkeypatch.setattr(command, "CHILD", str(folder / "child.py"))
    monkeypatch.setattr(command, "SAVE_SECONDS", 0.02)
    monkeypatch.setattr(sys, "argv", ["run.py", "--inputs", "40", "--jobs", "2", "--work", str(folder), *options])
    code = command.main()
    printed = capsys.readouterr()
    return code, json.loads(printed.out), printed.err


TOTALS = ("inputs", "outcomes", "by_kind", "damage", "failed", "failures", "cpu_seconds", "left")


def test_many_pieces_come_to_what_one_comes_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fuzz.summary import Summary

    code, whole, _ = run(monkeypatch, capsys, tmp_path / "one")
    assert code == 1  # number 23 failed
    assert (whole["inputs"], whole["failed"], whole["left"]) == (40, 1, 0)
    assert [failure["number"] for failure in whole["failures"]] == [23]
    assert whole["cpu_seconds"] == 20.0

    pieces: list[int] = []
    for most in (7, 15, 16, 39, 99):
        monkeypatch.setattr(Summary, "ended", lambda summary, most=most: summary.count >= most)
        _, told, said = run(monkeypatch, capsys, tmp_path / "many", "--resume")
        pieces.append(told["inputs"])
        if not told["left"]:
            break
        assert f"{told['inputs']:,} of 40 inputs; go on with --resume" in said
    assert pieces == sorted(pieces)
    assert pieces[0] < 40
    assert pieces[-1] == 40
    assert {name: told[name] for name in TOTALS} == {name: whole[name] for name in TOTALS}


def test_a_piece_without_failures_ends_well_and_the_next_one_is_of_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told, said = run(monkeypatch, capsys, tmp_path, "--minutes", "0", "--kinds", "settings")
    assert (code, told["inputs"]) == (0, 0)
    assert "0 of 40 inputs" in said
    with pytest.raises(SystemExit):
        run(monkeypatch, capsys, tmp_path, "--resume", "--kinds", "rule")
    assert "of another run" in capsys.readouterr().err
    code, told, _ = run(monkeypatch, capsys, tmp_path, "--resume", "--kinds", "settings")
    assert (code, told["inputs"], set(told["by_kind"])) == (0, 40, {"settings"})


def test_a_run_that_was_killed_goes_on_behind_what_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fuzz import kinds
    from fuzz.summary import Summary

    (tmp_path / "seeds").mkdir()
    asked = {"seed": 1, "whole": 1.0, "kinds": list(kinds.KINDS)}
    killed = Summary.of(tmp_path / "state.json", asked, range(40), 2, resume=False)
    killed.add(0, {"outcome": "refused", "seconds": 0.5, "input": "trace: x"})
    killed.add(20, {"outcome": "read", "seconds": 0.5, "input": "trace: x"})
    killed.save()
    killed.add(
        1, {"outcome": "read", "seconds": 0.5, "input": "trace: x"}
    )  # after the last save: lost, and tried again
    _, told, _ = run(monkeypatch, capsys, tmp_path, "--resume")
    _, whole, _ = run(monkeypatch, capsys, tmp_path / "one")
    assert {name: told[name] for name in TOTALS} == {name: whole[name] for name in TOTALS}
