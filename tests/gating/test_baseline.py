"""The baseline: small, sorted, the same bytes, nothing of the machine in it; and what keeps two recordings apart."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner
from support.paths import ROOT

import advisor
from advisor.cli import main
from advisor.config import Gate
from advisor.errors import UsageError
from advisor.gating import baseline
from advisor.gating.baseline import dump, load, make, merge
from advisor.gating.judge import judge
from advisor.report.schema import schema
from advisor.results.analysis import Analysis

GATE = ROOT / "sample_traces" / "gate"
REPLACE = msgspec.structs.replace


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return advisor.analyze(advisor.read(str(GATE / "workers.json.gz")), samples=True)


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, list(words))
    return result.exit_code, result.stdout, result.stderr


def test_it_is_small_sorted_and_names_no_machine(analysis: Analysis, tmp_path: Path) -> None:
    made = dump(make([analysis], workload="resnet50"))
    plain = json.loads(made)
    assert len(made) < 120 * len(plain["rules"])  # a line of each rule is most of it
    assert list(plain) == sorted(plain)
    assert str(ROOT).encode() not in made
    assert b"/" not in b"".join(made.split(b'"parts"')[0].split(b'"rules"')[:1])
    assert max(len(line) for line in made.decode().splitlines()) < 400
    assert dump(make([analysis], workload="resnet50")) == made
    jsonschema.validate(plain, schema("baseline"))


def test_it_goes_to_a_file_and_back(analysis: Analysis, tmp_path: Path) -> None:
    made = make([analysis, analysis], workload="x")
    path = tmp_path / "b.json"
    path.write_bytes(dump(made))
    assert load(path) == made
    assert (made.runs, made.steps) == (2, [7, 7])
    assert made.metrics["step_ms"].runs[0] == made.metrics["step_ms"].runs[1]


def test_the_same_trace_gives_the_same_bytes_whatever_its_path(tmp_path: Path) -> None:
    other = tmp_path / "elsewhere.json.gz"
    other.write_bytes((GATE / "workers.json.gz").read_bytes())
    for trace, name in ((GATE / "workers.json.gz", "a"), (other, "b")):
        assert run("baseline", str(trace), "-o", str(tmp_path / name), "-q")[0] == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_runs_of_different_machines_make_no_baseline(analysis: Analysis) -> None:
    other = REPLACE(analysis.trace.devices[0], name="NVIDIA H100")
    different = REPLACE(analysis, trace=REPLACE(analysis.trace, devices=[other]))
    with pytest.raises(
        UsageError, match=r"trace 2 is no run of the same workload: device was 'Tesla V100.*' and is 'NVIDIA H100'"
    ):
        make([analysis, different])


def test_what_keeps_two_recordings_apart(analysis: Analysis) -> None:
    mine = make([analysis], workload="x").fingerprint
    assert baseline.differences(mine, mine) == []
    features = [name for name in mine.features if name != "stacks"]
    other = REPLACE(mine, workload="y", world_size=8, features=features)
    assert baseline.differences(mine, other) == [
        "workload was 'x' and is 'y'",
        "world size was unknown and is 8",
        "stacks: recorded before, not now",
    ]


def test_an_analysis_without_samples_is_refused(analysis: Analysis) -> None:
    with pytest.raises(UsageError, match="holds no samples"):
        make([REPLACE(analysis, samples=None)])


def test_an_update_needs_a_reason_and_keeps_the_history(analysis: Analysis) -> None:
    old, new = make([analysis], workload="x"), make([analysis, analysis], workload="x")
    renewed = merge(old, new, " two runs ")
    assert [(change.reason, change.runs) for change in renewed.history] == [("first baseline", 1), ("two runs", 2)]
    with pytest.raises(UsageError, match="needs a reason"):
        merge(old, new, " ")
    with pytest.raises(UsageError, match="of workload 'x', these traces of 'y'"):
        merge(old, make([analysis], workload="y"), "r")


def test_the_command_never_overwrites_unasked(tmp_path: Path) -> None:
    trace, path = str(GATE / "workers.json.gz"), tmp_path / "b.json"
    assert run("baseline", trace, "-o", str(path), "--workload", "resnet50")[0] == 0
    first = path.read_bytes()
    code, _, error = run("baseline", trace, "-o", str(path))
    assert (code, "--update --reason" in error) == (2, True)
    assert run("baseline", trace, "-o", str(path), "--update")[0] == 2
    assert path.read_bytes() == first
    code, _, _ = run("baseline", trace, "-o", str(path), "--update", "--reason", "again")
    assert (code, load(path).fingerprint.workload, len(load(path).history)) == (0, "resnet50", 2)
    assert run("baseline", trace, "-o", str(path), "--force")[0] == 0
    assert len(load(path).history) == 1


def test_a_trace_of_few_steps_is_told(tmp_path: Path) -> None:
    short = ROOT / "sample_traces" / "article" / "rung1_workers.json.gz"
    code, out, error = run("baseline", str(short), "-o", str(tmp_path / "b.json"))
    assert (code, "1 run of 2 steps" in out, "the gate needs 4 steps" in error) == (0, True, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no baseline of advisor"),
        ("[]", "is no baseline of advisor"),
        ("{}", "is no baseline of advisor"),
    ],
)
def test_what_is_no_baseline_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_baseline_of_another_version_says_how_to_make_it_anew(analysis: Analysis, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(dump(REPLACE(make([analysis]), schema_version=99)))
    with pytest.raises(UsageError, match="schema version 99"):
        load(path)
    with pytest.raises(UsageError, match="Make one: advisor baseline"):
        load(tmp_path / "none.json")


def test_figures_next_to_nothing_and_tolerances_beyond_all_come_to_numbers(analysis: Analysis) -> None:
    """Found by the fuzzer: shares of a figure such as 5e-324, and thresholds of such a tolerance, were infinite."""
    base = make([analysis])
    series = base.metrics["step_ms"]
    tiny = REPLACE(base, metrics={**base.metrics, "step_ms": REPLACE(series, runs=[[5e-324] * 8])})
    step = next(check for check in judge([analysis], tiny).checks if check.name == "step_ms")
    assert step.base == 5e-324
    assert step.now == pytest.approx(step.change)
    assert step.change_share is None

    huge = REPLACE(base, metrics={**base.metrics, "step_ms": REPLACE(series, runs=[[1e15] * 8])})
    checks = judge([analysis], huge, Gate(tolerance={"step_ms": 1e300})).checks
    assert next(check for check in checks if check.name == "step_ms").threshold == sys.float_info.max
    for check in [*judge([analysis], tiny).checks, *checks]:
        assert "inf" not in check.message.replace("inference", "")


def test_a_key_that_its_error_names_stands_there_in_one_short_line(analysis: Analysis, tmp_path: Path) -> None:
    """Found by the fuzzer: the name of a part with an impossible figure came out raw, escape sequences and all."""
    base, path = make([analysis]), tmp_path / "b.json"
    path.write_bytes(dump(REPLACE(base, parts={"a\x1b[2J\nb" + "x" * 5000: {"y": 1e18}})))
    with pytest.raises(UsageError) as caught:
        load(path)
    text = str(caught.value).removeprefix(f"{path}: ")
    assert text.startswith("is no baseline of advisor: parts.a\\x1b[2J\\nbxxx")
    assert text.endswith("xxx holds 1e+18")
    assert len(text) < 400
