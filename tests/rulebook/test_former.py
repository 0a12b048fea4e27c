"""Former ids of rules: they still choose rules, set limits, level checks, assert bounds, and stand in baselines."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from support.engine_world import Run, kernels, runner, write
from support.traces import rules as shipped

from advisor import config as settings
from advisor import rulebook
from advisor.cli import options
from advisor.engine import run as engine
from advisor.errors import RuleError
from advisor.gating import baseline as baselines
from advisor.gating.baseline import Baseline, RuleRecord
from advisor.rulebook.former import note, renamed

OLD = "kernels/old"
HEIRS = {"kernels/many-tiny": ("gpu-idle/launch-bound",), "gpu-idle/gap": ("gpu-idle/one", "gpu-idle/two")}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return runner(tmp_path)


def book(folder: Path, **parts: dict[str, Any]) -> rulebook.Rulebook:
    for name, changes in parts.items():
        write(folder, f"kernels/{name}", **changes)
    return rulebook.load([folder])


def test_one_id_may_stand_for_several_rules(tmp_path: Path) -> None:
    made = book(tmp_path, one={"formerly": [OLD]}, two={"formerly": [OLD, "kernels/older"]}, three={})
    assert made.former == {OLD: ("kernels/one", "kernels/two"), "kernels/older": ("kernels/two",)}
    assert note(OLD, made.former) == "kernels/old is now kernels/one and kernels/two"
    assert renamed([OLD, "kernels/*"], made.former) == ("kernels/one", "kernels/two", "kernels/*")


def test_a_former_id_is_no_rule(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="formerly: 'kernels/two' is a rule"):
        book(tmp_path, one={"formerly": ["kernels/two"]}, two={})


def test_the_exact_former_id_chooses_its_heirs_and_a_glob_does_not(run: Run) -> None:
    outcome = run(kernels(1), {"kernels/one": {"formerly": ["sync/old"]}, "kernels/two": {}})
    assert {finding.rule for finding in outcome.findings} == {"kernels/one", "kernels/two"}
    one, two = (
        SimpleNamespace(id=f"kernels/{name}", formerly=old) for name, old in (("one", ("sync/old",)), ("two", ()))
    )
    assert engine.chosen(one, ["sync/old"], [])  # type: ignore[arg-type]
    assert not engine.chosen(one, ["sync/*"], [])  # type: ignore[arg-type]
    assert not engine.chosen(one, [], ["sync/old"])  # type: ignore[arg-type]
    assert not engine.chosen(two, ["sync/old"], [])  # type: ignore[arg-type]


def test_the_command_says_once_what_an_id_is_now(capsys: pytest.CaptureFixture[str]) -> None:
    assert options.expand(["kernels/many-tiny"], shipped(), "--only") == ("gpu-idle/launch-bound",)
    assert capsys.readouterr().err == "advisor: note: kernels/many-tiny is now gpu-idle/launch-bound\n"
    assert options.expand(["gpu-idle/launch-bound"], shipped(), "--only") == ("gpu-idle/launch-bound",)
    assert capsys.readouterr().err == ""


def test_limits_that_the_heir_still_has_are_taken_over(tmp_path: Path) -> None:
    limits = {"min_ns": {"value": 5, "unit": "ns", "basis": "by hand"}}
    write(tmp_path, "kernels/one", formerly=[OLD], limits=limits, match_where="dur_ns >= $min_ns")
    (rule,) = rulebook.load([tmp_path], {OLD: {"min_ns": 7, "gone": 1}}).rules
    assert rule.limits["min_ns"].value == 7
    (rule,) = rulebook.load([tmp_path], {OLD: {"min_ns": 7}, "kernels/one": {"min_ns": 9}}).rules
    assert rule.limits["min_ns"].value == 9


def test_settings_are_put_into_the_ids_of_today(tmp_path: Path) -> None:
    file = tmp_path / "advisor.toml"
    file.write_text(
        'only = ["kernels/many-tiny", "sync/*"]\nskip = ["gpu-idle/gap"]\n[gate]\n'
        'assert = ["rules.gpu-idle/gap <= 2", "summary.step_ms <= 10"]\nlevels = { "kernels/many-tiny" = "warn" }\n'
        'waivers = [{ rule = "kernels/many-tiny", until = 2030-01-01, reason = "later" }]\n'
    )
    now, notes = settings.load(file).renamed(HEIRS)
    assert now.only == ("gpu-idle/launch-bound", "sync/*")
    assert now.skip == ("gpu-idle/one", "gpu-idle/two")
    assert now.gate.assertions == ("rules.gpu-idle/one <= 2", "rules.gpu-idle/two <= 2", "summary.step_ms <= 10")
    assert now.gate.level("gpu-idle/launch-bound") == "warn"
    assert [waiver.rule for waiver in now.gate.waivers] == ["gpu-idle/launch-bound"]
    assert sorted(notes) == [
        "gpu-idle/gap is now gpu-idle/one and gpu-idle/two",
        "kernels/many-tiny is now gpu-idle/launch-bound",
    ]
    assert now.renamed(HEIRS) == (now, [])


def base(**rules: tuple[str, float]) -> Baseline:
    blank = msgspec.json.decode(b'{"rules": {}}', type=dict)
    records = {
        name.replace("__", "/").replace("_", "-"): RuleRecord(verdicts=[verdict], runs=[[ms]])
        for name, (verdict, ms) in rules.items()
    }
    fields = {field.name: None for field in msgspec.structs.fields(Baseline)}
    return Baseline(**{**fields, **blank, "rules": records})


def test_an_heir_takes_the_place_of_what_it_was_alone() -> None:
    old = base(kernels__many_tiny=("fires", 2.0))
    assert baselines.renamed(old, HEIRS).rules["gpu-idle/launch-bound"].runs == [[2.0]]
    both = base(kernels__many_tiny=("fires", 2.0), **{"gpu_idle__launch_bound": ("passes", 0.0)})
    assert {rule: record.verdicts for rule, record in baselines.renamed(both, HEIRS).rules.items()} == {
        "gpu-idle/launch-bound": ["passes"]
    }


def test_of_a_rule_that_was_split_only_its_silence_is_known() -> None:
    quiet = baselines.renamed(base(gpu_idle__gap=("passes", 0.0)), HEIRS)
    assert set(quiet.rules) == {"gpu-idle/one", "gpu-idle/two"}
    assert baselines.renamed(base(gpu_idle__gap=("fires", 3.0)), HEIRS).rules == {}
