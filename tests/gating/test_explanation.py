"""A failing gate divides its failure, in the terminal, in SARIF at the place, in a comment; old baselines say why not."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from support.comparisons import whole
from support.paths import ROOT

from advisor.gating import baseline as baselines
from advisor.gating.baseline import Baseline
from advisor.gating.judge import judge
from advisor.report import Options, render
from advisor.report.gate import FORMATS
from advisor.results.judgement import Judgement

GATE = ROOT / "sample_traces" / "gate"


@pytest.fixture(scope="module")
def base() -> Baseline:
    return baselines.make([whole(GATE / "workers.json.gz")])


@pytest.fixture(scope="module")
def failed(base: Baseline) -> Judgement:
    return judge([whole(GATE / "no_workers.json.gz")], base, baseline_name="advisor-baseline.json")


def test_a_failure_is_divided(failed: Judgement) -> None:
    assert (failed.verdict, failed.undivided) == ("failed", "")
    division = failed.division
    assert division is not None
    assert sum(part.change_ms for part in division.parts) + division.other_ms == pytest.approx(division.change_ms)
    assert (division.parts[0].reason, division.parts[0].change_ms) == ("loader", pytest.approx(20.7, abs=0.2))


@pytest.mark.parametrize("name", ["text", "markdown", "sarif", "github", "junit"])
def test_every_format_tells_the_part_that_grew(name: str, failed: Judgement) -> None:
    shown = " ".join(render(name, failed, Options(), FORMATS).decode().split())
    assert "waits for the next batch" in shown


def test_the_step_has_a_place_in_code_scanning(failed: Judgement) -> None:
    run = json.loads(render("sarif", failed, Options(), FORMATS))["runs"][0]
    step = next(result for result in run["results"] if result["ruleId"] == "step_ms")
    place = step["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("train.py", 31)
    assert "+20.7 ms" in step["message"]["text"]


def test_a_pass_is_not_divided(base: Baseline) -> None:
    passed = judge([whole(GATE / "pinned.json.gz")], base)
    assert (passed.verdict, passed.division, passed.undivided) == ("passed", None, "")


def test_a_baseline_of_an_earlier_advisor_is_read_and_says_what_it_lacks(base: Baseline, tmp_path: Path) -> None:
    path = tmp_path / "advisor-baseline.json"
    path.write_bytes(baselines.dump(msgspec.structs.replace(base, program=None)))
    table = json.loads(path.read_bytes())
    del table["program"]  # as an earlier advisor wrote it, which signed what it wrote
    table["digest"] = baselines._digest(table)
    path.write_text(json.dumps(table))
    earlier = baselines.load(path)
    assert (earlier.program, earlier.digest) == (None, "")
    judgement = judge([whole(GATE / "no_workers.json.gz")], earlier)
    assert (judgement.verdict, judgement.division) == ("failed", None)
    assert "make it anew" in judgement.undivided
    assert "Not divided: " in render("text", judgement, Options(), FORMATS).decode()


def test_a_baseline_goes_to_its_file_and_back_with_its_parts(base: Baseline, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(baselines.dump(base))
    assert baselines.load(path) == base
    lines = path.read_text().splitlines()
    assert base.program is not None
    assert sum('"cause": "' in line for line in lines) == len(base.program.sites)  # one line a site
    assert len(path.read_bytes()) < 172 * len(base.rules)  # of a rule its name, its verdict and what it owns
